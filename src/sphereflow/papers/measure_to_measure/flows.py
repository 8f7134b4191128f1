"""The exact sub-flows against an adaptive solver of the Transformer's equation, and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run
from sphereflow.claims.basis import Equation
from sphereflow.numerics.unit_vectors import unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.sources import TEXT, theorem
from sphereflow.papers.measure_to_measure.test_measures import dirac, shared_atom
from sphereflow.transport.sphere.construction import random_orthogonal_units
from sphereflow.transport.sphere.pieces import Drift, Gate, Piece, RankOne
from sphereflow.transport.sphere.schedule import SphereSchedule

SOLVER = "global error of the adaptive solver at relative tolerance 1e-12"


def transformer_flow(weights: dict[str, Any], t: float, x: np.ndarray, tight: float = 1e-12) -> np.ndarray:
    """x' = P_x(V A_B[mu](x) + W(Ux+b)_+) from its matrices, written out once more and integrated adaptively."""

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        z = flat.reshape(x.shape)
        share = np.exp((z @ weights["B"].T) @ z.T)
        mean = (share / share.sum(axis=1, keepdims=True)) @ z
        pull = mean @ weights["V"].T + np.maximum(z @ weights["U"].T + weights["b"], 0) @ weights["W"].T
        return (pull - np.sum(pull * z, axis=1, keepdims=True) * z).ravel()

    solved = solve_ivp(velocity, (0, t), x.ravel(), method="DOP853", rtol=tight, atol=tight / 10)
    return solved.y[:, -1].reshape(x.shape)


def sample_pieces(d: int, rng: np.random.Generator) -> dict[str, Piece]:
    """A drift, gates of every sign, one of them long (t times gate near a hundred), and attention both ways."""
    v = unit(rng.normal(size=(12, d)))
    return {
        "drift": Drift(duration=1.7, omega=v[0]),
        "gate": Gate(duration=3.0, a=v[1], beta=0.2, omega=v[2]),
        "gate about its centre": Gate(duration=3.0, a=v[3], beta=-0.3, omega=v[3]),
        "gate that is always open": Gate(duration=2.0, a=v[4], beta=1.3, omega=v[5]),
        "long gate": Gate(duration=100.0, a=v[6], beta=-0.4, omega=unit(v[6] + 0.5 * v[7])),
        "gate shut at its goal": Gate(duration=4.0, a=v[8], beta=-float(v[8] @ v[9]), omega=v[9]),
        "attention": RankOne(duration=2.5, alpha=v[10]),
        "attention away": RankOne(duration=2.5, alpha=v[11], sign=-1.0),
    }


