r"""Claims about the orthogonal start: particles against the scalar equation, and how long collapse takes."""

from __future__ import annotations

from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from scipy import integrate, special

from sphereflow.claims import Check, Run, basis
from sphereflow.evolution import run_layers
from sphereflow.papers.mathematical_perspective import sources
from sphereflow.papers.mathematical_perspective.equiangular import (
    collapse_time,
    gamma,
    kuramoto_gamma,
    layer_gamma,
    log_gap_speed,
)
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import Model, attention, follow, gaps, velocities

_CASES: list[tuple[Model, int, float]] = [
    (model, n, beta) for model in ("sa", "usa") for n in (8, 32) for beta in (0.0, 1.0, 5.0)
]
_USA_LAST_TIME = {0.0: 6.0, 1.0: 3.0, 5.0: 1.2}
_SLOPE_GAPS = (1e-5, 1e-9)


def _name(model: Model, n: int, beta: float) -> str:
    return f"{model.upper()} n={n} beta={beta:g}"


def without_the_token_itself(times: np.ndarray, n: int) -> np.ndarray:
    r"""The inner product if attention left the token out: $\dot\gamma=\frac{2(1-\gamma)((n-1)\gamma+1)}{n-1}$."""
    return kuramoto_gamma(np.asarray(times) * n / (n - 1), n)


@PAPER.claim(
    "orthogonal-start",
    says="From an orthogonal start all inner products of 8 or 32 tokens stay equal and follow one scalar equation, "
    "under SA to $t=6$ and under USA, at $\\beta=0$, 1 and 5.",
    basis=sources.ORTHOGONAL,
    formula=r"\dot\gamma=\frac{2(1-\gamma)((n-1)\gamma+1)}{e^{\beta(1-\gamma)}+n-1}",
)
def orthogonal_start(run: Run) -> Check:
    check, alone, flat = Check(), {}, {}
    for model, n, beta in _CASES:
        times = np.linspace(0, 6.0 if model == "sa" else _USA_LAST_TIME[beta], 25)[1:]
        inner = 1 - gaps(follow(model, beta, np.eye(n), times))
        exact = gamma(times, n, beta, model)
        name, middle = _name(model, n, beta), 8
        row, because = f"{name}, t={times[middle]:.3g}", "particles solved to 1e-10, the scalar equation to 1e-13"
        check.row(row, predicted=exact[middle], measured=inner[middle].mean(), tolerance=1e-9, because=because)
        worst = np.abs(inner - exact[:, None]).max()
        check.row(f"{name}, all pairs and times", predicted=0.0, measured=worst, tolerance=1e-9, because=because)
        if model == "sa":
            alone[row] = float(without_the_token_itself(times[middle : middle + 1], n)[0])
        if beta:
            flat[row] = float(kuramoto_gamma(times[middle : middle + 1], n)[0])
    check.rival("attention without the token itself", alone)
    check.rival("no effect of beta", flat)
    return check


@PAPER.claim(
    "closed-form-at-beta-zero",
    says="At $\\beta=0$ the common inner product of 8 or 32 tokens has a closed form, the same for SA and USA.",
    basis=basis.Derived("the theorem on orthogonal tokens at beta = 0"),
    formula=r"\gamma(t)=\frac{e^{2t}-1}{e^{2t}+n-1}",
)
def closed_form_at_beta_zero(run: Run) -> Check:
    times, check = np.array([0.5, 2.0, 6.0]), Check()
    cases: list[tuple[Model, int]] = [("sa", 8), ("sa", 32), ("usa", 8), ("usa", 32)]
    alone: dict[str, float] = {}
    half: dict[str, float] = {}
    for model, n in cases:
        rows = [f"{model.upper()}, n={n}, t={t:g}" for t in times]
        exact = np.expm1(2 * times) / (np.exp(2 * times) + n - 1)
        found = 1 - gaps(follow(model, 0.0, np.eye(n), times)).mean(axis=-1)
        check.series(rows, predicted=exact, measured=found, tolerance=1e-9, because="the particles are solved to 1e-10")
        alone.update(zip(rows, without_the_token_itself(times, n).tolist(), strict=True))
        half.update(zip(rows, (np.expm1(times) / (np.exp(times) + n - 1)).tolist(), strict=True))
    check.rival("the normaliser n - 1", alone)
    check.rival("half the rate", half)
    return check


