r"""Which simple form describes a curve best: cosines of values against lag, attention against distance.

A form is $y\approx f+c\,\tau_\theta$ with one or two parameters $\theta$ inside and linear ones outside. For each
$\theta$ the linear ones solve themselves; $\theta$ is searched for on a grid, then by damped Gauss-Newton steps. Forms
are compared by

$$\mathrm{AICc}=n\ln\frac{SSE}n+2k+\frac{2k(k+1)}{n-k-1},$$

k counting the linear parameters, $\theta$ and the variance. It takes the n points of a curve for independent, which
neighbouring lags are not: beside it stands the error on a document that the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

_ROUNDS, _FINEST, _NUDGE = 60, 1e-9, 1e-4


@dataclass(frozen=True)
class Form:
    r"""$\tau_\theta$ at the points, a grid of $\theta$ by axis, and whether a scale and an offset are fitted.

    `template` maps parameters (..., q) to (..., points).
    """

    template: Callable[[np.ndarray], np.ndarray]
    grid: tuple[np.ndarray, ...] = ()
    scale: bool = True
    offset: bool = False

    @property
    def count(self) -> int:
        """Parameters, without the variance."""
        return len(self.grid) + int(self.scale) + int(self.offset)


@dataclass(frozen=True)
class Fit:
    r"""One form fitted to many curves: its parameters (\theta, c, f), curve and sum of squares for each."""

    theta: Float[np.ndarray, "curves q"]
    scale: Float[np.ndarray, " curves"]
    offset: Float[np.ndarray, " curves"]
    curve: Float[np.ndarray, "curves points"]
    squares: Float[np.ndarray, " curves"]


def fit_form(form: Form, y: Float[np.ndarray, "curves points"], start: np.ndarray | None = None) -> Fit:
    """Least squares of every curve; `start` gives parameters to begin from instead of the whole grid."""
    axes = len(form.grid)
    if axes == 0:
        theta = np.zeros((len(y), 0))
        return _fitted(form, y, theta)
    if start is None:
        every = np.stack(np.meshgrid(*form.grid, indexing="ij"), axis=-1).reshape(-1, axes)
        theta = every[np.argmin(_squares(form, y, form.template(every)[None]), axis=1)]
    else:
        theta = start.copy()
    low, high = (np.array([grid[k] for grid in form.grid]) for k in (0, -1))
    found = _fitted(form, y, theta)
    damping = np.full(len(y), 1e-3)
    moving = np.arange(len(y))
    for _ in range(_ROUNDS):
        here = theta[moving]
        slopes = []
        for axis in range(axes):
            away = _NUDGE * np.eye(axes)[axis]
            sides = [_fitted(form, y[moving], here + side * away).curve for side in (-1, 1)]
            slopes.append((sides[1] - sides[0]) / (2 * _NUDGE))
        slope, left = np.stack(slopes, axis=-1), y[moving] - found.curve[moving]
        pull = np.einsum("cpq,cp->cq", slope, left)
        # At the edge of the box only what leads along it counts.
        slope = slope * ~(((here <= low) & (pull < 0)) | ((here >= high) & (pull > 0)))[:, None]
        normal = np.swapaxes(slope, 1, 2) @ slope
        normal += (damping[moving, None, None] * np.diagonal(normal, axis1=1, axis2=2)[:, None] + 1e-14) * np.eye(axes)
        step = np.linalg.solve(normal, np.einsum("cpq,cp->cq", slope, left)[..., None])[..., 0]
        tried = np.clip(here + step, low, high)
        new = _fitted(form, y[moving], tried)
        better = new.squares < found.squares[moving]
        gain = 1 - new.squares / np.maximum(found.squares[moving], 1e-300)
        damping[moving] *= np.where(better, 0.2, 5.0)
        chosen = moving[better]
        theta[chosen] = tried[better]
        for mine, theirs in zip(_parts(found), _parts(new), strict=True):
            mine[chosen] = theirs[better]
        moving = moving[np.where(better, gain > _FINEST, damping[moving] < 1e6)]
        if not len(moving):
            break
    return found


def aicc(squares: np.ndarray, points: int, parameters: int) -> np.ndarray:
    """The criterion, with the variance counted among the parameters."""
    k = parameters + 1
    return np.asarray(
        points * np.log(np.maximum(squares, 1e-300) / points) + 2 * k + 2 * k * (k + 1) / (points - k - 1)
    )


@dataclass(frozen=True)
class Forms:
    """Several forms fitted to the mean curve of each head, and to all documents but one.

    Axes: (form, head), `held_out` (form, head): root mean square error on the document left out, of fits without it.
    `share_error` and `theta_error` are jackknife errors over documents. All three are NaN if none was left out.
    """

    names: tuple[str, ...]
    aicc: Float[np.ndarray, "form head"]
    error: Float[np.ndarray, "form head"]
    held_out: Float[np.ndarray, "form head"]
    best: Int[np.ndarray, " head"]
    best_held_out: Int[np.ndarray, " head"]
    share_error: Float[np.ndarray, " form"]
    fits: dict[str, Fit]
    theta_error: dict[str, np.ndarray]

    @property
    def share(self) -> Float[np.ndarray, " form"]:
        """Part of the heads for which each form is best by AICc."""
        return np.bincount(self.best, minlength=len(self.names)) / len(self.best)

    @property
    def share_held_out(self) -> Float[np.ndarray, " form"]:
        """Part of the heads for which each form is best on documents not seen."""
        if np.any(self.best_held_out < 0):
            return np.full(len(self.names), np.nan)
        return np.bincount(self.best_held_out, minlength=len(self.names)) / len(self.best_held_out)


def compare_forms(
    forms: Mapping[str, Form], curves: Float[np.ndarray, "documents heads points"], *, leave_out: bool = True
) -> Forms:
    """Fit all forms to the mean over documents; then leave each document out once."""
    documents, heads, points = curves.shape
    mean = curves.mean(axis=0)
    fits = {name: fit_form(form, mean) for name, form in forms.items()}
    scores = np.stack([aicc(fits[name].squares, points, form.count) for name, form in forms.items()])
    error = np.stack([np.abs(fit.curve - mean).mean(axis=1) for fit in fits.values()])
    if documents < 2 or not leave_out:
        unknown = np.full(scores.shape, np.nan)
        nobody = np.full(heads, -1)
        none = {name: np.full_like(fit.theta, np.nan) for name, fit in fits.items()}
        return Forms(
            tuple(forms), scores, error, unknown, scores.argmin(0), nobody, np.full(len(forms), np.nan), fits, none
        )
    rest = (mean - curves / documents) * documents / (documents - 1)
    left = {
        name: fit_form(form, rest.reshape(-1, points), np.tile(fits[name].theta, (documents, 1)))
        for name, form in forms.items()
    }
    missed = [np.mean((fit.curve.reshape(curves.shape) - curves) ** 2, axis=(0, 2)) for fit in left.values()]
    held_out = np.sqrt(np.stack(missed))
    again = np.stack([aicc(left[name].squares, points, form.count) for name, form in forms.items()])
    winners = again.argmin(axis=0).reshape(documents, heads)
    shares = np.stack([np.mean(winners == k, axis=1) for k in range(len(forms))], axis=1)
    theta = {name: left[name].theta.reshape(documents, heads, -1) for name in forms}
    return Forms(
        names=tuple(forms),
        aicc=scores,
        error=error,
        held_out=held_out,
        best=scores.argmin(axis=0),
        best_held_out=held_out.argmin(axis=0),
        share_error=_jackknife(shares),
        fits=fits,
        theta_error={name: _jackknife(rows) for name, rows in theta.items()},
    )


def similarity_forms(lags: Int[np.ndarray, " k"]) -> dict[str, Form]:
    r"""Mean cosine at lag k: $ce^{-\lambda k}$, $f+ce^{-\lambda k}$, $ck^{-p}$, $c$; $\theta=\ln\lambda$ or $\ln p$."""
    k = np.asarray(lags, dtype=float)

    def falling(theta: np.ndarray) -> np.ndarray:
        return np.exp(-np.exp(theta) * k)

    def power(theta: np.ndarray) -> np.ndarray:
        return np.exp(-np.exp(theta) * np.log(k))

    rates = np.linspace(np.log(1e-4), np.log(10.0), 80)
    return {
        "exponential": Form(falling, (rates,)),
        "exponential with floor": Form(falling, (rates,), offset=True),
        "power": Form(power, (np.linspace(np.log(1e-4), np.log(10.0), 80),)),
        "constant": Form(lambda theta: np.ones((*theta.shape[:-1], len(k)))),
    }


def attention_forms(edges: Int[np.ndarray, " k"]) -> dict[str, Form]:
    r"""Log of the mean weight in bins of distance k >= 1, up to a factor that is fitted:

    $\rho+e^{-k/\ell}$, $k^{-p}$, $\rho+k^{-p}$, 1, averaged over the distances of a bin (at most 8 of each, evenly
    spread); $\theta=(\ln\ell,\ln\rho)$, $p$, $(p,\ln\rho)$.
    """
    bins = [np.arange(a, b) for a, b in pairwise(edges)]
    few = [np.unique(np.linspace(k[0], k[-1], 8).round()) if len(k) > 8 else k.astype(float) for k in bins]
    k = np.concatenate(few)
    starts = np.cumsum([0, *(len(each) for each in few)])[:-1]
    sizes = np.array([len(each) for each in few])

    def averaged(rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(np.maximum(np.add.reduceat(rows, starts, axis=-1) / sizes, 1e-300)))

    def exponential(theta: np.ndarray) -> np.ndarray:
        return averaged(np.exp(theta[..., 1:]) + np.exp(-k * np.exp(-theta[..., :1])))

    def power(theta: np.ndarray) -> np.ndarray:
        return averaged(np.exp(-theta * np.log(k)))

    def plateau(theta: np.ndarray) -> np.ndarray:
        return averaged(np.exp(theta[..., 1:]) + np.exp(-theta[..., :1] * np.log(k)))

    levels = np.linspace(np.log(1e-8), np.log(10.0), 24)
    return {
        "plateau + exponential": Form(exponential, (np.linspace(np.log(0.3), np.log(1e4), 24), levels), False, True),
        "power": Form(power, (np.linspace(-3.0, 6.0, 91),), False, True),
        "plateau + power": Form(plateau, (np.linspace(0.05, 6.0, 24), levels), False, True),
        "flat": Form(lambda theta: np.zeros((*theta.shape[:-1], len(bins))), (), False, True),
    }


def _linear(form: Form, y: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(c, f) of the least squares for templates that broadcast against the curves."""
    if not form.scale:
        return np.ones(np.broadcast_shapes(y.shape, t.shape)[:-1]), (y - t).mean(axis=-1)
    if not form.offset:
        return np.sum(y * t, axis=-1) / np.maximum(np.sum(t * t, axis=-1), 1e-300), np.zeros(1)
    away = t - t.mean(axis=-1, keepdims=True)
    c = np.sum((y - y.mean(axis=-1, keepdims=True)) * away, axis=-1) / np.maximum(np.sum(away**2, axis=-1), 1e-300)
    return c, y.mean(axis=-1) - c * t.mean(axis=-1)


def _squares(form: Form, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Sums of squares (curves, templates) for templates (curves or 1, templates, points)."""
    c, f = _linear(form, y[:, None], t)
    return np.asarray(np.sum((y[:, None] - c[..., None] * t - f[..., None]) ** 2, axis=-1))


def _fitted(form: Form, y: np.ndarray, theta: np.ndarray) -> Fit:
    t = form.template(theta)
    c, f = _linear(form, y, t)
    f = np.broadcast_to(f, c.shape).copy()
    curve = c[:, None] * t + f[:, None]
    return Fit(theta, np.asarray(c), f, curve, np.sum((y - curve) ** 2, axis=-1))


def _parts(fit: Fit) -> tuple[np.ndarray, ...]:
    return fit.theta, fit.scale, fit.offset, fit.curve, fit.squares


def _jackknife(values: np.ndarray) -> np.ndarray:
    """Standard error of what was computed once without each of the documents, along the first axis."""
    n = len(values)
    return np.asarray(np.sqrt((n - 1) / n * np.sum((values - values.mean(axis=0)) ** 2, axis=0)))
