r"""Depth as time: the diffusive clock, the scale of the noise, and the regime of a network.

$$t=\eta L,\qquad \alpha=\frac{\eta s_*^2}{H},\qquad \tau=d\sigma_V^2\,\frac{\eta^2L}{H},\qquad s_*^2=\sigma_V^2(d-1).$$

One token alone moves by $x\to N(x+\sigma g)$, for which $E\langle x,N(x+\sigma g)\rangle$ is known exactly
(`one_step_factor`): it dates a layer without any error of the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from sphereflow.errors import real_number, whole_number

# "Tends to zero" for one network: below this the corresponding correction is small.
_SMALL = 0.1


class TimeScales(NamedTuple):
    """A network's scales: `t` eta L, `tau` diffusive time, `alpha` noise per unit of t, and the regime in a word."""

    t: float
    tau: float
    alpha: float
    ballistic: float
    modified: float
    regime: str


def clock(d: int, layers: int, heads: int, step: float, *, value_scale: float = 1.0) -> TimeScales:
    r"""Scales from (d, L, H, eta); `value_scale` is $\sigma_V\sqrt d$.

    The regimes compare $\alpha\eta L$ (all the noise), $\eta^2L$ and $\eta^3L$ with 0.1: "ballistic" (an ODE with the
    mean field), "modified" (the same with a correction of order eta), "diffusive" (the SDE with common noise),
    "outside" when $\eta^3L$ is not small and no limit is proved.
    """
    whole_number("d", d, least=2)
    whole_number("layers", layers)
    whole_number("heads", heads)
    step = real_number("step", step, above=0, most=1e50)
    value_scale = real_number("value_scale", value_scale, least=0, most=1e50)
    alpha = step / heads * value_scale**2 * (d - 1) / d
    noise, first, second = alpha * step * layers, step**2 * layers, step**3 * layers
    if second > _SMALL:
        regime = "outside"
    elif noise > _SMALL:
        regime = "diffusive"
    else:
        regime = "ballistic" if first <= _SMALL else "modified"
    return TimeScales(step * layers, value_scale**2 * step**2 * layers / heads, alpha, first, second, regime)


def one_step_factor(d: int, sigma: Float[np.ndarray, "..."] | float) -> Float[np.ndarray, "..."] | float:
    r"""$E\langle x,N(x+\sigma g)\rangle=\frac{1}{\sigma\sqrt2}\frac{\Gamma((d+1)/2)}{\Gamma(d/2+1)}
    {}_1F_1\big(\tfrac12;\tfrac d2+1;-\tfrac1{2\sigma^2}\big)$, g standard normal in R^d.

    The confluent series loses its digits for small sigma; there the asymptotic one is used.
    """
    s = np.asarray(sigma, dtype=float)
    z = 1 / (2 * np.maximum(s, 1e-12) ** 2)
    a, b = (d + 1) / 2, d / 2 + 1
    # Kummer: 1F1(1/2; b; -z) = e^{-z} 1F1(a; b; z); for large z, Gamma(b)/Gamma(a) z^{-1/2} 2F0.
    terms, total = np.ones_like(z), np.ones_like(z)
    for k in range(1, 12):
        terms = terms * (k - 0.5) * (k - a) / (k * z)
        total = total + terms
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(special.gammaln(a) - special.gammaln(b))
        exact = ratio * np.sqrt(z) * special.hyp1f1(0.5, b, -z)
    return np.where(z > 10 * max(d, 4), total, exact)


def layer_time(d: int, step: float, heads: int = 1, *, value_scale: float = 1.0) -> float:
    r"""Diffusive time of one layer as one token measures it: $-\frac{2d}{d-1}\log c(d,\sigma)=\tau_1(1+O(\tau_1))$.

    $\tau_1=\eta^2/H$ is the nominal value; normalisation makes the true clock slower by a relative $O(\tau_1)$.
    """
    sigma = step * value_scale / np.sqrt(heads * d)
    return float(-2 * d / (d - 1) * np.log(one_step_factor(d, sigma)))
