r"""Numbers with error bars: means over independent realisations, and the slopes of straight lines and power laws.

$$\hat\mu=\frac1R\sum_r z_r,\qquad \mathrm{error}=\sqrt{\frac{1}{R(R-1)}\sum_r(z_r-\hat\mu)^2},\qquad y\approx Cx^p.$$

The realisation is always the first axis. A Lyapunov exponent is the mean over realisations of the growth of a
logarithm per unit of time; as the growth has independent increments, its two ends carry all the information.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Num

from sphereflow.errors import SphereflowError
from sphereflow.shapes import AnyArray


class Estimate(NamedTuple):
    """A value and its standard error, arrays of one shape (or two numbers); the error 0 is that of quadrature."""

    value: Float[np.ndarray, "..."]
    error: Float[np.ndarray, "..."]

    def __str__(self) -> str:
        pairs = zip(np.ravel(self.value), np.ravel(self.error), strict=True)
        return ", ".join(f"{value:.4g}" + (f" +- {error:.1g}" if error else "") for value, error in pairs)

    def scaled(self, factor: float) -> Estimate:
        return Estimate(factor * self.value, abs(factor) * self.error)

    def agrees(self, target: object, sigmas: float = 3.0, slack: float = 0.0) -> bool:
        """Whether every value is within `sigmas` standard errors, plus `slack`, of the target."""
        gap = np.abs(self.value - np.asarray(target, dtype=float))
        return bool(np.all(gap <= sigmas * self.error + slack))


def mean(samples: Num[AnyArray, "R ..."]) -> Estimate:
    """Mean over the first axis and its standard error."""
    z = np.asarray(samples, dtype=float)
    if z.shape[0] < 2:
        raise SphereflowError(f"an error bar needs at least 2 realisations, got {z.shape[0]}.")
    return Estimate(z.mean(axis=0), z.std(axis=0, ddof=1) / np.sqrt(z.shape[0]))


def growth_rate(logs: Float[AnyArray, "R T ..."], times: Float[AnyArray, " T"], after: float = 0.0) -> Estimate:
    r"""$E[\log z(t_1)-\log z(t_0)]/(t_1-t_0)$ from the first time not before `after` to the last: a Lyapunov exponent.

    This is the growth of the typical size, not of the mean size: $E\log z$ and $\log E z$ have different rates.
    """
    t = np.asarray(times, dtype=float)
    late = np.flatnonzero(t >= after)
    if late.size < 2:
        raise SphereflowError(f"a growth rate needs two times not before {after:g}, the last one is {t[-1]:g}.")
    first, last = late[0], late[-1]
    z = np.asarray(logs, dtype=float)
    return mean((z[:, last] - z[:, first]) / (t[last] - t[first]))


def fraction(hits: Float[AnyArray, " R"] | AnyArray) -> Estimate:
    """The share of realisations where something happened; the error bar never vanishes (one pseudo-count each way)."""
    if np.isnan(np.asarray(hits, dtype=float)).any():
        raise SphereflowError("hits must say of every realisation whether it happened: some are NaN.")
    happened = np.asarray(hits, dtype=bool)
    total = happened.shape[0]
    share = happened.mean(axis=0)
    softened = (happened.sum(axis=0) + 1) / (total + 2)
    return Estimate(np.asarray(share, dtype=float), np.sqrt(softened * (1 - softened) / total))


def quantile(samples: Num[AnyArray, " R"], share: float = 0.5) -> Estimate:
    r"""A quantile q (the median) and its error, half the gap between the quantiles $q\pm\sqrt{q(1-q)/R}$."""
    z = np.asarray(samples, dtype=float)
    if z.ndim != 1 or len(z) < 2:
        raise SphereflowError("the error bar of a quantile needs at least 2 numbers.")
    half = np.sqrt(share * (1 - share) / len(z))
    low, high = np.quantile(z, [max(share - half, 0.0), min(share + half, 1.0)])
    return Estimate(np.asarray(np.quantile(z, share)), np.asarray((high - low) / 2))


def jackknife(statistic: Callable[..., float], *columns: Num[AnyArray, "R ..."]) -> Estimate:
    r"""A statistic of R rows and its error, $\sqrt{\frac{R-1}R\sum_r(s_r-\bar s)^2}$, $s_r$ without row r.

    The ratio of the means of two columns, say:

    ```python
    import numpy as np
    from sphereflow.estimates import jackknife
    a, b = np.random.default_rng(0).exponential(size=(2, 50))
    print(jackknife(lambda a, b: a.mean() / b.mean(), a, b))
    ```
    """
    rows = [np.asarray(column) for column in columns]
    count = len(rows[0])
    if count < 2 or any(len(each) != count for each in rows):
        raise SphereflowError("a jackknife needs columns of one length, with at least 2 rows.")
    kept = ~np.eye(count, dtype=bool)
    left = np.array([statistic(*(each[some] for each in rows)) for some in kept])
    spread = np.sqrt((count - 1) * np.mean((left - left.mean()) ** 2))
    return Estimate(np.asarray(float(statistic(*rows))), np.asarray(spread))


class PowerLaw(NamedTuple):
    """y = factor * x^exponent, with the standard error of the exponent."""

    exponent: float
    error: float
    factor: float

    def __str__(self) -> str:
        return f"{self.factor:.4g} x^({self.exponent:.4f} ± {self.error:.4f})"


def fit_power(
    x: Float[AnyArray, " n"], y: Float[AnyArray, " n"], errors: Float[AnyArray, " n"] | None = None
) -> PowerLaw:
    """A straight line through log y against log x.

    `errors` are standard errors of y: they weigh the points and give the error of the exponent; without them it comes
    from the residuals, and is unknown (NaN) for two points.
    """
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if a.shape != b.shape or a.ndim != 1 or len(a) < 2 or not min(a.min(), b.min()) > 0:
        raise SphereflowError("a power law needs at least two points with positive coordinates.")
    bars = None if errors is None else np.asarray(errors, dtype=float) / b
    level, slope = straight_line(np.log(a), np.log(b), bars)
    return PowerLaw(float(slope.value), float(slope.error), float(np.exp(level.value)))


def local_slopes(x: Float[AnyArray, " n"], y: Float[AnyArray, " n"]) -> Float[np.ndarray, " m"]:
    """Slopes of log y against log x between neighbours."""
    return np.diff(np.log(np.asarray(y))) / np.diff(np.log(np.asarray(x)))


def order(steps: Float[AnyArray, " S"], errors: Estimate) -> Estimate:
    r"""Slope of $\log|\mathrm{error}|$ against $\log h$, weighted by the error bars: the measured order.

    An error known without noise has the error bar 0; then all points weigh the same and the bar is the fit's.
    """
    size = np.abs(np.asarray(errors.value, dtype=float))
    bars = np.asarray(errors.error, dtype=float)
    noisy = bool(np.any(bars > 0))
    fit = fit_power(steps, size, np.maximum(bars, 1e-12 * size) if noisy else None)
    return Estimate(np.asarray(fit.exponent), np.asarray(fit.error))


def extrapolate(steps: Float[AnyArray, " S"], values: Estimate, power: float = 1.0) -> Estimate:
    r"""The value at step 0 of $v_0+v_1h^p$, weighted by the error bars (Richardson with noise)."""
    x = np.asarray(steps, dtype=float) ** power
    return straight_line(x, np.asarray(values.value, dtype=float), np.asarray(values.error, dtype=float))[0]


def straight_line(
    x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], bars: Float[np.ndarray, " n"] | None = None
) -> tuple[Estimate, Estimate]:
    """(intercept, slope) by least squares, weighted by the error bars of y; without, the residuals give the noise."""
    weights = np.ones_like(x) if bars is None else 1 / bars**2
    design = np.stack([np.ones_like(x), x], axis=1)
    covariance = np.linalg.inv(design.T * weights @ design)
    best = covariance @ (design.T * weights @ y)
    if bars is None:
        covariance = covariance * (np.sum((y - design @ best) ** 2) / (len(x) - 2) if len(x) > 2 else np.nan)
    deviation = np.sqrt(np.diag(covariance))
    level, slope = (Estimate(np.asarray(v), np.asarray(e)) for v, e in zip(best, deviation, strict=True))
    return level, slope
