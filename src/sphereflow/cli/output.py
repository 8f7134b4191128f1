"""The output of a command: text for people, one JSON object for scripts, or nothing.

Every command has three options of its own beside those it declares: `--json` prints one object instead of text,
`--quiet` prints nothing but errors, `--verbose` adds what a bug report needs, on the error stream. A command says its
text by `say` and its numbers by `answer`; which of the two is heard is decided here.
"""

from __future__ import annotations

import functools
import inspect
import json
import resource
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Manner:
    """The output options of the command that runs now."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False


manner = Manner()

_OPTIONS = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")],
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")],
    "verbose": Annotated[bool, typer.Option("--verbose", "-v", help="Say what it ran on, and the whole of an error.")],
}


def with_output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with `--json`, `--quiet` and `--verbose`."""
    own = inspect.signature(command, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def with_manner(as_json: bool, quiet: bool, verbose: bool, **given: Any) -> Any:
        if quiet and (as_json or verbose):
            from sphereflow.errors import SphereflowError

            raise SphereflowError("--quiet does not go with --json or --verbose.")
        with _output(Manner(as_json, quiet, verbose)):
            return command(**given)

    with_manner.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
    with_manner.__annotations__ = {name: each.annotation for name, each in own.parameters.items()} | _OPTIONS
    return with_manner


def say(text: object = "", *, aside: bool = False) -> None:
    """Text for people; what is said `aside` is also heard beside JSON, on the error stream."""
    if not (manner.json or manner.quiet):
        print(text)
    elif aside and manner.json:
        print(text, file=sys.stderr)


def show(*renderables: object) -> None:
    """Tables and coloured text for people; colours on terminals only."""
    if not (manner.json or manner.quiet):
        Console(highlight=False).print(*renderables)


def written(*targets: Path | None) -> None:
    """Tell where results are."""
    for target in targets:
        if target is not None:
            say(f"written: {target}")


def answer(record: dict[str, Any], *, line: bool = False) -> None:
    """The same for scripts: one JSON object; `line` keeps it on one line, for commands that give several."""
    if manner.json:
        from sphereflow.report.record import plain

        print(json.dumps(plain(record), allow_nan=False, indent=None if line else 2), flush=True)


def be(chosen: Manner | None = None) -> None:
    """Take on a manner; by default the plain one that every command starts with."""
    manner.__dict__.update((chosen or Manner()).__dict__)


@contextmanager
def _output(chosen: Manner) -> Iterator[None]:
    from sphereflow import progress

    be(chosen)
    progress.silent = chosen.quiet
    began, worked = time.monotonic(), time.process_time()
    try:
        yield
    finally:
        progress.silent = False
        if chosen.verbose:
            _tell_circumstances(time.monotonic() - began, time.process_time() - worked)


def _tell_circumstances(seconds: float, processor: float) -> None:
    from sphereflow.provenance import versions
    from sphereflow.runtime import cache_folder, devices

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**10 if sys.platform != "darwin" else 2**20)
    circumstances = {
        "took": f"{seconds:.2f} s, {processor:.2f} s of processor time, at most {peak:.0f} MB",
        "on": f"{', '.join(devices())}; compiled programs in {cache_folder() or 'no cache'}",
        "with": ", ".join(f"{name} {number}" for name, number in versions().items()),
    }
    for name, text in circumstances.items():
        print(f"{name:<5} {text}", file=sys.stderr)
