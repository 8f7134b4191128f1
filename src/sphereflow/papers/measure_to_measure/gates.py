"""The gate of Lemma B.2: the printed sign, the corrected one, and the chain of balls it is made for."""

from __future__ import annotations

import itertools

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.scenes import cap
from sphereflow.transport.sphere.flows import gate
from sphereflow.transport.sphere.pieces import Gate

BALL, STEP, CAPS = 0.3, 0.5, 5
CHAIN_EVERYWHERE = {20: 0.22, 80: 0.565, 160: 0.9995, 320: 1.0}
CHAIN_FIRST = {20: 0.0, 80: 0.0, 120: 0.998, 200: 1.0}


def moved_shares(sign: float, seed: int) -> np.ndarray:
    """Shares of the particles inside and outside B(z, R) that the gate sign (<z,x> - cos R) moves."""
    rng = np.random.default_rng(seed)
    z = unit(rng.normal(size=3))
    x = unit(rng.normal(size=(4000, 3)))
    inside = angles(x, z) < 0.8
    after = gate(x, sign * z, -sign * float(np.cos(0.8)), unit(z + 0.2 * rng.normal(size=3)), 3.0)
    moved = np.any(after != x, axis=1)
    return np.array([moved[inside].mean(), moved[~inside].mean()])


@PAPER.claim(
    "printed-gate-sign",
    statement="The gate of Lemma B.2 is meant to move what lies in the ball B(z, R) and nothing else. As printed it "
    "does the opposite.",
    source="(B.4), and in the same way (B.13)",
    formula=r"U=-\mathbf 1z^\top,\ b=\cos(R)\mathbf 1:\quad (\cos R-\langle z,x\rangle)_+>0 \iff x\notin B(z,R)",
    falsifier="a particle inside the ball moved by the printed gate",
)
def printed_gate_sign(run: Run) -> Measurement:
    return agreement(
        [0.0, 1.0],
        moved_shares(-1.0, run.seed),
        absolute=0.0,
        printed=[1.0, 0.0],
        because="whether a particle is moved is decided by a sign",
        labels=("moved inside", "moved outside"),
    )


@PAPER.claim(
    "corrected-gate-sign",
    statement="With both signs turned around the gate moves every particle inside the ball and no other one.",
    source="Lemma B.2, corrected",
    formula=r"U=\mathbf 1z^\top,\quad b=-\cos(R)\mathbf 1",
    falsifier="a particle outside the ball that moves, by however little",
)
def corrected_gate_sign(run: Run) -> Measurement:
    return agreement(
        [1.0, 0.0],
        moved_shares(1.0, run.seed),
        absolute=0.0,
        because="whether a particle is moved is decided by a sign",
        labels=("moved inside", "moved outside"),
    )


def chain_centres() -> np.ndarray:
    angle = STEP * np.arange(CAPS)
    return np.stack([np.cos(angle), np.sin(angle), np.zeros(CAPS)], axis=1)


def ball_gate(centre: np.ndarray) -> Gate:
    return Gate(duration=1.0, a=centre, beta=-float(np.cos(BALL)), omega=centre)


def hops(x: np.ndarray, t: float, sign: float = 1.0) -> list[np.ndarray]:
    """Start and four hops: gate k is open in cap k and leads to the midpoint of caps k and k + 1."""
    centres, seen = chain_centres(), [x]
    for here, following in itertools.pairwise(centres):
        seen.append(gate(seen[-1], sign * here, -sign * float(np.cos(BALL)), unit(here + following), t))
    return seen


def chain(x: np.ndarray, t: float, sign: float = 1.0) -> np.ndarray:
    """Where the particles are after the last hop."""
    return hops(x, t, sign)[-1]


def arrived(x: np.ndarray) -> float:
    return float(np.mean(angles(x, chain_centres()[-1]) < BALL))


def uniform_cap(rng: np.random.Generator, centre: np.ndarray, n: int) -> np.ndarray:
    """Uniform in area in a cap of the two-sphere."""
    x = cap(rng, centre, BALL, n)
    height = 1 - (1 - np.cos(BALL)) * rng.uniform(size=n)
    across = unit(x - (x @ centre)[:, None] * centre)
    return height[:, None] * centre + np.sqrt(1 - height**2)[:, None] * across


@PAPER.claim(
    "chain-of-balls",
    statement="A chain of five overlapping balls carries mass from one end to the other: the share that arrives, for "
    "mass spread over all balls and for mass in the first, against the time of each hop.",
    source="Lemma B.1, with the corrected gate",
    formula=r"\mu(T)(B_K)\ge(1-\varepsilon)^{K-1}\,\mu_0\Big(\bigcup_kB_k\Big)",
    falsifier="the printed sign, under which nothing inside the balls moves",
)
def chain_of_balls(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    n = 3000 if run.quick else 40000
    centres = chain_centres()
    everywhere = np.concatenate([uniform_cap(rng, c, n // CAPS) for c in centres])
    first = uniform_cap(rng, centres[0], n)
    predicted = [*CHAIN_EVERYWHERE.values(), *CHAIN_FIRST.values()]
    measured = [arrived(chain(everywhere, t)) for t in CHAIN_EVERYWHERE]
    measured += [arrived(chain(first, t)) for t in CHAIN_FIRST]
    spread = np.sqrt(np.array(predicted) * (1 - np.array(predicted)) / n)
    labels = tuple(f"all balls, t={t}" for t in CHAIN_EVERYWHERE) + tuple(f"first ball, t={t}" for t in CHAIN_FIRST)
    return agreement(
        predicted,
        measured,
        absolute=0.01 + 3 * spread,
        labels=labels,
        parameters={"n": n, "balls": CAPS},
        because="the reference shares are given to 0.01; three standard errors of n particles are added",
    )


@PAPER.claim(
    "dropped-mass-rate",
    statement="Dropping a share eta of the mass costs an error of order sqrt(eta) in W2, not of order eta.",
    source="Lemma A.1",
    formula=r"W_2\big((1-\eta)\delta_{x}+\eta\,\delta_{-x},\delta_x\big)=\pi\sqrt\eta",
    falsifier="an exponent of one",
)
def dropped_mass_rate(run: Run) -> Measurement:
    from sphereflow.transport.sphere.certificates import w2

    shares = np.array([1e-2, 1e-3, 1e-4])
    x = unit(np.ones(3))
    errors = [w2(np.stack([x, -x]), np.array([1 - eta, eta]), x[None], np.ones(1)) for eta in shares]
    exponent = np.polyfit(np.log(shares), np.log(errors), 1)[0]
    return agreement(0.5, exponent, absolute=1e-10, printed=1.0, because="the distance is closed; rounding only")
