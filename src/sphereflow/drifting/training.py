r"""Regress a generator onto its own drifted samples.

$$ \mathcal L(\theta)=E_\epsilon\big\|g-\mathrm{sg}\big(g+V(g)\big)\big\|^2,\qquad g=f_\theta(\epsilon), $$

with the stop-gradient sg on the whole target: the gradient with respect to a sample is $-2V$ over the number of
entries, and nothing is differentiated through the kernel.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.drifting.fields import Drift, Field


def drift_loss(
    field: Field, data: Float[Array, "m D"], generated: Float[Array, "n D"], gain: float | Array = 1.0
) -> tuple[Float[Array, ""], Drift]:
    """Mean over samples and coordinates of the squared distance to the drifted samples, and the drift itself.

    The value of the loss says little: it is tiny for a generator that has collapsed far from the data. Watch the raw
    drift, or a distance between laws.
    """
    drift = jax.lax.stop_gradient(field(data, jax.lax.stop_gradient(generated)))
    goal = jax.lax.stop_gradient(generated + gain * drift.value)
    return jnp.mean((generated - goal) ** 2), drift
