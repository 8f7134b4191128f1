"""`sphereflow papers`: which papers there are, and the beginning of one of your own."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from sphereflow.cli.output import answer, say, show


def command(
    new: Annotated[
        str | None, typer.Option(metavar="NAME", help="Begin a paper of your own: my-paper gives my_paper.py.")
    ] = None,
) -> None:
    """List the papers and the claims checked for each, those of installed packages last; or begin one of your own.

    Example: sphereflow papers --new my-paper
    """
    if new is not None:
        _begin(new)
        return
    from dataclasses import asdict

    from sphereflow.cli.paper_contents import Contents, contents
    from sphereflow.papers import installed, load

    papers = contents()
    for paper in map(load, installed()):
        names = (tuple(each.id for each in kind) for kind in (paper.claims, paper.figures))
        papers.append(Contents(paper.slug, paper.title, paper.authors, paper.year, paper.arxiv, *names))
    for entry in map(asdict, papers):
        answer({"paper": entry.pop("slug")} | entry, line=True)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("paper", no_wrap=True, overflow="fold")
    table.add_column("year", justify="right")
    table.add_column("title")
    table.add_column("claims", justify="right")
    table.add_column("figures", justify="right")
    for each in papers:
        table.add_row(each.slug, str(each.year), each.title, str(len(each.claims)), str(len(each.figures)))
    show(table)


def _begin(name: str) -> None:
    """Write a small paper to start from, with one claim that holds and one figure."""
    import re

    from jinja2 import Environment, PackageLoader, StrictUndefined

    from sphereflow.errors import SphereflowError
    from sphereflow.saving import write_bytes

    slug = name.lower().replace("_", "-")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", slug):
        raise SphereflowError(f"--new must be letters and digits joined by dashes, like my-paper; got '{name}'.")
    module = slug.replace("-", "_")
    path = Path(f"{module}.py")
    if path.exists():
        raise SphereflowError(f"{path} exists already; choose another name.")
    environment = Environment(  # the text is a Python file, not a page: nothing in it is escaped
        loader=PackageLoader("sphereflow.report", "template"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    title = slug.replace("-", " ").capitalize()
    year = datetime.datetime.now(datetime.UTC).year
    text = environment.get_template("own_paper.py.txt").render(slug=slug, module=module, title=title, year=year)
    write_bytes(path, text.encode())
    say(f"written: {path}")
    say(f"run it: sphereflow reproduce ./{path}")
    answer({"written": path, "paper": slug})
