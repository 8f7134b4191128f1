"""The code blocks of a page, and what happens when they are run in order.

Blocks marked `python` share one namespace, blocks marked `bash` are commands of `sphereflow`, each on its line; all of
them run in one process, in an empty folder. A comment `<!-- not run: reason -->` before a block leaves it out.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_FENCE = re.compile(
    r"(?P<skip><!-- not run: (?P<reason>[^>]+) -->\n+)?^(?P<indent> *)```(?P<language>python|bash)[^\n]*\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """Code of a page: its language, its text, the line it starts at, and why it is not run (empty if it is)."""

    language: str
    text: str
    line: int
    skipped: str = ""


def blocks(page: Path) -> list[Block]:
    """All blocks of code in the two languages that can be run."""
    told = page.read_text("utf-8")
    return [
        Block(
            language=found["language"],
            text=textwrap.dedent(found["text"]),
            line=told.count("\n", 0, found.start("text")) + 1,
            skipped=(found["reason"] or "").strip(),
        )
        for found in _FENCE.finditer(told)
    ]


def run_page(page: Path) -> int:
    """Run what can be run, in order; the number of blocks that were. An error says the page and the line."""
    chosen = [block for block in blocks(page) if not block.skipped]
    module = ModuleType("page_of_the_documentation")
    with empty_folder(), _known(module):
        for block in chosen:
            try:
                if block.language == "python":
                    # Line numbers of tracebacks are those of the page.
                    exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), vars(module))
                else:
                    _run_commands(block.text)
            except Exception as error:
                raise RuntimeError(f"{page.name}, line {block.line}: {type(error).__name__}: {error}") from error
    return len(chosen)


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each `sphereflow` command of a block; continued lines are joined, comments dropped."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "sphereflow":
            yield words[1:]
        elif words:
            raise ValueError(f"only sphereflow commands are run, not {words[0]!r}; mark the block as not run")


def _run_commands(text: str) -> None:
    from sphereflow.cli import app
    from sphereflow.cli.exit_codes import exit_code

    for arguments in commands(text):
        code = exit_code(app, arguments)
        if code != 0:
            raise ValueError(f"sphereflow {shlex.join(arguments)} left with exit code {code}")


@contextmanager
def _known(module: ModuleType) -> Iterator[None]:
    """Let classes that a page defines find their module."""
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]


@contextmanager
def empty_folder() -> Iterator[Path]:
    """A temporary working folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            yield Path(place)
        finally:
            os.chdir(before)
