r"""The exponential kernel of attention, in a form that never overflows.

$$k(x,y) = e^{\beta(\langle x,y\rangle - 1)} \le 1 \qquad\text{("peak")}, \qquad
  k_{\mathrm{raw}}(x,y) = e^{\beta\langle x,y\rangle} = e^{\beta} k(x,y) \qquad\text{("raw")}.$$

Everything is computed in the peak convention, which is bounded by one on the sphere. The raw convention of some
papers differs by the factor e^beta, which multiplies energies and the speed of unnormalised attention; it is
carried separately, as its logarithm, and applied last.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from sphereflow.shapes import AnyArray

KERNEL_SCALES: tuple[str, ...] = ("peak", "raw")


def peak(inner: Float[AnyArray, "..."], beta: Float[Array, ""] | float) -> Float[Array, "..."]:
    r"""$e^{\beta(s-1)}$ for inner products s."""
    return jnp.exp(beta * (inner - 1))


def log_scale(beta: Float[Array, ""] | float, kernel_scale: str) -> Float[Array, ""] | float:
    """Logarithm of the factor between the convention asked for and the peak convention: 0 or beta."""
    return beta if kernel_scale == "raw" else 0.0


def uniform_mean(d: int, beta: float) -> float:
    r"""Mean of the peak kernel over a uniform point: $\Gamma(d/2)(2/\beta)^{d/2-1}\, e^{-\beta}I_{d/2-1}(\beta)$.

    The smallest possible normalised energy of probability measures on the sphere is attained there.
    """
    if beta == 0:
        return 1.0
    order = d / 2 - 1
    return float(np.exp(special.gammaln(d / 2) + order * np.log(2 / beta)) * special.ive(order, beta))
