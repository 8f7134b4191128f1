r"""Monte Carlo beside the theory: stored patterns, Metropolis chains, one row of the plane per load.

The number of patterns M is the same everywhere and $N=\mathrm{round}(\ln M/\alpha)$. Each row is kept on disk as soon
as it is done, so a sweep that is interrupted or killed goes on with the next row.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.memory.energies import LSE, LSR, Energy
from sphereflow.memory.landscapes import Full, random_patterns, state_at
from sphereflow.memory.lines import check_plane
from sphereflow.memory.sampling import metropolis_each, published_step
from sphereflow.memory.state import lse_overlap, lsr_overlap
from sphereflow.progress import progress_bar
from sphereflow.reading import file_bytes, plain_data
from sphereflow.saving import write_bytes

LOADS = tuple(np.round(np.arange(0.05, 0.651, 0.05), 3).tolist())
TEMPERATURES = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.4, 1.9)
_FORMAT = "sphereflow memory sweep 1"


@dataclass(frozen=True, eq=False)
class Sweep:
    """Mean overlaps with the target over trials, and their standard errors, of shape (temperatures, loads).

    Read them with the sizes: a small overlap means that the chain has left within `steps` moves at this N, not that
    the equilibrium is there.
    """

    kernel: str
    sharpness: float
    loads: Float[np.ndarray, "a"]
    temperatures: Float[np.ndarray, "t"]
    sizes: Int[np.ndarray, "a"]
    patterns: int
    trials: int
    steps: int
    seed: int
    overlap: Float[np.ndarray, "t a"]
    error: Float[np.ndarray, "t a"]


def sweep(
    kernel: str = "lse",
    sharpness: float = 1.0,
    *,
    loads: tuple[float, ...] | None = None,
    temperatures: tuple[float, ...] = TEMPERATURES,
    patterns: int = 300,
    trials: int = 8,
    steps: int = 2000,
    seed: int = 0,
    keep: str | Path | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Chains started at the retrieval overlap with the target; the first half of the steps is discarded.

    By default all `LOADS` that so few patterns can have in at least five dimensions. `keep` is a file for the rows; a
    sweep with the same parameters continues from it.
    """
    sharpness = check_plane(kernel, sharpness)
    patterns = whole_number("patterns", patterns, least=2)
    trials, steps = whole_number("trials", trials, least=2), whole_number("steps", steps, least=10)
    largest = float(np.log(patterns) / 5)
    loads = tuple(a for a in LOADS if a <= largest) if loads is None else loads
    if not loads:
        raise SphereflowError(f"patterns must be more than {patterns}: the smallest load of the plane needs more.")
    for a in loads:
        real_number("each of loads", a, above=0, most=largest)
    for t in temperatures:
        real_number("each of temperatures", t, above=0)
    sizes = [max(5, round(float(np.log(patterns)) / a)) for a in loads]
    asked = [kernel, sharpness, list(loads), list(temperatures), patterns, trials, steps, seed]
    fingerprint = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
    rows = _kept(keep, fingerprint, (len(loads), len(temperatures)))
    with progress_bar(f"monte carlo, {kernel}", progress, total=len(loads), completed=len(rows)) as bar:
        for index in range(len(rows), len(loads)):
            rows.append(_row(kernel, sharpness, sizes[index], temperatures, patterns, trials, steps, [seed, index]))
            if keep is not None:
                record = {"format": _FORMAT, "fingerprint": fingerprint, "asked": asked, "rows": rows}
                write_bytes(keep, json.dumps(record).encode())
            bar.advance()
    table = np.array(rows)  # loads, (mean, error), temperatures
    return Sweep(
        kernel, sharpness, np.array(loads), np.array(temperatures), np.array(sizes), patterns, trials, steps, seed,
        table[:, 0].T, table[:, 1].T,
    )  # fmt: skip


def _row(
    kernel: str, sharpness: float, n: int, temperatures: tuple[float, ...], patterns: int, trials: int, steps: int,
    seed: list[int],
) -> list[list[float]]:  # fmt: skip
    t = np.array(temperatures)
    start = lse_overlap(t) if kernel == "lse" else lsr_overlap(t, sharpness)
    stored = np.stack([random_patterns(n, patterns, [*seed, trial]) for trial in range(trials)])
    x0 = np.stack([state_at(each[0], start, [*seed, trial, 1]) for trial, each in enumerate(stored)])
    energy: Energy = LSE(sharpness) if kernel == "lse" else LSR.on_sphere(sharpness, n)
    place, x, bath, sigma = (jnp.asarray(a, jnp.float32) for a in (stored, x0, t, published_step(n, t)))
    key = jax.random.fold_in(jax.random.key(seed[0]), seed[1])
    chains = metropolis_each(Full(energy, place), x, bath, sigma, key, steps, steps // 2)
    overlap = np.asarray(chains.overlap, dtype=float)
    return [overlap.mean(axis=0).tolist(), (overlap.std(axis=0, ddof=1) / np.sqrt(trials)).tolist()]


def _kept(keep: str | Path | None, fingerprint: str, shape: tuple[int, int]) -> list[list[list[float]]]:
    if keep is None or not Path(keep).exists():
        return []
    try:
        record = plain_data(file_bytes(keep))
        if str(record["fingerprint"]) != fingerprint:
            raise SphereflowError(f"{keep} belongs to a sweep with other parameters; remove it or choose another name.")
        rows = record["rows"]
        table = np.array(rows, dtype=float).reshape(len(rows), 2, shape[1])
        if not isinstance(rows, list) or len(rows) > shape[0] or not np.isfinite(table).all():
            raise ValueError("these are not rows of this sweep")
    except SphereflowError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError):
        raise SphereflowError(
            f"cannot read {keep}: it is not a sweep of this kind; remove it or choose another."
        ) from None
    return rows
