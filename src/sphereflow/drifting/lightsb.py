r"""Light Schroedinger Bridge: an entropic transport plan with a closed form, learned in a minute.

With the potential $\varphi(y)=\sum_k\alpha_k\,\mathcal N(y;r_k,\epsilon S_k)$ and diagonal $S_k$,

$$ c(x)=\sum_k\alpha_k\exp\Big(\frac{x^\top S_kx+2r_k^\top x}{2\epsilon}\Big),\qquad
   \min\ E_{p_0}\log c(X_0)-E_{p_1}\log\varphi(X_1). $$

Given $x$, the plan draws $k$ with probability proportional to the $k$-th summand of $c(x)$ and then
$y\sim\mathcal N(r_k+S_kx,\epsilon S_k)$. Everything is computed in logarithms.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from sphereflow.drifting.samplers import Sampler
from sphereflow.errors import real_number, whole_number


class LightBridge(eqx.Module):
    """The mixture potential and the plan it stands for."""

    scaled_log_weights: Float[Array, "K"]
    centres: Float[Array, "K D"]
    log_spread: Float[Array, "K D"]
    epsilon: float = eqx.field(static=True)

    @eqx.filter_jit
    def log_normaliser(self, x: Float[Array, "n D"]) -> Float[Array, "n"]:
        """log c(x)."""
        return jax.scipy.special.logsumexp(self._summands(x), axis=1)

    @eqx.filter_jit
    def log_potential(self, y: Float[Array, "n D"]) -> Float[Array, "n"]:
        r"""log $\varphi(y)$."""
        variance = self.epsilon * jnp.exp(self.log_spread)
        away = y[:, None, :] - self.centres[None]
        exponent = -0.5 * jnp.sum(away**2 / variance + jnp.log(2 * jnp.pi * variance), axis=-1)
        return jax.scipy.special.logsumexp(self.scaled_log_weights / self.epsilon + exponent, axis=1)

    @eqx.filter_jit
    def mean_map(self, x: Float[Array, "n D"]) -> Float[Array, "n D"]:
        """The barycentre of the plan: deterministic."""
        chosen = jax.nn.softmax(self._summands(x), axis=1)
        moved = self.centres[None] + jnp.exp(self.log_spread)[None] * x[:, None, :]
        return jnp.einsum("nk,nkd->nd", chosen, moved)

    @eqx.filter_jit
    def sample(self, x: Float[Array, "n D"], key: PRNGKeyArray) -> Float[Array, "n D"]:
        """One draw of the plan for every row."""
        which, noise = jax.random.split(key)
        k = jax.random.categorical(which, self._summands(x), axis=1)
        spread = jnp.exp(self.log_spread)[k]
        return self.centres[k] + spread * x + jnp.sqrt(self.epsilon * spread) * jax.random.normal(noise, x.shape)

    def _summands(self, x: Array) -> Array:
        spread = jnp.exp(self.log_spread)
        squares = x**2 @ spread.T + 2 * x @ self.centres.T
        return (self.scaled_log_weights + squares / 2) / self.epsilon


def train_light_bridge(
    source: Sampler,
    target: Sampler,
    *,
    potentials: int = 10,
    epsilon: float = 0.1,
    steps: int = 10_000,
    batch: int = 128,
    rate: float = 1e-3,
    falling: bool = False,
    seed: int = 0,
) -> tuple[LightBridge, Float[np.ndarray, "steps"]]:
    """Adam on the objective, centres started at data; returns the bridge and the history of the objective.

    The rate is constant, as published, or `falling` to zero along a cosine.
    """
    whole_number("potentials", potentials)
    epsilon = real_number("epsilon", epsilon, above=0)
    steps, batch = whole_number("steps", steps), whole_number("batch", batch, least=2)
    real_number("rate", rate, above=0)
    start, run = jax.random.split(jax.random.key(seed))
    centres = target(start, potentials)
    # Types are said: those of plain numbers would change after the first chunk, which would be compiled again.
    kind = centres.dtype
    initial = LightBridge(
        jnp.full(potentials, -epsilon * np.log(potentials), kind), centres, jnp.full(centres.shape, np.log(0.1), kind),
        epsilon,
    )  # fmt: skip
    rates = 0.5 * rate * (1 + np.cos(np.pi * np.arange(steps) / steps)) if falling else np.full(steps, rate)
    carry = (initial, _ADAM.init(initial))
    values = []
    for done in range(0, steps, _CHUNK):
        numbers = np.arange(done, min(done + _CHUNK, steps))
        carry, told = _advance(carry, source, target, jnp.asarray(rates[numbers]), jnp.asarray(numbers), run, batch)
        values.append(np.asarray(told))
    return carry[0], np.concatenate(values)


_ADAM = optax.scale_by_adam()
_CHUNK = 50  # steps per compiled call: runs of any length share it


@eqx.filter_jit
def _advance(
    carry: tuple, source: Sampler, target: Sampler, rates: Array, numbers: Array, run: Array, batch: int
) -> tuple[tuple, Array]:
    def objective(bridge: LightBridge, key: Array) -> Array:
        here, there = jax.random.split(key)
        x, y = source(here, batch), target(there, batch)
        return jnp.mean(bridge.log_normaliser(x)) - jnp.mean(bridge.log_potential(y))

    def step(carry: tuple, now: tuple[Array, Array]) -> tuple[tuple, Array]:
        bridge, memory = carry
        t, rate = now
        value, gradient = jax.value_and_grad(objective)(bridge, jax.random.fold_in(run, t))
        updates, memory = _ADAM.update(gradient, memory)
        return (jax.tree.map(lambda p, u: p - rate * u, bridge, updates), memory), value

    return jax.lax.scan(step, carry, (numbers, rates))
