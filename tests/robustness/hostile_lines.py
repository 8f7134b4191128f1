"""Command lines that a careless or malicious user might type: each is cheap, but for one or a few hostile values.

They name no file outside the sandbox that could be harmed, and are run by a confined process all the same. The lines
follow the tree of commands as it is, so that a new command or option is covered on the day it appears.
"""

from __future__ import annotations

import inspect
import random
import typing
from collections.abc import Iterator
from typing import Any

import typer

LONG = "x" * 5000

INTEGERS = (
    "-1", "0", "1", "2", "-9223372036854775809", "2147483648", "4294967296", "9223372036854775808", "1" + "0" * 30,
    "1000000000", "1e3", "1.5", "nan", "inf", "", " ", "three", "٣", "0x10", LONG, "9" * 5000,
)  # fmt: skip
REALS = (
    "-1", "0", "-0.0", "1e-300", "1e-400", "1e300", "1e400", "nan", "-nan", "inf", "-inf", "1" + "0" * 30, "", " ",
    "one", "1,5", "٣", "0x1p3", LONG,
)  # fmt: skip
PATHS = (
    "missing", "missing/deep/name", "folder", "file", "file/below", "../outside", "../../outside", "../../../outside",
    "",
    ".", "..", "/", "/dev/null", "/dev/full", "/proc/self/mem", LONG, "ü ñ 漢字.npy", "with space.npy", "\udcff.npy",
    "empty.npy", "empty.json", "nan.npy", "words.npy", "objects.npy", "flat.npy", "huge.npy", "deep.json", "file.json",
    "list.json", "latin.csv", "bad.toml", "huge.toml", "sweep.zarr", "schedule.json", "points.npy", "loop",
    "--help",
    "out.bmp", "out.png", "folder.png", "out.zarr", "~nobody/x", "schedule.npz", "-",
)  # fmt: skip
WORDS = (
    "", " ", "nothing", "../../outside", LONG, "漢字", "\udcff", "a,b", "0", "-1", "nan", "None", "sa\nusa", "%s%n",
    "{0}", "'; rm -rf /", "axis=", "=1", "t=nan", "inf", "1,2,x", "1," * 50, "99999999999", "0,0", "-5", "1e400",
    "tcp://127.0.0.1:1", "not-a-scheme://", "file", "folder", "points.npy", "quick", "paper",
)  # fmt: skip

# What makes each command cheap; an option in here may be replaced by a hostile value. Arguments come first.
CHEAP: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "reproduce": (("sample-circles",), {"--jobs": "1"}),
    "papers": ((), {}),
    "info": ((), {}),
    "simulate": ((), {"--n": "8", "--t1": "0.2", "--saves": "3"}),
    "staircase": ((), {"--n": "4", "--beta": "50"}),
    "memory phases": ((), {"--sizes": "50", "--patterns": "8", "--repeats": "2", "--steps": "20"}),
    "memory recall": (("points.npy", "points.npy"), {}),
    "transport fit": ((), {"--source": "gaussian", "--target": "two-modes", "--pieces": "4", "--steps": "5"}),
    "transport apply": (("schedule.json", "points.npy"), {}),
    "transport conditional": (("points.npy", "points.npy"), {"--pieces": "8", "--count": "5"}),
    "drift train": (("swiss-roll",), {"--out": "model.npz", "--steps": "2", "--batch": "16"}),
    "drift sample": (("model.npz",), {"-n": "10"}),
    "drift translate": ((), {"--source": "points.npy", "--target": "points.npy", "--budgets": "2", "--seeds": "1",
                             "--batch": "16", "--components": "0", "--methods": "drift"}),
    "retrieval": ((), {}),
    "figures": (("profiles",), {}),
    "gallery": (("clusters",), {}),
    "sweep": (("spec.toml",), {"--out": "new.zarr"}),
    "plot": (("sweep.zarr",), {}),
    "measure": (("folder",), {"--window": "16", "--documents": "1", "--prompts": "0"}),
    "landscape": ((), {"--beta": "2"}),
    "collapse": ((), {"--d": "4", "--n": "4", "--layers": "10", "--heads": "1", "--repeats": "0"}),
}  # fmt: skip

# Serves pages until it is stopped: a door of its own, with its own tests.
LEFT_OUT = ("explore",)


def commands(app: typer.Typer) -> dict[str, Any]:
    """Every command that does something, by its full name."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", None)
        if children is None:
            yield name, command
        for word, child in (children or {}).items():
            yield from walk(child, f"{name} {word}".strip())

    found = dict(walk(typer.main.get_command(app), ""))
    return {name: command for name, command in found.items() if name.split()[0] not in LEFT_OUT}


def hostile_line(app: typer.Typer, number: int) -> list[str]:
    """The command line of this number: the same one whenever it is asked for."""
    dice = random.Random(number)
    known = commands(app)
    name = sorted(known)[number % len(known)]
    if dice.random() < 0.03:
        return [*name.split(), dice.choice(("--nothing", "--", LONG, "-x", "--help", "\udcff"))]
    arguments, options = CHEAP.get(name, ((), {}))
    given, words = dict(options), list(arguments)
    flags: list[str] = []
    hostile = dice.choice((1, 1, 1, 2, 3))
    parameters = [each for each in known[name].params if each.name not in ("help", "version", "verbose")]
    for parameter in dice.sample(parameters, min(hostile, len(parameters))):
        if getattr(parameter, "is_flag", False):
            flags.append(parameter.opts[0])
            continue
        value = dice.choice(_values(known[name], parameter))
        if parameter.param_type_name == "argument":
            place = [each for each in known[name].params if each.param_type_name == "argument"].index(parameter)
            words[place:] = [value, *words[place + 1 :]]
        else:
            given[parameter.opts[0]] = value
    if dice.random() < 0.05 and words:
        words.pop()
    return [*name.split(), *words, *(part for pair in given.items() for part in pair), *flags]


def _values(command: Any, parameter: Any) -> tuple[str, ...]:
    """Hostile values of the kind that the option is declared to take."""
    kind = str(typing.get_type_hints(inspect.unwrap(command.callback))[parameter.name])
    if "Path" in kind:
        return PATHS
    return INTEGERS if "int" in kind else REALS if "float" in kind else WORDS + PATHS
