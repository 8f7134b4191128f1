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

    def log_normaliser(self, x: Float[Array, "n D"]) -> Float[Array, "n"]:
        """log c(x)."""
        return jax.scipy.special.logsumexp(self._summands(x), axis=1)

    def log_potential(self, y: Float[Array, "n D"]) -> Float[Array, "n"]:
        r"""log $\varphi(y)$."""
        variance = self.epsilon * jnp.exp(self.log_spread)
        away = y[:, None, :] - self.centres[None]
        exponent = -0.5 * jnp.sum(away**2 / variance + jnp.log(2 * jnp.pi * variance), axis=-1)
        return jax.scipy.special.logsumexp(self.scaled_log_weights / self.epsilon + exponent, axis=1)

    def mean_map(self, x: Float[Array, "n D"]) -> Float[Array, "n D"]:
        """The barycentre of the plan: deterministic."""
        chosen = jax.nn.softmax(self._summands(x), axis=1)
        moved = self.centres[None] + jnp.exp(self.log_spread)[None] * x[:, None, :]
        return jnp.einsum("nk,nkd->nd", chosen, moved)

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
    seed: int = 0,
) -> tuple[LightBridge, Float[Array, "steps"]]:
    """Adam on the objective, centres started at data; returns the bridge and the history of the objective."""
    whole_number("potentials", potentials)
    epsilon = real_number("epsilon", epsilon, above=0)
    start, run = jax.random.split(jax.random.key(seed))
    centres = target(start, potentials)
    initial = LightBridge(
        jnp.full(potentials, -epsilon * jnp.log(potentials)), centres, jnp.full(centres.shape, jnp.log(0.1)), epsilon
    )
    optimiser = optax.adam(rate)

    def objective(bridge: LightBridge, key: Array) -> Array:
        here, there = jax.random.split(key)
        return jnp.mean(bridge.log_normaliser(source(here, batch))) - jnp.mean(
            bridge.log_potential(target(there, batch))
        )

    @jax.jit
    def all_steps(bridge: LightBridge) -> tuple[LightBridge, Array]:
        def step(carry: tuple, t: Array) -> tuple[tuple, Array]:
            bridge, memory = carry
            value, gradient = jax.value_and_grad(objective)(bridge, jax.random.fold_in(run, t))
            updates, memory = optimiser.update(gradient, memory)
            return (optax.apply_updates(bridge, updates), memory), value

        (bridge, _), values = jax.lax.scan(step, (bridge, optimiser.init(bridge)), jnp.arange(steps))
        return bridge, values

    return all_steps(initial)
