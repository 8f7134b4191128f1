"""The one family of errors a user meets, and the small checks that raise them."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


class SphereflowError(ValueError):
    """A request that cannot be served; the message is one sentence for the user.

    The command line prints the sentence and leaves with exit code 2.
    """


class MissingExtra(SphereflowError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs the package '{package}': install it with pip install 'sphereflow[{extra}]'.")


# What fits into 64 bits: beyond it no array index, no seed and no counter can be.
_LARGEST = 2**63 - 1


def whole_number(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """Return `value` as an int in [least, most], or say what was wrong with it."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if is_whole and value > _LARGEST and most is None:
        most = _LARGEST
    allowed = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    if not is_whole or value < least or (most is not None and value > most):
        raise SphereflowError(f"{name} must be {allowed}, got {value!r}.")
    return int(value)


def real_number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> float:
    """Return `value` as a finite float with least <= value <= most and value > above."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < least or number <= above or number > most:
        bounds = []
        if above > -math.inf:
            bounds.append(f"above {above:g}")
        if least > -math.inf:
            bounds.append(f"at least {least:g}")
        if most < math.inf:
            bounds.append(f"at most {most:g}")
        allowed = "a finite number" + (" " + " and ".join(bounds) if bounds else "")
        raise SphereflowError(f"{name} must be {allowed}, got {value!r}.")
    return number


def one_of(name: str, value: object, allowed: tuple[str, ...] | list[str]) -> str:
    """Return `value` if it is one of the allowed words, or list them."""
    if value not in allowed:
        raise SphereflowError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    return str(value)


def ending_in(name: str, path: str | Path, endings: tuple[str, ...]) -> Path:
    """Return `path` if its suffix is one of these, in any case, or list them."""
    if Path(path).suffix.lower() not in endings:
        raise SphereflowError(f"{name} must end in {' or '.join(endings)}, got {str(path)!r}.")
    return Path(path)


# Bytes for which nobody is asked: reading what is free takes longer than a small computation.
_ALWAYS_FREE = 2**24


def enough_memory(needed: float, purpose: str, advice: str = "") -> None:
    """Refuse, before any of it is spent, what needs more bytes than can be had."""
    if needed < _ALWAYS_FREE:
        return
    free = free_memory()
    if needed > free:
        hint = f"; {advice}" if advice else ""
        raise SphereflowError(
            f"{purpose} needs about {needed / 2**30:.3g} GiB of memory, but {free / 2**30:.1f} GiB are free{hint}."
        )


def free_memory() -> float:
    """Bytes that can be had without swapping; no limit where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":") for line in lines)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def writable_target(path: str | Path, *, overwrite: bool = False) -> Path:
    """Check, before any work is done, that a result can be written at `path`."""
    target = Path(path)
    parent = target.parent
    try:
        if not parent.is_dir():
            trouble = "is not a folder" if parent.exists() else "does not exist"
            raise SphereflowError(f"cannot write {target}: the folder {parent} {trouble}.")
        if target.exists() and not (target.is_file() or target.is_dir()):
            raise SphereflowError(f"cannot write {target}: it is neither a file nor a folder.")
        if target.exists() and not overwrite:
            raise SphereflowError(f"cannot write {target}: it exists already; choose another name or ask to overwrite.")
        handle, probe = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".probe", dir=parent)
        os.close(handle)
        os.unlink(probe)
    except OSError as error:
        raise SphereflowError(f"cannot write {target}: {error.strerror or error}.") from None
    return target
