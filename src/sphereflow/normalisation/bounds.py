r"""How large a normalised weight can be.

Logits in $[-\Delta,\Delta]$, $L$ keys, temperature $T$ (a common shift changes nothing, so only the range $2\Delta$
matters):

$$ \frac1{1+(L-1)e^{2\Delta/T}}\ \le\ \alpha_i\ \le\ \frac1{1+(L-1)e^{-2\Delta/T}}, $$

both attained: one logit at one end of the interval and all others at the opposite end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.reading import real_array


def weight_bounds(length: ArrayLike, spread: ArrayLike, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    r"""Smallest and largest softmax weight of one among `length` keys whose logits span `spread` $=2\Delta$.

    ```python
    from sphereflow.normalisation import weight_bounds
    weight_bounds(50, 3.0, temperature=0.7)     # (0.000281, 0.597220)
    ```
    """
    temperature = real_number("temperature", temperature, above=0.0)
    rivals, reach = _log_rivals(length), _spread(spread) / temperature
    return np.asarray(expit(-reach - rivals)), np.asarray(expit(reach - rivals))


def printed_weight_bounds(
    length: ArrayLike, spread: ArrayLike, temperature: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    r"""$\frac1Le^{\mp2\Delta/T}$, true but not attained; the upper one may exceed 1 and then says nothing."""
    temperature = real_number("temperature", temperature, above=0.0)
    equal, reach = np.logaddexp(0.0, _log_rivals(length)), _spread(spread) / temperature
    return np.asarray(np.exp(-reach - equal)), np.asarray(np.exp(reach - equal))


def range_needed(length: ArrayLike, weight: float = 0.5) -> np.ndarray:
    r"""$2\Delta/T\ge\ln(L-1)+\ln\frac w{1-w}$: the range of logits without which no key can have the weight $w$.

    Zero where a key has that weight among equal logits.
    """
    weight = real_number("weight", weight, above=0.0, most=1.0 - 1e-15)
    return np.asarray(np.maximum(_log_rivals(length) + logit(weight), 0.0))


def planted_weight(length: ArrayLike, gap: ArrayLike) -> np.ndarray:
    r"""$e^g/(e^g+L-1)$: weight of one logit that is $g$ above $L-1$ equal ones (softmax, $T=1$)."""
    return np.asarray(expit(real_array("gap", gap) - _log_rivals(length)))


def _log_rivals(length: ArrayLike) -> np.ndarray:
    others = real_array("length", length) - 1
    if np.any(others < 0):
        raise SphereflowError(f"length must be at least 1, got {others.min() + 1:g}.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(others))


def _spread(given: ArrayLike) -> np.ndarray:
    spread = real_array("spread", given)
    if np.any(spread < 0):
        raise SphereflowError(f"spread, the range of the logits, must not be negative, got {spread.min():g}.")
    return spread


def gaussian_concentration(length: int, spread: float) -> float:
    r"""$\mathbb E\sum_i\alpha_i^2$ for $L$ independent logits $N(0,s^2)$ and softmax at $T=1$, exactly.

    $$ L\int_0^\infty u\,E[e^{2x}e^{-ue^x}]\,\big(E[e^{-ue^x}]\big)^{L-1}du,\qquad x\sim N(0,s^2), $$

    from $1/Z^2=\int_0^\infty ue^{-uZ}du$. It is $e^{s^2}/L$ for long contexts at fixed $s$, and far from it once
    $s>\tfrac12\sqrt{2\ln L}$, where a few of the largest logits decide.
    """
    length = whole_number("length", length)
    spread = real_number("spread", spread, above=0.0, most=10.0)  # beyond, e^{2x} overflows
    # Both integrands are analytic and decay on both sides, so the trapezoid rule converges geometrically.
    x = np.linspace(-12.0 * spread, 12.0 * spread + 2 * spread**2, 1201)
    density = np.exp(-0.5 * (x / spread) ** 2) / (spread * np.sqrt(2 * np.pi)) * (x[1] - x[0])
    # u = e^v matters between where one summand is cut off and where the product of all is.
    v = np.linspace(-x[-1] - 40.0, -x[0] + 8.0, 1201)
    cut = np.exp(-np.exp(v[:, None] + x[None, :]))
    lost = (-np.expm1(-np.exp(v[:, None] + x[None, :]))) @ density
    twice = cut @ (density * np.exp(2 * x))
    integrand = np.exp(2 * v) * twice * np.exp((length - 1) * np.log1p(-np.minimum(lost, 1 - 1e-16)))
    return float(length * np.sum(integrand) * (v[1] - v[0]))
