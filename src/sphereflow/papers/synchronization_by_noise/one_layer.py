r"""How one layer of a network moves two tokens: mean and variance of the change of their overlap.

$$\frac{E[r_1-r_0]}h\to D=(d-2+r^2)\kappa(r)-(d-1)r\kappa(1),\qquad
  \frac{E(r_1-r_0)^2}h\to Q=2(1-r^2)(\kappa(1)-r\kappa(r)).$$
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER, sources
from sphereflow.papers.synchronization_by_noise.independent import relu_kappa
from sphereflow.synchronisation.network import advance
from sphereflow.synchronisation.random_fields import RandomPerceptron

STEP = 1e-3


def pair_drift(field: RandomPerceptron, d: int, overlap: float, layers: int, seed: int) -> tuple[Estimate, Estimate]:
    """Mean change of the overlap in one layer and mean square of its random part, per unit of time.

    Each draw of the weights is used with both signs of the output: the half sum has no martingale part, the half
    difference no drift.
    """
    x = np.zeros((layers, 2, d))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, 1] = 1, overlap, np.sqrt(1 - overlap**2)
    out, inner, shift = field.draw(jax.random.key(seed), layers, 2, d)
    tokens = jnp.asarray(x)
    changes = []
    for sign in (1, -1):
        y = advance(field, (sign * out, inner, shift), tokens, jnp.asarray(STEP))
        changes.append(np.sum(np.asarray(y[:, 0] * y[:, 1]), axis=-1) - overlap)
    both = np.array(changes)
    return mean(both.mean(axis=0) / STEP), mean(((both[0] - both[1]) / 2) ** 2 / STEP)


@PAPER.claim(
    "pair-drift-and-diffusion",
    says="One layer of a network of width one changes the overlap of two tokens with mean $hD(r)$ and mean square "
    "$hQ(r)$: ReLU in dimension 8 at four overlaps.",
    basis=basis.Derived(f"the scaling limit of {sources.MODEL}; the mean energy changes at the rate of the mean of -D"),
    formula=r"\frac{d}{dt}E\Phi=-E\iint D(r)\,d\mu\,d\mu,\qquad D=(d-2+r^2)\kappa(r)-(d-1)r\kappa(1)",
)
def pair_drift_and_diffusion(run: Run) -> Check:
    d, layers = 8, 40_000 if run.quick else 1_000_000
    check = Check(parameters={"d": d, "h": STEP, "layers": layers})
    field = RandomPerceptron("relu", 1)
    lost, flat, alone = {}, {}, {}
    for k, r in enumerate((-0.8, -0.3, 0.5, 0.9)):
        here = float(relu_kappa(np.array(r)))
        drift, square = pair_drift(field, d, r, layers, run.seed + k)
        row, other = f"drift, r={r:g}", f"mean square, r={r:g}"
        because = "the error bar; the next order of a layer of width one, relatively about 3 (d+2) h"
        exact = (d - 2 + r**2) * here - (d - 1) * r / 2
        check.row(
            row,
            predicted=exact,
            measured=drift.value,
            error=drift.error,
            repeats=layers,
            tolerance=0.03,
            because=because,
        )
        lost[row], flat[row] = (d - 2) * here - (d - 1) * r / 2, (d - 2 + r**2) * here
        exact = 2 * (1 - r**2) * (0.5 - r * here)
        check.row(
            other,
            predicted=exact,
            measured=square.value,
            error=square.error,
            repeats=layers,
            relative=0.03,
            because=because,
        )
        alone[other] = 2 * (1 - r**2) * 0.5
    check.rival("the term with r squared lost", lost)
    check.rival("nothing from the return to the sphere", flat)
    check.rival("noise of its own for every token", alone)
    return check
