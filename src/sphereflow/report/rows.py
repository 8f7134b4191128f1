"""The numbers of a check row by row, written with as many digits as the tolerance makes meaningful."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sphereflow.claims import Check, Rival, Row

_FEWEST_DIGITS, _MOST_DIGITS = 4, 12


@dataclass(frozen=True)
class ShownRow:
    """One row, as text; `used` is the part of the tolerance that the deviation uses up."""

    name: str
    side: str
    predicted: str
    measured: str
    tolerance: str
    rivals: tuple[str, ...]
    used: float


def rows_of(check: Check, most_digits: int = _MOST_DIGITS) -> list[ShownRow]:
    """All rows of a check, in order, with at most so many significant digits."""
    return [_shown(row, check.rivals, most_digits) for row in check.rows]


def worst(rows: list[ShownRow]) -> ShownRow:
    """The row that uses up most of its tolerance."""
    return max(rows, key=lambda row: row.used)


def miss(excess: float) -> str:
    """By how much a rival loses, in words."""
    if math.isinf(excess):
        return "where no deviation is allowed"
    return f"by {number(excess, 2)} tolerances"


def severity(check: Check | None) -> str:
    """By how many tolerances the nearest rival loses, for a narrow column: '3.4', or '' without rivals.

    Where every rival contradicts a count, or another value that may not deviate, there is no such number: 'exact'.
    """
    if check is None or check.severity is None:
        return ""
    return "exact" if math.isinf(check.severity) else number(check.severity, 2)


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


def _shown(row: Row, rivals: list[Rival], most_digits: int) -> ShownRow:
    digits = min(_digits(row.predicted, row.tolerance), most_digits)
    return ShownRow(
        name=row.name,
        side={"equal": "", "at most": "≤ ", "at least": "≥ "}[row.side],
        predicted=number(row.predicted, digits),
        measured=number(row.measured, digits),
        tolerance=number(row.tolerance, 2),
        rivals=tuple(number(rival.values[row.name], digits) if row.name in rival.values else "" for rival in rivals),
        used=row.excess(),
    )


def _digits(value: float, tolerance: float) -> int:
    """Enough significant digits of a value to see a deviation of a tenth of the tolerance."""
    if tolerance == 0 or value == 0 or not math.isfinite(value):
        return _FEWEST_DIGITS
    needed = math.ceil(math.log10(abs(value) / tolerance)) + 1
    return min(max(needed, _FEWEST_DIGITS), _MOST_DIGITS)
