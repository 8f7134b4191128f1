r"""A measurement without rivals: the form of claims that have not been rebuilt as a `Check` yet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sphereflow.claims.check import Check, Verdict
from sphereflow.errors import SphereflowError


@dataclass(frozen=True)
class Measurement:
    """What a claim's function returns: numbers to compare, and why they may differ by as much as the tolerance.

    For a one-sided statement, `measured` is a violation (zero when the statement is obeyed), `predicted` is zero.
    `printed` is what the paper prints, given only where the mathematics contradicts it.
    `parameters` are the sizes and constants the measurement used (n, d, beta, ...), shown beside it.
    """

    predicted: ArrayLike
    measured: ArrayLike
    tolerance: ArrayLike
    because: str
    labels: tuple[str, ...] = ()
    printed: ArrayLike | None = None
    note: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def excess(self, reference: ArrayLike | None = None) -> float:
        """Largest |measured - reference| / tolerance over the entries; above 1 means disagreement, NaN disagrees."""
        target = np.asarray(self.predicted if reference is None else reference, dtype=float)
        measured = np.asarray(self.measured, dtype=float)
        tolerance = np.asarray(self.tolerance, dtype=float)
        if not np.all(tolerance >= 0) or not np.all(np.isfinite(tolerance)):
            raise SphereflowError("a claim's tolerance must be finite and not negative.")
        with np.errstate(invalid="ignore"):
            deviation = np.abs(measured - target)
        if deviation.size == 0 or deviation.shape not in (measured.shape, target.shape):
            raise SphereflowError(
                f"a claim compares numbers one by one: {measured.shape} measured against {target.shape} predicted."
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(deviation == 0, 0.0, deviation / tolerance)
        return math.inf if np.isnan(deviation).any() else float(np.max(ratio))

    @property
    def verdict(self) -> Verdict:
        if self.excess() > 1:
            return "fails"
        if self.printed is None:
            return "holds"
        return "refuted" if self.excess(self.printed) > 1 else "fails"

    def check(self) -> Check:
        """The same comparisons as rows of a check, without rivals."""
        given = [self.predicted, self.measured, self.tolerance]
        columns = np.broadcast_arrays(*[np.asarray(array, dtype=float) for array in given])
        names = list(self.labels) if len(self.labels) == columns[0].size else _positions(columns[0].shape)
        check = Check(self.note, dict(self.parameters))
        predicted, measured, tolerance = (np.ravel(column) for column in columns)
        names = [f"{name} ({k + 1})" if names.count(name) > 1 else name for k, name in enumerate(names)]
        check.series(
            names, predicted=predicted, measured=measured, tolerance=tolerance, because=self.because or "not stated"
        )
        if self.printed is not None:
            check.printed(np.broadcast_to(np.asarray(self.printed, float), columns[0].shape))
        return check


def _positions(shape: tuple[int, ...]) -> list[str]:
    return [", ".join(str(i + 1) for i in place) or "value" for place in np.ndindex(*shape)]


def agreement(
    predicted: ArrayLike,
    measured: ArrayLike,
    *,
    absolute: ArrayLike | None = None,
    relative: ArrayLike | None = None,
    because: str,
    labels: tuple[str, ...] = (),
    printed: ArrayLike | None = None,
    note: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Measurement:
    """Two-sided comparison with an absolute or a relative tolerance (give exactly one)."""
    if (absolute is None) == (relative is None):
        raise SphereflowError("give either an absolute or a relative tolerance.")
    tolerance = absolute if relative is None else np.asarray(relative) * np.abs(np.asarray(predicted, dtype=float))
    assert tolerance is not None
    return Measurement(predicted, measured, tolerance, because, labels, printed, note, parameters or {})


def at_most(
    bound: ArrayLike,
    value: ArrayLike,
    *,
    slack: ArrayLike = 0.0,
    because: str,
    labels: tuple[str, ...] = (),
    note: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Measurement:
    """value <= bound: the measured number is the violation max(value - bound, 0), to be compared with zero."""
    gap = np.asarray(value, dtype=float) - np.asarray(bound, dtype=float)
    told = f"value {_brief(value)} against the bound {_brief(bound)}"
    violation = np.where(np.isnan(gap), np.nan, np.maximum(gap, 0.0))
    return Measurement(
        np.zeros_like(gap),
        violation,
        np.broadcast_to(slack, gap.shape),
        because,
        labels,
        note=f"{told}. {note}".strip(),
        parameters=parameters or {},
    )


def at_least(
    bound: ArrayLike,
    value: ArrayLike,
    *,
    slack: ArrayLike = 0.0,
    because: str,
    labels: tuple[str, ...] = (),
    note: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Measurement:
    """value >= bound, as the mirror image of `at_most`."""
    mirrored = at_most(
        -np.asarray(bound, float), -np.asarray(value, float), slack=slack, because=because, labels=labels
    )
    told = f"value {_brief(value)} against the bound {_brief(bound)}"
    return Measurement(
        mirrored.predicted,
        mirrored.measured,
        mirrored.tolerance,
        because,
        labels,
        note=f"{told}. {note}".strip(),
        parameters=parameters or {},
    )


def _brief(value: ArrayLike) -> str:
    flat = np.ravel(np.asarray(value, dtype=float))
    shown = ", ".join(f"{v:.6g}" for v in flat[:4])
    return shown + (", ..." if flat.size > 4 else "")
