"""`sphereflow figures`: the gallery, listed or drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from sphereflow.cli.output import answer, say, show, written


def command(
    name: Annotated[str | None, typer.Argument(help="The figure to draw; without one the gallery is listed.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to: .png, .svg, .pdf, or .mp4, .gif for a movie [NAME.png; NAME.mp4, else NAME.gif].",
        ),
    ] = None,
) -> None:
    """List the figures of the field that can be drawn by name, or draw one of them.

    Example: sphereflow figures angle-paths-log --out paths.pdf
    """
    from sphereflow.errors import SphereflowError, one_of
    from sphereflow.figures import GALLERY, draw_named
    from sphereflow.pictures import movie_encoder

    if name is None:
        if out is not None:
            raise SphereflowError("say which figure to draw into --out: `sphereflow figures` lists their names.")
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("figure", no_wrap=True)
        table.add_column("shows")
        for each, entry in GALLERY.items():
            answer(
                {"figure": each, "paper": entry.paper, "shows": entry.shows, "movie": entry.still is None}, line=True
            )
            table.add_row(each, f"{entry.shows} ({entry.paper})")
        show(table)
        return
    entry = GALLERY[one_of("figure", name, tuple(GALLERY))]
    movie = ".gif" if movie_encoder() is None else ".mp4"
    target = out or Path(name + (movie if entry.still is None else ".png"))
    say(f"drawing {entry.shows}")
    written(draw_named(name, target))
