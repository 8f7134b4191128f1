r"""Optimal Flow Matching: the transport map as the gradient of a convex potential, learned along straight paths.

For a pair $(x_0,x_1)$ and $t$ the point $x_t=(1-t)x_0+tx_1$ lies on the path of one start $z_0$ of the model,
$t\nabla\Psi(z_0)+(1-t)z_0=x_t$: the minimum of $t\Psi(z)-\langle z,x_t\rangle+\frac{1-t}2|z|^2$. The loss is the
flow-matching error $\|(x_0-z_0)/t\|^2$, and its gradient is that of

$$ \langle H^{-1}v,\nabla\Psi_\theta(z_0)\rangle,\qquad v=\frac{2(x_0-z_0)}{t},\quad H=t\nabla^2\Psi+(1-t)I, $$

with $z_0$ and $H^{-1}v$ held fixed. Inversion is by Newton's method and both linear systems by conjugate gradients on
products with the Hessian, so that no array $D\times D$ is formed and far fewer passes are needed than by the published
brute force. Every pass is counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from sphereflow.drifting.samplers import Sampler

_NEWTON, _CONJUGATE, _HALVINGS = 8, 12, 4
# Gradient-like passes per sample in one training step, as an upper bound: Newton steps with their products and trials.
PASSES_PER_STEP = _NEWTON * (1 + 2 * _CONJUGATE + _HALVINGS) + 2 * _CONJUGATE + 2


class ConvexPotential(eqx.Module):
    r"""$\Psi$: an input-convex network plus $\frac12|Ax|^2+b\cdot x$, $A=I$ and $b=0$ at first: the map starts near the
    identity, and affine maps, which are optimal between Gaussians, are within easy reach.

    Hidden weights enter through softplus, which keeps them positive; the activation is softplus, convex and smooth.
    """

    first: tuple[Float[Array, "h D"], ...]
    hidden: tuple[Float[Array, "h h"], ...]
    shifts: tuple[Float[Array, "h"], ...]
    last: Float[Array, "h"]
    quadratic: Float[Array, "D D"]
    linear: Float[Array, "D"]

    def __init__(self, dimension: int, widths: tuple[int, ...] = (128, 128), *, key: PRNGKeyArray):
        keys = jax.random.split(key, 2 * len(widths))
        self.first = tuple(
            jax.random.normal(k, (w, dimension)) / jnp.sqrt(dimension)
            for k, w in zip(keys[: len(widths)], widths, strict=True)
        )
        self.hidden = tuple(
            jnp.full((b, a), jnp.log(jnp.expm1(1.0 / a))) + 0.05 * jax.random.normal(k, (b, a))
            for k, a, b in zip(keys[len(widths) :], widths[:-1], widths[1:], strict=False)
        )
        self.shifts = tuple(jnp.zeros(w) for w in widths)
        self.last = jnp.full(widths[-1], jnp.log(jnp.expm1(0.5 / widths[-1])))
        self.quadratic, self.linear = jnp.eye(dimension), jnp.zeros(dimension)

    def __call__(self, x: Float[Array, "D"]) -> Float[Array, ""]:
        h = jax.nn.softplus(self.first[0] @ x + self.shifts[0])
        for outside, inside, shift in zip(self.first[1:], self.hidden, self.shifts[1:], strict=True):
            h = jax.nn.softplus(jax.nn.softplus(inside) @ h + outside @ x + shift)
        stretched = self.quadratic @ x
        return jax.nn.softplus(self.last) @ h + 0.5 * stretched @ stretched + self.linear @ x

    def map(self, x: Float[Array, "n D"]) -> Float[Array, "n D"]:
        r"""$T=\nabla\Psi$, row by row."""
        return jax.vmap(jax.grad(self.__call__))(x)


class Start(NamedTuple):
    """Where a path of the model starts, and how well the equation holds there."""

    z: Float[Array, "D"]
    residual: Float[Array, ""]


def invert(potential: Any, x: Float[Array, "D"], t: Float[Array, ""]) -> Start:
    r"""Solve $t\nabla\Psi(z)+(1-t)z=x$ by Newton's method with halved steps where the residual would grow."""
    slope = jax.grad(potential)

    def equation(z: Array) -> Array:
        return t * slope(z) + (1 - t) * z - x

    def newton(_: int, z: Array) -> Array:
        g = equation(z)
        size = jnp.linalg.norm(g)
        step = solve(potential, z, t, g)
        # The largest of a few halved steps that makes the residual smaller.
        trials = z[None] - step[None] * (0.5 ** jnp.arange(_HALVINGS))[:, None]
        sizes = jax.vmap(lambda place: jnp.linalg.norm(equation(place)))(trials)
        best = trials[jnp.argmin(sizes)]
        return jnp.where((jnp.min(sizes) < size) & (size > 1e-7), best, z)

    z = jax.lax.fori_loop(0, _NEWTON, newton, x)
    return Start(z, jnp.linalg.norm(equation(z)))


