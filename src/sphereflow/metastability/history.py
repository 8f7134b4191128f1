r"""The history of a run to the single cluster: who merged with whom, when, and the energy in between.

Times are logarithms, because they pass $e^{700}$, the largest double. The energy is the normalised one,
$2\beta E_\beta=\sum_{kl}\alpha_k\alpha_le^{\beta(\langle x_k,x_l\rangle-1)}$, which rests on plateaus
$\sum_q\alpha_q^2$ (up to the force between clusters) and ends at 1.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.reading import brief, file_bytes, plain_data, real_array
from sphereflow.results import Result, Variables, plain
from sphereflow.seeds import Record
from sphereflow.shapes import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMAT = "sphereflow merge history 1"
CURVE = ("log_t", "energy", "clock", "length", "count")


class Outcome(enum.Enum):
    """How a run to the single cluster ended; the value is the sentence shown to the user."""

    ONE_CLUSTER = "All tokens are in one cluster."
    SADDLE = "The clusters balance each other exactly and stay for ever: give perturb=1e-6 to leave the symmetry."
    STATIONARY = "The perceptron holds the clusters where they are: the field vanishes with more than one cluster."
    TIME_LIMIT = "The time limit was reached before the field vanished."
    INTERRUPTED = "The run was interrupted; the merges up to then are kept."

    @property
    def complete(self) -> bool:
        return self is not Outcome.INTERRUPTED


@dataclasses.dataclass(frozen=True)
class Merge:
    """One merger.

    `left` and `right` are nodes of the merge tree (tokens are 0..n-1, later clusters n, n+1, ...), `node` the new one;
    `gap` the angle between the two when the plateau before began; `energy_before` the energy then, `energy_after` the
    one after gluing; `clock` and `length` the rescaled time and the path length so far; `error` an estimate of the
    error of `log_time` (NaN if none was made); `resolved` whether the looser run met in the same order; `way` how the
    leg was followed: "time", "arclength" or "pair".
    """

    log_time: float
    left: int
    right: int
    node: int
    mass_left: float
    mass_right: float
    gap: float
    position: tuple[float, ...]
    energy_before: float
    energy_after: float
    clock: float
    length: float
    error: float
    resolved: bool
    way: str


@dataclasses.dataclass(frozen=True)
class Plateau:
    """Between two mergers: from `log_start` to `log_end` the energy rests at `level`, the sum of squared masses."""

    log_start: float
    log_end: float
    level: float
    count: int


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class MergeHistory(Result):
    """All mergers in order, the energy curve, and everything needed to make the run again.

    `curve` has the columns log_t, energy, clock, length, count, a row per step of the solver.
    """

    kind: str
    beta: float
    n: int
    d: int
    merges: tuple[Merge, ...]
    curve: np.ndarray
    masses: np.ndarray
    final: np.ndarray
    outcome: Outcome
    tol: float
    radius: float
    seconds: float = dataclasses.field(compare=False)

    def __len__(self) -> int:
        return len(self.merges)

    @property
    def log_times(self) -> np.ndarray:
        """log t of every merger, increasing."""
        return np.array([m.log_time for m in self.merges])

    @property
    def count(self) -> int:
        """Clusters left at the end."""
        return len(self.final)

    def energy(self, log_t: ArrayLike) -> np.ndarray:
        """Normalised energy at the given log times: linear between the rows of `curve`, in time before the second.

        Rows are exact to the tolerance of the run. Between them the error is that of the straight line, far below
        1e-6 on plateaus and up to a hundredth while a pair closes; `energy_bounds` encloses the true value.
        """
        low = real_array("log_t", log_t, finite=False)
        times, values = self.curve[:, 0], self.curve[:, 1]
        if len(times) < 2 or np.isfinite(times[0]):
            return np.interp(low, times, values)
        early = values[0] + (values[1] - values[0]) * np.exp(np.minimum(low - times[1], 0.0))
        return np.where(low < times[1], early, np.interp(low, times[1:], values[1:]))

    def energy_bounds(self, log_t: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """(low, high) between which the energy lies at the given log times: the rows of `curve` before and after.

        The energy never decreases, so this holds to the tolerance of the run; a perceptron takes that away.
        """
        at = real_array("log_t", log_t, finite=False)
        times, values = self.curve[:, 0], self.curve[:, 1]
        before = np.maximum(np.searchsorted(times, at, "left") - 1, 0)
        after = np.minimum(np.searchsorted(times, at, "right"), len(times) - 1)
        return values[before], values[after]

    @cached_property
    def tree(self) -> dict[int, tuple[int, ...]]:
        """Tokens of every node of the merge tree."""
        inside: dict[int, tuple[int, ...]] = {i: (i,) for i in range(self.n)}
        for m in self.merges:
            inside[m.node] = tuple(sorted(inside[m.left] + inside[m.right]))
        return inside

    @cached_property
    def plateaus(self) -> tuple[Plateau, ...]:
        """One between any two mergers, and the open ends."""
        mass = dict(enumerate(self.masses))
        level, plateaus, start = float(np.sum(self.masses**2)), [], -math.inf
        for k, m in enumerate(self.merges):
            plateaus.append(Plateau(start, m.log_time, level, self.n - k))
            mass[m.node] = mass.pop(m.left) + mass.pop(m.right)
            level = float(np.sum(np.square(list(mass.values()))))
            start = m.log_time
        plateaus.append(Plateau(start, math.inf, level, self.n - len(self.merges)))
        return tuple(plateaus)

    def sequence(self) -> tuple[frozenset[frozenset[int]], ...]:
        """The pairs of token sets that met, in order: two runs that agree have equal sequences."""
        return tuple(frozenset((frozenset(self.tree[m.left]), frozenset(self.tree[m.right]))) for m in self.merges)

    # --- views ---------------------------------------------------------------------------------------------------

    def variables(self) -> Variables:
        """The table of mergers and the energy curve."""
        columns = [f.name for f in dataclasses.fields(Merge) if f.name != "position"]
        table: Variables = {name: ("merge", np.array([getattr(m, name) for m in self.merges])) for name in columns}
        places = np.array([m.position for m in self.merges]).reshape(len(self.merges), self.d)
        curve: Variables = {f"curve_{name}": ("step", self.curve[:, k]) for k, name in enumerate(CURVE)}
        return {**table, "position": (("merge", "component"), places), **curve}

    def plot(self) -> Figure:
        """Energy against log log t, with the plateaus and the mergers."""
        from sphereflow.metastability.pictures import plot_history

        return plot_history(self)

    def record(self) -> dict[str, Any]:
        """The mergers and what they were computed with, as plain data."""
        record = {
            "result": "MergeHistory",
            "n": self.n,
            "d": self.d,
            "beta": self.beta,
            "model": self.kind,
            "tol": self.tol,
            "radius": self.radius,
            "seconds": self.seconds,
            "complete": self.outcome.complete,
            "status": self.outcome.value,
            "mergers": [
                {
                    "log_time": m.log_time,
                    "error": m.error,
                    "sizes": [len(self.tree[m.left]), len(self.tree[m.right])],
                    "energy_before": m.energy_before,
                    "energy_after": m.energy_after,
                }
                for m in self.merges
            ],
            "parameters": self.parameters,
            "seed": self.seed,
            "versions": self.versions,
        }
        return plain(record)  # the error of a merger is NaN where none was estimated

    def summary(self, rows: int = 12) -> str:
        """A few lines for the terminal: the last mergers are the slow ones."""
        lines = [
            f"{self.n} tokens in dimension {self.d}, {self.kind.upper()} at beta = {self.beta:g}: "
            f"{len(self.merges)} mergers in {self.seconds:.2f} s",
            self.outcome.value,
        ]
        shown = self.merges[-rows:]
        if len(shown) < len(self.merges):
            lines.append(f"({len(self.merges) - len(shown)} earlier mergers not shown)")
        for m in shown:
            lines.append(
                f"log t = {m.log_time:12.6g} +- {m.error:.0e}   {len(self.tree[m.left])} + {len(self.tree[m.right])} "
                f"tokens   energy {m.energy_before:.6f} -> {m.energy_after:.6f}"
            )
        return "\n".join(lines)

    def facts(self) -> list[str]:
        last = f", the last at log t = {self.merges[-1].log_time:.6g}" if self.merges else ""
        return [
            f"{self.n} tokens, d = {self.d}, {self.kind.upper()}, beta = {self.beta:g}",
            f"{len(self.merges)} mergers{last}",
            self.outcome.value,
        ]


def read_history(path: str | Path) -> MergeHistory:
    """Read a history that an earlier release wrote as JSON."""
    return from_plain(loads(path, _FORMAT), path)


def from_plain(plain: dict[str, Any], path: str | Path) -> MergeHistory:
    """The history in plain data, or one sentence about the damage."""
    try:
        merges = tuple(merge_from_plain(m) for m in plain["merges"])
        arrays = {name: np.asarray(plain[name], dtype=float) for name in ("masses", "final")}
        curve = np.asarray(plain["curve"], dtype=float).reshape(-1, len(CURVE))
        rest = {name: _typed(MergeHistory, name, plain[name]) for name in ("kind", "beta", "n", "d", "tol", "radius")}
        rest |= {"seconds": _typed(MergeHistory, "seconds", plain["seconds"]), "seed": _seed(plain.get("seed"))}
        rest |= {"merges": merges, "curve": curve, "outcome": Outcome[plain["outcome"]], **arrays}
        history = MergeHistory(**rest, versions={str(k): str(v) for k, v in plain.get("versions", {}).items()})
        _check_tree(history)
        return history
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise SphereflowError(f"cannot read {path}: the file is damaged ({brief(error)}).") from None


def _seed(value: Any) -> Record | None:
    if isinstance(value, list) and value:  # the words of a key
        kind = value[:1] if isinstance(value[0], str) else []
        return (*kind, *(whole_number("seed", word, least=0, most=2**32 - 1) for word in value[len(kind) :]))
    return None if value is None else whole_number("seed", value, least=0)


def _check_tree(history: MergeHistory) -> None:
    """Every merger joins two clusters that are there, and there were not more tokens than mergers can explain."""
    if history.n != history.count + len(history.merges):
        raise ValueError("the mergers do not add up")
    there = set(range(history.n))
    for m in history.merges:
        there.remove(m.left)
        there.remove(m.right)
        there.add(m.node)


def merge_from_plain(plain: dict[str, Any]) -> Merge:
    """One merger; KeyError, TypeError or ValueError if a field is missing or of the wrong kind."""
    position = tuple(float(x) for x in plain["position"])
    rest = {name: _typed(Merge, name, value) for name, value in plain.items() if name != "position"}
    return Merge(**rest, position=position)


def _typed(owner: type, name: str, value: Any) -> Any:
    """A value of the kind that the record declares, or TypeError."""
    declared = owner.__annotations__[name]
    if declared == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if declared != type(value).__name__:
        raise TypeError(f"{name} is {type(value).__name__} instead of {declared}")
    return value


def dumps(plain: dict[str, Any]) -> bytes:
    """JSON with full precision; infinities and NaN as the words JavaScript and Python use."""
    return json.dumps(plain, default=lambda a: np.asarray(a).tolist(), allow_nan=True).encode()


def loads(path: str | Path, expected: str) -> dict[str, Any]:
    """Read JSON written by `dumps`, checking that it is what it should be."""
    content = file_bytes(path)
    try:
        plain = plain_data(content)
    except ValueError:
        raise SphereflowError(f"cannot read {path}: it is not a JSON file, or it is cut off.") from None
    if not isinstance(plain, dict) or plain.get("format") != expected:
        raise SphereflowError(f"cannot read {path}: it is not a file of the kind '{expected}'.")
    return {k: v for k, v in plain.items() if k != "format"}
