r"""The law of infinitely many tokens on the circle under the layers of one network.

A layer moves the law by its own map T, $\langle\mu',\varphi\rangle=\langle\mu,\varphi\circ T\rangle$; with
$\varphi=e^{-ik\theta}$ this is a Galerkin scheme without any derivative of the density: mass is exact, and the
truncation is seen in the last modes. The map is that of the network: tokens and density run under the same weights. The
limit of small steps is the stochastic Fokker-Planck equation, which `fokker_planck` solves without a network.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Int

from sphereflow.compilation import compiled
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.weight_laws import AnyLaw
from sphereflow.sphere import from_angles, to_angles


def grid(points: int) -> Float[Array, " p"]:
    """Equally spaced angles in [0, 2 pi)."""
    return 2 * jnp.pi * jnp.arange(points) / points


def density_of(modes: Complex[Array, " k"], points: int) -> Float[Array, " p"]:
    r"""$\rho(\theta)=\sum_{|k|\le K}c_ke^{ik\theta}$ with respect to the uniform law, from the modes k >= 0."""
    k = jnp.arange(modes.shape[0])
    waves = jnp.exp(1j * k * grid(points)[:, None])
    return jnp.real(waves @ jnp.where(k == 0, modes, 2 * modes))


def density_layer(network: RandomNetwork, key: Array, modes: Complex[Array, " k"], points: int) -> Complex[Array, " k"]:
    """One layer on the law of the tokens; `points` quadrature nodes on the circle (several per mode)."""
    assert isinstance(network.law, AnyLaw)
    sample = network.law.sample
    v, a = jax.vmap(lambda each: sample(each, 2))(jax.random.split(key, network.heads))
    x = from_angles(grid(points))
    rho = density_of(modes, points)
    logits = network.beta * jnp.einsum("ka,hab,ib->hik", x, a, x)
    kernel = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True)) * rho
    means = (kernel @ x) / jnp.sum(kernel, axis=-1, keepdims=True)
    moved = to_angles(x + network.step / network.heads * jnp.einsum("hab,hib->ia", v, means))
    return jnp.mean(rho * jnp.exp(-1j * jnp.arange(modes.shape[0])[:, None] * moved), axis=1)


@compiled
def advance_density(
    network: RandomNetwork, keys: Array, modes: Complex[Array, "R k"], layers: Int[Array, ""], points: int
) -> Complex[Array, "R k"]:
    """Modes after some layers, one realisation per key; the same keys give `advance` the same weights."""

    def body(index: Array, state: Array) -> Array:
        return jax.vmap(lambda key, c: density_layer(network, jax.random.fold_in(key, index), c, points))(keys, state)

    return jax.lax.fori_loop(0, layers, body, modes)
