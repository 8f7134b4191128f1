"""The gallery: every script of docs/examples is run and shows the picture it writes.

A script is a whole program: its docstring is the title and the text, and it writes NAME.png, NAME being its own name.
"""

from __future__ import annotations

import ast
import hashlib
import runpy
from dataclasses import dataclass
from pathlib import Path

from .blocks import empty_folder
from .places import EXAMPLES, KEPT, SOURCE


@dataclass(frozen=True)
class Example:
    """A script with the two parts of its docstring."""

    path: Path
    title: str
    about: str
    code: str

    @property
    def name(self) -> str:
        return self.path.stem


def examples() -> list[Example]:
    """All scripts, in the order of their names."""
    return [_read(path) for path in sorted(EXAMPLES.glob("*.py"))]


def _read(path: Path) -> Example:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    title, _, about = (ast.get_docstring(tree) or path.stem).partition("\n")
    code = "\n".join(text.splitlines()[tree.body[0].end_lineno :]).strip()
    return Example(path, title.rstrip("."), about.strip(), code)


def picture_of(example: Example) -> bytes:
    """Run a script in an empty folder and return the picture it wrote."""
    with empty_folder() as place:
        runpy.run_path(str(example.path), run_name="__main__")
        return (place / f"{example.name}.png").read_bytes()


def kept_picture_of(example: Example) -> bytes:
    """The same, from the last build if neither the script nor the package changed since."""
    state = hashlib.sha256(example.path.read_bytes())
    for file in sorted(SOURCE.rglob("*.py")):
        state.update(file.read_bytes())
    place = KEPT / "gallery" / f"{example.name}-{state.hexdigest()[:16]}.png"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        for old in place.parent.glob(f"{example.name}-*.png"):
            old.unlink()
        place.write_bytes(picture_of(example))
    return place.read_bytes()


def gallery_page() -> str:
    """All examples: picture, text, code."""
    lines = [
        "# Gallery",
        "",
        "Every picture on this page was drawn by the program below it when the page was built.",
        "",
    ]
    for example in examples():
        lines += [f"## {example.title}", "", f"![{example.title}](pictures/{example.name}.png)", "", example.about, ""]
        lines += [f'??? example "{example.path.name}"', "", "    ```python"]
        lines += [f"    {line}".rstrip() for line in example.code.splitlines()]
        lines += ["    ```", ""]
    return "\n".join(lines)
