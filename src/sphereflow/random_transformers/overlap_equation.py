r"""The equation of the overlaps $R_{ij}=\langle x_i,x_j\rangle$ under common isotropic noise.

$$dR_{ij}=\Big[\tfrac1d(d-2+R_{ij}^2)s_{ij}-\tfrac{d-1}{2d}R_{ij}(s_{ii}+s_{jj})\Big]d\tau+dM_{ij},\qquad
  d\langle M_{ij}\rangle=\tfrac1d(1-R_{ij}^2)(s_{ii}+s_{jj}-2R_{ij}s_{ij})d\tau,$$

with $s_{ij}=E_A\langle m_i,m_j\rangle$, a function of the Gram matrix alone. Also the final stage, where all tokens are
close and the softmax is flat: $\varepsilon=1-R$ decays like $e^{-(d-1)\tau/d}$ for every temperature.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.numerics import overlaps
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.normals import standard_normals
from sphereflow.random_transformers.weight_laws import Weights, lower_root
from sphereflow.seeds import Seed, key_from
from sphereflow.shapes import AnyArray


def overlap_drift(r: Float[AnyArray, "... n n"], s: Float[AnyArray, "... n n"], d: int) -> Float[AnyArray, "... n n"]:
    """Mean velocity of every overlap per unit of tau."""
    return overlaps.overlap_drift(r, s, _diagonal_means(s), d) / d


def overlap_bracket(r: Float[AnyArray, "... n n"], s: Float[AnyArray, "... n n"], d: int) -> Float[AnyArray, "... n n"]:
    """Variance of every overlap per unit of tau."""
    return overlaps.overlap_variance(r, s, _diagonal_means(s)) / d


def _diagonal_means(s: Float[AnyArray, "... n n"]) -> Float[AnyArray, "... n n"]:
    own = jnp.diagonal(s, axis1=-2, axis2=-1) if isinstance(s, jax.Array) else np.diagonal(s, axis1=-2, axis2=-1)
    return (own[..., :, None] + own[..., None, :]) / 2


def shared_means(
    network: RandomNetwork, gram: Float[AnyArray, "n n"], d: int, samples: int, seed: Seed = 0
) -> Float[Array, "samples n n"]:
    r"""Draws of $\langle m_i,m_j\rangle$, whose mean is $s_{ij}$; only the Gram matrix of the tokens is needed."""
    values, vectors = jnp.linalg.eigh(jnp.asarray(gram))
    root = lower_root(vectors * jnp.sqrt(jnp.clip(values, 0)))
    n = root.shape[0]
    law = network.law
    assert isinstance(law, Weights)

    def one(key: Array) -> Array:
        normal_key, chi_key = jax.random.split(key)
        z = standard_normals(normal_key, law.score.normals(n, d))
        means = network.attend(root, law.score.corner(z, chi_key, n, d)[None])[0] @ root
        return means @ means.T

    return jax.lax.map(one, jax.random.split(key_from(seed), samples), batch_size=1024)


def energy_rate(
    r: Float[AnyArray, "... n n"], s: Float[AnyArray, "... n n"], d: int, beta: float
) -> Float[AnyArray, "..."]:
    r"""$\frac{d}{d\tau}E\,\frac1{2\beta n^2}\sum_{ij}e^{\beta(R_{ij}-1)}$ from the overlap equation (Ito's formula).

    The attention energy has no reason to be monotone under noise: its mean rate is drift plus half the curvature.
    """
    kernel = jnp.exp(beta * (jnp.asarray(r) - 1))
    rate = kernel * (overlap_drift(r, s, d) + beta / 2 * overlap_bracket(r, s, d)) / 2
    return jnp.mean(rate * (1 - jnp.eye(rate.shape[-1])), axis=(-2, -1))


def final_rate(d: int) -> float:
    r"""$\frac{d}{d\tau}E\log(1-R)=-\frac{d-1}d$ when all tokens are close, for every n and temperature."""
    return -(d - 1) / d
