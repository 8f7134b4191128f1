r"""Learned instead of constructed: the gradient that automatic differentiation misses, and what it costs.

One piece with $w=0.7$, $a=1$, $b=0.3$ on data from N(0, 1): the likelihood contains $\lambda\,1\{s>0\}$, whose mean has
the derivative $\lambda\,p_s(0)$ in b. Automatic differentiation of the exact likelihood returns the rest.
"""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.special import ndtri
from scipy.stats import norm

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.transport_relative_entropy import PAPER, line, plane
from sphereflow.transport.euclidean.divergences import Divergences, divergences
from sphereflow.transport.euclidean.laws import gaussian
from sphereflow.transport.euclidean.named_laws import three_modes, two_modes
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.learned.schedules import objective, train_schedule

W, A, B = 0.7, 1.0, 0.3
TRAINING = basis.Extension("the same flow learned instead of constructed")
_LAWS = {1: two_modes, 2: three_modes}


def exact_loss(b: float) -> float:
    """The mean negative log-likelihood of the one piece, by quadrature on both sides of its hyperplane."""
    grown = np.expm1(W * A) / (W * A)

    def integrand(x: float) -> float:
        s = A * x + b
        z = x + W * grown * max(s, 0.0)
        return norm.pdf(x) * (-norm.logpdf(z) - (W * A if s > 0 else 0.0))

    sides = ((-12.0, -b), (-b, 12.0))
    return sum(quad(integrand, low, high, epsabs=1e-13, epsrel=1e-13)[0] for low, high in sides)


@cache
def gradients() -> dict[str, float]:
    """The derivative in b: by finite differences of the quadrature, and by all gradients on even quantiles."""
    step = 1e-4
    count = 50_000
    x = jnp.asarray(ndtri((np.arange(count) + 0.5) / count)[:, None])
    found = {"true": (exact_loss(B + step) - exact_loss(B - step)) / (2 * step)}
    weights = (jnp.array([[W]]), jnp.array([[A]]), jnp.array([B]))
    for kind in ("naive", "boundary"):
        slope = jax.jit(jax.grad(objective), static_argnums=2)(weights, x, kind)
        found[kind] = float(slope[2][0])
    return found


@PAPER.claim(
    "gradient",
    says="Plain automatic differentiation of the exact likelihood is biased: it misses the boundary term, and agrees "
    "with finite differences once that is added.",
    basis=TRAINING,
    formula=r"\partial_b\,E[\lambda\,1\{s>0\}]=\lambda\,p_s(0)",
)
def gradient(run: Run) -> Check:
    found = gradients()
    missing = W * A * float(norm.pdf(B))
    check = Check()
    check.row(
        "automatic differentiation less the truth",
        predicted=missing,
        measured=found["naive"] - found["true"],
        tolerance=1e-4,
        because="50,000 even quantiles",
    )
    check.row(
        "with the boundary term",
        predicted=found["true"],
        measured=found["boundary"],
        tolerance=1e-3,
        because="one part in a thousand for the kernel estimate of the density at the boundary",
    )
    check.rival("automatic differentiation is right", {"automatic differentiation less the truth": 0.0})
    check.rival("the boundary term not needed", {"with the boundary term": found["true"] + missing})
    return check


def stall() -> float:
    """KL(target||N(0, 17/4)): the Gaussian with the moments of the two modes at -2 and 2 of variance 1/4."""

    def integrand(y: float) -> float:
        p = sum(math.exp(-2 * (y - c) ** 2) for c in (-2, 2)) / math.sqrt(2 * math.pi)
        return p * (math.log(p) - norm.logpdf(y, scale=math.sqrt(4.25)))

    return 2 * quad(integrand, 0, 8, points=(1, 2, 3))[0]


@cache
def trained(d: int, pieces: int, kind: str, steps: int, seed: int) -> tuple[Schedule, Divergences]:
    law = _LAWS[d]()
    schedule = train_schedule(law, pieces, gradient=kind, steps=steps, seed=seed).schedule
    return schedule, divergences(schedule, gaussian(d), law, seed=seed)


def steps(run: Run) -> int:
    return 500 if run.quick else 2000


@PAPER.claim(
    "training-stall",
    says="On the line, training without the boundary term stalls at the Gaussian with the moments of the target; with "
    "it, training goes on to less than half of that.",
    basis=TRAINING,
    formula=r"\mathrm{KL}(\rho_*\|N(0,\tfrac{17}4))=0.7236",
)
def training_stall(run: Run) -> Check:
    pieces = (10,) if run.quick else (4, 10, 18)
    check = Check(parameters={"steps": steps(run), "batch": 2000})
    for k in pieces:
        naive, good = (trained(1, k, kind, steps(run), run.seed)[1].forward.value for kind in ("naive", "surrogate"))
        check.row(
            f"without the boundary term, {k} pieces",
            predicted=stall(),
            measured=naive,
            tolerance=0.01,
            because="noise of the last steps of Adam",
        )
        because = "half of what the Gaussian leaves; noise of the last steps of Adam"
        check.at_most(f"with it, {k} pieces", bound=stall() / 2, measured=good, tolerance=0.01, because=because)
        check.null(f"both trained without it, {k} pieces", {f"with it, {k} pieces": float(naive)})
        check.rival(
            f"the construction with as many switches, {k} pieces",
            {f"without the boundary term, {k} pieces": float(line.row(max(k - 2, 4))[1].forward)},
        )
    return check


@PAPER.claim(
    "training-frontier",
    says="On the line training with nine switches stays above the least error that nine switches leave; in the plane "
    "it reaches with seven switches less than half of what the construction leaves with twenty-three.",
    basis=TRAINING,
    formula=r"\mathrm{KL}(\rho_*\|\rho_\theta)\ \text{against switches}",
)
def training_frontier(run: Run) -> Check:
    on_line = trained(1, 10, "surrogate", steps(run), run.seed)[1].forward.value
    in_plane = trained(2, 8, "surrogate", steps(run), run.seed)[1].forward
    grid = plane.row(2, plane.samples(run, 2), run.seed).forward
    check = Check(parameters={"steps": steps(run)})
    check.at_least(
        "line, trained, 9 switches",
        bound=line.plain_constants()[0] / 9**2,
        measured=on_line,
        relative=1 / 9,
        because="the leading order of the least error of 9 switches; corrections of relative order 1/K",
    )
    check.at_most(
        "plane, trained, 7 switches",
        bound=grid.value / 2,
        measured=in_plane.value,
        error=np.hypot(grid.error / 2, in_plane.error),
        because="standard errors",
    )
    check.null("the plane constructed with 23 switches", {"plane, trained, 7 switches": float(grid.value)})
    check.null("the line constructed with 17 switches", {"line, trained, 9 switches": float(line.row(16)[1].forward)})
    return check
