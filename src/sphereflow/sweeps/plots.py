"""Pictures of sweeps: heat maps with contours, curves with confidence bands, power laws with their exponents."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError
from sphereflow.estimates import fit_power
from sphereflow.pictures import PALETTE, styled_figure
from sphereflow.sweeps.result import Sweep, fixed_at, seeds_averaged, values_of

_SYMBOLS = {"beta": r"$\beta$", "alpha": r"$\alpha$", "t": "$t$", "n": "$n$", "d": "$d$", "temperature": "$T$"}
_MOST_CURVES = 7


def plot(
    sweep: Sweep,
    variable: str | None = None,
    *,
    x: str | None = None,
    y: str | None = None,
    at: dict[str, Any] | None = None,
    level: float | None = None,
    fit: bool = False,
) -> Figure:
    """A heat map over two axes, or curves over one.

    Seeds are averaged. `at` fixes axes at the nearest value; of axes that are still too many, the last value is shown,
    and the title says so. `level` draws a contour. `fit` draws a power law through a curve on logarithmic axes.
    """
    mean, error = seeds_averaged(values_of(sweep, variable))
    title = []
    for name, value in (at or {}).items():
        mean = fixed_at(mean, name, value)
        error = None if error is None else fixed_at(error, name, value)
        title.append(f"{name} = {_text(mean[name].values)}")
    if x is not None and x == y:
        raise SphereflowError(f"x and y must be two axes; both are '{x}'.")
    for name, wanted in (("x", x), ("y", y)):
        if wanted is not None and wanted not in mean.dims:
            raise SphereflowError(f"{name} must be one of {', '.join(map(str, mean.dims))}; got '{wanted}'.")
    free = [str(name) for name in mean.dims if mean.sizes[name] > 1 or name in (x, y)] or [str(mean.dims[0])]
    across = x or next(name for name in reversed(free) if name != y)
    up = y or next((name for name in free if name != across), None)
    for name in [str(each) for each in mean.dims if each not in (across, up)]:
        title.append(f"{name} = {_text(mean[name].values[-1])}")
        mean, error = mean.isel({name: -1}), None if error is None else error.isel({name: -1})
    with styled_figure(6.4, 4.2) as figure:
        if up is None or fit or _worded(mean[up]) or _worded(mean[across]):
            _curves(figure, mean, error, across, up, fit)
        else:
            _map(figure, mean, across, up, level)
        if title:
            figure.axes[0].set_title(", ".join(title))
    return figure


def _map(figure: Figure, mean: Any, across: str, up: str, level: float | None) -> None:
    axes = figure.subplots()
    table, x, y = mean.transpose(up, across).values, mean[across].values, mean[up].values
    whole = _filled(table, x, y)
    if whole is not table:  # a refined sweep: what was left out is shown pale, as the nearest computed cell
        axes.pcolormesh(x, y, whole, shading="nearest", rasterized=True, alpha=0.3, lw=0)
    shown = axes.pcolormesh(x, y, table, shading="nearest", rasterized=True)
    figure.colorbar(shown, ax=axes, label=_label(str(mean.name)))
    finite = table[np.isfinite(table)]
    if level is not None and finite.size and finite.min() < level < finite.max():
        lines = axes.contour(x, y, whole, levels=[level], colors="white", linewidths=1.2)
        axes.clabel(lines, fmt=f"{level:g}")
    _scales(axes, x, y)
    axes.set(xlabel=_label(across), ylabel=_label(up))


def _curves(figure: Figure, mean: Any, error: Any, across: str, up: str | None, fit: bool) -> None:
    axes = figure.subplots()
    count = 1 if up is None else mean.sizes[up]
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MOST_CURVES)).round().astype(int))
    words = _worded(mean[across])
    x = np.arange(mean.sizes[across]) if words else mean[across].values
    for colour, i in zip(PALETTE, chosen, strict=False):
        curve = mean if up is None else mean.isel({up: i})
        band = None if error is None else (error if up is None else error.isel({up: i})).values
        values, label = curve.values, None if up is None else f"{_label(up)} = {_text(curve[up].values)}"
        known = np.isfinite(values)
        if fit:
            slope, uncertainty, factor = fit_power(x[known], values[known], None if band is None else band[known])
            label = f"{'' if label is None else label + ': '}slope {slope:.3g} ± {uncertainty:.1g}"
            axes.plot(x[known], factor * x[known] ** slope, color=colour, lw=1, ls="--")
        axes.plot(x[known], values[known], "o" if fit or words else "o-", color=colour, ms=3, label=label)
        if band is not None:
            low, high = values - 1.96 * band, values + 1.96 * band
            axes.fill_between(x[known], low[known], high[known], color=colour, alpha=0.2, lw=0)
    if fit:
        axes.set(xscale="log", yscale="log")
    elif words:
        axes.set_xticks(x, [str(word) for word in mean[across].values])
    else:
        _scales(axes, x, None)
    axes.set(xlabel=_label(across), ylabel=_label(str(mean.name)))
    if up is not None or fit:
        axes.legend()


def _scales(axes: Any, x: np.ndarray, y: np.ndarray | None) -> None:
    """Logarithmic axes for values with equal ratios."""
    for values, setter in ((x, axes.set_xscale), (y, axes.set_yscale)):
        if values is not None and len(values) > 2 and values[0] > 0 and values[-1] / values[0] > 5:
            ratios = values[1:] / values[:-1]
            if np.ptp(ratios) < 0.01 * ratios.mean():
                setter("log")


def _filled(table: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    known = np.isfinite(table)
    if known.all():
        return table
    from scipy.interpolate import griddata

    columns, rows = np.meshgrid(np.arange(len(x)), np.arange(len(y)))
    return griddata((columns[known], rows[known]), table[known], (columns, rows), method="nearest")


def _label(name: str) -> str:
    return _SYMBOLS.get(name, name.replace("_", " "))


def _text(value: Any) -> str:
    return str(value) if _worded(np.asarray(value)) else f"{float(value):.4g}"


def _worded(values: Any) -> bool:
    """Whether an axis holds words instead of numbers."""
    return values.dtype.kind not in "iuf"
