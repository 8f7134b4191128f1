"""One small valid example of everything that is read back from disk, and how it is read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sphereflow as sf
from sphereflow import transport
from sphereflow.cli.landscape import _read as read_weights
from sphereflow.cli.memory import _array as read_patterns
from sphereflow.cli.retrieval import _read_heads as read_heads
from sphereflow.memory.monte_carlo import sweep as memory_sweep
from sphereflow.metastability import coarsen_to_one
from sphereflow.sweeps import open_sweep, read_specification, run_specification
from sphereflow.sweeps.result import values_of
from sphereflow.transport.euclidean.named_laws import read_points

SPECIFICATION = 'quantity = "retrieval"\n[axes]\nslope = [0.5, 1.0]\nt = [0.5, 1.0]\n[fixed]\nbeta = 1.0\n'


@dataclass(frozen=True)
class Stored:
    """`make(path)` writes it; `read(path)` reads it and returns numbers that only a damaged file could change."""

    suffix: str
    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    # Whether damage to any byte of the numbers is noticed: there are checksums.
    checked: bool = False


def _trajectory(path: Path) -> None:
    sf.simulate(n=8, d=3, beta=2.0, t1=0.3, saves=4).save(path)


def _partial(path: Path) -> None:
    run = sf.simulate(n=8, d=3, beta=2.0, t1=0.3, saves=4, out=path, progress=False)
    del run
    path.rename(path.with_name(path.name + ".partial"))
    path.mkdir()  # so that there is something of this name to look at


def _resume(path: Path) -> np.ndarray:
    if path.exists() and not any(path.iterdir()):
        path.rmdir()
    return np.asarray(sf.simulate(n=8, d=3, beta=2.0, t1=0.3, saves=4, out=path, progress=False).xs)


def _sweep(path: Path) -> None:
    specification = path.with_name("spec.toml")
    specification.write_text(SPECIFICATION)
    run_specification(read_specification(specification), out=path, progress=False)


def _open_sweep(path: Path) -> np.ndarray:
    found = open_sweep(path)
    assert found.cells_done >= 0
    found.plot("worst_score", x="t", level=0.1)
    return np.asarray(values_of(found, "worst_score"))


def _continue_sweep(path: Path) -> np.ndarray:
    specification = path.with_name("again.toml")
    specification.write_text(SPECIFICATION)
    found = run_specification(read_specification(specification), out=path, progress=False)
    return np.asarray(found.dataset["worst_score"])


def _schedule(path: Path) -> None:
    rng = np.random.default_rng(0)
    transport.Schedule(rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), rng.normal(size=4), np.ones(4)).save(path)


def _tokens() -> Any:
    return sf.draw("uniform", 5, 3, seed=2)


def _histories(path: Path) -> None:
    coarsen_to_one("sa", _tokens(), 30.0).save(path)


def _checkpoint(path: Path) -> None:
    coarsen_to_one("sa", _tokens(), 30.0, checkpoint=path)


def _memory(path: Path) -> Any:
    return memory_sweep("lse", 1.0, patterns=8, repeats=2, steps=20, keep=path, **_GRID)


_GRID: dict[str, Any] = {"loads": (0.2,), "temperatures": (0.5,)}

THINGS: dict[str, Stored] = {
    "trajectory": Stored(".zarr", _trajectory, lambda path: np.asarray(sf.load(path).xs), checked=True),
    "sweep": Stored(".zarr", _sweep, _open_sweep, checked=True),
    "continued sweep": Stored(".zarr", _sweep, _continue_sweep, checked=True),
    "schedule.json": Stored(".json", _schedule, lambda path: sf.load(path).apply(np.ones((1, 2)))),
    "schedule.npz": Stored(".npz", _schedule, lambda path: sf.load(path).apply(np.ones((1, 2))), checked=True),
    "history": Stored(".npz", _histories, lambda path: sf.load(path).summary(), checked=True),
    "checkpoint": Stored(".json", _checkpoint, lambda path: coarsen_to_one("sa", _tokens(), 30.0, checkpoint=path)),
    "memory sweep": Stored(".json", _memory, _memory),
    "points.npy": Stored(".npy", lambda path: np.save(path, np.ones((3, 2))), read_points),
    "points.csv": Stored(".csv", lambda path: path.write_text("1,2\n3,4\n"), read_points),
    "patterns": Stored(".npy", lambda path: np.save(path, np.ones((3, 2))), read_patterns),
    "heads.csv": Stored(".csv", lambda path: path.write_text("weight,beta,slope\n1,2,3\n"), read_heads),
    "heads.json": Stored(".json", lambda path: path.write_text("[[1, 2, 3]]"), read_heads),
    "weights.csv": Stored(".csv", lambda path: path.write_text("1,2,3\n1,2,4\n"), read_weights),
    "weights.json": Stored(
        ".json", lambda path: path.write_text(json.dumps({"outer": [1], "inner": [[1, 2]]})), read_weights
    ),
    "specification": Stored(".toml", lambda path: path.write_text(SPECIFICATION), read_specification),
}


def files_of(path: Path) -> list[Path]:
    """The files that make up a stored thing, journals beside it included."""
    beside = sorted(path.parent.glob(path.name + ".*"))
    places = [path, *beside]
    inside = [file for place in places if place.is_dir() for file in sorted(place.rglob("*")) if file.is_file()]
    return inside + [place for place in places if place.is_file()]


WRONG: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**30, 10**400, float("nan"), float("inf"), "", "word", [], [[]], {}, [None], {"a": 1},
    [[1, 2], [3]], ["a"], [float("nan")] * 3, [1] * 50,
)  # fmt: skip


def twist(value: Any, dice: random.Random) -> Any:
    """The same data with something of the wrong kind at one place, or with something missing."""
    if isinstance(value, (dict, list)) and value and dice.random() < 0.85:
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        key = dice.choice(list(copy)) if isinstance(copy, dict) else dice.randrange(len(copy))
        if dice.random() < 0.15:
            del copy[key]
        else:
            copy[key] = twist(copy[key], dice)
        return copy
    return dice.choice(WRONG)


DAMAGES = ("cut", "flip", "flip", "flip", "empty", "junk", "longer", "missing", "hole", "swap")


def damage(path: Path, dice: random.Random) -> str:
    """Do something bad to one of the files; says what."""
    file = dice.choice(files_of(path))
    content = bytearray(file.read_bytes())
    kind = dice.choice(DAMAGES)
    place = dice.randrange(len(content)) if content else 0
    if kind == "missing":
        file.unlink()
    elif kind == "swap":  # another file of the same thing in its place
        file.write_bytes(dice.choice(files_of(path)).read_bytes())
    else:
        if kind == "cut":
            del content[place:]
        elif kind == "flip" and content:
            content[place] ^= 1 << dice.randrange(8)
        elif kind == "empty":
            content.clear()
        elif kind == "junk":
            content[:] = dice.randbytes(max(len(content), 10))
        elif kind == "longer":
            content += dice.randbytes(50)
        elif kind == "hole" and content:
            content[place : place + 8] = bytes(len(content[place : place + 8]))
        file.write_bytes(bytes(content))
    return f"{kind} at {place} of {file.relative_to(path.parent)}"
