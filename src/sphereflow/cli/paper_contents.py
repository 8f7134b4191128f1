"""What the library's papers hold, read from their sources: a list of them must not wait until all are imported."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sphereflow import papers

_ENTRY = re.compile(r'^@PAPER\.(claim|figure)\(\s*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Contents:
    """A paper, and the names of what is checked and drawn."""

    slug: str
    title: str
    authors: tuple[str, ...]
    year: int
    arxiv: str
    claims: tuple[str, ...]
    figures: tuple[str, ...]


def contents() -> list[Contents]:
    """The papers of the library in order of year, then slug; tests hold each against the paper itself."""
    return sorted((contents_of(slug) for slug in papers.slugs()), key=lambda paper: (paper.year, paper.slug))


def contents_of(slug: str) -> Contents:
    """One paper of the library."""
    places = [Path(place) / slug.replace("-", "_") for place in papers.__path__]
    files = [file for place in places for file in (place.with_suffix(".py"), *sorted(place.glob("*.py")))]
    texts = [file.read_text() for file in files if file.is_file()]
    entries = [entry for text in texts for entry in _ENTRY.findall(text)]
    (said,) = (_declared(text) for text in texts if "PAPER = Paper(" in text)
    return Contents(
        slug=slug,
        title=said["title"],
        authors=tuple(said["authors"]),
        year=said["year"],
        arxiv=said.get("arxiv", ""),
        claims=tuple(name for kind, name in entries if kind == "claim"),
        figures=tuple(name for kind, name in entries if kind == "figure"),
    )


def _declared(text: str) -> dict[str, Any]:
    """The plain arguments of `PAPER = Paper(...)`."""
    calls = (each.value for each in ast.parse(text).body if isinstance(each, ast.Assign))
    given = next(call.keywords for call in calls if isinstance(call, ast.Call) and ast.unparse(call.func) == "Paper")
    return {
        each.arg: ast.literal_eval(each.value) for each in given if each.arg in ("title", "authors", "year", "arxiv")
    }
