"""`sphereflow gallery`: runs to look at, as pages for a web site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sphereflow.cli.output import answer, say, written


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="The runs to show; without any, all.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the pages go.")] = Path("gallery"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist already.")] = False,
) -> None:
    """Write pages of runs to turn and to play, with an index; they need no server and no network.

    Example: sphereflow gallery clusters causal --out site
    """
    from sphereflow.figures import EXHIBITS, write_gallery

    index = write_gallery(out, names or None, overwrite=overwrite)
    made = {name: index.parent / f"{name}.html" for name in (names or EXHIBITS)}
    size = (index.stat().st_size + sum(page.stat().st_size for page in made.values())) / 1e6
    say(f"{len(made)} page{'s' * (len(made) != 1)} and the index, {size:.1f} MB")
    written(index)
    answer({"index": index, "pages": made, "megabytes": size})
