r"""The equation of the overlaps $R_{ij}=\langle x_i,x_j\rangle$ under common isotropic noise.

$$dR_{ij}=\Big[\tfrac1d(d-2+R_{ij}^2)s_{ij}-\tfrac{d-1}{2d}R_{ij}(s_{ii}+s_{jj})\Big]d\tau+dM_{ij},\qquad
  d\langle M_{ij}\rangle=\tfrac1d(1-R_{ij}^2)(s_{ii}+s_{jj}-2R_{ij}s_{ij})d\tau,$$

with $s_{ij}=E_A\langle m_i,m_j\rangle$, a function of the Gram matrix alone.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.numerics import overlaps
from sphereflow.shapes import AnyArray


def overlap_drift(r: Float[AnyArray, "... n n"], s: Float[AnyArray, "... n n"], d: int) -> Float[AnyArray, "... n n"]:
    """Mean velocity of every overlap per unit of tau."""
    return overlaps.overlap_drift(r, s, _diagonal_means(s), d) / d


def _diagonal_means(s: Float[AnyArray, "... n n"]) -> Float[AnyArray, "... n n"]:
    own = jnp.diagonal(s, axis1=-2, axis2=-1) if isinstance(s, jax.Array) else np.diagonal(s, axis1=-2, axis2=-1)
    return (own[..., :, None] + own[..., None, :]) / 2
