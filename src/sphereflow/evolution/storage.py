"""Trajectories on disk: a zarr folder that xarray opens, written frame by frame and read back bit for bit.

A run in progress lives in `NAME.partial` and gets its name when it is complete, so a folder called NAME is always
whole. Every frame carries a checksum: zarr reads a missing or truncated chunk as zeros, and a trajectory must not.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import zarr
from jaxtyping import Array

from sphereflow.dynamics.specification import describe, rebuild
from sphereflow.errors import SphereflowError, writable_target
from sphereflow.evolution.status import Status
from sphereflow.evolution.trajectory import Trajectory
from sphereflow.reading import distrusted, honest_size, plain_data
from sphereflow.saving import promote_folder, spoken

FORMAT = "sphereflow trajectory, version 1"
_MISSING = -1
_DESCRIBED = ("tol", "solver", "engine", "engine_error", "seed", "parameters", "versions")
_IN_MEMORY_BYTES = 256 * 2**20
_CHUNK_BYTES = 16 * 2**20


class StoredFrames:
    """Frames on disk that look like an array (T, ..., n, d); each is checked when it is read."""

    def __init__(self, group: zarr.Group, count: int):
        tokens: Any = group["tokens"]
        honest_size(tokens, "tokens", parts=max(tokens.shape[0], 1))
        self._tokens = tokens
        self._sums = np.asarray(group["checksum"])  # type: ignore[arg-type]
        self.shape = (count, *self._tokens.shape[1:])
        self.dtype = self._tokens.dtype
        self.ndim = len(self.shape)

    def __getitem__(self, index: int) -> np.ndarray:
        at = range(self.shape[0])[index]
        damaged = SphereflowError(f"frame {at} of the stored trajectory is damaged: its checksum does not match.")
        try:
            frame = np.asarray(self._tokens[at])
        except Exception:  # what the decoder raises for a chunk that was cut or exchanged has many kinds
            raise damaged from None
        if _checksum(frame) != self._sums[at]:
            raise damaged
        return frame

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        stacked = np.stack([self[i] for i in range(self.shape[0])])
        return stacked if dtype is None else stacked.astype(dtype)


class FrameWriter:
    """Writes a run into `NAME.partial`, frame after frame, and continues one that was cut short."""

    def __init__(self, target: Path, group: zarr.Group, times: np.ndarray, common: dict[str, Any]):
        self._target, self._group, self._times, self._common = target, group, times, common
        self._written = int(np.sum(np.asarray(group["checksum"]) != _MISSING))  # type: ignore[arg-type]

    @classmethod
    def open(cls, out: str | Path, times: np.ndarray, start: Array, common: dict[str, Any]) -> FrameWriter:
        """Start a new run, or find the one that `NAME.partial` holds if it is the same run."""
        target = writable_target(out)
        partial = _partial(target)
        identity = _identity(times, np.asarray(start), common)
        if partial.exists():
            group = _open_group(partial)
            if group.attrs.get("identity") != identity:
                raise SphereflowError(f"{partial} holds a different run: remove it, or write to another name.")
            with distrusted(partial, "unfinished run; remove it, or write to another name"):
                return cls(target, group, times, common)
        with _removed_on_failure(partial), spoken(target):
            group = _create(partial, times, np.asarray(start), common, identity, frames_per_chunk=1)
            writer = cls(target, group, times, common)
            writer.append(np.asarray(start), 0)
        return writer

    def resume_point(self, start: Array) -> tuple[int, Array, int]:
        """(number of frames written, last tokens, steps so far)."""
        frames = StoredFrames(self._group, self._written)
        steps = int(np.asarray(self._group["steps"])[self._written - 1])  # type: ignore[arg-type]
        return self._written, jnp.asarray(frames[self._written - 1]), steps

    def append(self, frame: np.ndarray, steps: int) -> None:
        index = self._written
        with spoken(self._target):
            self._group["tokens"][index] = frame  # type: ignore[index]
            self._group["steps"][index] = steps  # type: ignore[index]
            self._group["checksum"][index] = _checksum(frame)  # type: ignore[index]  # last: it makes the frame count
        self._written += 1

    def finish(self, status: Status, steps: int, seconds: float) -> Trajectory:
        """Name the folder if the run is complete, and return the trajectory that lies in it."""
        with spoken(self._target):
            self._group.attrs.update({"status": status.name, "total_steps": steps, "seconds": seconds})
        if status.complete:
            promote_folder(_partial(self._target), self._target)
        folder = self._target if status.complete else _partial(self._target)
        return load(folder)


def save(trajectory: Trajectory, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a trajectory to a new zarr folder."""
    target = writable_target(path, overwrite=overwrite)
    partial = _partial(target)
    if partial.exists():
        raise SphereflowError(
            f"{partial} exists already: an unfinished run lies there; remove it or choose another name."
        )
    common = {name: getattr(trajectory, name) for name in ("model", *_DESCRIBED)}
    first = trajectory.frame(0)
    per_chunk = max(1, min(len(trajectory), _CHUNK_BYTES // max(first.nbytes, 1)))
    identity = _identity(trajectory.ts, first, common)
    with _removed_on_failure(partial), spoken(target):
        group = _create(partial, trajectory.ts, first, common, identity, frames_per_chunk=per_chunk)
        sums = np.empty(len(trajectory), dtype=np.int64)
        for begin in range(0, len(trajectory), per_chunk):
            block = np.stack([trajectory.frame(i) for i in range(begin, min(begin + per_chunk, len(trajectory)))])
            group["tokens"][begin : begin + len(block)] = block  # type: ignore[index]
            sums[begin : begin + len(block)] = [_checksum(frame) for frame in block]
        group["checksum"][:] = sums  # type: ignore[index]
        if trajectory.stopped_at is not None:
            _put(group, "stopped_at", np.asarray(trajectory.stopped_at))
        group.attrs.update(
            {"status": trajectory.status.name, "total_steps": trajectory.steps, "seconds": trajectory.seconds}
        )
        promote_folder(partial, target)
    return target


def load(path: str | Path) -> Trajectory:
    """Read a trajectory; large ones stay on disk and are read frame by frame."""
    group = _open_group(Path(path))
    with distrusted(path, "sphereflow trajectory"):
        for name, stored in group.arrays():
            if name != "tokens":
                honest_size(stored, name)
        meta = plain_data(str(group.attrs["run"]))
        times = np.asarray(group["t"])  # type: ignore[arg-type]
        count = int(np.sum(np.asarray(group["checksum"]) != _MISSING))  # type: ignore[arg-type]
        arrays = {name.removeprefix("model."): np.asarray(array) for name, array in group.arrays() if "model." in name}
        frames: Any = StoredFrames(group, count)
        status = Status[str(group.attrs.get("status", "INTERRUPTED"))]
        stopped = np.asarray(group["stopped_at"]) if "stopped_at" in group else None  # type: ignore[arg-type]
        steps, seconds = int(group.attrs.get("total_steps", 0)), float(group.attrs.get("seconds", 0.0))  # type: ignore[arg-type]
        for name, array in arrays.items():
            if _checksum(array) != meta["model_checksums"].get(name):
                raise SphereflowError(f"{path} is damaged: the model's array '{name}' does not match its checksum.")
        if _checksum(times) != meta["times_checksum"] or count < (len(times) if status.complete else 1):
            raise SphereflowError(f"{path} is damaged or truncated: saved times or frames are missing.")
        xs = np.asarray(frames) if np.prod(frames.shape) * 8 <= _IN_MEMORY_BYTES else frames
        described = {name: meta[name] for name in _DESCRIBED}
        return Trajectory(
            ts=times[:count], xs=xs, model=rebuild(meta["model"], arrays), status=status, steps=steps, seconds=seconds,
            stopped_at=stopped, **described,
        )  # fmt: skip


@contextmanager
def _removed_on_failure(folder: Path) -> Iterator[None]:
    """What was begun here and cannot be continued must not stand in the way of the next attempt."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _partial(target: Path) -> Path:
    return target.with_name(target.name + ".partial")


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def _identity(times: np.ndarray, start: np.ndarray, common: dict[str, Any]) -> str:
    """What must agree for two runs to be the same run."""
    description, arrays = describe(common["model"])
    sums = {name: _checksum(array) for name, array in arrays.items()}
    parts = [description, sums, _checksum(times), _checksum(start), common["tol"], common["solver"]]
    return json.dumps(parts, sort_keys=True)


def _create(
    folder: Path,
    times: np.ndarray,
    start: np.ndarray,
    common: dict[str, Any],
    identity: str,
    *,
    frames_per_chunk: int,
) -> zarr.Group:
    description, arrays = describe(common["model"])
    run = {name: common[name] for name in _DESCRIBED}
    run |= {"model": description, "model_checksums": {name: _checksum(a) for name, a in arrays.items()}}
    run |= {"times_checksum": _checksum(times)}
    group = zarr.open_group(
        folder, mode="w-", attributes={"format": FORMAT, "identity": identity, "run": json.dumps(run)}
    )
    _put(group, "t", times, dims=("t",))
    for name, array in arrays.items():
        _put(group, f"model.{name}", array)
    replica_axes = tuple(f"replica_{i}" for i in range(start.ndim - 2))
    group.create_array(
        "tokens",
        shape=(len(times), *start.shape),
        dtype=start.dtype,
        chunks=(frames_per_chunk, *start.shape),
        dimension_names=("t", *replica_axes, "token", "component"),
    )
    journal = {"shape": (len(times),), "dtype": "int64", "chunks": (frames_per_chunk,), "fill_value": _MISSING}
    for name in ("steps", "checksum"):
        group.create_array(name, dimension_names=("t",), **journal)  # type: ignore[arg-type]
    return group


def _put(group: zarr.Group, name: str, array: np.ndarray, dims: tuple[str, ...] | None = None) -> None:
    names = dims if dims is not None else tuple(f"{name}_{i}" for i in range(array.ndim))
    stored = group.create_array(
        name, shape=array.shape, dtype=array.dtype, chunks=array.shape or "auto", dimension_names=names
    )
    stored[...] = array


def _open_group(folder: Path) -> zarr.Group:
    if not folder.is_dir():
        raise SphereflowError(f"there is no trajectory at {folder}.")
    with distrusted(folder, "zarr folder"):
        group = zarr.open_group(folder, mode="r+")
    if group.attrs.get("format") != FORMAT:
        raise SphereflowError(f"{folder} is a zarr folder, but not a sphereflow trajectory.")
    return group
