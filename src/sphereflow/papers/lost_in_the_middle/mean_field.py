r"""The mean-field limit: layers that start alike stay alike, and the tokens follow at the rate of independent draws.

$$f_0(\sigma,\cdot)=f_0\ \Longrightarrow\ f(t,\sigma,\cdot)=f(t),\qquad
  \dot\theta=(w_\beta'*f)(\theta),\quad\text{whatever }\lambda.$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.papers.lost_in_the_middle import PAPER
from sphereflow.papers.lost_in_the_middle.volterra import MODES, layers
from sphereflow.retrieval.bessel import growth_rates
from sphereflow.retrieval.circle import CausalCircle
from sphereflow.retrieval.influence import circle_advance

# Averages of cos theta and cos 2 theta at t = 1 from the density 1 + cos(theta)/2, beta = 1.
REFERENCE = (0.4316600766, 0.1563744615)

_ROOM = 400  # the sizes of the quick run share one compiled program


def tilted(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    r"""Angles with density $1+\tfrac12\cos\theta$ with respect to $d\theta/2\pi$, by rejection."""
    count = int(np.prod(shape))
    angles = rng.uniform(-np.pi, np.pi, 3 * count)
    kept = angles[rng.uniform(0, 1.5, 3 * count) < 1 + 0.5 * np.cos(angles)]
    return kept[:count].reshape(shape)


def averages(n: int, samples: int, seed: int) -> np.ndarray:
    """Token averages of cos theta and cos 2 theta at t = 1, one row per sample; beta = slope = 1."""
    rng = np.random.default_rng(seed)
    model = CausalCircle(1.0, 1.0, length=n, modes=MODES)
    advance = circle_advance(model, 1.0, room=max(n, _ROOM))
    final = advance(tilted(rng, (samples, n)))
    return np.stack([np.cos(final).mean(axis=1), np.cos(2 * final).mean(axis=1)], axis=1)


@PAPER.claim(
    "layers-alike",
    statement="If the law of tokens does not depend on position at the start, it never does, whatever the slope.",
    source="Layered mean-field equation",
    formula=r"\partial_tf=-\partial_\theta\big(f\,(w_\beta'*f)\big)",
    falsifier="Positional weights that do not integrate to one.",
)
def layers_alike(run: Run) -> Measurement:
    flow = layers(lambda sigma, theta: 1 + 0.5 * np.cos(theta) + 0 * sigma)
    means = [flow.wave(n) for n in (1, 2)]
    return agreement(
        [*REFERENCE, 0.0, 0.0],
        [means[0][-1], means[1][-1], np.ptp(means[0]), np.ptp(means[1])],
        absolute=[1.5e-10, 1.5e-10, 1e-10, 1e-10],
        because="ten printed digits; time steps to 1e-10",
        labels=("average of cos", "average of cos 2", "spread of cos over layers", "spread of cos 2 over layers"),
    )


@PAPER.claim(
    "wave-growth",
    statement="A small wave in the law of the tokens grows exponentially at the rate of its Bessel function.",
    source="Layered mean-field equation around the uniform state",
    formula=r"\hat f_n(t)=\hat f_n(0)\,e^{a_nt},\qquad a_n=n^2I_n(\beta)",
    falsifier="A force without its factor beta: the rates at beta = 1.5 would be too small by that factor.",
)
def wave_growth(run: Run) -> Measurement:
    size, beta = 1e-5, 1.5
    measured = []
    for n in (1, 2, 3):
        flow = layers(lambda sigma, theta, n=n: 1 + size * np.cos(n * theta) + 0 * sigma, beta=beta, t=0.5)
        measured.append(np.log(flow.wave(n)[-1] / (size / 2)) / 0.5)
    return agreement(
        growth_rates(beta)[:3],
        measured,
        relative=1e-9,
        because="terms of second order in the amplitude 1e-5, that is 1e-10, and time steps to 1e-10",
        labels=tuple(f"wave {n}" for n in (1, 2, 3)),
        parameters={"beta": beta, "t": 0.5},
    )


@PAPER.claim(
    "mean-field-rate",
    statement="Token averages tend to the mean field like one over the square root of N.",
    source="Quantitative mean-field limit for independent data",
    formula=r"\big(E|\tfrac1N\textstyle\sum_j\cos\theta_j(t)-\int\cos\theta\,f(t)|^2\big)^{1/2}\approx1.2\,N^{-1/2}",
    falsifier="An exponent outside [-0.6, -0.4].",
)
def mean_field_rate(run: Run) -> Measurement:
    sizes = (100, 400) if run.quick else (100, 400, 1600)
    samples = 400
    spread = []
    for i, n in enumerate(sizes):
        found = averages(n, samples, run.seed + n)
        spread.append(np.sqrt(np.mean((found - REFERENCE) ** 2, axis=0)))
        run.notify((i + 1) / len(sizes), f"{n} tokens")
    first, second = np.array(spread).T * np.sqrt(sizes)
    exponent = np.polyfit(np.log(sizes), np.log(first / np.sqrt(sizes)), 1)[0]
    return agreement(
        [-0.5, *[1.2] * len(sizes), *[1.64] * len(sizes)],
        [exponent, *first, *second],
        absolute=[0.1, *[0.1] * len(sizes), *[0.2] * len(sizes)],
        because="three standard errors of a root mean square over 400 samples are 11 percent",
        labels=("exponent", *(f"cos, N={n}" for n in sizes), *(f"cos 2, N={n}" for n in sizes)),
        parameters={"samples": samples},
    )
