r"""The distance between finite and zero temperature at fixed times, with its constant, and laws without full support.

Circle, V = diag(1, 0.3), B = 1: $W_2(\mu_\beta(t),\mu_\infty(t))$ in the coupling by labels, which is optimal as long
as tokens keep their order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.low_temperature_concentration import PAPER, phases
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    SHARED_V,
    TOKENS,
    axis_distance,
    equispaced,
    follow,
    wrapped,
)
from sphereflow.papers.low_temperature_concentration.sources import TERMINAL

_GAP = 0.7
BETAS = (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


def betas(run: Run) -> tuple[float, ...]:
    return BETAS[:-1] if run.quick else BETAS


@lru_cache(maxsize=32)
def early(beta: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Times up to 2 and angles."""
    times = np.arange(FRAMES) / 32
    return times, follow(beta, SHARED_V, np.eye(2), equispaced(n), times, 1 / 16)


@lru_cache(maxsize=32)
def late(beta: float, n: int, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Times up to 6.6 and angles."""
    times = np.arange(FRAMES) / 10
    return times, follow(beta, SHARED_V, np.eye(2), equispaced(n), times, dt)


def off_limit(times: np.ndarray, angles: np.ndarray, t: float) -> np.ndarray:
    """Angles between tokens and their own places at zero temperature."""
    i = int(np.argmin(np.abs(times - t)))
    start = angles[0]
    limit = np.arctan2(np.exp(-_GAP * times[i]) * np.sin(start), np.cos(start))
    return wrapped(angles[i] - limit)


def gap_to_limit(times: np.ndarray, angles: np.ndarray, t: float) -> float:
    """Root mean square angle between a token and its own place at zero temperature."""
    return float(np.sqrt(np.mean(off_limit(times, angles, t) ** 2)))


def tokens(run: Run) -> int:
    return TOKENS if run.quick else 2000


def early_gaps(run: Run, t: float) -> Float[np.ndarray, " b"]:
    return np.array([gap_to_limit(*early(b, tokens(run)), t) for b in betas(run)])


def late_gaps(run: Run, t: float) -> tuple[tuple[float, ...], Float[np.ndarray, " b"]]:
    used = (30.0, 100.0, 300.0) if run.quick else BETAS[1:]
    return used, np.array([gap_to_limit(*late(b, tokens(run), 0.2 if run.quick else 0.1), t) for b in used])


def first_order_gap(t: float, radial: float = 1.0, gradient: float = 1.0) -> float:
    r"""The constant K of $W_2(\mu_\beta(t),\mu_\infty(t))=K/\beta+O(\beta^{-2})$.

    The displacement $\delta/\beta$ of a token obeys
    $\dot\delta=-c\cos(2\theta)\delta+\frac c2\sin\theta\cos\theta+(v_1\sin^2\theta+v_2\cos^2\theta)\,
    \partial_\theta\log\rho_t(\theta)$ along the zero-temperature flow, whose density is
    $\rho_t=e^{ct}/(\cos^2\theta+e^{2ct}\sin^2\theta)$. `radial` and `gradient` weigh the two sources.
    """
    start = np.pi / 2 * (np.arange(400) + 0.5) / 400

    def slope(s: float, delta: np.ndarray) -> np.ndarray:
        theta = np.arctan2(np.exp(-_GAP * s) * np.sin(start), np.cos(start))
        grow = np.exp(2 * _GAP * s)
        log_slope = -(grow - 1) * np.sin(2 * theta) / (np.cos(theta) ** 2 + grow * np.sin(theta) ** 2)
        source = radial * _GAP / 4 * np.sin(2 * theta)
        source = source + gradient * (np.sin(theta) ** 2 + 0.3 * np.cos(theta) ** 2) * log_slope
        return np.asarray(-_GAP * np.cos(2 * theta) * delta + source)

    end = solve_ivp(slope, (0, t), np.zeros(400), rtol=1e-9, atol=1e-12).y[:, -1]
    return float(np.sqrt(np.mean(end**2)))


@PAPER.claim(
    "one-over-beta",
    says=r"For a smooth law with full support the distance to zero temperature at fixed times is $K(t)/\beta$, with "
    r"the constant that the expansion of the attention average gives: faster than $\sqrt{\log\beta/\beta}$.",
    basis=basis.Derived(
        "the expansion of the attention average, carried along the flow; the abstract bounds this distance"
    ),
    formula=r"W_2(\mu_\beta(t),\mu_\infty(t))=\frac{K(t)}\beta+O(\beta^{-2})",
)
def one_over_beta(run: Run) -> Check:
    sharp = (300.0, 1000.0)
    check = Check(parameters={"n": tokens(run), "V": "diag(1, 0.3)", "B": 1})
    radial, gradient, guaranteed = {}, {}, {}
    for t in (0.5, 1.0, 2.0):
        constant = first_order_gap(t)
        for beta in sharp:
            name = rf"$\beta W_2$ at $t={t:g}$, $\beta={beta:g}$"
            check.row(
                name,
                predicted=constant,
                measured=beta * gap_to_limit(*early(beta, tokens(run)), t),
                relative=10 / beta,
                because="the next order, 1/beta times a factor that grows with the slope of the density",
            )
            radial[name] = first_order_gap(t, gradient=0.0)
            gradient[name] = first_order_gap(t, radial=0.0)
            guaranteed[name] = constant * beta / 300 * np.sqrt(np.log(beta) / beta / (np.log(300) / 300))
    check.rival("without the gradient of the density", radial)
    check.rival("the gradient of the density alone", gradient)
    check.rival(r"the order $\sqrt{\log\beta/\beta}$, fixed at $\beta=300$", guaranteed)
    return check


@PAPER.claim(
    "partial-support",
    says=r"For a law on an arc the distance to zero temperature falls more slowly, since the edges see one side only: "
    r"like $\beta^{-1}$, $\beta^{-3/4}$ and $\beta^{-1/2}$ in $W_1$, $W_2$ and $W_\infty$ ($B=1$).",
    basis=basis.Extension("laws without full support, which the limit equation of the paper excludes"),
    formula=r"W_1\sim\beta^{-1},\ W_2\sim\beta^{-3/4},\ W_\infty\sim\beta^{-1/2}",
)
def partial_support(run: Run) -> Check:
    arc = 0.3 + 0.9 * (np.arange(TOKENS) + 0.5) / TOKENS
    times = np.arange(FRAMES) / 32
    sharp = (300.0, 3000.0)
    off = [np.abs(off_limit(times, follow(b, SHARED_V, np.eye(2), arc, times, 1 / 16), 1.0)) for b in sharp]
    sizes = {
        "W_1": [z.mean() for z in off],
        "W_2": [np.sqrt(np.mean(z**2)) for z in off],
        r"W_\infty": [z.max() for z in off],
    }
    check = Check(parameters={"n": TOKENS, "t": 1, "beta": sharp})
    for (name, (low, high)), power in zip(sizes.items(), (-1.0, -0.75, -0.5), strict=True):
        check.row(
            f"exponent of ${name}$",
            predicted=power,
            measured=np.log10(high / low),
            tolerance=0.05,
            because="the next term, smaller by beta^(-1/2)",
        )
    names = [row.name for row in check.rows]
    check.rival("the order of full support", dict.fromkeys(names, -1.0))
    check.rival("one half in every distance", dict.fromkeys(names, -0.5))
    return check


@PAPER.claim(
    "no-departure",
    says="When $V$ and $VB^\\top$ share their leading eigenvector the distance to the limit points never grows "
    "again, up to $t=6.6$; when they do not, it does.",
    basis=TERMINAL,
    formula=r"\frac{d}{dt}W_2(\mu_\beta(t),\Pi_\#\mu_0)\le0",
)
def no_departure(run: Run) -> Check:
    used = (30.0, 100.0, 300.0) if run.quick else BETAS
    check = Check(parameters={"t": "0 to 6.6"})
    for beta in used:
        step = 0.2 if run.quick else 0.1
        growth, coarse = (np.diff(axis_distance(late(beta, tokens(run), h)[1], 0.0)).max() for h in (step, 2 * step))
        name, because = rf"largest growth, $\beta={beta:g}$", "monotone; what a step twice as long changes"
        check.at_most(name, bound=0.0, measured=growth, tolerance=abs(growth - coarse), because=because)
    law = phases.split_law(30.0, run.quick)
    apart = float(np.diff(law.support_distance()[law.ts <= 9]).max())
    check.null("different leading eigenvectors", {check.rows[0].name: apart})
    return check
