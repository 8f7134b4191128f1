r"""The deep network with random layers, and the stochastic flow it becomes: many realisations at once.

$$x_i\leftarrow N\big(x_i+h\,v\,b[\mu](x_i)+\sqrt h\,\xi(x_i)\big),\qquad
  dx_i=P_{x_i}v\,b[\mu](x_i)\,dt+P_{x_i}\xi(dt,x_i)-\tfrac{d-1}2\kappa(1)\,x_i\,dt .$$

b is the attention output, h = T/L the step, $\xi$ one random field for all tokens of a realisation, new in each layer.
The limit is the same for every width. The second scheme moves along great circles and has the same limit: the term
with $\kappa(1)$ is what returning to the sphere does, and nothing is added by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from sphereflow.compilation import compiled
from sphereflow.dynamics import Attention
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.estimates import Estimate, straight_line
from sphereflow.seeds import Seed, key_from
from sphereflow.shapes import AnyArray
from sphereflow.sphere import exponential, normalise, project
from sphereflow.synchronisation.random_fields import RandomField, Weights

SCHEMES = ("layers", "geodesic")
Strength = float | Float[Array, "r"] | Float[np.ndarray, "r"]


def energy(x: Float[Array, "*r n d"]) -> Float[Array, "*r"]:
    r"""$\Phi=1-|\bar x|^2=\frac1n\sum_i|x_i-\bar x|^2$, in the form that keeps its digits when tokens meet."""
    centre = jnp.mean(x, axis=-2, keepdims=True)
    return jnp.mean(jnp.sum((x - centre) ** 2, axis=-1), axis=-1)


def first_gap(x: Float[Array, "*r n d"]) -> Float[Array, "*r"]:
    r"""$|x_1-x_2|$, the distance of the first two tokens."""
    return jnp.linalg.norm(x[..., 0, :] - x[..., 1, :], axis=-1)


def same(x: Float[Array, "*r n d"]) -> Float[Array, "*r n d"]:
    """The tokens themselves, where nothing less is to be kept."""
    return x


def advised_step(field: RandomField, d: int, strength: float = 0.0, beta: float = 0.0) -> float:
    r"""The largest step with $h\,|v|(1+\beta)\le0.1$ and $h(d-1)\kappa(1)\le0.05$."""
    noise = 0.05 / ((d - 1) * float(field.covariance.at_one))
    return min(0.1 / max(1.0, abs(strength) * (1 + beta)), noise)


def run_network(
    field: RandomField,
    x0: Float[AnyArray, "r n d"],
    *,
    layers: int,
    step: float,
    seed: Seed = 0,
    attention: Attention | None = None,
    strength: Strength = 1.0,
    saves: int = 1,
    observe: Callable[[Array], PyTree] = same,
    scheme: str = "layers",
) -> Any:
    """`observe` of the tokens at the start and after each of `saves` equal parts of the layers, on a leading axis.

    **Arguments:**

    - `field`: the law of the random layer; `Independent(field)` gives each token noise of its own.
    - `x0`: unit tokens of every realisation; all tokens of one realisation meet the same noise.
    - `layers`, `step`: depth and step; the time covered is their product.
    - `attention`: the deterministic part, none by default; `strength` multiplies it, one number or one per realisation.
    - `scheme`: "layers" is the network, "geodesic" the same limit by another route.
    """
    one_of("scheme", scheme, SCHEMES)
    count, parts = whole_number("layers", layers), whole_number("saves", saves)
    if count % parts:
        raise SphereflowError(f"layers must be a multiple of saves, got {count} layers and {parts} saves.")
    size = jnp.asarray(real_number("step", step, above=0))
    factor = jnp.broadcast_to(jnp.asarray(strength, float), x0.shape[:1])
    key = key_from(seed)
    return _run(field, attention, factor, jnp.asarray(x0), key, size, parts, count // parts, observe, scheme)


@compiled
def _run(
    field: RandomField,
    attention: Attention | None,
    strength: Array,
    x0: Array,
    key: Array,
    step: Array,
    parts: int,
    each: int,
    observe: Callable[[Array], PyTree],
    scheme: str,
) -> Any:
    def layer(x: Array, count: Array) -> tuple[Array, None]:
        weights = field.draw(jax.random.fold_in(key, count), *x.shape)
        return advance(field, weights, x, step, attention, strength, scheme), None

    def part(x: Array, index: Array) -> tuple[Array, PyTree]:
        x, _ = jax.lax.scan(layer, x, index * each + jnp.arange(each))
        return x, observe(x)

    _, observed = jax.lax.scan(part, x0, jnp.arange(parts))
    return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), observe(x0), observed)


def advance(
    field: RandomField,
    weights: Weights,
    x: Float[Array, "r n d"],
    step: Float[Array, ""],
    attention: Attention | None = None,
    strength: Float[Array, " r"] | None = None,
    scheme: str = "layers",
) -> Float[Array, "r n d"]:
    """One layer, with weights already drawn."""
    move = jnp.sqrt(step) * field(weights, x)
    if attention is not None:
        factor = 1.0 if strength is None else strength[:, None, None]
        move = move + step * factor * jax.vmap(attention.pull)(x)
    return normalise(x + move) if scheme == "layers" else exponential(x, project(x, move))


@compiled
def meeting_times(
    field: RandomField,
    x0: Float[Array, "r n d"],
    key: Array,
    step: Float[Array, ""] | float,
    distance: Float[Array, ""] | float,
    most: int,
) -> Float[Array, " r"]:
    """Times after which all tokens are within `distance` of the first; infinity where `most` layers do not suffice."""

    def running(carry: tuple[Array, Array, Array]) -> Array:
        count, _, times = carry
        return (count < most) & jnp.any(jnp.isinf(times))

    def layer(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, x, times = carry
        x = advance(field, field.draw(jax.random.fold_in(key, count), *x.shape), x, jnp.asarray(step))
        reach = jnp.max(jnp.sum((x - x[:, :1]) ** 2, axis=-1), axis=-1)
        met = jnp.isinf(times) & (reach < distance**2)
        return count + 1, x, jnp.where(met, (count + 1) * step, times)

    return jax.lax.while_loop(running, layer, (jnp.zeros((), int), x0, jnp.full(x0.shape[0], jnp.inf)))[2]


def zero_crossing(x: Float[np.ndarray, " k"], rates: Estimate) -> Estimate:
    """Where the weighted straight line through the measured rates vanishes, with its standard error."""
    x, values, bars = (np.asarray(column, dtype=float) for column in (x, *rates))
    level, slope = straight_line(x, values, bars)
    crossing = -level.value / slope.value
    there, _ = straight_line(x - crossing, values, bars)  # its level is known to this precision
    return Estimate(np.asarray(crossing), np.asarray(there.error / abs(slope.value)))
