"""The gate of Lemma B.2: the printed sign, the corrected one, and the chain of balls it is made for."""

from __future__ import annotations

import itertools

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.claims.basis import Equation
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.papers.measure_to_measure import PAPER
from sphereflow.papers.measure_to_measure.sources import TEXT, theorem
from sphereflow.papers.measure_to_measure.test_measures import cap
from sphereflow.transport.sphere.certificates import w2
from sphereflow.transport.sphere.flows import gate
from sphereflow.transport.sphere.pieces import Gate

BALL, STEP, CAPS = 0.3, 0.5, 5


def moved_shares(a: np.ndarray, beta: float, seed: int, z: np.ndarray) -> tuple[float, float]:
    """Shares of the particles inside and outside B(z, 0.8) that the gate (<a,x> + beta)_+ moves."""
    rng = np.random.default_rng(seed)
    x = unit(rng.normal(size=(4000, 3)))
    inside = angles(x, z) < 0.8
    moved = np.any(gate(x, a, beta, unit(z + 0.2 * rng.normal(size=3)), 3.0) != x, axis=1)
    return float(moved[inside].mean()), float(moved[~inside].mean())


@PAPER.claim(
    "gate-sign",
    says=r"The gate that moves what lies in the ball $B(z,R)$ and nothing else has $U=\mathbf 1z^\top$, "
    r"$b=-\cos(R)\mathbf 1$. With the printed weights it is open outside the ball and shut inside.",
    prints=r"$U=-\mathbf 1z^\top$, $b=\cos(R)\mathbf 1$ moves the ball $B(z,R)$ and is the identity outside (B.4).",
    basis=Equation("(B.4)", via=TEXT),
    formula=r"(\cos R-\langle z,x\rangle)_+>0 \iff x\notin B(z,R)",
)
def gate_sign(run: Run) -> Check:
    z = unit(np.random.default_rng(run.seed).normal(size=3))
    level = float(np.cos(0.8))
    check = Check(parameters={"R": 0.8})
    inside, outside = moved_shares(z, -level, run.seed, z)
    printed_inside, printed_outside = moved_shares(-z, level, run.seed, z)
    because = "decided by a sign"
    check.same("corrected: moved inside", predicted=1, measured=inside, because=because)
    check.same("corrected: moved outside", predicted=0, measured=outside, because=because)
    check.same("printed weights: moved outside", predicted=1, measured=printed_outside, because=because)
    check.same("printed weights: moved inside", predicted=0, measured=printed_inside, because=because)
    check.printed({"printed weights: moved inside": 1.0, "printed weights: moved outside": 0.0})
    half = moved_shares(z, level, run.seed, z)
    check.null(r"only $U$ turned around", {"corrected: moved inside": half[0], "corrected: moved outside": half[1]})
    return check


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


def stepped_chain(x: np.ndarray, t: float, steps: int = 400) -> np.ndarray:
    """The same by Runge-Kutta steps of x' = (<z,x> - cos R)_+ P_x w, written out."""
    for here, following in itertools.pairwise(chain_centres()):
        goal = unit(here + following)

        def velocity(y: np.ndarray, here: np.ndarray = here, goal: np.ndarray = goal) -> np.ndarray:
            opened = np.maximum(y @ here - np.cos(BALL), 0)[:, None]
            return opened * (goal - (y @ goal)[:, None] * y)

        h = t / steps
        for _ in range(steps):
            a = velocity(x)
            b = velocity(x + h / 2 * a)
            c = velocity(x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + velocity(x + h * c))
    return x


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
    says="A chain of five overlapping balls carries mass from one end to the other: the share that arrives is that of "
    r"the differential equation, and for hops of time 160 it exceeds $(1-\varepsilon)^4$ with $\varepsilon=0.05$, for "
    "mass in the first ball and for mass spread over all.",
    basis=theorem("Lemma B.1, with the gate of Lemma B.2 corrected"),
    formula=r"\mu(T)(B_K)\ge(1-\varepsilon)^{K-1}\,\mu_0\Big(\bigcup_kB_k\Big)",
)
def chain_of_balls(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    n = 500 if run.quick else 5000
    starts = {
        "all balls": np.concatenate([uniform_cap(rng, c, n // CAPS) for c in chain_centres()]),
        "first ball": uniform_cap(rng, chain_centres()[0], n),
    }
    check = Check(parameters={"n": n, "balls": CAPS})
    printed, short = {}, {}
    for where, x in starts.items():
        for t in (40.0, 80.0, 110.0):
            name = f"share arrived, {where}, $t={t:g}$"
            check.row(
                name,
                predicted=arrived(stepped_chain(x, t)),
                measured=arrived(chain(x, t)),
                tolerance=2.5 / n,
                because="two particles at the rim of the last ball",
            )
            printed[name] = arrived(chain(x, t, -1.0))
        name = f"share arrived, {where}, $t=160$"
        because = "the bound of the lemma; two particles at the rim"
        check.at_least(name, bound=0.95**4, measured=arrived(chain(x, 160.0)), tolerance=2.5 / n, because=because)
        printed[name] = arrived(chain(x, 160.0, -1.0))
        short[name] = arrived(chain(x, 80.0))
    check.null("the printed sign of the gate", printed)
    check.null("hops of half the time", short)
    return check


@PAPER.claim(
    "dropped-mass-rate",
    says=r"Dropping a share $\eta$ of the mass costs an error in $W_2$ of order $\sqrt\eta$.",
    prints=r"the error is of order $\eta$ (Lemma A.1).",
    basis=theorem("Lemma A.1"),
    formula=r"W_2\big((1-\eta)\delta_{x}+\eta\,\delta_{-x},\delta_x\big)=\pi\sqrt\eta",
)
def dropped_mass_rate(run: Run) -> Check:
    shares = (1e-2, 1e-3, 1e-4)
    x = unit(np.ones(3))
    check = Check(note="The printed order, with its constant fixed at the largest share.")
    for eta in shares:
        found = w2(np.stack([x, -x]), np.array([1 - eta, eta]), x[None], np.ones(1))
        check.row(f"$\\eta={eta:g}$", predicted=np.pi * eta**0.5, measured=found, relative=1e-9, because="rounding")
    check.printed([np.pi * shares[0] ** -0.5 * eta for eta in shares])
    check.rival(r"chordal distance, $2\sqrt\eta$", [2 * eta**0.5 for eta in shares])
    return check
