"""Schedules on disk: JSON to read and to edit, npz when there are many pieces; both come back bit for bit."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, whole_number, writable_target
from sphereflow.provenance import versions
from sphereflow.reading import file_bytes, packed_arrays, plain_data
from sphereflow.saving import write_bytes
from sphereflow.transport.abstract import KINDS, AbstractSchedule

FORMAT = "sphereflow schedule, version 1"
SUFFIXES = (".json", ".npz")


def check_suffix(path: str | Path) -> Path:
    """The path, if a schedule can be stored under this name."""
    if Path(path).suffix not in SUFFIXES:
        raise SphereflowError(f"a schedule is a .json or a .npz file, got {path}.")
    return Path(path)


def save(schedule: AbstractSchedule, path: str | Path) -> None:
    """Write the schedule in the format that the suffix names, whole or not at all."""
    target = writable_target(check_suffix(path), overwrite=True)
    write_bytes(target, content(schedule, target.suffix))


def content(schedule: AbstractSchedule, suffix: str) -> bytes:
    """What a file with this suffix holds of the schedule."""
    head = {"format": FORMAT, "space": schedule.space, "d": schedule.d, "T": schedule.duration, "versions": versions()}
    arrays = schedule.arrays()
    if suffix == ".npz":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, head=np.array(json.dumps(head)), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()
    lists = {name: values.tolist() for name, values in arrays.items()}
    pieces = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    lines = ",\n  ".join(json.dumps(piece) for piece in pieces)
    opening = json.dumps(head)[:-1]
    return f'{opening}, "pieces": [\n  {lines}\n]}}\n'.encode()


def load(path: str | Path) -> AbstractSchedule:
    """The schedule stored at `path`."""
    source = check_suffix(path)
    content = file_bytes(source)
    try:
        head, arrays = _read_npz(content) if source.suffix == ".npz" else _read_json(content)
        kind, d = KINDS[head["space"]], whole_number("d", head["d"])
        schedule = kind.from_arrays(arrays, d)
        if head["format"] != FORMAT or schedule.d != d:
            raise ValueError
    except SphereflowError as error:
        raise SphereflowError(f"cannot use {source}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise SphereflowError(f"cannot read {source}: it is damaged, or not a schedule saved by sphereflow.") from None
    return schedule


def _read_npz(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    arrays = packed_arrays(content)
    return plain_data(str(arrays.pop("head"))), arrays


def _read_json(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    head = plain_data(content)
    pieces = head.pop("pieces")
    names = list(pieces[0]) if pieces else ["dt"]
    if any(set(piece) != set(names) for piece in pieces):
        raise ValueError
    return head, {name: np.array([piece[name] for piece in pieces]) for name in names}
