r"""The overlap of two unit vectors moved by a field with $E\langle m_1,m_2\rangle=S$ and $E|m_i|^2=P$.

$$dr=\big[(d-2+r^2)S-(d-1)rP\big]dt+\sqrt{2(1-r^2)(P-rS)}\,dB .$$

Where tokens meet both rates are differences of nearly equal numbers: `synchronisation.two_point` and
`random_transformers.equiangular` write them with the factor 1 - r taken out instead.
"""

from __future__ import annotations

from typing import TypeVar

Numbers = TypeVar("Numbers")  # arrays of NumPy or JAX, or plain numbers


def overlap_drift(r: Numbers, shared: Numbers, own: Numbers, d: float) -> Numbers:
    """(d - 2 + r^2) S - (d - 1) r P."""
    return (d - 2 + r * r) * shared - (d - 1) * r * own  # type: ignore[operator]


def overlap_variance(r: Numbers, shared: Numbers, own: Numbers) -> Numbers:
    """2 (1 - r^2) (P - r S)."""
    return 2 * (1 - r * r) * (own - r * shared)  # type: ignore[operator]
