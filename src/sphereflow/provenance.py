"""Which versions made a result (stored inside every result and report), and whether it is the one asked for.

A run that continues from a file must end where a fresh one would. So the file keeps everything that decides its digits,
and any difference is refused in one sentence: every argument, the content of every input by its digest, and the
circumstances (packages, random streams, precision, device).
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError

# Where the library's source lies.
HOME = Path(__file__).parent

PACKAGES = (
    "sphereflow",
    "jax",
    "jaxlib",
    "diffrax",
    "equinox",
    "optax",
    "numpy",
    "scipy",
    "xarray",
    "zarr",
    "matplotlib",
)
# These decide digits; the others draw and store.
COMPUTING = ("sphereflow", "jax", "jaxlib", "diffrax", "equinox", "optax", "numpy", "scipy")
_SETTINGS = ("jax_default_prng_impl", "jax_threefry_partitionable", "jax_enable_x64", "jax_default_matmul_precision")
EXTRAS = {
    "ot": ("POT",),
    "fast": ("jax-finufft",),
    "llm": ("torch", "transformers"),
    "sweep": ("distributed",),
    "explore": ("nicegui",),
    "movie": ("imageio-ffmpeg",),
}


def version(package: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Python and every core package with its version."""
    return dict(_versions())


@functools.cache  # reading the metadata of a dozen packages takes longer than a short run
def _versions() -> dict[str, str]:
    numbers = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | {name: number for name, number in numbers.items() if number}


def extras() -> dict[str, bool]:
    """Which optional parts are installed."""
    return {extra: all(version(package) for package in needed) for extra, needed in EXTRAS.items()}


def circumstances() -> dict[str, str]:
    """What decides the digits of a result beside its arguments: packages, settings of JAX, kind of device."""
    import jax

    versions = {name: str(version(name)) for name in COMPUTING}
    return versions | {name: str(getattr(jax.config, name)) for name in _SETTINGS} | {"device": jax.default_backend()}


def digest(*arrays: Any) -> str:
    """A short name for the shapes, types and numbers of some arrays."""
    hashed = hashlib.sha256()
    for array in map(np.asarray, arrays):
        hashed.update(f"{array.shape} {array.dtype.str};".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return f"sha256:{hashed.hexdigest()[:32]}"


def same_request(path: str | Path, stored: Any, asked: dict[str, Any]) -> None:
    """Refuse to continue a file that was made by another request, and say what differs."""
    if not isinstance(stored, dict):
        raise SphereflowError(f"{path} does not say what it was made with; choose another name.")
    plain = json.loads(json.dumps(asked))
    for name in {**plain, **stored}:
        before, now = (side.get(name, "unknown") for side in (stored, plain))
        if before != now:
            raise SphereflowError(f"{path} was made with {name} = {before}, now {now}; choose another name.")
