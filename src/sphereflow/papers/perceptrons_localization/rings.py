r"""One attracting relu neuron in dimension three: a ring, singular but not atomic (peak convention).

$$e^{-x}(I_0(x)-I_1(x))=w,\quad x=\beta\sin^2\delta,\qquad
  \mathsf E=\frac{e^{-x}I_0(x)}{2\beta}-\frac w2\Big(1-\frac x\beta\Big).$$
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import gamma, ive

from sphereflow import landscape
from sphereflow.claims import Check, Run
from sphereflow.landscape import Problem
from sphereflow.landscape.rings import ring_points
from sphereflow.papers.perceptrons_localization import PAPER
from sphereflow.papers.perceptrons_localization.sources import ANY_DIMENSION, EXAMPLE, MINIMISER
from sphereflow.papers.perceptrons_localization.splitting import half_angle, problem


def ring(beta: float, w: float) -> tuple[float, float]:
    """(cosine of the polar angle, energy) of the single ring, by a root of the closed equation."""
    x = brentq(lambda x: ive(0, x) - ive(1, x) - w, 0.0, beta, xtol=1e-15)
    return float(np.sqrt(1 - x / beta)), float(ive(0, x) / (2 * beta) - w / 2 * (1 - x / beta))


@PAPER.claim(
    "ring",
    says="In dimension three the split minimiser is a uniform ring about the neuron, at a height in closed form, for "
    r"three pairs of $\beta$ and $w$. (Above $w=1$ it closes to a point, below another weight the pole is charged.)",
    basis=EXAMPLE,
    formula=r"e^{-x}(I_0(x)-I_1(x))=w,\qquad x=\beta\sin^2\delta",
)
def ring_claim(run: Run) -> Check:
    check = Check()
    circle, pole = {}, {}
    for beta, w in ((5.0, 0.9), (5.0, 0.5), (10.0, 0.5)):
        found = landscape.minimise(problem(beta, w, 3))
        name = f"$\\beta={beta:g}$, $w={w:g}$"
        height, energy = ring(beta, w)
        for what, right, got in (("height", height, found.heights[0]), ("energy", energy, found.energy)):
            check.row(f"{what}, {name}", predicted=right, measured=got, tolerance=1e-12, because="rounding")
        check.same(f"rings, {name}", predicted=1, measured=len(found))
        check.row(f"proved gap, {name}", predicted=0.0, measured=found.gap, tolerance=1e-10, because="certified")
        circle[f"height, {name}"] = float(np.cos(half_angle(beta, w)))
        pole[f"energy, {name}"] = 1 / (2 * beta) - w / 2
    check.rival("the angle of the pair on the circle", circle)
    check.rival("a Dirac at the pole", pole)
    return check


@PAPER.claim(
    "ring-range",
    says="One ring is the minimiser between two thresholds: $w=1$, above which it closes to a point, and a lower one, "
    "below which the pole carries mass too.",
    basis=EXAMPLE,
    formula=r"g(\text{pole})=\lambda:\quad w=0.296614,\ 0.227543,\ 0.197745\quad(\beta=5,10,20)",
)
def ring_range(run: Run) -> Check:
    def at_pole(beta: float, w: float) -> float:
        """g at the pole less the multiplier of the ring."""
        height = ring(beta, w)[0]
        x = beta * (1 - height**2)
        return float(np.exp(beta * (height - 1)) / beta - w / 2 - ive(0, x) / beta + w / 2 * height**2)

    check = Check()
    never: dict[str, float] = {}
    early: dict[str, float] = {}
    for beta in (5.0, 10.0, 20.0):
        low = brentq(lambda w, b=beta: at_pole(b, w), 0.15, 0.6, xtol=1e-12)
        for side, shift, rings, poles in (("above", 2e-4, 1, 0), ("below", -2e-4, 2, 1)):
            found = landscape.minimise(problem(beta, low + shift, 3))
            name = f"{side} $w={low:.6f}$, $\\beta={beta:g}$"
            check.same(f"rings {name}", predicted=rings, measured=len(found))
            charged = int(np.sum(found.heights > 1 - 1e-12))
            check.same(f"of them the pole, {name}", predicted=poles, measured=charged)
            (never if side == "below" else early)[f"rings {name}"] = 1 if side == "below" else 2
    closed = landscape.minimise(problem(5.0, 1.01, 3))
    check.same("rings at $w=1.01$", predicted=1, measured=len(closed))
    check.row("height at $w=1.01$", predicted=1.0, measured=closed.heights[0], tolerance=1e-12, because="rounding")
    check.rival("the pole is never charged", never)
    check.rival("the pole charged from the threshold of the circle on", early)
    return check


@PAPER.claim(
    "ring-is-uniform",
    says="$M$ equally spaced atoms on the ring have more energy than the uniform ring, by a sum of Bessel functions, "
    "and their first variation is larger at the atoms than midway: they are no minimiser.",
    basis=MINIMISER,
    formula=r"\mathsf E_M-\mathsf E_\infty=\frac1\beta\sum_{j\ge1}e^{-x}I_{jM}(x),\quad "
    r"g_{atom}-g_{mid}=\frac4\beta\sum_{j\ \mathrm{odd}}e^{-x}I_{jM}(x)",
)
def ring_is_uniform(run: Run) -> Check:
    beta, w = 5.0, 0.5
    here = problem(beta, w, 3)
    height, energy = ring(beta, w)
    x = beta * (1 - height**2)
    check = Check(parameters={"beta": beta, "w": w})
    first, equal = {}, {}
    for m in (2, 3, 4, 6):
        atoms = ring_points(np.eye(3)[0], np.arccos(height), m)
        fine = ring_points(np.eye(3)[0], np.arccos(height), 2 * m)
        g = landscape.first_variation(here, atoms, np.full(m, 1 / m), fine)
        excess, step = f"energy above the ring, {m} atoms", f"g at an atom above g midway, {m} atoms"
        right = sum(ive(j * m, x) for j in range(1, 20)) / beta
        got = landscape.energy(here, atoms) - energy
        check.row(excess, predicted=right, measured=got, tolerance=1e-14, because="rounding of a few exponentials")
        odd = 4 / beta * sum(ive(j * m, x) for j in range(1, 20, 2))
        check.row(step, predicted=odd, measured=g[0] - g[1], tolerance=1e-14, because="rounding")
        first[excess] = float(ive(m, x) / beta)
        equal[step] = 0.0
    check.rival("the first Bessel function only", first)
    check.rival("atoms as good as the ring", equal)
    return check


def _uniform_ring(beta: float, height: float, points: np.ndarray, outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """g of the uniform ring about the first axis, with Bessel functions: no atoms anywhere."""
    z = points[:, 0]
    across = beta * np.sqrt(np.maximum((1 - z**2) * (1 - height**2), 0))
    kernel = np.exp(beta * (z * height - 1) + across) * ive(0, across)
    return np.asarray(kernel / beta + np.maximum(points @ inner.T, 0) ** 2 @ outer / 2)


@PAPER.claim(
    "ring-with-generic-weights",
    says="For three relu neurons in general position on $S^2$ the uniform ring about the first one satisfies the "
    "conditions of optimality, also after the other two are perturbed: the unique minimiser is a ring, not atoms.",
    basis=ANY_DIMENSION,
    formula=r"g\ge\lambda\text{ on }S^2,\quad g=\lambda\text{ on the ring }\{a_1\cdot x=\cos\delta\}",
)
def ring_with_generic_weights(run: Run) -> Check:
    beta, w = 5.0, 0.6
    directions = np.array([[1.0, 0.0, 0.0], [-0.6, 0.8, 0.0], [-0.5, -0.3, 0.8]])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    rng = np.random.default_rng(run.seed)
    height = ring(beta, w)[0]
    sphere = rng.standard_normal((20_000, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    near = np.concatenate([ring_points(np.eye(3)[0], np.arccos(height) + shift, 60) for shift in (-0.01, 0.0, 0.01)])
    places = np.concatenate([sphere, near])
    on_ring = ring_points(np.eye(3)[0], np.arccos(height), 120)
    check = Check(
        note="The minimiser is unique, so that no atomic measure can be one. Twelve or more atoms on the ring cannot "
        "be told from it by energies in double precision; the first variation of the ring itself is exact.",
        parameters={"beta": beta, "w": w, "places": len(places)},
    )
    few, other, off = {}, {}, {}
    for draw in range(3):
        inner = directions + np.concatenate([np.zeros((1, 3)), 0.02 * rng.standard_normal((2, 3))])
        outer = np.array([-w, 0.4, 0.3]) + np.array([0.0, 0.02, 0.02]) * rng.standard_normal(3)
        here = Problem(beta, outer, inner)

        def least(h: float, outer: np.ndarray = outer, inner: np.ndarray = inner) -> float:
            ours = ring_points(np.eye(3)[0], np.arccos(h), 120)
            level = _uniform_ring(beta, h, ours, outer, inner).mean()
            return float(np.min(_uniform_ring(beta, h, places, outer, inner)) - level)

        silent = f"largest argument of the other neurons on the ring, draw {draw + 1}"
        argument, because = np.max(on_ring @ inner[1:].T), "silent on the ring; rounding"
        check.at_most(silent, bound=0.0, measured=argument, tolerance=1e-13, because=because)
        below = f"least g minus its value on the ring, draw {draw + 1}"
        check.at_least(below, bound=0.0, measured=least(height), tolerance=1e-13, because="rounding")
        # The library on 60 atoms, whose first variation is that of the ring to 1e-100, against the Bessel functions.
        atoms = ring_points(np.eye(3)[0], np.arccos(height), 60)
        library = landscape.first_variation(here, atoms, np.full(60, 1 / 60), sphere[:200])
        gap = np.abs(library - _uniform_ring(beta, height, sphere[:200], outer, inner)).max()
        check.row(
            f"library against Bessel, draw {draw + 1}", predicted=0.0, measured=gap, tolerance=1e-13, because="rounding"
        )
        four = ring_points(np.eye(3)[0], np.arccos(height), 4)
        g = landscape.first_variation(here, four, np.full(4, 0.25), np.concatenate([four, places]))
        few[below] = float(g[4:].min() - g[:4].mean())
        other[below] = least(float(np.cos(half_angle(beta, w))))
        off[silent] = float(np.max(on_ring @ -inner[1:].T))
    check.null("four atoms on the ring", few)
    check.null("a ring at the angle of the circle", other)
    check.null("the other neurons turned round", off)
    return check


@PAPER.claim(
    "no-perceptron",
    says="Without a perceptron the minimum is the energy of the uniform measure.",
    basis=MINIMISER,
    formula=r"\mathsf E=\frac1{2\beta}\Gamma(\tfrac d2)\Big(\frac2\beta\Big)^{d/2-1}I_{d/2-1}(\beta)",
)
def no_perceptron(run: Run) -> Check:
    cases = ((2, 2.0), (3, 4.0), (5, 5.0)) if run.quick else ((2, 2.0), (3, 4.0), (5, 5.0), (16, 3.0), (64, 9.0))
    check = Check()
    pair, order = {}, {}
    for d, beta in cases:
        found = landscape.minimise(Problem(beta, [0.0], np.eye(1, d)), 361).energy
        name = f"$d={d}$, $\\beta={beta:g}$"

        def uniform(nu: float, d: int = d, beta: float = beta) -> float:
            return float(gamma(d / 2) * (2 / beta) ** (d / 2 - 1) * ive(nu, beta) / (2 * beta))

        right = uniform(d / 2 - 1)
        check.row(name, predicted=right, measured=found, tolerance=1e-10, because="certified to about 1e-11")
        pair[name] = (1 + np.exp(-2 * beta)) / (4 * beta)
        order[name] = uniform(d / 2)
    check.rival("two antipodal atoms", pair)
    check.rival("$I_{d/2}$", order)
    return check
