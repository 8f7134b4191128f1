r"""From tokens to the single cluster, through plateaus of any length.

Tokens within $r=10^{-3}/\sqrt\beta$ of each other are glued into one atom at their mass-weighted mean: inside that
distance the kernel is constant to $10^{-6}$ and a pair contracts at its linear rate, so gluing moves the meeting point
by less than $10^{-6}r$. Between collisions the atoms are followed leg by leg (`slow`, `crowd`).

Every merger carries an error estimate: a second run with a tolerance a hundred times larger is made from the same
start, with at most 64 atoms, and the two are compared merger by merger. It covers the solver, not the definition of a
merger (the radius), which shifts every time by $O(\log)$: much for early mergers, below rounding for late ones.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sphereflow.dynamics import Dynamics, Perceptron, attention_name
from sphereflow.errors import SphereflowError, real_number
from sphereflow.metastability.atoms import Atoms, close_pairs, normalised_energy, real_tokens
from sphereflow.metastability.checkpoint import Checkpoint
from sphereflow.metastability.crowd import FEW, MOVING, Rest, start_energy, stretch
from sphereflow.metastability.history import Merge, MergeHistory, Outcome
from sphereflow.metastability.slow import DOMINANT, Collision, Leg, follow, jump, nearest_pair
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.progress import Progress, progress_bar
from sphereflow.reading import real_array
from sphereflow.results import recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike

_LOOSER = 100.0
_ROWS_PER_LEG = 40


@dataclasses.dataclass(frozen=True, eq=False)
class Rules:
    """What stays the same during a run."""

    kind: str
    beta: float
    radius: float
    tol: float
    perceptron: Perceptron | None = None
    max_time: float = 1e4


@dataclasses.dataclass(frozen=True, eq=False)
class Moment:
    """Where a run stands: log of the time, clock, length, atoms, the next free name, energy; whether a crowd rests."""

    log_t: float
    clock: float
    length: float
    atoms: Atoms
    next_name: int
    energy: float
    resting: bool = False
    outcome: Outcome | None = None


@recorded_call
def coarsen_to_one(
    model: str | Dynamics,
    x0: ArrayLike,
    beta: float,
    *,
    masses: ArrayLike | None = None,
    perceptron: Perceptron | None = None,
    tol: float = 1e-9,
    radius: float | None = None,
    errors: bool = True,
    perturb: float = 0.0,
    max_time: float = 1e4,
    checkpoint: str | Path | None = None,
    seed: Seed | None = None,
    progress: Progress = None,
) -> MergeHistory:
    r"""Follow $\dot x_i=P_{x_i}\sum_jA_{ij}x_j$ until all tokens are in one cluster, to $t=e^{1000}$ and beyond.

    **Arguments:**

    - `model`: "sa" (softmax) or "usa" (kernel $e^{\beta(\langle x,y\rangle-1)}$, masses summing to one), or `SA(beta)`,
      `USA(beta)`; no other object, since the speeds of pairs are known in closed form for these two.
    - `x0`: tokens, (n, d); `masses`: their masses, equal by default, scaled to sum one.
    - `perceptron`: a `Perceptron` added to "usa" (the sum has an energy). The run is then followed in time until the
      field vanishes or `max_time`, and may end with several clusters.
    - `tol`: tolerance for positions and relative times. `radius`: gluing distance, $10^{-3}/\sqrt{\beta}$ by default.
    - `errors`: whether to estimate errors by a second, looser run.
    - `perturb`: size of a random displacement, drawn from `seed`, that takes a symmetric start off its saddle.
    - `checkpoint`: a JSON file; the state is kept there after every merger, and the same call goes on from it; a call
      that would compute something else is refused.

    **Returns:** a `MergeHistory`; interrupted by Ctrl-C, the part up to the last merger.

    ```python
    import sphereflow as sf
    from sphereflow.metastability import coarsen_to_one
    history = coarsen_to_one("sa", sf.draw("uniform", 8, 3, seed=1), beta=200.0)
    history.log_times[-1]
    ```
    """
    rules = _rules(attention_name(model, beta), beta, tol, radius, perceptron, max_time)
    start = _start(x0, masses, perturb, seed)
    began = time.perf_counter()
    record = Checkpoint.open(checkpoint, rules, start, bool(errors))
    if errors and record.companion is None and len(record.main.atoms) <= FEW:
        record.companion = record.main
    spent = record.seconds
    twin = dataclasses.replace(rules, tol=min(rules.tol * _LOOSER, 1e-3))
    try:
        with progress_bar("merging", progress, total=len(start), completed=len(start) - len(record.main.atoms)) as bar:
            while record.main.outcome is None:
                before = len(record.main.atoms)
                main, merges, rows = advance(record.main, rules)
                companion, merges = _with_errors(record, main, merges, twin, errors)
                record = record.after(main, companion, merges, rows, spent + time.perf_counter() - began)
                bar.advance(before - len(main.atoms))
        outcome = record.main.outcome
        record.write()
    except KeyboardInterrupt:
        record.write()
        outcome = Outcome.INTERRUPTED
    assert outcome is not None
    return MergeHistory(
        kind=rules.kind,
        beta=rules.beta,
        n=len(start),
        d=start.d,
        merges=tuple(record.merges),
        curve=np.concatenate(record.curve),
        masses=start.masses,
        final=record.main.atoms.positions,
        outcome=outcome,
        tol=rules.tol,
        radius=rules.radius,
        seconds=spent + time.perf_counter() - began,
    )


def advance(
    moment: Moment, rules: Rules, stop: Callable[[np.ndarray], float] | None = None
) -> tuple[Moment, list[Merge], np.ndarray]:
    """One leg: the moment after it, the mergers in it, and rows (log t, energy, clock, length, count) of the curve."""
    atoms = moment.atoms
    if len(atoms) == 1:
        return dataclasses.replace(moment, outcome=Outcome.ONE_CLUSTER), [], np.empty((0, 5))
    leg, rest = _leg(moment, rules, stop)
    if leg.balanced:
        return dataclasses.replace(moment, outcome=Outcome.SADDLE), [], np.empty((0, 5))
    log_t = float(np.logaddexp(moment.log_t, leg.log_elapsed))
    after, merges, name = _glue(moment, leg, float(leg.curve[-1, 1]))
    if len(after) <= FEW and merges:  # with more atoms it is not worth the sum: gluing changes it by less than 1e-6
        energy = normalised_energy(after.positions, after.masses, rules.beta)
        merges = [dataclasses.replace(m, energy_after=energy) for m in merges]
    energy = merges[-1].energy_after if merges else float(leg.curve[-1, 1])
    moment_after = Moment(
        log_t,
        moment.clock + leg.clock,
        moment.length + leg.length,
        after,
        name,
        energy,
        moment.resting or rest.slow,
        _outcome(after, log_t, rest, rules),
    )
    rows = _rows(moment, leg, len(atoms))
    if merges:
        closing = [log_t, merges[-1].energy_after, moment_after.clock, moment_after.length, len(after)]
        rows = np.concatenate([rows, [closing]])
    return moment_after, merges, rows


def _leg(moment: Moment, rules: Rules, stop: Callable[[np.ndarray], float] | None) -> tuple[Leg, Rest]:
    atoms, beta, kind, radius = moment.atoms, rules.beta, rules.kind, rules.radius
    crowded = len(atoms) > FEW and not moment.resting
    if rules.perceptron is not None or crowded:
        elapsed = math.exp(moment.log_t)
        tokens_in_all = (moment.next_name + len(atoms)) // 2  # every merger makes a name and takes an atom
        return stretch(atoms, tokens_in_all, beta, kind, rules.perceptron, elapsed, radius, rules.tol)
    i, j, lead = nearest_pair(atoms, beta)
    if lead > DOMINANT and stop is None and not _opposite(atoms, i, j):
        return jump(atoms, beta, kind, radius, i, j), MOVING
    return follow(atoms, beta, kind, radius, rules.tol, stop), MOVING


def _opposite(atoms: Atoms, i: int, j: int) -> bool:
    """Whether the pair is antipodal to rounding: it has no great circle, and does not move."""
    return bool(np.linalg.norm(atoms.positions[i] + atoms.positions[j]) < 1e-12)


def _outcome(atoms: Atoms, log_t: float, rest: Rest, rules: Rules) -> Outcome | None:
    if len(atoms) == 1:
        return Outcome.ONE_CLUSTER
    if rules.perceptron is None:
        return None
    if rest.full:
        return Outcome.STATIONARY
    return Outcome.TIME_LIMIT if log_t > math.log(rules.max_time) else None


def _glue(moment: Moment, leg: Leg, energy: float) -> tuple[Atoms, list[Merge], int]:
    """Glue everything that collided in a leg, in order; `energy` is the one at its end."""
    before = moment.atoms
    atoms = Atoms(leg.positions, before.masses, before.names)
    joined: dict[int, int] = {}  # which row an absorbed row went to
    name, merges = moment.next_name, []
    positions, masses, names = atoms.positions.copy(), atoms.masses.copy(), atoms.names.copy()
    for c in leg.collisions:
        i, j = sorted((_holder(joined, c.i), _holder(joined, c.j)))
        if i == j:
            continue
        log_time = float(np.logaddexp(moment.log_t, c.log_elapsed))
        gap = float(angles(before.positions[c.i], before.positions[c.j]))
        positions[i] = unit(masses[i] * positions[i] + masses[j] * positions[j])
        error = c.uncertainty * math.exp(c.log_elapsed - log_time) if c.uncertainty else math.nan
        merges.append(
            Merge(
                log_time,
                int(names[i]),
                int(names[j]),
                name,
                float(masses[i]),
                float(masses[j]),
                gap,
                tuple(float(v) for v in positions[i]),
                moment.energy,
                energy,
                moment.clock + leg.clock,
                moment.length + leg.length,
                error,
                True,
                leg.way,
            )
        )
        masses[i] += masses[j]
        names[i] = name
        joined[j] = i
        name += 1
    alone = np.setdiff1d(np.arange(len(before)), np.fromiter(joined, dtype=int, count=len(joined)))
    return Atoms(positions[alone], masses[alone], names[alone]), merges, name


def _holder(joined: dict[int, int], row: int) -> int:
    """The row that now holds what was in `row`."""
    while row in joined:
        row = joined[row]
    return row


def _rows(moment: Moment, leg: Leg, count: int) -> np.ndarray:
    sampled = leg.curve[np.unique(np.linspace(0, len(leg.curve) - 1, min(len(leg.curve), _ROWS_PER_LEG)).astype(int))]
    log_t = np.logaddexp(moment.log_t, sampled[:, 0])
    clock, length = moment.clock + sampled[:, 2], moment.length + sampled[:, 3]
    return np.column_stack([log_t, sampled[:, 1], clock, length, np.full(len(sampled), count)])


def _with_errors(
    record: Checkpoint, main: Moment, merges: list[Merge], twin: Rules, wanted: bool
) -> tuple[Moment | None, list[Merge]]:
    """Take the looser run to the same number of clusters and compare the last merger of both."""
    if not wanted or twin.perceptron is not None or len(main.atoms) > FEW:
        return None, merges
    companion = record.companion
    if companion is None:
        return (main if len(main.atoms) > 1 else None), merges
    met: list[Merge] = []
    while len(companion.atoms) > len(main.atoms) and companion.outcome in (None, Outcome.ONE_CLUSTER):
        companion, more, _ = advance(companion, twin)
        met += more
    if len(met) != len(merges):
        return companion, merges
    compared = [
        dataclasses.replace(
            m,
            error=abs(m.log_time - other.log_time) + _rounding(m.log_time, twin.beta),
            resolved={m.left, m.right} == {other.left, other.right},
        )
        for m, other in zip(merges, met, strict=True)
    ]
    return companion, compared


def _rounding(log_time: float, beta: float) -> float:
    """What positions known to 16 digits leave of an exponent of size beta, or of log t."""
    return float(4 * np.finfo(float).eps * (beta + abs(log_time))) if math.isfinite(log_time) else 0.0


def begin(atoms: Atoms, rules: Rules) -> tuple[Moment, list[Merge], np.ndarray]:
    """The start of a run: tokens that already coincide are glued at t = 0."""
    if len(atoms) > FEW:
        energy = start_energy(atoms, rules.beta, rules.kind, rules.tol)
    else:
        energy = normalised_energy(atoms.positions, atoms.masses, rules.beta)
    moment = Moment(-math.inf, 0.0, 0.0, atoms, len(atoms), energy)
    at_once = tuple(Collision(i, j, -math.inf) for _, i, j in close_pairs(atoms.positions, rules.radius))
    leg = Leg(atoms.positions, -math.inf, 0.0, 0.0, at_once, np.empty((0, 4)), "start")
    after, merges, name = _glue(moment, leg, energy)
    row = np.array([[-math.inf, energy, 0.0, 0.0, len(after)]])
    outcome = _outcome(after, -math.inf, MOVING, rules)
    return dataclasses.replace(moment, atoms=after, next_name=name, outcome=outcome), merges, row


def _rules(
    kind: str, beta: float, tol: float, radius: float | None, perceptron: Perceptron | None, max_time: float
) -> Rules:
    beta = real_number("beta", beta, least=0, most=1e6)
    tol = real_number("tol", tol, least=1e-12, most=1e-3)
    default = 1e-3 / math.sqrt(max(beta, 1.0))
    radius = default if radius is None else real_number("radius", radius, above=0, most=0.5)
    if perceptron is not None and kind != "usa":
        raise SphereflowError(
            "a perceptron can be added to the model 'usa' only: softmax attention plus another term has no energy."
        )
    return Rules(kind, beta, radius, tol, perceptron, real_number("max_time", max_time, above=0))


def _start(x0: ArrayLike, masses: ArrayLike | None, perturb: float, seed: Seed | None) -> Atoms:
    x = real_tokens("x0", x0)
    if x.shape[1] < 2:
        raise SphereflowError(f"x0 must have shape (n, d) with d at least 2, got {x.shape}.")
    size = real_number("perturb", perturb, least=0, most=1)
    rng = rng_from(0 if seed is None else seed)
    if size:
        x = x + size * rng.normal(size=x.shape)
    x = unit(x)
    weights = np.ones(len(x)) if masses is None else real_array("masses", masses)
    if weights.shape != (len(x),) or not (weights > 0).all() or not np.isfinite(weights.sum()):
        raise SphereflowError(f"masses must be {len(x)} positive numbers, one per token.")
    return Atoms(x, weights / weights.sum(), np.arange(len(x)))
