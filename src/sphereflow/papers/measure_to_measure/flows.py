"""The exact sub-flows against an adaptive solver of the Transformer's equation, and their inverses."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Measurement, Run, at_most
from sphereflow.numerics.unit_vectors import unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.scenes import dirac, shared_atom
from sphereflow.transport.sphere.construction import within
from sphereflow.transport.sphere.pieces import Drift, Gate, Piece, RankOne


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


def sample_pieces(d: int, rng: np.random.Generator) -> list[Piece]:
    """A drift, gates of every sign, one of them long (t times gate near a hundred), and attention both ways."""
    v = unit(rng.normal(size=(12, d)))
    return [
        Drift(duration=1.7, omega=v[0]),
        Gate(duration=3.0, a=v[1], beta=0.2, omega=v[2]),
        Gate(duration=3.0, a=v[3], beta=-0.3, omega=v[3]),
        Gate(duration=2.0, a=v[4], beta=1.3, omega=v[5]),
        Gate(duration=100.0, a=v[6], beta=-0.4, omega=unit(v[6] + 0.5 * v[7])),
        Gate(duration=4.0, a=v[8], beta=-float(v[8] @ v[9]), omega=v[9]),
        RankOne(duration=2.5, alpha=v[10]),
        RankOne(duration=2.5, alpha=v[11], sign=-1.0),
    ]


@PAPER.claim(
    "exact-flows",
    statement="The drift, the gate and rank-one attention have closed flow maps; they agree with the differential "
    "equation of the Transformer block, solved adaptively from its matrices, in d = 3 and 5.",
    source="Lemmas 3.2, 3.3, B.2; flow maps derived",
    formula=r"\dot x=(\langle a,x\rangle+\beta)_+P_x^\perp\omega \iff \dot y=-g,\quad y=\ln\tan(\vartheta/2)",
    falsifier="a sign in the Moebius denominator, or the gate open on the other side",
)
def exact_flows(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    worst = []
    for d in (3, 5):
        x = unit(rng.normal(size=(10 if run.quick else 60, d)))
        masses = np.full(len(x), 1 / len(x))
        for piece in sample_pieces(d, rng):
            exact = piece.flow(x, masses)
            worst.append(np.abs(exact - transformer_flow(piece.matrices(), piece.duration, x)).max())
    return at_most(
        1e-9,
        max(worst),
        because="global error of the adaptive solver at relative tolerance 1e-12",
        parameters={"d": "3, 5"},
    )


@PAPER.claim(
    "schedule-is-a-transformer",
    statement="Every piece of a constructed schedule, written out as matrices V, B, W, U and b, moves each measure as "
    "the closed forms say.",
    source="(1.3), Section 1.1",
    formula=r"\dot x=P_x^\perp\big(VA_B[\mu](x)+W(Ux+b)_+\big)",
    falsifier="a mean taken over all measures together, or a factor lost between a flow and its matrices",
)
def schedule_is_a_transformer(run: Run) -> Measurement:
    found = shared_atom() if run.quick else dirac(3, 3, 40, run.seed)
    worst = 0.0
    for seen in found.stages:
        for weights, before, after in zip(found.schedule.matrices(), seen[:-1], seen[1:], strict=True):
            there = transformer_flow(weights, float(weights["dt"]), before)
            worst = max(worst, float(np.abs(there - after).max()))
    return at_most(
        1e-8,
        worst,
        because="global error of the adaptive solver at relative tolerance 1e-12",
        parameters={"pieces": found.n_pieces, "N": len(found.sources)},
    )


@PAPER.claim(
    "orthogonal-mean-rests",
    statement="A measure whose mean is orthogonal to alpha does not move under V = alpha alpha^T, for as long as one "
    "likes, while the equilibrium is unstable: without the rule that sets rounding to zero it leaves like e^t.",
    source="Lemma 3.3",
    formula=r"\langle\alpha,m(\mu)\rangle=0 \Rightarrow \tau(t)=0",
    falsifier="normalising the mean, or one shift per particle",
)
def orthogonal_mean_rests(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    x = unit(rng.normal(size=(80, 5)) + 2)
    alpha = within(rng, 1, x.mean(axis=0)[None])[0]
    masses = np.full(80, 1 / 80)
    exact = RankOne(duration=18.8, alpha=alpha).flow(x, masses)
    plain = transformer_flow(RankOne(duration=5.0, alpha=alpha).matrices(), 5.0, x)
    moved = [np.abs(exact - x).max(), np.abs(plain - x).max()]
    return at_most(
        [1e-15, 1e-15 * np.exp(5.0)],
        moved,
        labels=("closed form, t = 18.8", "adaptive solver, t = 5"),
        because="a few roundings of a coordinate, and those grown by e^t",
    )


@PAPER.claim(
    "time-reversal",
    statement="The pieces in the other order with V and W of the other sign undo the schedule, phase by phase.",
    source="Section 1.1, time reversal",
    formula=r"\Phi_\theta^{-1}=\Phi_{\bar\theta},\quad \bar\theta(t)=(-V,B,-W,U,b)(T-t)",
    falsifier="turning V around but not W, or keeping the order",
)
def time_reversal(run: Run) -> Measurement:
    found = dirac(3, 3, 50 if run.quick else 150, run.seed)
    ends = [start for _, start in found.phases[1:]] + [found.n_pieces]
    errors = []
    for (_, start), end in zip(found.phases, ends, strict=True):
        back = found.schedule[start:end].inverse()
        returned = back.apply(found.clouds_at(end))
        errors.append(max(np.abs(a - b).max() for a, b in zip(returned, found.clouds_at(start), strict=True)))
    return at_most(
        1e-9,
        errors,
        labels=tuple(name for name, _ in found.phases),
        because="rounding 1e-16 grown by what a phase contracts, at most 1e6",
    )
