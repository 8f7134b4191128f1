r"""Exponents from measurements: $y\approx Cx^p$, with the error bar that the scatter of the points implies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError


class PowerLaw(NamedTuple):
    """y = factor * x^exponent, with the standard error of the exponent."""

    exponent: float
    error: float
    factor: float

    def __str__(self) -> str:
        return f"{self.factor:.4g} x^({self.exponent:.4f} ± {self.error:.4f})"


def fit_power(
    x: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"], errors: Float[np.ndarray, "n"] | None = None
) -> PowerLaw:
    """A straight line through log y against log x.

    `errors` are standard errors of y: they weigh the points and give the error of the exponent; without them it comes
    from the residuals.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2 or min(x.min(), y.min()) <= 0:
        raise SphereflowError("a power law needs at least two points with positive coordinates.")
    w = np.ones(len(x)) if errors is None else (y / np.asarray(errors, dtype=float)) ** 2
    a = np.stack([np.log(x), np.ones(len(x))], axis=1)
    inverse = np.linalg.inv(a.T * w @ a)
    slope, level = inverse @ (a.T * w @ np.log(y))
    variance = inverse[0, 0]
    if errors is None:
        left = np.log(y) - a @ [slope, level]
        variance = variance * (left @ left) / (len(x) - 2) if len(x) > 2 else np.nan
    return PowerLaw(float(slope), float(np.sqrt(variance)), float(np.exp(level)))


def local_slopes(x: Float[np.ndarray, "n"], y: Float[np.ndarray, "n"]) -> Float[np.ndarray, "m"]:
    """Slopes of log y against log x between neighbours."""
    return np.diff(np.log(y)) / np.diff(np.log(x))
