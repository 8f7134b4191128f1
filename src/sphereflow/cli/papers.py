"""`sphereflow papers`: which papers there are."""

from __future__ import annotations

from rich import box
from rich.table import Table

from sphereflow.cli.speaking import answer, show


def command() -> None:
    """List the papers, with the number of claims that are checked for each.

    Example: sphereflow papers --json
    """
    from sphereflow.papers import load_all

    found = load_all()
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
        answer(entry, line=True)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("paper", no_wrap=True, overflow="fold")
    table.add_column("year", justify="right")
    table.add_column("title")
    table.add_column("claims", justify="right")
    table.add_column("figures", justify="right")
    for paper in found:
        table.add_row(paper.slug, str(paper.year), paper.title, str(len(paper.claims)), str(len(paper.figures)))
    show(table)
