"""Pictures: every script of docs/examples is run and shows the one it writes; and the gallery of runs as it is built.

A script is a whole program: its docstring is the title and the text, and it writes NAME.png, NAME being its own name.
"""

from __future__ import annotations

import ast
import hashlib
import runpy
import shutil
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
    state = _state_of_package()
    state.update(example.path.read_bytes())
    place = KEPT / "gallery" / f"{example.name}-{state.hexdigest()[:16]}.png"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        for old in place.parent.glob(f"{example.name}-*.png"):
            old.unlink()
        place.write_bytes(picture_of(example))
    return place.read_bytes()


def kept_pages() -> dict[str, bytes]:
    """The pages of `sphereflow gallery` by name, from the last build if the package did not change since."""
    from sphereflow.figures import write_gallery

    place = KEPT / "gallery" / f"pages-{_state_of_package().hexdigest()[:16]}"
    if not (place / "index.html").exists():  # the index is written last
        for old in place.parent.glob("pages-*"):
            shutil.rmtree(old)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_gallery(place, overwrite=True)
    return {path.name: path.read_bytes() for path in sorted(place.glob("*.html"))}


def _state_of_package() -> hashlib._Hash:
    state = hashlib.sha256()
    for pattern in ("*.py", "*.js", "*.css"):
        for file in sorted(SOURCE.rglob(pattern)):
            state.update(file.read_bytes())
    return state


def examples_page() -> str:
    """All examples: picture, text, code."""
    lines = [
        "# Examples",
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
