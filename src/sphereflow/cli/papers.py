"""`sphereflow papers`: which papers there are."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per paper, one per line.")] = False,
) -> None:
    """List the papers, with the number of claims that are checked for each."""
    from sphereflow.papers import load_all

    found = load_all()
    if as_json:
        for paper in found:
            entry = {
                "paper": paper.slug,
                "title": paper.title,
                "authors": paper.authors,
                "year": paper.year,
                "arxiv": paper.arxiv,
                "claims": [claim.id for claim in paper.claims],
                "figures": [figure.id for figure in paper.figures],
            }
            print(json.dumps(entry))
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("paper", no_wrap=True, overflow="fold")
    table.add_column("year", justify="right")
    table.add_column("title")
    table.add_column("claims", justify="right")
    table.add_column("figures", justify="right")
    for paper in found:
        table.add_row(paper.slug, str(paper.year), paper.title, str(len(paper.claims)), str(len(paper.figures)))
    Console().print(table)
