r"""The same decoder with tokens on any sphere, through the sum over all pairs.

$$\dot x_j=\beta\,P_{x_j}\sum_{k<j}\omega_{jk}\,e^{\beta\langle x_j,x_k\rangle}x_k\ \text{("mean")},\qquad
  \dot x_j=P_{x_j}\frac{\sum_{k<j}\omega_{jk}e^{\beta\langle x_j,x_k\rangle}x_k}
                       {\sum_{k<j}\omega_{jk}e^{\beta\langle x_j,x_k\rangle}}\ \text{("softmax")}.$$

In two dimensions this is `CausalCircle` in other coordinates: strictly causal, the raw kernel, the factor beta in the
unnormalised force, and a slope of $\lambda/N$ per token.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.dynamics import Attention
from sphereflow.errors import one_of, real_number, whole_number
from sphereflow.interaction import Alibi
from sphereflow.shapes import AnyArray
from sphereflow.sphere import normalise as unit


def decoder(beta: float, slope: float, n: int, d: int, normalise: str = "mean") -> Attention:
    """Strictly causal attention with ALiBi weights on S^{d-1} for sequences of n tokens."""
    one_of("normalise", normalise, ("mean", "softmax"))
    beta = real_number("beta", beta, least=0, most=1e6)
    mask = Alibi(jnp.asarray(real_number("slope", slope, least=0, most=500) / whole_number("n", n)), strict=True)
    value = beta * np.eye(whole_number("d", d, least=2)) if normalise == "mean" else None
    return Attention(beta, normalise, value=value, mask=mask, kernel_scale="raw")


def on_circle(angles: Float[AnyArray, "..."]) -> Float[AnyArray, "... 2"]:
    """Angles as unit vectors of the plane."""
    return unit(jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1))
