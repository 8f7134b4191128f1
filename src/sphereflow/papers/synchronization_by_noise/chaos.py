r"""A flow that does not synchronise: the overlap of two tokens has an invariant law on (-1, 1).

$$p(r)\propto\frac1{Q}\exp\int\frac{2D}{Q}\,dr,\qquad He_2,\ d=8:\quad E\,r=\tfrac{3-\sqrt3}5,\ E\,r^2=2-\sqrt3 .$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.estimates import mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.synchronisation.backward_equation import Backward
from sphereflow.synchronisation.covariance import of_powers
from sphereflow.synchronisation.network import run_network
from sphereflow.synchronisation.random_fields import GaussianField
from sphereflow.synchronisation.two_point import TwoPoint

PAIR = TwoPoint(8, of_powers([0.0, 0.0, 1.0]))


@PAPER.claim(
    "invariant-law",
    statement="The overlap of two tokens under a chaotic flow settles to its invariant law, also in long simulations.",
    source="Limit of a flow that does not synchronise",
    formula=r"E\,r=\tfrac{3-\sqrt3}5,\qquad E\,r^2=2-\sqrt3,\qquad \lambda=\tfrac32",
    falsifier="reflection at r = 1, steps that leave [-1, 1], or a density integrated in r, which loses its tail",
)
def invariant_law(run: Run) -> Measurement:
    law = Backward(PAIR)
    exact = [(3 - np.sqrt(3)) / 5, 2 - np.sqrt(3), 0.1098495, 0.1181313]
    measured = [
        law.invariant_average(lambda r: r),
        law.invariant_average(lambda r: r**2),
        1 - float(law.invariant_below(np.array(0.9))),
        float(law.invariant_below(np.array(-0.3))),
    ]
    slack, labels = [1e-9, 1e-9, 5.1e-8, 5.1e-8], ["E r", "E r^2", "P(r > 0.9)", "P(r < -0.3)"]
    if not run.quick:
        found = mean(simulated_statistics(run))
        exact, measured = [*exact, *exact], [*measured, *found.value]
        slack, labels = [*slack, *(3 * found.error + 0.002)], [*labels, *(f"simulated {label}" for label in labels[:4])]
    return agreement(
        [1.5, *exact],
        [PAIR.lyapunov(), *measured],
        absolute=[1e-12, *slack],
        because="closed forms and references with seven decimals; three standard errors over independent pairs, and "
        "0.002 for the step",
        labels=("exponent", *labels),
        parameters={"d": 8, "activation": "He2"},
    )


def simulated_statistics(run: Run) -> np.ndarray:
    """r, r^2, [r > 0.9], [r < -0.3], averaged along each of many independent pairs after they have settled."""
    pairs, step = 1000, 0.002
    x = np.random.default_rng(run.seed).standard_normal((pairs, 2, 8))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    frames = run_network(GaussianField(PAIR.covariance), x, layers=12_000, step=step, seed=run.seed, saves=120)
    frames = np.asarray(frames)[20:]
    r = np.sum(frames[:, :, 0] * frames[:, :, 1], axis=-1)
    return np.stack([r.mean(0), (r**2).mean(0), (r > 0.9).mean(0), (r < -0.3).mean(0)], axis=1)
