r"""The Lyapunov exponent of a random network at low temperature: how fast two tokens meet, per unit of tau.

$$\lambda=\lim_{r\to1}\frac d{d\tau}E\log(1-r)=\frac{(d-3)\kappa-(d-1)}d,\qquad
  \kappa=s'(1)=\Big(\frac{d-1}{d-2}\Big)^{\#\{\text{Gaussian factors of }A\}},$$

where every token follows its own key and s is the mean cosine of the images of two tokens (`low_temperature`). For
layers whose noise is a field shared by all tokens, such as random perceptrons, see `synchronisation.lyapunov`.
"""

from __future__ import annotations

from sphereflow.errors import whole_number


def lyapunov_exponent(d: int, factors: int) -> float:
    r"""$\lambda$ in dimension d, for scores of 0, 1 or 2 Gaussian factors; below zero the tokens meet."""
    return ((d - 3) * slope_at_one(d, factors) - (d - 1)) / d


def slope_at_one(d: int, factors: int) -> float:
    r"""$\kappa=s'(1)=((d-1)/(d-2))^{\#}$."""
    whole_number("d", d, least=3)
    return ((d - 1) / (d - 2)) ** factors