@PAPER.claim(
    "collapse-time",
    says="The time from orthogonality to inner product 0.999 of 32 tokens is an explicit integral: particles cross "
    "there, under SA and USA at six $\\beta$ from 0 to 9.",
    basis=basis.Derived("the theorem on orthogonal tokens"),
    formula=r"t^*=\int_0^{1-\delta}\frac{e^{\beta(1-g)}+n-1}{2(1-g)((n-1)g+1)}\,dg",
)
def collapse_times(run: Run) -> Check:
    betas, check = (0.0, 1.0, 3.0, 5.0, 7.0, 9.0), Check()
    cases: list[tuple[Model, int, float]] = [(model, 32, beta) for model in ("sa", "usa") for beta in betas]
    if not run.quick:
        cases += [("sa", 128, beta) for beta in betas]
    alone, peak = {}, {}
    for model, n, beta in cases:
        row, exact = _name(model, n, beta), collapse_time(n, beta, 1e-3, model)
        check.row(
            row,
            predicted=exact,
            measured=_particle_collapse_time(model, n, beta, exact),
            relative=1e-7,
            because="particles at 1e-11 resolve the moment of the crossing to 1e-7 of its value",
        )
        if model == "sa":
            alone[row] = collapse_time(n, 0.0) * (n - 1) / n
        elif beta:
            peak[row] = exact * np.exp(beta)
    check.rival("attention without the token itself", alone)
    check.rival("the kernel exp(beta(s-1)) under USA", peak)
    return check


def _particle_collapse_time(model: Model, n: int, beta: float, near: float, delta: float = 1e-3) -> float:
    """When particles cross the gap delta, by interpolating log gap (almost linear in time) around a first guess."""
    spacing = 0.05 / float(log_gap_speed(-np.log(delta), n, beta, model))
    times = near + spacing * np.array([-2, -1, 0, 1, 2])
    log_gaps = np.log(gaps(follow(model, beta, np.eye(n), times, tol=1e-11)).mean(axis=-1))
    return float(np.polyval(np.polyfit(log_gaps - np.log(delta), times, 3), 0.0))


@PAPER.claim(
    "terminal-rate",
    says="In the end the gap of equiangular tokens closes like $e^{-2t}$ under SA for three pairs of n and $\\beta$, "
    "like $e^{-2e^\\beta t}$ under USA for two.",
    basis=basis.Derived("the theorem on orthogonal tokens"),
    formula=r"1-\gamma\sim e^{-2t}\ \mathrm{(SA)},\qquad e^{-2e^\beta t}\ \mathrm{(USA)}",
)
def terminal_rate(run: Run) -> Check:
    cases: list[tuple[Model, int, float]] = [
        ("sa", 8, 0.0),
        ("sa", 32, 3.0),
        ("sa", 32, 5.0),
        ("usa", 8, 1.0),
        ("usa", 32, 2.0),
    ]
    check, alone, flat = Check(), {}, {}
    for model, n, beta in cases:
        times = np.array([collapse_time(n, beta, delta, model) for delta in _SLOPE_GAPS])
        log_gaps = np.log(gaps(follow(model, beta, np.eye(n), times, tol=1e-12)).mean(axis=-1))
        row = _name(model, n, beta)
        check.row(
            row,
            predicted=-2.0 if model == "sa" else -2 * np.exp(beta),
            measured=(log_gaps[1] - log_gaps[0]) / (times[1] - times[0]),
            relative=1e-5,
            because="the rate differs from its limit by at most (1 + beta) times the gap, which starts at 1e-5 and is "
            "averaged over nine e-folds",
        )
        if model == "sa":
            alone[row] = -2.0 * n / (n - 1)
        else:
            flat[row] = -2.0
    check.rival("SA without the token itself", alone)
    check.rival("USA with the kernel exp(beta(s-1))", flat)
    return check


