"""Trajectories on disk: a zarr folder that xarray opens, written frame by frame and read back bit for bit.

A run in progress lives in `NAME.partial` and gets its name when it is complete, so a folder called NAME is always
whole. Every frame carries a checksum: zarr reads a missing or truncated chunk as zeros, and a trajectory must not.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
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

from sphereflow.dynamics import Dynamics
from sphereflow.dynamics.specification import describe, rebuild
from sphereflow.errors import SphereflowError, writable_target
from sphereflow.evolution.settings import Settings
from sphereflow.evolution.status import Status
from sphereflow.evolution.trajectory import Trajectory
from sphereflow.provenance import circumstances, digest
from sphereflow.reading import distrusted, file_bytes, plain_data, plausible_size
from sphereflow.saving import promote_folder, writing_errors_in_words

FORMAT = "sphereflow trajectory, version 2"
_MISSING = -1
_SETTINGS = tuple(f.name for f in dataclasses.fields(Settings) if f.name != "model")
_IN_MEMORY_BYTES = 256 * 2**20
_CHUNK_BYTES = 16 * 2**20


class StoredFrames:
    """Frames on disk that look like an array (T, ..., n, d); each is checked when it is read."""

    def __init__(self, group: zarr.Group, count: int):
        tokens: Any = group["tokens"]
        plausible_size(tokens, "tokens", parts=max(tokens.shape[0], 1))
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
    """Writes a run into `NAME.partial`, frame after frame, and continues one that was cut short.

    The folder is locked while it is written; the operating system releases the lock with the process.
    """

    def __init__(self, target: Path, group: zarr.Group, lock: int):
        self._target, self._group, self._lock = target, group, lock
        self._written = int(np.sum(np.asarray(group["checksum"]) != _MISSING))  # type: ignore[arg-type]

    @classmethod
    def open(
        cls,
        out: str | Path,
        times: np.ndarray,
        start: Array,
        x0: np.ndarray | None,
        settings: Settings,
        overwrite: bool = False,
    ) -> FrameWriter:
        """Start a new run, or find the one that `NAME.partial` holds if it is the same run.

        `x0` is the start where it is not the first frame.
        """
        target = writable_target(out, overwrite=overwrite)
        partial = _partial(target)
        first = np.asarray(start)
        identity = _identity(times, first, settings)
        with writing_errors_in_words(target):
            lock = _locked(partial)
            try:
                group = _begun(partial, identity)
                if group is not None:
                    with distrusted(partial, "unfinished run; remove it, or write to another name"):
                        return cls(target, group, lock)
                with _removed_on_failure(partial):
                    group = _create(partial, times, first, x0, settings, identity, frames_per_chunk=1)
                    writer = cls(target, group, lock)
                    if x0 is None:
                        writer.append(first, 0)
                return writer
            except BaseException:
                os.close(lock)
                raise

    def resume_point(self, start: Array) -> tuple[int, Array, int, int]:
        """(number of frames written, last tokens, steps so far, steps of the last frame)."""
        if not self._written:
            return 0, start, 0, 0
        steps = [0, *np.asarray(self._group["steps"])[: self._written]]  # type: ignore[arg-type]
        frames = StoredFrames(self._group, self._written)
        return self._written, jnp.asarray(frames[self._written - 1]), int(steps[-1]), int(steps[-1] - steps[-2])

    def append(self, frame: np.ndarray, steps: int) -> None:
        index = self._written
        with writing_errors_in_words(self._target):
            self._group["tokens"][index] = frame  # type: ignore[index]
            self._group["steps"][index] = steps  # type: ignore[index]
            self._group["checksum"][index] = _checksum(frame)  # type: ignore[index]  # last: it makes the frame count
        self._written += 1

    def finish(self, model: Dynamics, status: Status, steps: int, seconds: float) -> Trajectory:
        """Name the folder if the run is complete, and return the trajectory of the model that lies in it."""
        with writing_errors_in_words(self._target):
            self._group.attrs.update({"status": status.name, "total_steps": steps, "seconds": seconds})
        if status.complete:
            promote_folder(_partial(self._target), self._target)
        os.close(self._lock)
        folder = self._target if status.complete else _partial(self._target)
        return _read(folder, model)


def finished_run(out: str | Path, times: np.ndarray, start: Array, settings: Settings) -> Trajectory | None:
    """The run of that name, if it is this very run and complete."""
    target = Path(out)
    if not target.is_dir() or _attributes(target).get("identity") != _identity(times, np.asarray(start), settings):
        return None
    found = _read(target, settings.model)
    return found if found.status is Status.REACHED_END and len(found) == len(times) else None


def save(trajectory: Trajectory, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a trajectory to a new zarr folder."""
    target = writable_target(path, overwrite=overwrite)
    partial = _partial(target)
    if partial.exists():
        raise SphereflowError(
            f"{partial} exists already: an unfinished run lies there; remove it or choose another name."
        )
    settings = Settings(**{name: getattr(trajectory, name) for name in ("model", *_SETTINGS)})
    first = trajectory.frame(0)
    per_chunk = max(1, min(len(trajectory), _CHUNK_BYTES // max(first.nbytes, 1)))
    identity = _identity(trajectory.ts, trajectory.start, settings)
    with _removed_on_failure(partial), writing_errors_in_words(target):
        group = _create(partial, trajectory.ts, first, trajectory.x0, settings, identity, frames_per_chunk=per_chunk)
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
    return _read(path)


def _read(path: str | Path, model: Dynamics | None = None) -> Trajectory:
    """The trajectory in a folder, with its model, which is rebuilt unless it is given."""
    group = _open_group(Path(path))
    with distrusted(path, "sphereflow trajectory"):
        for name, stored in group.arrays():
            if name != "tokens":
                plausible_size(stored, name)
        meta = plain_data(str(group.attrs["run"]))
        times = np.asarray(group["t"])  # type: ignore[arg-type]
        count = int(np.sum(np.asarray(group["checksum"]) != _MISSING))  # type: ignore[arg-type]
        arrays = {name.removeprefix("model."): np.asarray(array) for name, array in group.arrays() if "model." in name}
        frames: Any = StoredFrames(group, count)
        status = Status[str(group.attrs.get("status", "INTERRUPTED"))]
        stopped = np.asarray(group["stopped_at"]) if "stopped_at" in group else None  # type: ignore[arg-type]
        x0 = np.asarray(group["x0"]) if "x0" in group else None  # type: ignore[arg-type]
        steps, seconds = int(group.attrs.get("total_steps", 0)), float(group.attrs.get("seconds", 0.0))  # type: ignore[arg-type]
        for name, array in arrays.items():
            if _checksum(array) != meta["model_checksums"].get(name):
                raise SphereflowError(f"{path} is damaged: the model's array '{name}' does not match its checksum.")
        if (None if x0 is None else _checksum(x0)) != meta["x0_checksum"]:
            raise SphereflowError(f"{path} is damaged: the tokens at t0 do not match their checksum.")
        if not count and not status.complete:
            raise SphereflowError(f"{path} is a run that was cut short before its first frame.")
        if _checksum(times) != meta["times_checksum"] or count < (len(times) if status.complete else 1):
            raise SphereflowError(f"{path} is damaged or truncated: saved times or frames are missing.")
        xs = np.asarray(frames) if np.prod(frames.shape) * 8 <= _IN_MEMORY_BYTES else frames
        return Trajectory(
            ts=times[:count],
            xs=xs,
            model=rebuild(meta["model"], arrays) if model is None else model,
            status=status,
            steps=steps,
            seconds=seconds,
            stopped_at=stopped,
            x0=x0,
            **{name: meta[name] for name in _SETTINGS if name != "seed"},
            seed=tuple(meta["seed"]) if isinstance(meta["seed"], list) else meta["seed"],  # the words of a key
        )


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


def _identity(times: np.ndarray, start: np.ndarray, settings: Settings) -> str:
    """What must agree for two runs to be the same run: all of it, and what makes it."""
    description, arrays = describe(settings.model)
    numbers = {name: digest(array) for name, array in {**arrays, "times": times, "start": start}.items()}
    plain = settings.plain() | {"versions": circumstances()}
    return json.dumps([description, numbers, plain], sort_keys=True)


def _locked(partial: Path) -> int:
    """The folder of an unfinished run, made if it is not there, with a lock that keeps other processes out."""
    partial.mkdir(exist_ok=True)
    handle = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not partial.exists() or not os.path.samestat(os.fstat(handle), os.stat(partial)):
            raise BlockingIOError  # the other process has just finished
    except BlockingIOError:
        os.close(handle)
        raise SphereflowError(f"another process is writing {partial}: wait for it, or write to another name.") from None
    return handle


def _begun(partial: Path, identity: str) -> zarr.Group | None:
    """The unfinished run in the folder; None, and the folder emptied, if it was cut short before its first frame."""
    if any(partial.iterdir()):
        known = _attributes(partial)
        if known.get("format") != FORMAT and (known or not _young(partial)):
            raise SphereflowError(f"{partial} is not an unfinished run of this release: remove it, or write elsewhere.")
        if any((partial / "checksum" / "c").glob("*")):
            if known.get("identity") != identity:
                raise SphereflowError(f"{partial} holds a different run: remove it, or write to another name.")
            return _open_group(partial)
        for entry in partial.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return None


def _attributes(folder: Path) -> dict[str, Any]:
    try:
        return dict(plain_data(file_bytes(folder / "zarr.json")).get("attributes", {}))
    except (SphereflowError, AttributeError, TypeError, ValueError):
        return {}


def _young(partial: Path) -> bool:
    """Whether a process died while it was writing the very first file here."""
    return all("zarr.json" in entry.name for entry in partial.iterdir())


def _create(
    folder: Path,
    times: np.ndarray,
    start: np.ndarray,
    x0: np.ndarray | None,
    settings: Settings,
    identity: str,
    *,
    frames_per_chunk: int,
) -> zarr.Group:
    description, arrays = describe(settings.model)
    run = settings.plain()
    run |= {"model": description, "model_checksums": {name: _checksum(a) for name, a in arrays.items()}}
    run |= {"times_checksum": _checksum(times), "x0_checksum": None if x0 is None else _checksum(x0)}
    group = zarr.open_group(
        folder, mode="w-", attributes={"format": FORMAT, "identity": identity, "run": json.dumps(run)}
    )
    _put(group, "t", times, dims=("t",))
    if x0 is not None:
        _put(group, "x0", x0)
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
