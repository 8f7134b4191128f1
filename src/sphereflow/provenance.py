"""Which versions made a result: stored inside every result and report."""

from __future__ import annotations

import functools
import platform
from importlib import metadata

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
EXTRAS = {
    "ot": ("POT",),
    "fast": ("jax-finufft",),
    "llm": ("torch", "transformers"),
    "sweep": ("distributed",),
    "explore": ("nicegui",),
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
    found = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | {name: number for name, number in found.items() if number}


def extras() -> dict[str, bool]:
    """Which optional parts are installed."""
    return {extra: all(version(package) for package in needed) for extra, needed in EXTRAS.items()}
