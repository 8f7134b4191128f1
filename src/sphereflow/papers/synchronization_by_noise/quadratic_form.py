r"""The random quadratic form with forcing: a companion model with published bounds.

$$dX=P_X\circ dQ\,X+\gamma P_X\circ dW:\qquad D=-2r(1-r^2)+\gamma^2(1-r)(d-2-r),\quad
  Q=2(1-r^2)\big[2(1-r^2)+\gamma^2(1-r)\big].$$
"""

from __future__ import annotations

import numpy as np
from scipy.special import beta as beta_function

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.estimates import fraction
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import of_quadratic_form
from sphereflow.synchronisation.network import run_network
from sphereflow.synchronisation.random_fields import QuadraticForm
from sphereflow.synchronisation.two_point import TwoPoint

D = 4
TIMES = (1.0, 2.0, 4.0, 8.0)


def equation(forcing: float, d: int = D, **grid: float) -> Backward:
    """The backward equation of the overlap."""
    return Backward(TwoPoint(d, of_quadratic_form(forcing)), **grid)  # type: ignore[arg-type]


@PAPER.claim(
    "quadratic-form-shares",
    statement="Without forcing tokens gather at a random pair of antipodes, with forcing at one point, in the stated "
    "shares, exactly and in simulated networks.",
    source="Random quadratic form with forcing",
    formula=r"P(|r|>0.99),\ P(r>0.99)\quad\text{at }t=1,2,4,8",
    falsifier="a drift added for Stratonovich noise that is not there, or noise not shared",
)
def shares(run: Run) -> Measurement:
    exact = [
        *equation(0.0).averages(lambda r: np.abs(r) > 0.99, TIMES),
        *equation(0.2).averages(lambda r: r > 0.99, TIMES),
        *equation(0.0).averages(lambda r: np.abs(r) > 0.99, TIMES, start=0.0),
    ]
    reference = [0.504, 0.791, 0.955, 0.997, 0.267, 0.446, 0.640, 0.839, 0.459, 0.774, 0.952, 0.997]
    step, pairs = (0.02, 600) if run.quick else (0.005, 10_000)
    x = np.random.default_rng(run.seed).standard_normal((pairs, 2, D))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    simulated, slack = [], []
    for forcing in (0.0, 0.2):
        frames = run_network(QuadraticForm(forcing), x, layers=round(8 / step), step=step, seed=run.seed, saves=8)
        r = np.sum(np.asarray(frames)[[1, 2, 4, 8]].prod(axis=2), axis=-1)
        found = fraction(((np.abs(r) if forcing == 0 else r) > 0.99).T)
        simulated += list(found.value)
        slack += list(3 * found.error + 0.7 * step)
    names = [f"{what}, t={t:g}" for what in ("|r|, no forcing", "r, forcing 0.2") for t in TIMES]
    return agreement(
        [*reference, *reference[:8]],
        [*exact, *simulated],
        absolute=[*[6e-4] * 12, *slack],
        because="references with three decimals; three standard errors and 0.7 h for the step",
        labels=(*names, *(f"|r|, no forcing, from r=0, t={t:g}" for t in TIMES), *(f"simulated {n}" for n in names)),
        parameters={"d": D, "h": step, "pairs": pairs},
    )


@PAPER.claim(
    "quadratic-form-bounds",
    statement="The published bounds on the moments of the gap and on the distance to the attractor are obeyed.",
    source="Random quadratic form with forcing",
    formula=r"E(1-r)^p\le(1-r_0)^pe^{-p\alpha t},\qquad E\,\mathrm{dist}\le\pi e^{-2\gamma^2(d-1)t/(\gamma^2+4)}",
    falsifier="a moment above its bound",
)
def bounds(run: Run) -> Measurement:
    excess, labels = [], []
    times = np.array([0.5, 2.0, 6.0])
    for d, g in ((4, 0.2), (8, 1.0)):
        law = equation(g, d, right=60.0)
        top = (g**2 * (d - 1) + 4) / (2 * (g**2 + 4))
        for p in (0.25, 0.9 * top):
            rate = min(g**2 * (d - 1), g**2 * (d - 1) + 4 - 2 * p * (g**2 + 4))
            for r0 in (-0.9, 0.5):
                moment = law.averages(lambda r, p=p: (1 - r) ** p, times.tolist(), start=r0)  # type: ignore[misc]
                excess.append(np.max(moment / ((1 - r0) ** p * np.exp(-p * rate * times))))
                labels.append(f"d={d}, forcing {g:g}, p={p:.3g}, from r={r0:g}")
        # The attractor is a token that has been there for ever: uniform, and independent of a fixed start.
        distance = law.averages(lambda r: np.arccos(np.clip(r, -1, 1)), times.tolist())
        excess.append(np.max(distance / (np.pi * np.exp(-2 * g**2 * (d - 1) / (g**2 + 4) * times))))
        labels.append(f"d={d}, forcing {g:g}, distance to the attractor")
    return at_most(np.ones(len(excess)), excess, slack=1e-4, because="the accuracy of the grid", labels=tuple(labels))


def merging_rate(d: int, forcing: float) -> float:
    r"""$4\gamma/(\pi\,\mathrm B(\tfrac{d-1}2,\tfrac12))$: escape from the neighbourhood of the antipode.

    Near r = -1 put $1+r=\gamma^2y$: the scale function has derivative $y^{-(d-1)/2}(1+2y)^{(d-2)/2}$, the speed measure
    the mass $\tfrac14 2^{-(d-1)/2}\mathrm B(\tfrac{d-1}2,\tfrac12)$; the way across costs
    $2^{(d-1)/2}\gamma^{-1}\int\mathrm{sech}=2^{(d-1)/2}\pi/\gamma$.
    """
    return float(4 * forcing / (np.pi * beta_function((d - 1) / 2, 0.5)))


@PAPER.claim(
    "quadratic-form-two-stages",
    statement="For small forcing tokens first gather at two antipodes, at rate 1/2, and then merge. The merging is "
    "linear in the forcing, hence faster than the published bound, which is quadratic.",
    source="Random quadratic form with forcing",
    formula=r"\gamma\to0:\quad \text{rate}\approx\frac{4\gamma}{\pi B(\frac{d-1}2,\frac12)}\ge\tfrac12\gamma^2(d-1)",
    falsifier="a merging rate below the bound, or one that scales as the square of the forcing",
)
def two_stages(run: Run) -> Measurement:
    first = equation(0.0, cells=2000, left=30.0, right=30.0).averages(
        lambda r: np.arccos(np.minimum(np.abs(r), 1)), [30.0, 40.0]
    )
    forcings = np.array([0.02, 0.01, 0.005])
    rates = []
    for g in forcings:
        decay = equation(float(g), cells=2000, left=12.0, right=20.0).averages(lambda r: 1.0 * (r < 0), [50.0, 100.0])
        rates.append(np.log(decay[0] / decay[1]) / 50)
    slopes = np.array(rates) / forcings
    limit = merging_rate(D, 1.0)
    return agreement(
        [-0.5, *[limit] * 3, 0.0],
        [np.log(first[1] / first[0]) / 10, *slopes, max(float(np.max(1.5 * forcings / slopes)) - 1, 0)],
        absolute=[1.5 / 30, *(limit * forcings * np.log(1 / forcings)), 0.0],
        because="the power of t beside the exponential; the way across takes a time of order log(1/gamma), against "
        "1/gamma for the escape; the bound has no slack",
        labels=(
            "first stage, t=30 to 40",
            *(f"merging rate over forcing {g:g}" for g in forcings),
            "bound over rate, excess of one",
        ),
        parameters={"d": D},
    )
