"""`sphereflow staircase`: the energy of a run to the single cluster, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sphereflow.cli.output import answer, say, written


def command(
    n: Annotated[int, typer.Option("--n", help="Number of tokens, 2 to 10,000.")] = 5,
    d: Annotated[int, typer.Option("--d", help="Dimension; tokens are unit vectors in R^d.")] = 2,
    beta: Annotated[float, typer.Option(help="Inverse temperature.")] = 200.0,
    model: Annotated[str, typer.Option(metavar="sa|usa", help="Softmax attention, or unnormalised.")] = "sa",
    seed: Annotated[int, typer.Option(help="Seed of the first tokens.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FIG.png", help="Draw it (.png, .svg, .pdf).")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.npz", help="Keep the history of mergers.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist already.")] = False,
) -> None:
    """Follow tokens until they are one cluster, beside the dynamics that glues them, and the limit of large beta.

    The tokens move by softmax attention (sa), as in simulate; --model usa is the model of the staircase theorem.

    Example: sphereflow staircase --n 50 --beta 400 --plot staircase.png
    """
    from sphereflow.errors import ending_in, writable_target
    from sphereflow.metastability import staircase
    from sphereflow.pictures import rendered
    from sphereflow.saving import write_bytes

    if plot is not None:
        ending_in("--plot", plot, (".png", ".svg", ".pdf"))
    if out is not None:
        ending_in("--out", out, (".npz",))
    for target in (plot, out):
        if target is not None:
            writable_target(target, overwrite=overwrite)
    steps = staircase(n, beta, seed, model=model, d=d)
    say(steps.summary())
    if plot is not None:
        write_bytes(plot, rendered(steps.plot(), plot.suffix[1:].lower()))
    if out is not None:
        steps.unglued.save(out, overwrite=True)
    written(plot, out)
    answer(steps.unglued.record() | {"written": [target for target in (plot, out) if target is not None]})
