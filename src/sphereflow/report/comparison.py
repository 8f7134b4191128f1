"""Two reports beside each other: which verdicts differ, and which numbers moved by how many of their tolerances.

It shows what a change of the code, the seed, the machine or the versions did. A row is found
again by its claim and its name; how far it moved is the larger of the moves of its measured and its predicted value, in
units of its tolerance, so that 1 is as far as an honest measurement may be off. What has no tolerance, such as a count,
is judged by the share of its value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sphereflow.errors import SphereflowError
from sphereflow.reading import file_bytes, plain_data
from sphereflow.report.results import RECORD

SAME = 1e-3  # a number that moved by less counts as the same: rounding differs between processors


class Moved(NamedTuple):
    """One row that both reports have."""

    claim: str
    row: str
    by: float
    unit: str  # "tolerance" or "value"


class Comparison(NamedTuple):
    """What differs between two reports, for the claims that both have."""

    verdicts: list[tuple[str, str, str]]  # claim, then, now
    rows: list[tuple[str, str]]  # claim, and which of its rows only one report has
    moved: list[Moved]  # the farthest first
    claims: int
    numbers: int

    def lines(self, most: int = 20) -> Iterator[str]:
        """The comparison in words, at most so many rows that moved."""
        for claim, then, now in self.verdicts:
            yield f"{claim}: {then} before, {now} now"
        for claim, row in self.rows:
            yield f"{claim}: {row}"
        far = [each for each in self.moved if each.by > SAME]
        for each in far[:most]:
            yield f"{each.claim}: '{each.row}' moved by {each.by:.2g} of its {each.unit}"
        if len(far) > most:
            yield f"and {len(far) - most} rows that moved by less"
        yield (
            f"{self.claims} claims in both reports, {len(self.verdicts)} with another verdict; of {self.numbers} rows "
            f"{self.numbers - len(far)} are the same to {SAME:g} of their tolerance or value."
        )


def compare_records(then: dict[str, Any], now: dict[str, Any]) -> Comparison:
    """The comparison of what two files results.json hold."""
    before, after = _claims(then), _claims(now)
    both = [name for name in after if name in before]
    verdicts = [(name, before[name]["verdict"], after[name]["verdict"]) for name in both]
    rows: list[tuple[str, str]] = []
    moved: list[Moved] = []
    for name in both:
        old, new = ({row["name"]: row for row in claim[name]["rows"]} for claim in (before, after))
        rows += [(name, f"'{row}' is new") for row in new if row not in old]
        rows += [(name, f"'{row}' is gone") for row in old if row not in new]
        moved += [_moved(name, old[row], new[row]) for row in new if row in old]
    moved.sort(key=lambda each: -each.by)
    return Comparison([each for each in verdicts if each[1] != each[2]], rows, moved, len(both), len(moved))


def earlier_report(path: str | Path) -> dict[str, Any]:
    """The numbers of an earlier report: its folder, or the file itself."""
    file = Path(path) / RECORD if Path(path).is_dir() else Path(path)
    if not file.exists():
        raise SphereflowError(f"there is no report at {path}.")
    try:
        report = plain_data(file_bytes(file))
        _claims(report)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SphereflowError(f"{file} holds no report: it should be the {RECORD} of an earlier `reproduce`.") from None
    return report


def _claims(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    claims = {f"{paper['paper']} {claim['id']}": claim for paper in record["papers"] for claim in paper["claims"]}
    for claim in claims.values():
        _ = claim["verdict"], [(row["name"], *map(float, _numbers(row))) for row in claim["rows"]]
    return claims


def _numbers(row: dict[str, Any]) -> tuple[Any, Any, Any]:
    return row["predicted"], row["measured"], row["tolerance"]


def _moved(claim: str, old: dict[str, Any], new: dict[str, Any]) -> Moved:
    """Equal numbers, infinite and undefined ones included, have nothing between them."""
    (*then, tolerance), (*now, _) = map(float, _numbers(old)), map(float, _numbers(new))
    gaps = [0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b) for a, b in zip(then, now, strict=True)]
    largest = max(math.inf if math.isnan(gap) else gap for gap in gaps)
    unit = tolerance if tolerance > 0 else max(map(abs, then))
    share = largest / unit if largest and unit and not math.isnan(unit) else math.inf if largest else 0.0
    return Moved(claim, new["name"], share, "tolerance" if tolerance > 0 else "value")
