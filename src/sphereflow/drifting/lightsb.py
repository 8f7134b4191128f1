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
from sphereflow.fitting import Descent, descend, own, rate_or
from sphereflow.seeds import Seed, key_from


class LightBridge(eqx.Module):
    """The mixture potential and the plan it stands for."""

    scaled_log_weights: Float[Array, " K"]
    centres: Float[Array, "K D"]
    log_spread: Float[Array, "K D"]
    epsilon: float = eqx.field(static=True)

    @eqx.filter_jit
    def log_normaliser(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """log c(x)."""
        return jax.scipy.special.logsumexp(self._summands(x), axis=1)

    @eqx.filter_jit
    def log_potential(self, y: Float[Array, "n D"]) -> Float[Array, " n"]:
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
        # By the distribution function: the usual draw, one random number for every summand, compiles in twice the time.
        below = jnp.cumsum(jax.nn.softmax(self._summands(x), axis=1), axis=1)[:, :-1]
        k = jnp.sum(jax.random.uniform(which, (len(x), 1)) > below, axis=1)
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
    rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    falling: bool = False,
    seed: Seed = 0,
) -> tuple[LightBridge, Float[np.ndarray, " steps"]]:
    """Descent on the objective, centres started at data; returns the bridge and the history of the objective.

    Steps are those of Adam, at a constant `rate` (1e-3 unless given), as published, or one `falling` to zero along a
    cosine; or of an `optimiser` of optax.
    """
    whole_number("potentials", potentials)
    epsilon = real_number("epsilon", epsilon, above=0)
    steps, batch = whole_number("steps", steps), whole_number("batch", batch, least=2)
    rule = own(optimiser, rate=rate, falling=falling) or _ADAM
    rates = np.full(steps, rate_or(1e-3, rate))
    if falling:
        rates *= 0.5 * (1 + np.cos(np.pi * np.arange(steps) / steps))
    start, run = jax.random.split(key_from(seed))
    centres = target(start, potentials)
    # Types are said: those of plain numbers would change after the first chunk, which would be compiled again.
    kind = centres.dtype
    initial = LightBridge(
        jnp.full(potentials, -epsilon * np.log(potentials), kind),
        centres,
        jnp.full(centres.shape, np.log(0.1), kind),
        epsilon,
    )
    at = Descent(initial, rule.init(initial))
    values = []
    for done in range(0, steps, _CHUNK):
        numbers = np.arange(done, min(done + _CHUNK, steps))
        now = jnp.asarray(rates[numbers]) if rule is _ADAM else None
        at, told = _advance(at, source, target, rule, now, jnp.asarray(numbers), run, batch)
        values.append(np.asarray(told))
    return at.weights, np.concatenate(values)


_ADAM = optax.scale_by_adam()
_CHUNK = 50  # steps per compiled call: runs of any length share it


@eqx.filter_jit
def _advance(
    at: Descent,
    source: Sampler,
    target: Sampler,
    optimiser: optax.GradientTransformation,
    rates: Array | None,
    numbers: Array,
    run: Array,
    batch: int,
) -> tuple[Descent, Array]:
    def objective(bridge: LightBridge, t: Array) -> tuple[Array, None]:
        here, there = jax.random.split(jax.random.fold_in(run, t))
        x, y = source(here, batch), target(there, batch)
        return jnp.mean(bridge.log_normaliser(x)) - jnp.mean(bridge.log_potential(y)), None

    at, (values, _) = descend(objective, at, numbers, optimiser, rates=rates)
    return at, values
