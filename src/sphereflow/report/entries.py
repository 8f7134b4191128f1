"""The numbers of a measurement entry by entry, written with as many digits as the tolerance makes meaningful."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sphereflow.claims import Measurement

_FEWEST_DIGITS, _MOST_DIGITS = 4, 12


@dataclass(frozen=True)
class Entry:
    """One comparison, as text; `used` is the part of the tolerance that the deviation uses up."""

    label: str
    predicted: str
    measured: str
    tolerance: str
    printed: str
    used: float


def entries(measurement: Measurement, most_digits: int = _MOST_DIGITS) -> list[Entry]:
    """All comparisons of a measurement, in order, with at most so many significant digits."""
    given = [measurement.predicted, measurement.measured, measurement.tolerance]
    if measurement.printed is not None:
        given.append(measurement.printed)
    arrays = np.broadcast_arrays(*[np.asarray(array, dtype=float) for array in given])
    names = _labels(measurement.labels, arrays[0].shape)
    rows = zip(names, *[array.ravel().tolist() for array in arrays], strict=True)
    return [_entry(most_digits, *row) for row in rows]


def worst(rows: list[Entry]) -> Entry:
    """The comparison that uses up most of its tolerance."""
    return max(rows, key=lambda row: row.used)


def number(value: float, digits: int = _FEWEST_DIGITS) -> str:
    """A number with this many significant digits: '0.3333', '12', '1.5e-09', 'nan'."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 10 ** max(digits, 6):
        return str(int(value))
    text = f"{value:.{digits}g}" if abs(value) >= 1e-3 else f"{value:.{digits - 1}e}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def _entry(
    most_digits: int, label: str, predicted: float, measured: float, tolerance: float, printed: float | None = None
) -> Entry:
    deviation = abs(measured - predicted)
    if deviation == 0:
        used = 0.0
    elif math.isnan(deviation) or tolerance == 0:
        used = math.inf
    else:
        used = deviation / tolerance
    digits = min(_digits(predicted, tolerance), most_digits)
    return Entry(
        label=label,
        predicted=number(predicted, digits),
        measured=number(measured, digits),
        tolerance=number(tolerance, 2),
        printed="" if printed is None else number(printed, digits),
        used=used,
    )


def _digits(value: float, tolerance: float) -> int:
    """Enough significant digits of a value to see a deviation of a tenth of the tolerance."""
    if tolerance == 0 or value == 0 or not math.isfinite(value):
        return _FEWEST_DIGITS
    needed = math.ceil(math.log10(abs(value) / tolerance)) + 1
    return min(max(needed, _FEWEST_DIGITS), _MOST_DIGITS)


def _labels(labels: tuple[str, ...], shape: tuple[int, ...]) -> list[str]:
    """The labels given if there is one for each entry, or for each row; otherwise positions counted from 1."""
    size = math.prod(shape)
    if len(labels) == size:
        return list(labels)
    if size == 1:
        return [""]
    places = [", ".join(str(i + 1) for i in place) for place in np.ndindex(*shape)]
    if labels and len(labels) == shape[0]:
        rest = [", ".join(str(i + 1) for i in place[1:]) for place in np.ndindex(*shape)]
        return [f"{labels[place[0]]}, {tail}" for place, tail in zip(np.ndindex(*shape), rest, strict=True)]
    return places