@PAPER.claim(
    "exact-flows",
    says="The drift, the gate and rank-one attention have closed flow maps; they agree with the differential "
    "equation of the Transformer block, solved adaptively from its matrices, in dimensions 3 and 5.",
    basis=theorem("Lemmas 3.2, 3.3 and B.2"),
    formula=r"\dot x=(\langle a,x\rangle+\beta)_+P_x^\perp\omega \iff \dot y=-g,\quad y=\ln\tan(\vartheta/2)",
)
def exact_flows(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    check = Check()
    slower = {}
    for d in (3, 5):
        x = unit(rng.normal(size=(10 if run.quick else 60, d)))
        masses = np.full(len(x), 1 / len(x))
        for kind, piece in sample_pieces(d, rng).items():
            name = f"{kind}, $d={d}$"
            exact, solved = piece.flow(x, masses), transformer_flow(piece.matrices(), piece.duration, x)
            gap = np.abs(exact - solved).max()
            check.row(name, predicted=0.0, measured=gap, tolerance=1e-9, because=SOLVER)
            slower[name] = float(np.abs(piece.timed(1.001 * piece.duration, 1.0).flow(x, masses) - solved).max())
    check.null("the closed maps with a time longer by a thousandth", slower)
    return check


@PAPER.claim(
    "schedule-is-a-transformer",
    says=r"Every piece of a constructed schedule, written out as matrices $V$, $B$, $W$, $U$ and $b$, moves each "
    "measure as the closed forms say.",
    basis=Equation("(1.3)", via=TEXT),
    formula=r"\dot x=P_x^\perp\big(VA_B[\mu](x)+W(Ux+b)_+\big)",
)
def schedule_is_a_transformer(run: Run) -> Check:
    found = shared_atom() if run.quick else dirac(3, 3, 40, run.seed)
    worst, pooled = 0.0, 0.0
    for index, weights in enumerate(found.schedule.matrices()):
        before, after = found.clouds_at(index), found.clouds_at(index + 1)
        for x, y in zip(before, after, strict=True):
            worst = max(worst, float(np.abs(transformer_flow(weights, float(weights["dt"]), x) - y).max()))
        if weights["V"].any() and pooled == 0:
            together = transformer_flow(weights, float(weights["dt"]), np.concatenate(before))
            pooled = float(np.abs(together - np.concatenate(after)).max())
    check = Check(parameters={"pieces": found.n_pieces, "N": len(found.sources)})
    check.row("largest difference", predicted=0.0, measured=worst, tolerance=1e-8, because=SOLVER)
    check.null("attention averages over all measures together", pooled)
    return check


@PAPER.claim(
    "orthogonal-mean-rests",
    says=r"A measure whose mean is orthogonal to $\alpha$ does not move under $V=\alpha\alpha^\top$. The rest is "
    r"unstable: a small component of the mean along $\alpha$ grows at the rate $1-E\langle x,\alpha\rangle^2$.",
    basis=theorem("Lemma 3.3"),
    formula=r"\langle\alpha,m(\mu)\rangle=0 \Rightarrow \tau(t)=0,\qquad"
    r"\frac{d}{dt}\ln\langle\alpha,m\rangle=1-E\langle x,\alpha\rangle^2",
)
def orthogonal_mean_rests(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    x = unit(rng.normal(size=(80, 5)) + 2)
    mean = x.mean(axis=0)
    alpha = random_orthogonal_units(rng, 1, mean[None])[0]
    plain = transformer_flow(RankOne(duration=5.0, alpha=alpha).matrices(), 5.0, x)
    tilted = unit(alpha + 1e-6 * mean)
    moved = transformer_flow(RankOne(duration=3.0, alpha=tilted).matrices(), 3.0, x)
    growth = float(np.log((moved.mean(axis=0) @ tilted) / (mean @ tilted)) / 3)
    check = Check()
    check.row(
        "moved at $t=5$",
        predicted=0.0,
        measured=np.abs(plain - x).max(),
        tolerance=1e-15 * np.exp(5.0),
        because="a few roundings of a coordinate, grown by e^t",
    )
    check.row(
        "growth rate of a small component",
        predicted=1 - np.mean((x @ alpha) ** 2),
        measured=growth,
        tolerance=1e-4,
        because="second order in the component, 1e-6 e^3",
    )
    check.null(r"$\alpha$ off by a millionth", {"moved at $t=5$": float(np.abs(moved - x).max())})
    check.rival("growth at rate one", {"growth rate of a small component": 1.0})
    return check


@PAPER.claim(
    "time-reversal",
    says=r"The pieces in the other order with $V$ and $W$ of the other sign undo the schedule, phase by phase.",
    basis=Equation("time reversal, Section 1.1", via=TEXT),
    formula=r"\Phi_\theta^{-1}=\Phi_{\bar\theta},\quad \bar\theta(t)=(-V,B,-W,U,b)(T-t)",
)
def time_reversal(run: Run) -> Check:
    found = dirac(3, 3, 50 if run.quick else 150, run.seed)
    ends = [start for _, start in found.phases[1:]] + [found.n_pieces]
    check = Check()
    forward, half = {}, {}
    for (name, start), end in zip(found.phases, ends, strict=True):
        back = found.schedule[start:end].inverse()
        goal, from_here = found.clouds_at(start), found.clouds_at(end)

        def miss(pieces: SphereSchedule, goal: list[np.ndarray] = goal, x: list[np.ndarray] = from_here) -> float:
            return max(float(np.abs(a - b).max()) for a, b in zip(pieces.apply(x), goal, strict=True))

        because = "rounding grown by what a phase contracts, 1e6"
        check.row(name, predicted=0.0, measured=miss(back), tolerance=1e-9, because=because)
        kept = SphereSchedule(tuple(found.schedule[k : k + 1].inverse().pieces[0] for k in range(start, end)), 3)
        if end - start > 1:
            forward[name] = miss(kept)
        gates = [p if isinstance(p, Gate) else p.inverse() for p in reversed(found.schedule[start:end].pieces)]
        if any(isinstance(p, Gate) for p in gates):
            half[name] = miss(SphereSchedule(tuple(gates), 3))
    check.null("the order of the pieces kept", forward)
    check.null("$V$ turned around but not $W$", half)
    return check
