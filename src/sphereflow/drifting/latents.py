r"""Two domains from files: rows of numbers, images, or latents with ages, as the translation experiments store them.

Accepted: `.npy` (an array (n, D)); `.npz` with `latents` (n, D) and, to split domains, `age` (n,): adults are 18 or
older, children younger, -1 means unknown and is dropped; idx files of images (`.gz` or not), with `labels` beside.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.reading import file_array, file_bytes, packed_arrays

ADULT_FROM = 18
_LARGEST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Projection:
    r"""Principal components of both domains together: $z=(x-m)W/s$, and back $x\approx m+s\,zW^\top$.

    One scale for all components, so that distances in the latent space are distances in the span of the components.
    """

    mean: Float[np.ndarray, " P"]
    basis: Float[np.ndarray, "P D"]
    scale: float

    def encode(self, x: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n D"]:
        return (x - self.mean) @ self.basis / self.scale

    def decode(self, z: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n P"]:
        return self.mean + self.scale * z @ self.basis.T


def principal_components(x: Float[np.ndarray, "n P"], d: int) -> Projection:
    """The leading components of a sample, scaled to unit mean variance."""
    d = whole_number("d", d, most=min(x.shape))
    mean = x.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(x, rowvar=False))
    basis = vectors[:, ::-1][:, :d]
    return Projection(mean, basis, float(np.sqrt(values[::-1][:d].mean())))


def read_rows(path: str | Path) -> Float[np.ndarray, "n D"]:
    """Rows of numbers from .npy, .npz (`latents`) or idx images, which become rows in [0, 1]."""
    file = Path(path)
    if file.suffix == ".npy":
        return _rows(_loaded(file), file)
    if file.suffix == ".npz":
        return _rows(_member(_loaded(file), "latents", file), file)
    images = read_idx(file)
    return _rows(images.reshape(len(images), -1) / 255.0, file)


def read_ages(path: str | Path) -> tuple[Float[np.ndarray, "a D"], Float[np.ndarray, "c D"]]:
    """Adults and children of an .npz file with `latents` and `age`."""
    file = Path(path)
    table = _loaded(file)
    latents, age = _rows(_member(table, "latents", file), file), np.asarray(_member(table, "age", file))
    if age.shape != (len(latents),):
        raise SphereflowError(f"{file}: every latent needs its age; there are {len(latents)} and {age.size}.")
    adults, children = latents[age >= ADULT_FROM], latents[(age >= 0) & (age < ADULT_FROM)]
    if min(len(adults), len(children)) < 2:
        raise SphereflowError(f"{file} has {len(adults)} adults and {len(children)} children: too few to translate.")
    return adults, children


def read_idx(path: str | Path) -> Int[np.ndarray, "n ..."]:
    """The idx format of MNIST and its relatives: a magic number, the sizes, and bytes."""
    file = Path(path)
    try:
        with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as stream:
            zeros, kind, dimensions = struct.unpack(">HBB", stream.read(4))
            if zeros != 0 or kind != 8 or not 1 <= dimensions <= 4:
                raise SphereflowError(f"{file} is not an idx file of bytes.")
            sizes = struct.unpack(f">{dimensions}I", stream.read(4 * dimensions))
            wanted = int(np.prod(sizes, dtype=object))
            if wanted > _LARGEST_BYTES:
                raise SphereflowError(f"{file} says that it holds {wanted:,} bytes: too many.")
            content = stream.read(wanted)
    except FileNotFoundError:
        raise SphereflowError(f"there is no file {file}.") from None
    except (OSError, struct.error, EOFError, zlib.error):
        raise SphereflowError(f"cannot read {file}: it is damaged or not an idx file.") from None
    if len(content) != wanted:
        raise SphereflowError(f"{file} is cut short: {len(content):,} of {wanted:,} bytes.")
    return np.frombuffer(content, np.uint8).reshape(sizes).astype(int)


def _loaded(file: Path) -> np.ndarray | dict[str, np.ndarray]:
    try:
        return packed_arrays(file_bytes(file)) if file.suffix == ".npz" else file_array(file)
    except SphereflowError:
        raise
    except ValueError:
        raise SphereflowError(f"cannot read {file}: it is damaged or not made by numpy.save.") from None


def _member(table: np.ndarray | dict[str, np.ndarray], name: str, file: Path) -> np.ndarray:
    if not isinstance(table, dict) or name not in table:
        raise SphereflowError(f"{file} has no array '{name}'.")
    return table[name]


def _rows(table: np.ndarray | dict[str, np.ndarray], file: Path) -> np.ndarray:
    if isinstance(table, dict) or table.ndim != 2 or len(table) < 2 or table.dtype.kind not in "fiu":
        raise SphereflowError(f"{file} must hold rows of numbers, an array (n, D) with at least two rows.")
    rows = np.asarray(table, float)
    if not np.isfinite(rows).all():
        raise SphereflowError(f"{file} has entries that are not finite.")
    return rows