def solve(potential: Any, z: Float[Array, "D"], t: Float[Array, ""], right: Float[Array, "D"]) -> Float[Array, "D"]:
    r"""$(t\nabla^2\Psi(z)+(1-t)I)^{-1}$ applied to a vector, by conjugate gradients."""
    slope = jax.grad(potential)

    def product(u: Array) -> Array:
        return t * jax.jvp(slope, (z,), (u,))[1] + (1 - t) * u

    return jax.scipy.sparse.linalg.cg(product, right, tol=1e-6, maxiter=_CONJUGATE)[0]


def surrogate_loss(
    potential: Any, x0: Float[Array, "D"], x1: Float[Array, "D"], t: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """A function whose gradient is that of the flow-matching error, and the error itself."""
    fixed = jax.lax.stop_gradient(potential)
    start = invert(fixed, (1 - t) * x0 + t * x1, t)
    v = 2 * (x0 - start.z) / t
    direction = jax.lax.stop_gradient(solve(fixed, start.z, t, v))
    surrogate = direction @ jax.grad(lambda z: potential(z))(jax.lax.stop_gradient(start.z))
    error = jnp.sum(((x0 - start.z) / t) ** 2)
    # A start that was not found would push the potential anywhere; the published recipe drops it as well.
    good = start.residual < 0.5
    return jnp.where(good, surrogate, 0.0), jnp.where(good, error, 0.0)


def train_flow_matching(
    source: Sampler,
    target: Sampler,
    dimension: int,
    *,
    widths: tuple[int, ...] = (128, 128),
    steps: int = 2000,
    batch: int = 128,
    rate: float = 1e-3,
    decay: float = 0.99,
    seed: int = 0,
) -> tuple[ConvexPotential, Float[Array, "steps"]]:
    """Adam on the surrogate with independent pairs; returns the averaged potential and the history of the error."""
    start, run = jax.random.split(jax.random.key(seed))
    initial = ConvexPotential(dimension, widths, key=start)
    optimiser = optax.adam(rate)

    def objective(potential: ConvexPotential, key: Array) -> tuple[Array, Array]:
        here, there, when = jax.random.split(key, 3)
        x0, x1 = source(here, batch), target(there, batch)
        t = jax.random.uniform(when, (batch,), minval=0.01, maxval=0.99)
        surrogate, error = jax.vmap(lambda a, b, c: surrogate_loss(potential, a, b, c))(x0, x1, t)
        return jnp.mean(surrogate), jnp.mean(error)

    @jax.jit
    def all_steps(potential: ConvexPotential) -> tuple[ConvexPotential, Array]:
        def step(carry: tuple, n: Array) -> tuple[tuple, Array]:
            potential, average, memory = carry
            (_, error), gradient = jax.value_and_grad(objective, has_aux=True)(potential, jax.random.fold_in(run, n))
            updates, memory = optimiser.update(gradient, memory)
            potential = optax.apply_updates(potential, updates)
            weight = jnp.minimum(decay, (1.0 + n) / (10.0 + n))
            average = jax.tree.map(lambda a, b: weight * a + (1 - weight) * b, average, potential)
            return (potential, average, memory), error

        (_, average, _), errors = jax.lax.scan(
            step, (potential, potential, optimiser.init(potential)), jnp.arange(steps)
        )
        return average, errors

    return all_steps(initial)
