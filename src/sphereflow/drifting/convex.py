r"""Convex potentials, and where the straight paths of their gradient maps start.

With $T=\nabla\Psi$ the model moves $z$ along $x_t=(1-t)z+tT(z)$. Given $x_t$, its start solves

$$ t\nabla\Psi(z)+(1-t)z=x_t, $$

the minimum of $t\Psi(z)-\langle z,x_t\rangle+\frac{1-t}2|z|^2$. Newton's method with conjugate gradients: all samples
of a batch advance together, no array $D\times D$ is formed, and every pass of the network over a sample is counted
(a gradient is two passes, forward and backward; a product with the Hessian of a point already visited two more).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

_NEWTON, _CONJUGATE = 30, 64  # ceilings; the loops end by their residuals


class ConvexPotential(eqx.Module):
    r"""$\Psi$: an input-convex network plus $\frac12|Ax|^2+b\cdot x$, $A=I$ and $b=0$ at first: the map starts near the
    identity, and affine maps, which are optimal between Gaussians, are within easy reach.

    Hidden weights enter through softplus, which keeps them positive; the activation is softplus, convex and smooth.
    """

    first: tuple[Float[Array, "h D"], ...]
    hidden: tuple[Float[Array, "h h"], ...]
    shifts: tuple[Float[Array, " h"], ...]
    last: Float[Array, " h"]
    quadratic: Float[Array, "D D"]
    linear: Float[Array, " D"]

    def __init__(
        self, d: int, widths: tuple[int, ...] = (128, 128), *, key: PRNGKeyArray, dtype: DTypeLike | None = None
    ):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))  # nothing to compile
        draw = lambda *shape: jnp.asarray(rng.normal(size=shape), dtype)  # noqa: E731
        self.first = tuple(3.0 * draw(w, d) / jnp.sqrt(d).astype(dtype) for w in widths)
        self.hidden = tuple(
            jnp.full((b, a), np.log(np.expm1(1.0 / a)), dtype) + 0.05 * draw(b, a) for a, b in pairwise(widths)
        )
        # Steep slopes with bends at different places: with slopes of one and no shifts the network is nearly a
        # parabola, and learning to bend takes ten times as long.
        self.shifts = tuple(draw(w) for w in widths)
        self.last = jnp.full(widths[-1], np.log(np.expm1(0.5 / widths[-1])), dtype)
        self.quadratic, self.linear = jnp.eye(d, dtype=dtype), jnp.zeros(d, dtype)

    def __call__(self, x: Float[Array, " D"]) -> Float[Array, ""]:
        h = jax.nn.softplus(self.first[0] @ x + self.shifts[0])
        for outside, inside, shift in zip(self.first[1:], self.hidden, self.shifts[1:], strict=True):
            h = jax.nn.softplus(jax.nn.softplus(inside) @ h + outside @ x + shift)
        stretched = self.quadratic @ x
        return jax.nn.softplus(self.last) @ h + 0.5 * stretched @ stretched + self.linear @ x

    @eqx.filter_jit
    def map(self, x: Float[Array, "n D"]) -> Float[Array, "n D"]:
        r"""$T=\nabla\Psi$, row by row."""
        return jax.vmap(jax.grad(self.__call__))(x.astype(self.linear.dtype))


class Starts(NamedTuple):
    """Where paths of the model start, how well the equation holds there, and the passes a sample took."""

    z: Float[Array, "n D"]
    residual: Float[Array, " n"]
    passes: Int[Array, ""]


def invert(
    potential: Callable[[Array], Array],
    x: Float[Array, "n D"],
    t: Float[Array, " n"],
    guess: Float[Array, "n D"] | None = None,
    tol: float = 1e-4,
) -> Starts:
    r"""Solve $t\nabla\Psi(z)+(1-t)z=x$ for every row; steps that would not shrink the residual are shortened."""

    def equation(z: Array) -> Array:
        return path_end(potential, z, t) - x

    def unfinished(carry: tuple) -> Array:
        _, g, _, number, _ = carry
        return (number < _NEWTON) & jnp.any(_size(g) > tol)

    def newton(carry: tuple) -> tuple:
        z, g, scale, number, passes = carry
        _, product = jax.linearize(equation, z)
        # Far from the root the direction need not be exact; close to it the tolerance shrinks with the residual.
        exact = jnp.clip(_size(g), 1e-3, 0.1)
        step, products = conjugate_gradients(product, g, exact)
        trial = z - (scale * step.T).T
        after = equation(trial)
        better = _size(after) < _size(g)
        z, g = (jnp.where(better[:, None], a, b) for a, b in ((trial, z), (after, g)))
        scale = jnp.where(better, jnp.minimum(2 * scale, 1.0), scale / 4)
        return z, g, scale, number + 1, passes + 4 + 2 * products

    z = x if guess is None else guess
    begin = (z, equation(z), jnp.ones(len(x), x.dtype), jnp.asarray(0), jnp.asarray(2))
    z, g, _, _, passes = jax.lax.while_loop(unfinished, newton, begin)
    return Starts(z, _size(g), passes)


def path_end(potential: Callable[[Array], Array], z: Float[Array, "n D"], t: Float[Array, " n"]) -> Float[Array, "n D"]:
    r"""$t\nabla\Psi(z)+(1-t)z$: where the path that starts at $z$ is at time $t$."""
    return t[:, None] * jax.vmap(jax.grad(potential))(z) + (1 - t)[:, None] * z


def conjugate_gradients(
    product: Callable[[Array], Array], right: Float[Array, "n D"], tol: Float[Array, " n"] | float
) -> tuple[Float[Array, "n D"], Int[Array, ""]]:
    """Solve n positive definite systems together up to relative residuals; also the number of products taken."""
    enough = tol * _size(right)

    def unfinished(carry: tuple) -> Array:
        _, r, _, number = carry
        return (number < _CONJUGATE) & jnp.any(_size(r) > enough)

    def step(carry: tuple) -> tuple:
        x, r, p, number = carry
        image = product(p)
        old = jnp.sum(r * r, axis=1)
        # A system already solved has p = 0 and stays.
        length = _ratio(old, jnp.sum(p * image, axis=1))
        x, r = x + length[:, None] * p, r - length[:, None] * image
        return x, r, r + _ratio(jnp.sum(r * r, axis=1), old)[:, None] * p, number + 1

    x, _, _, number = jax.lax.while_loop(unfinished, step, (jnp.zeros_like(right), right, right, jnp.asarray(0)))
    return x, number


def _size(rows: Array) -> Array:
    return jnp.linalg.norm(rows, axis=1)


def _ratio(above: Array, below: Array) -> Array:
    positive = below > jnp.finfo(below.dtype).tiny
    return jnp.where(positive, above / jnp.where(positive, below, 1.0), 0.0)
