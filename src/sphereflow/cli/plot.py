"""`sphereflow plot`: draw the dataset of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sphereflow.cli.output import answer, say, written


def command(
    results: Annotated[Path, typer.Argument(metavar="RESULTS.zarr", help="What sphereflow sweep wrote.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file.")] = Path("sweep.png"),
    variable: Annotated[str | None, typer.Option(help="Which variable; the first one by default.")] = None,
    x: Annotated[str | None, typer.Option(help="The axis across.")] = None,
    y: Annotated[str | None, typer.Option(help="The axis up, or the curves.")] = None,
    at: Annotated[
        list[str] | None, typer.Option(metavar="AXIS=VALUE", help="Fix an axis at its nearest value; may be repeated.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="Draw this contour, and print where it is crossed.")] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Fit a power law on logarithmic axes.")] = False,
) -> None:
    """Heat map over two axes, or curves with confidence bands over one; seeds are averaged.

    Example: sphereflow plot clustering.zarr --x t --y beta --level 0.5 --out clustering.png
    """
    from sphereflow.errors import SphereflowError, real_number, writable_target
    from sphereflow.pictures import KINDS, rendered
    from sphereflow.saving import write_bytes
    from sphereflow.sweeps import open_sweep

    kind = out.suffix[1:].lower()
    if kind not in KINDS:
        raise SphereflowError(f"--out must end in {', '.join('.' + each for each in KINDS)}; got {str(out)!r}.")
    writable_target(out, overwrite=True)
    results_read = open_sweep(results)
    if not results_read.dataset.data_vars:
        raise SphereflowError(f"{results} has no values yet.")
    fixed = _fixed(at or [])
    if level is not None:
        real_number("--level", level)
    figure = results_read.plot(variable, x=x, y=y, at=fixed, level=level, fit=fit)
    write_bytes(out, rendered(figure, kind))
    written(out)
    crossed = {} if level is None or x is None else _crossings(results_read, variable, level, x, fixed)
    answer({"written": out} | crossed)


def _fixed(pairs: list[str]) -> dict[str, float | str]:
    from sphereflow.errors import SphereflowError

    places: dict[str, float | str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SphereflowError(f"--at takes AXIS=VALUE, as in --at t=30; got {pair!r}.")
        try:
            places[name] = float(value)
        except ValueError:
            places[name] = value
    return places


def _crossings(sweep: Any, variable: str | None, level: float, along: str, fixed: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from sphereflow.sweeps import boundary

    line = boundary(sweep, level, along, variable=variable, at=fixed)
    say(f"{line.axis:>12}  {along} where the level {level:g} is crossed")
    for value, position, error in zip(line.values, line.position, line.error, strict=True):
        text = "-" if np.isnan(position) else f"{position:.5g} ± {error:.2g}"
        say(f"{value!s:>12.12}  {text}")
    return {
        "level": level,
        "axis": line.axis,
        "along": along,
        "values": line.values,
        "position": line.position,
        "error": line.error,
    }
