r"""A check: rows of numbers that must agree, and rivals that these rows must reject.

A row agrees when $|\mathrm{measured}-\mathrm{predicted}|\le\mathrm{tolerance}$, or, for a bound, when the measured
value is on the right side of it up to the tolerance. A rival is a hypothesis that a competent person could have
believed, with what it predicts for the same rows; it loses by

$$\max_{\mathrm{rows}}\frac{|\mathrm{measured}-\mathrm{rival}|}{\mathrm{tolerance}},$$

which must exceed one. The severity of a check is that of its nearest rival. The verdict follows and nothing else:

- `holds`: every row agrees and every rival is rejected;
- `refuted`: every row agrees, every rival is rejected, and the statement as printed is among the rejected;
- `obeyed`: bounds are respected, but not so closely that every rival is rejected;
- `inconclusive`: the rows agree, and a rival survives or none was named;
- `fails`: anything else.

A prediction comes from a theorem, a closed form or an independent computation, never from the code that measures.
A tolerance comes from the mathematics (rounding, truncation, a bound) and from error bars. Where an error bar is
given, the row may be off by chance with probability `FALSE_ALARM`. Only what is counted has none: `same`, and a bound
on a whole number. A bound on anything else needs the accuracy of what was measured, so that severity is a number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sphereflow.errors import SphereflowError

Verdict = Literal["holds", "obeyed", "refuted", "inconclusive", "fails"]
VERDICTS: tuple[Verdict, ...] = ("holds", "obeyed", "refuted", "inconclusive", "fails")
Side = Literal["equal", "at most", "at least"]

# With at most a thousand rows that carry error bars, the whole quick preset gives a false alarm in 1 % of its seeds.
FALSE_ALARM = 1e-5


@dataclass(frozen=True)
class Row:
    """One comparison. `predicted` is the bound where `side` is not "equal"; `false_alarm` is zero without chance."""

    name: str
    predicted: float
    measured: float
    tolerance: float
    because: str
    side: Side = "equal"
    false_alarm: float = 0.0

    def excess(self, predicted: float | None = None, measured: float | None = None) -> float:
        """By how many tolerances a measured value misses a prediction: above 1 they disagree, NaN always does."""
        target = self.predicted if predicted is None else predicted
        value = self.measured if measured is None else measured
        if math.isnan(target) or math.isnan(value) or (math.isinf(value) and self.side == "equal"):
            return math.inf
        gap = {"equal": abs(value - target), "at most": value - target, "at least": target - value}[self.side]
        if not gap > 0:  # on the right side of a bound
            return 0.0
        return gap / self.tolerance if self.tolerance > 0 else math.inf


@dataclass(frozen=True)
class Rival:
    """A hypothesis that these data must reject: other predictions, or other data (`of_data`) for some rows."""

    name: str
    values: Mapping[str, float]
    of_data: bool = False
    as_printed: bool = False


@dataclass
class Check:
    """Rows and rivals of one claim, filled by the claim's function.

    ```python
    check = Check(parameters={"n": 4})
    check.row("rate", predicted=2.0, measured=2.001, tolerance=0.01, because="second-order time step")
    check.rival("without the factor 1/2", {"rate": 4.0})
    ```
    """

    note: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)

    def row(
        self,
        name: str,
        *,
        predicted: ArrayLike,
        measured: ArrayLike,
        tolerance: ArrayLike | None = None,
        relative: float | None = None,
        error: ArrayLike | None = None,
        repeats: int | None = None,
        because: str,
    ) -> None:
        """Two numbers that agree within `tolerance` (or within `relative` times the prediction), to which
        a standard `error` of so many independent `repeats` adds its margin."""
        self._add(name, "equal", predicted, measured, tolerance, relative, error, repeats, because)

    def at_most(
        self,
        name: str,
        *,
        bound: ArrayLike,
        measured: ArrayLike,
        tolerance: ArrayLike | None = None,
        relative: float | None = None,
        error: ArrayLike | None = None,
        repeats: int | None = None,
        because: str,
    ) -> None:
        """A number that does not exceed a bound, up to its accuracy; only a count (an int) needs none."""
        self._add(name, "at most", bound, measured, tolerance, relative, error, repeats, because)

    def at_least(
        self,
        name: str,
        *,
        bound: ArrayLike,
        measured: ArrayLike,
        tolerance: ArrayLike | None = None,
        relative: float | None = None,
        error: ArrayLike | None = None,
        repeats: int | None = None,
        because: str,
    ) -> None:
        """A number that does not fall below a bound, up to its accuracy; only a count (an int) needs none."""
        self._add(name, "at least", bound, measured, tolerance, relative, error, repeats, because)

    def positive(
        self,
        name: str,
        *,
        measured: ArrayLike,
        tolerance: ArrayLike | None = None,
        error: ArrayLike | None = None,
        repeats: int | None = None,
        because: str,
    ) -> None:
        """A number that is positive beyond its accuracy: the row would reject its opposite, which is a rival."""
        self.at_least(
            name, bound=0.0, measured=measured, tolerance=tolerance, error=error, repeats=repeats, because=because
        )
        self.null(f"{name}: the other way round", {name: -_number(name, "measured", measured)})

    def series(
        self,
        names: Iterable[object],
        *,
        predicted: ArrayLike,
        measured: ArrayLike,
        tolerance: ArrayLike | None = None,
        relative: float | None = None,
        error: ArrayLike | None = None,
        repeats: int | None = None,
        because: str,
    ) -> None:
        """One row per name, from arrays of that length (numbers stand for every row)."""
        labels = [str(name) for name in names]
        given = {"predicted": predicted, "measured": measured, "tolerance": tolerance, "error": error}
        columns = {key: _column(key, value, len(labels)) for key, value in given.items()}
        for place, name in enumerate(labels):
            each = {key: None if column is None else column[place] for key, column in columns.items()}
            self.row(name, **each, relative=relative, repeats=repeats, because=because)  # type: ignore[arg-type]

    def same(self, name: str, *, predicted: float, measured: float, because: str = "a count") -> None:
        """Two numbers that are equal: counts, flags, values fixed by a definition."""
        self.row(name, predicted=predicted, measured=measured, tolerance=0.0, because=because)

    def rival(self, name: str, predicted: Mapping[str, float] | ArrayLike) -> None:
        """What a plausible wrong hypothesis predicts: by row name, one value per row, or one for every row."""
        self.rivals.append(Rival(name, self._by_row(name, predicted)))

    def null(self, name: str, measured: Mapping[str, float] | ArrayLike) -> None:
        """What the same measurement gives on data for which the statement is false: shuffled, friction off."""
        self.rivals.append(Rival(name, self._by_row(name, measured), of_data=True))

    def printed(self, predicted: Mapping[str, float] | ArrayLike, name: str = "as printed") -> None:
        """What the paper prints, where the mathematics contradicts it: the rows must reject it."""
        self.rivals.append(Rival(name, self._by_row(name, predicted), as_printed=True))

    def times(self, factor: float, rows: Sequence[str] | None = None) -> dict[str, float]:
        """The predictions of these rows (all by default) times a factor: the values of a rival."""
        return {row.name: factor * row.predicted for row in self.rows if rows is None or row.name in rows}

    def excess(self, rival: Rival | None = None) -> float:
        """The largest miss over the rows, in tolerances: of the predictions, or of a rival."""
        if rival is None:
            return max((row.excess() for row in self.rows), default=math.inf)
        role = "measured" if rival.of_data else "predicted"
        named = [(row, rival.values[row.name]) for row in self.rows if row.name in rival.values]
        return max((row.excess(**{role: value}) for row, value in named), default=0.0)

    @property
    def nearest(self) -> Rival | None:
        """The rival that loses by least."""
        return min(self.rivals, key=self.excess, default=None)

    @property
    def severity(self) -> float | None:
        """By how many tolerances the nearest rival loses, infinite if a count contradicts it; None without rivals."""
        return None if self.nearest is None else self.excess(self.nearest)

    @property
    def false_alarm(self) -> float:
        """The probability, at most, that chance alone makes a row disagree."""
        return sum(row.false_alarm for row in self.rows)

    @property
    def verdict(self) -> Verdict:
        if self.excess() > 1:
            return "fails"
        severity = self.severity
        if severity is None or not severity > 1:
            return "inconclusive" if any(row.side == "equal" for row in self.rows) else "obeyed"
        return "refuted" if any(rival.as_printed for rival in self.rivals) else "holds"

    def _add(
        self,
        name: str,
        side: Side,
        predicted: ArrayLike,
        measured: ArrayLike,
        tolerance: ArrayLike | None,
        relative: float | None,
        error: ArrayLike | None,
        repeats: int | None,
        because: str,
    ) -> None:
        if any(row.name == name for row in self.rows):
            raise SphereflowError(f"two rows of a check are named '{name}'.")
        if relative is not None and not relative >= 0:
            raise SphereflowError(f"the relative tolerance of the row '{name}' must not be negative, got {relative}.")
        if tolerance is not None and relative is not None:
            raise SphereflowError(f"the row '{name}' has both an absolute and a relative tolerance: give one.")
        if side == "equal" and tolerance is None and relative is None and error is None:
            raise SphereflowError(f"the row '{name}' has no tolerance: give tolerance, relative or error.")
        if not because:
            raise SphereflowError(f"the row '{name}' does not say why its tolerance is what it is.")
        target, value = _number(name, "predicted", predicted), _number(name, "measured", measured)
        width = abs(relative * target) if relative is not None else _number(name, "tolerance", tolerance or 0.0)
        if side != "equal" and error is None and width == 0 and np.asarray(measured).dtype.kind not in "biu":
            raise SphereflowError(
                f"the bound '{name}' is on a number that is not counted: say how accurately it is measured "
                "(tolerance, relative or error). A count is an int and needs none."
            )
        alarm = 0.0
        if error is not None:
            alarm, spread = FALSE_ALARM, _number(name, "error", error)
            width += spread * margin(repeats)
        if not (math.isfinite(width) and width >= 0):
            raise SphereflowError(f"the tolerance of the row '{name}' must be finite and not negative, got {width}.")
        self.rows.append(Row(name, target, value, width, because, side, alarm))

    def _by_row(self, rival: str, values: Mapping[str, float] | ArrayLike) -> dict[str, float]:
        names = [row.name for row in self.rows]
        if not names:
            raise SphereflowError(f"the rival '{rival}' comes before the rows that it is about.")
        if any(each.name == rival for each in self.rivals):
            raise SphereflowError(f"two rivals of a check are named '{rival}'.")
        if not isinstance(values, Mapping):
            column = np.ravel(np.asarray(values, dtype=float))
            if column.size not in (1, len(names)):
                raise SphereflowError(f"the rival '{rival}' has {column.size} values for {len(names)} rows.")
            values = dict(zip(names, np.broadcast_to(column, len(names)).tolist(), strict=True))
        if unknown := [name for name in values if name not in names]:
            raise SphereflowError(f"the rival '{rival}' is about '{unknown[0]}', which is not a row of the check.")
        if not values:
            raise SphereflowError(f"the rival '{rival}' predicts nothing.")
        numbers = {name: _number(name, "rival", value) for name, value in values.items()}
        # A slip in a rival would otherwise be a rival that loses: NaN agrees with nothing.
        if broken := [name for name, value in numbers.items() if math.isnan(value)]:
            raise SphereflowError(f"the rival '{rival}' has no number for the row '{broken[0]}': it is NaN.")
        return numbers


def margin(repeats: int | None = None) -> float:
    """How many standard errors a mean of so many repeats may be off, by Student's law (the normal one if None)."""
    if repeats is None:
        return float(-special.ndtri(FALSE_ALARM / 2))
    if repeats < 2:
        raise SphereflowError(f"an error bar needs at least 2 repeats, got {repeats}.")
    return float(-special.stdtrit(repeats - 1, FALSE_ALARM / 2))


def _number(name: str, role: str, value: ArrayLike) -> float:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise SphereflowError(f"{role} of the row '{name}' must be a number, got {value!r}.") from None
    if array.size != 1:
        raise SphereflowError(f"the row '{name}' compares single numbers; {role} has shape {array.shape}.")
    return float(array.reshape(()))


def _column(name: str, value: ArrayLike | None, length: int) -> list[float] | None:
    if value is None:
        return None
    column = np.ravel(np.asarray(value, dtype=float))
    if column.size not in (1, length):
        raise SphereflowError(f"{name} has {column.size} values for {length} rows.")
    return [float(each) for each in np.broadcast_to(column, length)]
