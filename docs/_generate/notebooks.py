"""Notebooks: `python docs/_generate/notebooks.py [NAME ...]` runs docs/notebooks/NAME.py and writes NAME.ipynb.

The sources are plain Python with cells marked `# %%`, or `# %% [markdown]` for text. Running them needs nbclient and
ipykernel, which nothing else here does.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _generate.places import DOCS

NOTEBOOKS = DOCS / "notebooks"


@dataclass(frozen=True)
class Cell:
    """A cell: whether it is text, and its source."""

    text: bool
    source: str


def sources() -> list[Path]:
    """All notebooks as plain Python, in the order of their names."""
    return sorted(NOTEBOOKS.glob("*.py"))


def cells(path: Path) -> list[Cell]:
    """The cells of a source."""
    found = []
    for part in re.split(r"(?m)^# %%", path.read_text("utf-8"))[1:]:
        kind, _, body = part.partition("\n")
        text = kind.strip() == "[markdown]"
        body = body.strip()
        found.append(Cell(text, re.sub(r"(?m)^# ?", "", body) if text else body))
    return found


def execute(path: Path) -> Path:
    """Run a source as a notebook and keep it with what its cells showed."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook()
    make = {True: nbformat.v4.new_markdown_cell, False: nbformat.v4.new_code_cell}
    book.cells = [make[cell.text](cell.source) for cell in cells(path)]
    for number, cell in enumerate(book.cells):
        cell["id"] = f"cell-{number}"
    NotebookClient(book, timeout=600, kernel_name="python3").execute()
    for cell in book.cells:  # when and on which machine it was run is nobody's business
        cell.metadata.pop("execution", None)
    book.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    target = path.with_suffix(".ipynb")
    target.write_text(nbformat.writes(book) + "\n", "utf-8")
    return target


def main(names: list[str]) -> None:
    for path in [NOTEBOOKS / f"{name}.py" for name in names] or sources():
        print(execute(path).relative_to(DOCS), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
