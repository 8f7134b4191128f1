r"""The stochastic limit: one Brownian path moves all tokens.

$$dX_i=b(X_i)\,dt+\sqrt{\varepsilon}\,P_{X_i}\frac1{\sqrt K}\sum_{k\le K}dB^k\,m_{A_k}(X_i)
  \ \Big[-\frac\varepsilon2(d-1)\,\overline{|m_{A}(X_i)|^2}\,X_i\,dt\Big],\qquad \varepsilon=\frac{\eta\sigma_V^2}H .$$

Ito's equation for Gaussian V; $B^k$ are d x d Brownian matrices common to all tokens, and the law of A is represented
by K draws (exact if A is not random). The term in brackets keeps $|X|=1$ in ambient coordinates; a step that ends
with a normalisation supplies it by itself (`ProjectedNoise`). On the diffusive clock $\varepsilon=1/d$ and b = 0.
"""

from __future__ import annotations

import math
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
from jaxtyping import Array, Float, Int

from sphereflow.compilation import compiled
from sphereflow.dynamics import Dynamics
from sphereflow.random_transformers.mean_field import MeanField
from sphereflow.random_transformers.normals import standard_normals
from sphereflow.sphere import normalise, project


class CommonNoise(eqx.Module):
    """The equation: `noise` gives the means that the Brownian matrices act on, `drift` is any field on the sphere.

    `tangent=0` leaves increments unprojected: with the step eta this is the network itself.
    """

    noise: MeanField
    drift: Dynamics
    strength: Float[Array, ""]
    tangent: Float[Array, ""]

    def __init__(
        self, noise: MeanField, drift: Dynamics | None = None, *, strength: float | Array, tangent: float | Array = 1.0
    ):
        self.noise = noise
        self.drift = noise if drift is None else drift
        self.strength, self.tangent = jnp.asarray(strength, dtype=float), jnp.asarray(tangent, dtype=float)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the Brownian motion: K matrices d x d."""
        return self.noise.scores.shape

    def diffusion(self, t: Any, x: Float[Array, "n d"], args: Any) -> lineax.FunctionLinearOperator:
        r"""$dB\mapsto\sqrt{\varepsilon/K}\sum_kP_{x_i}dB^km_k(x_i)$, never written as an array."""
        unit = normalise(x)
        means = self.noise.means(unit)
        size = jnp.sqrt(self.strength / means.shape[0])

        def act(increment: Array) -> Array:
            moved = size * jnp.einsum("kab,kib->ia", increment, means)
            return moved - self.tangent * (moved - project(unit, moved))

        return lineax.FunctionLinearOperator(act, jax.ShapeDtypeStruct(self.shape, x.dtype))

    def tangent_drift(self, t: Any, x: Float[Array, "n d"], args: Any) -> Float[Array, "n d"]:
        """b, or B itself where increments are left unprojected."""
        unit = normalise(x)
        inside = self.drift.field(t, unit)
        return jnp.where(self.tangent > 0, inside, self.noise.unprojected(unit))

    def ambient_drift(self, t: Any, x: Float[Array, "n d"], args: Any) -> Float[Array, "n d"]:
        r"""$b-\frac\varepsilon2(d-1)\overline{|m|^2}x$: the drift of the ambient Ito equation."""
        unit = normalise(x)
        squares = jnp.mean(jnp.sum(self.noise.means(unit) ** 2, axis=-1), axis=0)
        return self.drift.field(t, unit) - self.strength / 2 * (x.shape[-1] - 1) * squares[:, None] * x


class ProjectedNoise(diffrax.Euler):
    """Euler's step followed by x/|x|: weak order 1, strong order 1/2, and tokens that stay on the sphere."""

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, *rest: Any) -> Any:
        y1, error, dense, state, result = super().step(terms, t0, t1, y0, *rest)
        return normalise(y1), error, dense, state, result


@eqx.filter_jit
def solve_paths(
    model: CommonNoise,
    x0: Float[Array, "n d"],
    keys: Array,
    t1: Float[Array, ""],
    dt: Float[Array, ""],
    finest: Float[Array, ""],
    ambient: bool = False,
) -> Float[Array, "R n d"]:
    """Tokens at t1, one realisation per key, with steps dt. Equal keys and `finest` mean the same Brownian path.

    `finest` is the smallest step for which the path will be asked. `ambient` takes Euler steps of the ambient equation
    instead, normalised at the end only.
    """

    def one(key: Array) -> Array:
        path = diffrax.VirtualBrownianTree(0.0, t1, finest / 2, jax.ShapeDtypeStruct(model.shape, x0.dtype), key)
        drift = model.ambient_drift if ambient else model.tangent_drift
        terms: Any = diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(model.diffusion, path))
        solver = diffrax.Euler() if ambient else ProjectedNoise()
        end = diffrax.diffeqsolve(terms, solver, 0.0, t1, dt, x0, max_steps=None).ys
        assert end is not None
        return normalise(end[0])

    return jax.vmap(one)(keys)


@compiled
def coupled_ends(
    coarse: CommonNoise,
    fine: tuple[CommonNoise, ...],
    x0: Float[Array, "n d"],
    keys: Array,
    dt: Float[Array, ""],
    steps: Int[Array, ""],
    substeps: int,
) -> tuple[Float[Array, "R n d"], ...]:
    """Ends of projected Euler runs that share one Brownian path per key: one with steps dt, others with dt/substeps.

    The fine models are of one kind and differ in their numbers only. Differences of the ends have a small variance,
    which is what makes orders of convergence measurable by sampling.
    """

    def euler(model: CommonNoise, x: Array, increment: Array, h: Array) -> Array:
        moved = model.diffusion(0.0, x, None).mv(increment)
        return normalise(x + h * model.tangent_drift(jnp.zeros(()), x, None) + moved)

    def one(key: Array) -> tuple[Array, Array]:
        h = dt / substeps

        def body(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            size = substeps * math.prod(coarse.shape)
            drawn = standard_normals(jax.random.fold_in(key, index), size, x0.dtype)
            pieces = jnp.sqrt(h) * drawn.reshape(substeps, *coarse.shape)
            rough = euler(coarse, state[0], jnp.sum(pieces, axis=0), dt)
            move = jax.vmap(lambda model, x, piece: euler(model, x, piece, h), in_axes=(0, 0, None))
            return rough, jax.lax.scan(lambda x, piece: (move(family, x, piece), None), state[1], pieces)[0]

        return jax.lax.fori_loop(0, steps, body, (x0, jnp.stack([x0] * len(fine))))

    family = jax.tree.map(lambda *leaves: jnp.stack(leaves), *fine)
    rough, followers = jax.vmap(one)(keys)
    return rough, *jnp.moveaxis(followers, 1, 0)
