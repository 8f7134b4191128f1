"""`sphereflow landscape`: the global minimiser or maximiser of attention plus perceptron, with a certificate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereflow.cli.output import answer, say, written

if TYPE_CHECKING:
    from sphereflow.landscape import CriticalPoint, Problem

_FILES = ("landscape.json", "atoms.csv", "landscape.png")
_MOST_LINES, _MOST_COLUMNS = 40, 5


def command(
    beta: Annotated[float, typer.Option(help="Inverse temperature.")] = 5.0,
    neurons: Annotated[
        int | None, typer.Option(help="Number of random neurons; as many as the dimension by default.")
    ] = None,
    activation: Annotated[
        str, typer.Option(metavar="NAME", help="relu, leaky_relu, linear, gelu, tanh or softplus.")
    ] = "relu",
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON with outer, inner and optionally bias, or CSV rows outer, inner..."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random weights.")] = 0,
    scale: Annotated[float, typer.Option(help="Standard deviation of the random outer weights.")] = 1.0,
    d: Annotated[
        int, typer.Option("--d", help="Dimension of the random weights: 2 is the circle, 3 is S^2; up to 6.")
    ] = 2,
    kernel: Annotated[
        str, typer.Option(metavar="peak|raw", help="Kernel e^(beta(x.y-1)) or e^(beta x.y); weights belong to it.")
    ] = "peak",
    sign: Annotated[str, typer.Option(metavar="minimise|maximise")] = "minimise",
    nodes: Annotated[
        int | None, typer.Option(help="Nodes of the first grid; the result does not depend on it.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for landscape.json, atoms.csv and landscape.png.")
    ] = None,
) -> None:
    """Atoms, masses, energy, duality gap and Hessian of the best measure under attention plus perceptron.

    Example: sphereflow landscape --beta 5 --neurons 3 --seed 2 --out landscape
    """
    from sphereflow import landscape
    from sphereflow.errors import SphereflowError, one_of
    from sphereflow.pictures import rendered
    from sphereflow.saving import writable_folder, write_into

    one_of("--sign", sign, ("minimise", "maximise"))
    if out is not None:
        writable_folder(out, _FILES)
    if weights is not None:
        if neurons is not None:
            raise SphereflowError("--weights gives the neurons: leave out --neurons, or --weights.")
        problem = landscape.Problem(beta, **_read(weights), activation=activation, kernel_scale=kernel)
    else:
        problem = landscape.Problem.random(
            beta, d, neurons, seed=seed, scale=scale, activation=activation, kernel_scale=kernel
        )
    optimum = (landscape.minimise if sign == "minimise" else landscape.maximise)(problem, nodes)
    _print(problem, optimum)
    if out is not None:
        write_into(
            out,
            {
                "landscape.json": (json.dumps(optimum.record(), indent=2) + "\n").encode(),
                "atoms.csv": optimum.to_xarray().drop_dims("direction").to_dataframe().to_csv(index=False).encode(),
                "landscape.png": rendered(optimum.plot(), "png"),
            },
        )
    written(out)
    answer(optimum.record() | {"written": out})


def _read(path: Path) -> dict[str, Any]:
    """Weights from a JSON object with outer, inner, bias, or from CSV rows: outer weight, then the inner weights."""
    from sphereflow.errors import SphereflowError
    from sphereflow.reading import file_text, plain_data

    text = file_text(path)
    wanted = "a JSON object with 'outer' and 'inner', or CSV rows: outer weight, then the inner weights"
    try:
        if path.suffix.lower() == ".json":
            weights = plain_data(text)
            return {"outer": weights["outer"], "inner": weights["inner"], "bias": weights.get("bias")}
        lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "outer"))]
        rows = [[float(x) for x in line.split(",")] for line in lines]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise SphereflowError(f"the weights in {path} must be {wanted}.") from None
    if not rows or len({len(row) for row in rows}) != 1:
        raise SphereflowError(f"the weights in {path} must be {wanted}, all rows of the same length.")
    return {"outer": [row[0] for row in rows], "inner": [row[1:] for row in rows], "bias": None}


def _print(problem: Problem, optimum: CriticalPoint) -> None:
    """A table of the atoms and the numbers that say what they are; at most 80 columns."""
    words = {"atoms": "atoms", "density": "density (atoms below: one quadrature of it)", "rings": "rings"}
    words["rings"] += " about the axis of the weights" if optimum.rings else ", as points"
    words["unresolved"] = "unresolved: positions are not refined"
    say(repr(problem))
    columns = {name: values for name, (dims, values) in optimum.variables().items() if dims == "atom"}
    if len(columns) > _MOST_COLUMNS:  # a point of a sphere in high dimension: its first coordinates and its mass
        columns = dict(list(columns.items())[: _MOST_COLUMNS - 1]) | {"mass": optimum.masses}
    say("  ".join(f"{name:>14}" for name in columns))
    shown = range(min(len(optimum), _MOST_LINES))
    for i in shown:
        say("  ".join(f"{float(column[i]):14.9f}" for column in columns.values()))
    if len(optimum) > len(shown):
        say(f"... and {len(optimum) - len(shown)} more")
    what = "rings" if optimum.rings else "atoms"
    say(f"kind                         {words[optimum.kind]}")
    say(f"{what:<29}{len(optimum)}")
    say(f"energy                       {optimum.energy:.12g}")
    say(f"gap (proved)                 {optimum.gap:.2e}")
    say(f"smallest Hessian eigenvalue  {optimum.spectrum[0]:.6e}")
    say(f"strict second-order margin   {optimum.margin:.6e}")
    if optimum.note:
        say(optimum.note)