@PAPER.claim(
    "plateau-speed",
    says="At orthogonality inner products of 32 tokens grow at the speed $2/(e^\\beta+n-1)$ under SA, for four "
    "$\\beta$ from 0 to 20.",
    basis=basis.Derived("the theorem on orthogonal tokens"),
    formula=r"\dot\gamma(0)=\frac{2}{e^\beta+n-1}",
)
def plateau_speed(run: Run) -> Check:
    betas, n, check = (0.0, 3.0, 9.0, 20.0), 32, Check()
    frame = np.eye(n)
    for beta in betas:
        moved = velocities("sa", beta, frame)
        found = (moved @ frame.T + frame @ moved.T)[0, 1]
        exact = 2 / (np.exp(beta) + n - 1)
        check.row(
            f"beta={beta:g}", predicted=exact, measured=found, relative=1e-12, because="rounding of one evaluation"
        )
    check.rival("attention without the token itself", 2 / (n - 1))
    check.rival("one token more in the normaliser", [2 / (np.exp(beta) + n) for beta in betas])
    return check


def scaled_collapse_time(n: int, beta: float, delta: float = 1e-3) -> float:
    r"""$e^{-\beta}t^*$ by adaptive quadrature in $u=-\log(1-g)$: nothing overflows."""

    def integrand(u: float) -> float:
        gap = np.exp(-u)
        return float((np.exp(beta * (gap - 1)) + (n - 1) * np.exp(-beta)) / (2 * (n - (n - 1) * gap)))

    near = 20 / (1 + beta)
    ends = [0.0, near / 20, near, -np.log(delta)]
    return sum(integrate.quad(integrand, a, b, epsrel=1e-11, limit=200)[0] for a, b in pairwise(ends))


@PAPER.claim(
    "plateau-time",
    says="For $\\beta$ well above $\\log n$ the collapse time is its leading term up to $1.5/\\beta$: by quadrature, n "
    "= 32 and 128, $\\beta=15$, 30 and 1000.",
    basis=basis.Derived("Laplace's method for the integral of the collapse time"),
    formula=r"t^*\approx\frac{e^{\beta}\,e^xE_1(x)}{2(n-1)},\quad x=\frac{\beta}{n-1}",
)
def plateau_time(run: Run) -> Check:
    check, simple, flat = Check(), {}, {}
    for n in (32, 128):
        for beta in (15.0, 30.0, 1000.0):
            x = beta / (n - 1)
            row = f"n={n}, beta={beta:g}"
            leading = special.hyperu(1, 1, x) / (2 * (n - 1))
            check.row(
                row,
                predicted=leading,
                measured=scaled_collapse_time(n, beta),
                relative=1.5 / beta,
                because="the next order of the expansion, relatively about 1/beta",
            )
            simple[row], flat[row] = 1 / (2 * beta), np.log(n) / (2 * n)
    check.rival("e^beta/(2 beta), the form for beta above n", {row: simple[row] for row in simple if "1000" not in row})
    check.rival("e^beta log(n)/(2n), from the initial speed alone", flat)
    return check


@PAPER.claim(
    "layers-are-late",
    says="The discrete network with steps of 0.1 passes inner product 0.999 after the number of layers of a scalar "
    "map, later than the flow, for 32 orthogonal tokens at $\\beta=1$ and 5.",
    basis=basis.AuthorCode(*sources.REPOSITORY, "sphere.py"),
    formula=r"x_i\leftarrow\frac{x_i+hA_i}{|x_i+hA_i|}",
)
def layers_are_late(run: Run) -> Check:
    n, step, check, flow = 32, 0.1, Check(), {}
    for beta in (1.0, 5.0):
        frames = np.asarray(run_layers(attention("sa", beta), jnp.eye(n), 120, step))
        row = f"layers, beta={beta:g}"
        check.same(
            row,
            predicted=float(np.argmax(layer_gamma(n, beta, step, 120) > 0.999)),
            measured=float(np.argmax(gaps(frames).max(axis=-1) < 1e-3)),
            because="a count of layers",
        )
        flow[row] = float(np.ceil(collapse_time(n, beta) / step))
    check.rival("layers follow the flow", flow)
    return check
