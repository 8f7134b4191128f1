"""Curves of excess loss against keys kept that come with the package: real models, so that no torch is needed."""

from __future__ import annotations

import functools
from pathlib import Path

from sphereflow.errors import SphereflowError, one_of
from sphereflow.llm.sparse.comparison import SparsityComparison
from sphereflow.reading import file_bytes, packed_arrays
from sphereflow.results import SUFFIX, read_result

# Beside the recordings of heads, in a folder of their own.
_FOLDER = Path(__file__).parent.parent / "recordings" / "sparsity"


def sparsity_curves() -> tuple[str, ...]:
    """The names of the comparisons that come with the package: model and texts."""
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{SUFFIX}")))


@functools.cache
def sparsity_curve(name: str = "smollm2-help") -> SparsityComparison:
    """A comparison that comes with the package, as `compare_sparsity` returned it; read once, not to be written to."""
    one_of("the curve", name, sparsity_curves())
    path = _FOLDER / f"{name}{SUFFIX}"
    arrays = packed_arrays(file_bytes(path))
    for array in arrays.values():
        array.flags.writeable = False
    found = read_result(path, arrays)
    if not isinstance(found, SparsityComparison):
        raise SphereflowError(f"{path} holds {type(found).__name__}, not a comparison of rules.")
    return found
