r"""Learned baselines: the same pieces, found by gradient descent.

The likelihood of this flow contains $\lambda\tau\,1\{s>0\}$, which jumps where a point crosses the hyperplane of a
piece. Automatic differentiation of the exact likelihood drops the boundary term

$$\partial_b\,E[\lambda\,1\{s>0\}]=\lambda\,p_s(0),\qquad p_s\ \text{the density of } s,$$

and training stalls. Three gradients are offered: "naive" (plain automatic differentiation, biased), "surrogate" (values
with the hard indicator, derivatives with sigmoid(s/(h|a|)), h = 0.1) and "boundary" (the same with h shrunk to the
resolution of the batch, so that the sigmoid's slope is a kernel estimate of $p_s(0)$).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.fitting import Descent, adam, descend, own, rate_or
from sphereflow.numerics.unit_vectors import unit
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, number_from, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.clouds import checked_cloud
from sphereflow.transport.euclidean.flow import gain
from sphereflow.transport.euclidean.laws import Law
from sphereflow.transport.euclidean.schedule import Schedule

GRADIENTS = ("surrogate", "boundary", "naive")
LOSSES = ("nll", "reverse_kl")
_SURROGATE_WIDTH = 0.1
_STEPS_AT_ONCE = 100

Weights = tuple[Array, Array, Array]  # w, a, b of every piece, each run for a unit of time


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Trained(Result):
    """`schedule` carries N(0, I) to the target; `losses` are those of the steps, in nats."""

    schedule: Schedule
    losses: Float[np.ndarray, " steps"]
    gradient: str

    def variables(self) -> Variables:
        return {"loss": ("step", self.losses)}

    def facts(self) -> list[str]:
        change = f"loss {self.losses[0]:.4g} -> {self.losses[-1]:.4g}"
        return [repr(self.schedule), f"{change} in {len(self.losses)} steps, {self.gradient} gradient"]


@recorded_call
def train_schedule(
    target: Law | ArrayLike,
    pieces: int,
    *,
    loss: str = "nll",
    gradient: str = "surrogate",
    start: Schedule | None = None,
    steps: int = 1500,
    batch: int = 2000,
    rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    seed: Seed = 0,
) -> Trained:
    """Descent on the exact likelihood ("nll") or on KL(image||target) ("reverse_kl").

    Steps are those of Adam, its `rate` (2e-2 unless given) falling along a cosine, or of an `optimiser` of optax.
    `target` is a law, or an array of samples; a law is sampled afresh for every step. For "nll" the inverse flow, from
    data to N(0, I), is what is parametrised; `start` is a schedule from N(0, I) to begin with instead of small random
    weights.
    """
    one_of("loss", loss, LOSSES)
    one_of("gradient", gradient, GRADIENTS)
    pieces, steps, batch = (whole_number(n, v) for n, v in (("pieces", pieces), ("steps", steps), ("batch", batch)))
    rule = own(optimiser, rate=rate) or adam(rate_or(2e-2, rate), steps)
    number = number_from(seed, most=2**62)
    if loss == "reverse_kl" and not isinstance(target, Law):
        raise SphereflowError("the loss reverse_kl needs a target with a density, not samples; use loss='nll'.")
    d = target.d if isinstance(target, Law) else checked_cloud(target, "target").shape[1]
    log_target = target.log_density if loss == "reverse_kl" and isinstance(target, Law) else None
    weights = small_weights(pieces, d, number) if start is None else _from_schedule(start, inverted=loss == "nll")
    at = Descent(weights, rule.init(weights))
    losses: list[np.ndarray] = []
    # A chunk of steps at a time: one compilation, and a batch that fits in memory.
    for first in range(0, steps, _STEPS_AT_ONCE):
        count = min(_STEPS_AT_ONCE, steps - first)
        data = _data(target if loss == "nll" else d, count * batch, number + first).reshape(count, batch, d)
        at, seen = _descend(at, jnp.asarray(data), rule, gradient, log_target)
        losses.append(np.asarray(seen))
    w, a, b = (np.asarray(part) for part in at.weights)
    found = Schedule(w, a, b)
    return Trained(found.inverse() if loss == "nll" else found, np.concatenate(losses), gradient)


def objective(weights: Weights, x: Float[Array, "n d"], gradient: str, log_target: Any = None) -> Float[Array, ""]:
    """Mean of -log rho_B(z) - L, or of log rho_B - L - log rho_* o phi if a target density is given.

    Values are exact whatever the gradient is.
    """
    z, log_det = carried(weights, x, gradient)
    if log_target is not None:
        return jnp.mean(_log_normal(x) - log_det - log_target(z))
    return -jnp.mean(_log_normal(z) + log_det)


def carried(weights: Weights, x: Array, gradient: str) -> tuple[Array, Array]:
    """(image, log-determinant) of the points, traceable, with the chosen gradient of the log-determinant."""

    def piece(state: tuple[Array, Array], row: Weights) -> tuple[tuple[Array, Array], None]:
        (x, log_det), (w, a, b) = state, row
        s, stretch = x @ a + b, a @ w
        moved = x + w * (gain(stretch, jnp.ones(())) * jnp.maximum(s, 0.0))[:, None]
        return (moved, log_det + stretch * _active(s, jnp.linalg.norm(a), gradient)), None

    return jax.lax.scan(piece, (x, jnp.zeros(len(x))), weights)[0]


def _active(s: Float[Array, " n"], size: Float[Array, ""], gradient: str) -> Float[Array, " n"]:
    """1{s > 0}, with the derivative that the chosen gradient gives it."""
    hard = (s > 0).astype(s.dtype)
    if gradient == "naive":
        return hard
    width = _SURROGATE_WIDTH * size
    if gradient == "boundary":
        # The spread of s times n^(-1/3): the bias of the kernel estimate then falls faster than its noise.
        width = jax.lax.stop_gradient(jnp.std(s) * 0.5 * s.shape[0] ** (-1 / 3))
    soft = jax.nn.sigmoid(s / jax.lax.stop_gradient(jnp.maximum(width, 1e-12)))
    return hard + soft - jax.lax.stop_gradient(soft)


def _log_normal(x: Float[Array, "n d"]) -> Float[Array, " n"]:
    return -0.5 * jnp.sum(x * x, axis=1) - 0.5 * x.shape[1] * jnp.log(2 * jnp.pi)


@eqx.filter_jit
def _descend(
    at: Descent,
    data: Float[Array, "steps n d"],
    optimiser: optax.GradientTransformation,
    gradient: str,
    log_target: Any,
) -> tuple[Descent, Float[Array, " steps"]]:
    at, (losses, _) = descend(lambda w, x: (objective(w, x, gradient, log_target), None), at, data, optimiser)
    return at, losses


def _data(source: Any, count: int, seed: int) -> np.ndarray:
    """Samples of a law, draws from a cloud, or N(0, I) for a dimension."""
    rng = np.random.default_rng(seed)
    if isinstance(source, int):
        return rng.standard_normal((count, source))
    if isinstance(source, Law):
        return source.sample(count, int(rng.integers(2**31)))
    cloud = checked_cloud(source, "target")
    return cloud[rng.integers(len(cloud), size=count)]


def small_weights(pieces: int, d: int, seed: Seed) -> Weights:
    """Unit normals of random hyperplanes through the bulk, and small pushes."""
    rng = rng_from(seed)
    a = unit(rng.standard_normal((pieces, d)))
    return jnp.asarray(0.1 * rng.standard_normal((pieces, d))), jnp.asarray(a), jnp.asarray(rng.standard_normal(pieces))


def _from_schedule(start: Schedule, inverted: bool) -> Weights:
    chosen = (start.inverse() if inverted else start).normal_form(float(max(start.n_pieces, 1)))
    return jnp.asarray(chosen.w), jnp.asarray(chosen.a), jnp.asarray(chosen.b)
