r"""Monte Carlo beside the theory: stored patterns, Metropolis chains, one row of the plane per load.

The number of patterns M is the same everywhere and $N=\mathrm{round}(\ln M/\alpha)$. Each row is kept on disk as soon
as it is done, so a sweep that is interrupted or killed goes on with the next row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sphereflow.errors import SphereflowError, real_number, whole_number, writable_target
from sphereflow.memory.energies import LSE, LSR, Energy
from sphereflow.memory.landscapes import Full, random_patterns, state_at
from sphereflow.memory.lines import check_plane
from sphereflow.memory.sampling import metropolis_each, published_step
from sphereflow.memory.state import lse_overlap, lsr_overlap
from sphereflow.progress import Progress, progress_bar
from sphereflow.provenance import circumstances, same_request, versions
from sphereflow.reading import file_bytes, plain_data
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.saving import write_bytes
from sphereflow.seeds import Seed, checked, key_from, recorded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOADS = tuple(np.round(np.arange(0.05, 0.651, 0.05), 3).tolist())
TEMPERATURES = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4, 1.9)
_FORMAT = "sphereflow memory sweep 2"


@dataclass(frozen=True, eq=False, repr=False)
class MonteCarloSweep(Result):
    """Mean overlaps with the target over trials, and their standard errors, of shape (temperatures, loads).

    Read them with the sizes: a small overlap means that the chain has left within `steps` moves at this N, not that
    the equilibrium is there.
    """

    kernel: str
    sharpness: float
    loads: Float[np.ndarray, " a"]
    temperatures: Float[np.ndarray, " t"]
    sizes: Int[np.ndarray, " a"]
    patterns: int
    repeats: int
    steps: int
    overlap: Float[np.ndarray, "t a"]
    error: Float[np.ndarray, "t a"]

    def variables(self) -> Variables:
        plane = ("temperature", "load")
        return {
            "load": ("load", self.loads),
            "temperature": ("temperature", self.temperatures),
            "size": ("load", self.sizes),
            "overlap": (plane, self.overlap),
            "error": (plane, self.error),
        }

    def facts(self) -> list[str]:
        return [
            f"mean overlaps {self.overlap.min():.3g} to {self.overlap.max():.3g} at {len(self.loads)} loads and "
            f"{len(self.temperatures)} temperatures",
            f"{self.kernel} kernel, sharpness {self.sharpness:.5g}, {self.patterns} patterns",
            f"{self.repeats} repeats of {self.steps} moves",
        ]

    def plot(self) -> Figure:
        """Overlaps over the plane of loads and temperatures."""
        from sphereflow.memory.pictures import draw_sweep

        return draw_sweep(self)


@recorded_call
def sweep(
    kernel: str = "lse",
    sharpness: float = 1.0,
    *,
    loads: Iterable[float] | None = None,
    temperatures: Iterable[float] = TEMPERATURES,
    patterns: int = 300,
    repeats: int = 8,
    steps: int = 2000,
    seed: Seed = 0,
    keep: str | Path | None = None,
    progress: Progress = None,
) -> MonteCarloSweep:
    """Chains started at the retrieval overlap with the target; the first half of the steps is discarded.

    By default all `LOADS` that so few patterns can have in at least five dimensions. `keep` is a file for the rows; the
    same call continues from it, and a call that asks for something else is refused.
    """
    if keep is not None:
        writable_target(keep, overwrite=True)
    plan = planned(
        kernel,
        sharpness,
        loads=loads,
        temperatures=temperatures,
        patterns=patterns,
        repeats=repeats,
        steps=steps,
        seed=seed,
        keep=keep,
    )
    asked, rows, given = plan.asked, plan.rows, checked(seed)
    with progress_bar(f"monte carlo, {kernel}", progress, total=len(plan.sizes), completed=len(rows)) as bar:
        for index in range(len(rows), len(plan.sizes)):
            rows.append(_row(asked, given, plan.sizes[index], index))
            if keep is not None:
                record = {"format": _FORMAT, "asked": asked, "versions": versions(), "rows": rows}
                write_bytes(keep, json.dumps(record).encode())
            bar.advance()
    table = np.array(rows)  # loads, (mean, error), temperatures
    return MonteCarloSweep(
        kernel,
        asked["sharpness"],
        np.array(asked["loads"]),
        np.array(asked["temperatures"]),
        np.array(plan.sizes),
        patterns,
        repeats,
        steps,
        table[:, 0].T,
        table[:, 1].T,
    )


class Plan(NamedTuple):
    """What a sweep will do: the request that identifies it, a size for every load, and the rows that are there."""

    asked: dict[str, Any]
    sizes: list[int]
    rows: list[list[list[float]]]


def planned(
    kernel: str,
    sharpness: float,
    *,
    loads: Iterable[float] | None = None,
    temperatures: Iterable[float] = TEMPERATURES,
    patterns: int,
    repeats: int,
    steps: int,
    seed: Seed,
    keep: str | Path | None,
) -> Plan:
    """Check a request, and a file it would continue, before anything is computed or written."""
    sharpness = check_plane(kernel, sharpness)
    patterns = whole_number("patterns", patterns, least=2)
    largest = float(np.log(patterns) / 5)
    chosen = [a for a in LOADS if a <= largest] if loads is None else _listed("loads", loads)
    if not chosen:
        raise SphereflowError(f"patterns must be more than {patterns}: the smallest load of the plane needs more.")
    bath = [real_number("each of temperatures", t, above=0) for t in _listed("temperatures", temperatures)]
    if not bath:
        raise SphereflowError("temperatures must name at least one temperature.")
    asked: dict[str, Any] = {
        "kernel": kernel,
        "sharpness": sharpness,
        "loads": [real_number("each of loads", a, above=0, most=largest) for a in chosen],
        "temperatures": bath,
        "patterns": patterns,
        "repeats": whole_number("repeats", repeats, least=2),
        "steps": whole_number("steps", steps, least=10),
        "seed": recorded(seed),
    } | circumstances()
    sizes = [max(5, round(float(np.log(patterns)) / a)) for a in asked["loads"]]
    return Plan(asked, sizes, _kept(keep, asked))


def _listed(name: str, values: Iterable[float]) -> list[float]:
    try:
        return list(values)
    except TypeError:
        raise SphereflowError(f"{name} must be a list of numbers, got {values!r}.") from None


def _row(asked: dict[str, Any], seed: int | Array, n: int, index: int) -> list[list[float]]:
    kernel, sharpness, repeats, steps = (asked[name] for name in ("kernel", "sharpness", "repeats", "steps"))
    t = np.array(asked["temperatures"])
    start = lse_overlap(t) if kernel == "lse" else lsr_overlap(t, sharpness)
    stored = np.stack([random_patterns(n, asked["patterns"], [seed, index, trial]) for trial in range(repeats)])
    x0 = np.stack([state_at(each[0], start, [seed, index, trial, 1]) for trial, each in enumerate(stored)])
    energy: Energy = LSE(sharpness) if kernel == "lse" else LSR.on_sphere(sharpness, n)
    place, x, bath, sigma = (jnp.asarray(a, jnp.float32) for a in (stored, x0, t, published_step(n, t)))
    key = jax.random.fold_in(key_from(seed), index)
    chains = metropolis_each(Full(energy, place), x, bath, sigma, key, steps, steps // 2)
    overlap = np.asarray(chains.overlap, dtype=float)
    return [overlap.mean(axis=0).tolist(), (overlap.std(axis=0, ddof=1) / np.sqrt(repeats)).tolist()]


def _kept(keep: str | Path | None, asked: dict[str, Any]) -> list[list[list[float]]]:
    """The rows that a file holds, if it is a sweep that was asked for the same."""
    if keep is None or not Path(keep).exists():
        return []
    try:
        record = plain_data(file_bytes(keep))
        if record["format"] != _FORMAT:
            raise ValueError("another format")
        same_request(keep, record["asked"], asked)
        rows = record["rows"]
        table = np.array(rows, dtype=float).reshape(len(rows), 2, len(asked["temperatures"]))
        if not isinstance(rows, list) or len(rows) > len(asked["loads"]) or not np.isfinite(table).all():
            raise ValueError("these are not rows of this sweep")
    except SphereflowError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError):
        raise SphereflowError(
            f"cannot read {keep}: it is not a sweep of this kind; remove it or choose another."
        ) from None
    return rows
