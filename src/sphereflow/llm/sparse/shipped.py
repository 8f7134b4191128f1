"""Curves of excess loss against keys kept that come with the package: real models, so that no torch is needed."""

from __future__ import annotations

import functools

from sphereflow.llm.shipped_files import opened, shipped_names
from sphereflow.llm.sparse.comparison import SparsityComparison


def sparsity_curves() -> tuple[str, ...]:
    """The names of the comparisons that come with the package: model and texts."""
    return shipped_names("sparsity")


@functools.cache
def sparsity_curve(name: str = "smollm2-help") -> SparsityComparison:
    """A comparison that comes with the package, as `compare_sparsity` returned it; read once, not to be written to."""
    return opened(name, sparsity_curves(), SparsityComparison, "sparsity")
