r"""Claims about the orthogonal start: particles against the scalar equation, and how long collapse takes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.evolution import run_layers
from sphereflow.papers.mathematical_perspective.equiangular import (
    collapse_time,
    gamma,
    kuramoto_gamma,
    layer_gamma,
    leading_log_time,
    log_collapse_time,
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


@PAPER.claim(
    "orthogonal-start",
    statement="From an orthogonal start all inner products stay equal and follow one scalar equation, exactly.",
    source="Theorem on orthogonal initial tokens (SA and USA)",
    formula=r"\dot\gamma=\frac{2(1-\gamma)((n-1)\gamma+1)}{e^{\beta(1-\gamma)}+n-1}",
    falsifier="A self-term left out or a normaliser with n-1 moves the curves apart at once.",
)
def orthogonal_start(run: Run) -> Measurement:
    worst = []
    for model, n, beta in _CASES:
        times = np.linspace(0, 6.0 if model == "sa" else _USA_LAST_TIME[beta], 25)[1:]
        inner = 1 - gaps(follow(model, beta, np.eye(n), times))
        worst.append(np.abs(inner - gamma(times, n, beta, model)[:, None]).max())
    return at_most(
        1e-9,
        np.array(worst),
        because="the particles are solved to 1e-10, the scalar equation to 1e-13",
        labels=tuple(_name(*case) for case in _CASES),
        note="Largest deviation over all pairs and 24 times, SA to t=6, USA to t=6, 3, 1.2.",
    )


@PAPER.claim(
    "gamma-at-six",
    statement="Common inner product at t = 6 from an orthogonal start under softmax attention.",
    source="Theorem on orthogonal initial tokens; reference values from an independent solve",
    formula=r"\gamma_\beta(6)",
)
def gamma_at_six(run: Run) -> Measurement:
    known = {
        (8, 0.0): 0.9999508484,
        (8, 1.0): 0.9999246457,
        (8, 5.0): 0.1358159413,
        (32, 0.0): 0.9998034226,
        (32, 1.0): 0.9997674533,
        (32, 5.0): 0.5087655895,
    }
    measured = [1 - gaps(follow("sa", beta, np.eye(n), np.array([6.0]))).mean() for n, beta in known]
    return agreement(
        list(known.values()),
        measured,
        absolute=1.5e-10,
        because="reference values are known to ten decimals, the particles are solved to 1e-10",
        labels=tuple(_name("sa", *case) for case in known),
    )


@PAPER.claim(
    "closed-form-at-beta-zero",
    statement="At beta = 0 the common inner product has a closed form, the same for SA and USA.",
    source="Consequence of the theorem on orthogonal initial tokens",
    formula=r"\gamma(t)=\frac{e^{2t}-1}{e^{2t}+n-1}",
    falsifier="A division by beta, or a normaliser other than n.",
)
def closed_form_at_beta_zero(run: Run) -> Measurement:
    times = np.linspace(0, 6, 25)[1:]
    cases: list[tuple[Model, int]] = [("sa", 8), ("sa", 32), ("usa", 8), ("usa", 32)]
    worst = [
        np.abs(1 - gaps(follow(model, 0.0, np.eye(n), times)) - kuramoto_gamma(times, n)[:, None]).max()
        for model, n in cases
    ]
    return at_most(
        1e-9,
        np.array(worst),
        because="the particles are solved to 1e-10",
        labels=tuple(f"{model.upper()} n={n}" for model, n in cases),
    )


@PAPER.claim(
    "collapse-time",
    statement="The time from orthogonality to inner product 0.999 is an explicit integral.",
    source="Consequence of the theorem on orthogonal initial tokens; the curve of the phase diagrams",
    formula=r"t^*=\int_0^{1-\delta}\frac{e^{\beta(1-g)}+n-1}{2(1-g)((n-1)g+1)}\,dg",
    falsifier="Mixing the kernels exp(beta s) and exp(beta(s-1)) changes the USA times by exp(beta).",
)
def collapse_times(run: Run) -> Measurement:
    betas = (0.0, 1.0, 3.0, 5.0, 7.0, 9.0)
    cases: list[tuple[Model, int, float]] = [(model, 32, beta) for model in ("sa", "usa") for beta in betas]
    if not run.quick:
        cases += [("sa", 128, beta) for beta in betas]
    predicted = [collapse_time(n, beta, 1e-3, model) for model, n, beta in cases]
    return agreement(
        predicted,
        [_particle_collapse_time(*case, near) for case, near in zip(cases, predicted, strict=True)],
        relative=1e-7,
        because="particles at 1e-11 resolve the moment of the crossing to 1e-7 of its value",
        labels=tuple(_name(*case) for case in cases),
    )


def _particle_collapse_time(model: Model, n: int, beta: float, near: float, delta: float = 1e-3) -> float:
    """When particles cross the gap delta, by interpolating log gap (almost linear in time) around a first guess."""
    spacing = 0.05 / float(log_gap_speed(-np.log(delta), n, beta, model))
    times = near + spacing * np.array([-2, -1, 0, 1, 2])
    log_gaps = np.log(gaps(follow(model, beta, np.eye(n), times, tol=1e-11)).mean(axis=-1))
    return float(np.polyval(np.polyfit(log_gaps - np.log(delta), times, 3), 0.0))


@PAPER.claim(
    "terminal-rate",
    statement="In the end the gap closes like exp(-2t) under SA whatever beta and n, like exp(-2 e^beta t) under USA.",
    source="Consequence of the theorem on orthogonal initial tokens",
    formula=r"1-\gamma\sim e^{-2t}\ \mathrm{(SA)},\qquad e^{-2e^\beta t}\ \mathrm{(USA)}",
    falsifier="Reading 1 - gamma by subtraction bends the line below 1e-8.",
)
def terminal_rate(run: Run) -> Measurement:
    cases: list[tuple[Model, int, float]] = [
        ("sa", 8, 0.0),
        ("sa", 32, 3.0),
        ("sa", 32, 5.0),
        ("usa", 8, 1.0),
        ("usa", 32, 2.0),
    ]
    predicted = [-2.0 if model == "sa" else -2 * np.exp(beta) for model, _, beta in cases]
    measured = []
    for model, n, beta in cases:
        times = np.array([collapse_time(n, beta, delta, model) for delta in _SLOPE_GAPS])
        log_gaps = np.log(gaps(follow(model, beta, np.eye(n), times, tol=1e-12)).mean(axis=-1))
        measured.append((log_gaps[1] - log_gaps[0]) / (times[1] - times[0]))
    return agreement(
        predicted,
        measured,
        relative=1e-5,
        because="the rate differs from its limit by at most (1 + beta) times the gap, which starts at 1e-5 and is "
        "averaged over nine e-folds",
        labels=tuple(_name(*case) for case in cases),
    )


@PAPER.claim(
    "plateau-speed",
    statement="At orthogonality inner products grow at speed 2/(e^beta + n - 1): slow for beta above log n.",
    source="Consequence of the theorem on orthogonal initial tokens; metastable region of the phase diagram",
    formula=r"\dot\gamma(0)=\frac{2}{e^\beta+n-1}",
)
def plateau_speed(run: Run) -> Measurement:
    betas, n = (0.0, 3.0, 9.0, 20.0), 32
    frame = np.eye(n)
    measured = []
    for beta in betas:
        moved = velocities("sa", beta, frame)
        measured.append((moved @ frame.T + frame @ moved.T)[0, 1])
    return agreement(
        [2 / (np.exp(beta) + n - 1) for beta in betas],
        measured,
        relative=1e-12,
        because="rounding of one evaluation of the field",
        labels=tuple(f"beta={beta:g}" for beta in betas),
    )


@PAPER.claim(
    "plateau-time",
    statement="For beta well above log n the collapse time is nearly e^beta e^x E_1(x) / (2(n-1)), x = beta/(n-1).",
    source="Consequence of the theorem on orthogonal initial tokens; metastable region of the phase diagram",
    formula=r"t^*\approx\frac{e^{\beta}\,e^xE_1(x)}{2(n-1)},\quad x=\frac{\beta}{n-1}",
    falsifier="The ratio to the leading term does not tend to one.",
)
def plateau_time(run: Run) -> Measurement:
    known = {(32, 9.0): 1.100, (32, 15.0): 1.043, (32, 30.0): 1.024, (128, 15.0): 1.030, (128, 30.0): 1.017}
    measured = [np.exp(log_collapse_time(n, beta) - leading_log_time(n, beta)) for n, beta in known]
    return agreement(
        list(known.values()),
        measured,
        absolute=5.1e-4,
        because="reference ratios are known to three decimals",
        labels=tuple(f"n={n} beta={beta:g}" for n, beta in known),
    )


@PAPER.claim(
    "collapse-time-at-beta-1000",
    statement="At beta = 1000 the logarithm of the collapse time is beta up to small corrections: nothing overflows.",
    source="Consequence of the theorem on orthogonal initial tokens; reference values from a 30-digit quadrature",
    formula=r"\log t^*",
    falsifier="exp(beta(1-g)) overflows beyond beta = 700.",
)
def collapse_time_at_beta_1000(run: Run) -> Measurement:
    sizes = (32, 128)
    exact = np.array([log_collapse_time(n, 1000.0) for n in sizes])
    leading = np.array([leading_log_time(n, 1000.0) for n in sizes])
    return agreement(
        [992.370397, 992.291187, 9.7e-4, 9.1e-4],
        np.concatenate([exact, exact - leading]),
        absolute=[5.1e-7, 5.1e-7, 5.1e-6, 5.1e-6],
        because="reference values are known to six decimals, their distance from the leading term to two digits",
        labels=("log t* n=32", "log t* n=128", "above the leading term n=32", "above the leading term n=128"),
    )


@PAPER.claim(
    "layers-are-late",
    statement="The discrete network (steps of 0.1, normalisation after each) passes 0.999 later than the flow.",
    source="Numerical experiments: Euler steps followed by normalisation",
    formula=r"x_i\leftarrow\frac{x_i+hA_i}{|x_i+hA_i|}",
    falsifier="Treating the layer map as the flow: the times would be 5.270 and 9.544.",
)
def layers_are_late(run: Run) -> Measurement:
    n, step, betas = 32, 0.1, (1.0, 5.0)
    predicted, measured = [], []
    for beta in betas:
        predicted.append(step * np.argmax(layer_gamma(n, beta, step, 120) > 0.999))
        frames = np.asarray(run_layers(attention("sa", beta), jnp.eye(n), 120, step))
        measured.append(step * np.argmax(gaps(frames).max(axis=-1) < 1e-3))
    times = ", ".join(f"{collapse_time(n, beta):.3f}" for beta in betas)
    return agreement(
        predicted,
        measured,
        absolute=1e-9,
        because="both count whole layers; the prediction iterates a scalar map",
        labels=tuple(f"beta={beta:g}" for beta in betas),
        note=f"The flow crosses at t* = {times}.",
    )
