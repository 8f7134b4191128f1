r"""Optimal Flow Matching: the transport map as the gradient of a convex potential, learned along straight paths.

For a pair $(x_0,x_1)$ and $t$ the point $x_t=(1-t)x_0+tx_1$ lies on the path of one start $z_0$ of the model. The loss
is the flow-matching error $\|(x_0-z_0)/t\|^2$, and its gradient is that of

$$ \langle H^{-1}v,\nabla\Psi_\theta(z_0)\rangle,\qquad v=\frac{2(x_0-z_0)}{t},\quad H=t\nabla^2\Psi+(1-t)I, $$

with $z_0$ and $H^{-1}v$ held fixed. Its minimum is the optimal map whatever the pairs are; pairs that are optimal
within their batch leave less noise in the gradient than independent ones, and the published protocol allows both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from sphereflow.compilation import compiled
from sphereflow.drifting.convex import ConvexPotential, conjugate_gradients, invert, path_end
from sphereflow.drifting.samplers import Sampler
from sphereflow.errors import one_of, whole_number
from sphereflow.fitting import Descent, descend, own, rate_or
from sphereflow.seeds import Seed, key_from

PAIRS = ("optimal", "independent")
_CHUNK = 50  # steps per compiled call: pairs are matched on the host in between
_DROPPED_FROM = 0.5  # residual of a start that was not found
_SOLVED = 1e-3


class Learned(NamedTuple):
    """The averaged potential, the flow-matching error at every step, and the passes over samples that it all took."""

    potential: ConvexPotential
    errors: Float[np.ndarray, " steps"]
    passes: float


def surrogate_loss(
    potential: Callable[[Array], Array],
    x0: Float[Array, "n D"],
    x1: Float[Array, "n D"],
    t: Float[Array, " n"],
    tol: float = 1e-4,
) -> tuple[Float[Array, ""], tuple[Float[Array, ""], Int[Array, ""]]]:
    """A function whose gradient is that of the mean flow-matching error; the error itself, and passes per sample."""
    fixed = jax.lax.stop_gradient(potential)
    x0 = jax.lax.stop_gradient(x0)
    start = invert(fixed, (1 - t)[:, None] * x0 + t[:, None] * x1, t, guess=x0, tol=tol)
    z = jax.lax.stop_gradient(start.z)
    v = 2 * (x0 - z) / t[:, None]
    _, product = jax.linearize(lambda y: path_end(fixed, y, t), z)
    direction, products = conjugate_gradients(product, v, min(_SOLVED, tol))
    # A start that was not found would push the potential anywhere; the published recipe drops it as well.
    good = (start.residual < _DROPPED_FROM).astype(v.dtype)
    slopes = jax.vmap(lambda at, along: jax.jvp(potential, (at,), (along,))[1])(z, jax.lax.stop_gradient(direction))
    error = jnp.sum(v**2, axis=1) / 4
    # Linearising is two passes, each product two, the directional derivative two and its gradient two.
    return jnp.mean(good * slopes), (jnp.mean(good * error), start.passes + 6 + 2 * products)


def train_flow_matching(
    source: Sampler,
    target: Sampler,
    d: int,
    *,
    widths: tuple[int, ...] = (128, 128),
    steps: int = 2000,
    batch: int = 128,
    rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    pairs: str = "optimal",
    decay: float = 0.99,
    seed: Seed = 0,
) -> Learned:
    """Descent on the surrogate in float32; returns the averaged potential.

    Steps are those of Adam, its `rate` (3e-2 unless given) falling to zero along a cosine, or of an `optimiser` of
    optax.
    """
    steps, batch = whole_number("steps", steps), whole_number("batch", batch, least=2)
    rule = own(optimiser, rate=rate) or _ADAM
    rates = 0.5 * rate_or(3e-2, rate) * (1 + np.cos(np.pi * np.arange(steps) / steps))
    one_of("pairs", pairs, PAIRS)
    start, run = jax.random.split(key_from(seed))
    potential = ConvexPotential(d, widths, key=start, dtype=jnp.float32)
    at = Descent(potential, rule.init(potential), average=potential)
    errors, passes = [], 0.0
    for done in range(0, steps, _CHUNK):
        numbers = np.arange(done, min(done + _CHUNK, steps))
        x0, x1, t = _draw(source, target, batch, run, jnp.asarray(numbers))
        if pairs == "optimal":
            x1 = jnp.asarray(np.stack([_matched(a, b) for a, b in zip(np.asarray(x0), np.asarray(x1), strict=True)]))
        now = jnp.asarray(rates[numbers], x0.dtype) if rule is _ADAM else None
        decays = jnp.asarray(np.minimum(decay, (1.0 + numbers) / (10.0 + numbers)), x0.dtype)
        at, (error, taken) = _advance(at, (x0, x1, t), rule, now, decays)
        errors.append(np.asarray(error))
        passes += batch * float(taken.sum())
    return Learned(at.average, np.concatenate(errors), passes)


_ADAM = optax.scale_by_adam(b1=0.8, b2=0.99)


@eqx.filter_jit
def _draw(source: Sampler, target: Sampler, batch: int, key: Array, numbers: Array) -> tuple[Array, Array, Array]:
    # All steps of a chunk in one draw: a draw for each takes longer to compile.
    here, there, when = jax.random.split(jax.random.fold_in(key, numbers[0]), 3)
    x0, x1 = (
        law(place, len(numbers) * batch).astype(jnp.float32).reshape(len(numbers), batch, -1)
        for law, place in ((source, here), (target, there))
    )
    return x0, x1, jax.random.uniform(when, (len(numbers), batch), jnp.float32, minval=0.01, maxval=0.99)


def _matched(x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
    """The second sample in the order that makes the pairs optimal within the batch."""
    return np.asarray(x1[linear_sum_assignment(cdist(x0, x1, "sqeuclidean"))[1]])


@compiled
def _advance(
    at: Descent,
    batches: tuple[Array, Array, Array],
    optimiser: optax.GradientTransformation,
    rates: Array | None,
    decays: Array,
) -> tuple[Descent, tuple[Array, Array]]:
    def loss(potential: ConvexPotential, batch: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        return surrogate_loss(potential, *batch, 1e-3)

    at, (_, measured) = descend(loss, at, batches, optimiser, rates=rates, decays=decays)
    return at, measured
