r"""Lyapunov exponents of the layers themselves: how fast two tokens under the same weights approach or separate.

$$\lambda=\lim_{t\to\infty}\frac1t\,E\log\frac{|x(t)-y(t)|}{|x(0)-y(0)|},\qquad t=\ell h .$$

Pairs are kept at a small distance by rescaling after each layer. The full spectrum needs the derivative of the layer
and an orthonormal frame (Benettin's method); it is equally spaced,
$\lambda_i=\tfrac12[(d-1-2i)\kappa'(1)-(d-1)\kappa(1)]-ib$, i = 1, ..., d-1. The energy of a cloud is of no use here: it
mixes all exponents.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from sphereflow.compilation import compiled
from sphereflow.sphere import normalise, project
from sphereflow.synchronisation.network import advance
from sphereflow.synchronisation.random_fields import RandomField


@compiled
def separation_rates(
    field: RandomField,
    key: Array,
    step: Float[Array, ""] | float,
    *,
    pairs: int,
    d: int,
    layers: int,
    distance: float = 1e-6,
) -> Float[Array, " pairs"]:
    """Growth of log |x - y| per unit time over `layers` layers, one number per independent pair."""
    h = jnp.asarray(step, float)
    # The law of the field is isotropic, so that every start and every direction is as good as a random one.
    x, ahead = (jnp.broadcast_to(jnp.eye(2, d)[k], (pairs, d)) for k in (0, 1))
    y = _beside(x, ahead, distance)

    def layer(carry: tuple[Array, Array, Array], count: Array) -> tuple[tuple[Array, Array, Array], None]:
        x, y, total = carry
        both = jnp.stack([x, y], axis=1)
        moved = advance(field, field.draw(jax.random.fold_in(key, count), *both.shape), both, h)
        gap = moved[:, 1] - moved[:, 0]
        ratio = jnp.sum(gap**2, axis=-1) / jnp.sum((y - x) ** 2, axis=-1)
        return (moved[:, 0], _beside(moved[:, 0], gap, distance), total + jnp.log(ratio) / 2), None

    (_, _, total), _ = jax.lax.scan(layer, (x, y, jnp.zeros(pairs)), jnp.arange(layers))
    return total / (layers * h)


@compiled
def spectrum(
    field: RandomField,
    key: Array,
    step: Float[Array, ""] | float,
    *,
    repeats: int,
    d: int,
    layers: int,
    count: int,
) -> Float[Array, "repeats count"]:
    """The first `count` <= d - 1 exponents of one token's tangent space, largest first, per realisation."""
    h = jnp.asarray(step, float)
    x = jnp.broadcast_to(jnp.eye(1, d), (repeats, d))
    frame = jnp.broadcast_to(jnp.eye(d)[1 : count + 1], (repeats, count, d))

    def orthonormal(frame: Array) -> tuple[Array, Array]:
        directions: list[Array] = []
        growth = []
        for k in range(count):  # Gram and Schmidt; the vectors are nearly orthonormal already, one layer after the last
            rest = frame[:, k]
            for other in directions:
                rest = project(other, rest)
            growth.append(jnp.linalg.norm(rest, axis=-1))
            directions.append(rest / growth[-1][:, None])
        return jnp.stack(directions, axis=1), jnp.log(jnp.stack(growth, axis=1))

    def layer(carry: tuple[Array, Array, Array], index: Array) -> tuple[tuple[Array, Array, Array], None]:
        x, frame, total = carry
        weights = field.draw(jax.random.fold_in(key, index), repeats, 1, d)

        def step_of(x: Array) -> Array:
            return advance(field, weights, x[:, None, :], h)[:, 0]

        moved = step_of(x)
        pushed = jax.vmap(lambda v: jax.jvp(step_of, (x,), (v,))[1], in_axes=1, out_axes=1)(frame)
        frame, growth = orthonormal(pushed)
        return (moved, frame, total + growth), None

    start = (x, frame, jnp.zeros((repeats, count)))
    (_, _, total), _ = jax.lax.scan(layer, start, jnp.arange(layers))
    return total / (layers * h)


def _beside(x: Array, direction: Array, distance: float) -> Array:
    return normalise(x + distance * normalise(project(x, direction)))
