r"""Light Schroedinger Bridge: an entropic transport plan with a closed form, learned in a minute.

With the potential $\varphi(y)=\sum_k\alpha_k\,\mathcal N(y;r_k,\epsilon S_k)$,

$$ c(x)=\sum_k\alpha_k\exp\Big(\frac{x^\top S_kx+2r_k^\top x}{2\epsilon}\Big),\qquad
   \min\ E_{p_0}\log c(X_0)-E_{p_1}\log\varphi(X_1). $$

Given $x$, the plan draws $k$ with probability proportional to the $k$-th summand of $c(x)$ and then
$y\sim\mathcal N(r_k+S_kx,\epsilon S_k)$. In between $dX=b\,dt+\sqrt\epsilon\,dW$ with, for $M_k=tS_k+(1-t)I$,

$$ b(x,t)=\sum_kw_kM_k^{-1}\big(r_k+(S_k-I)x\big),\qquad w_k\propto\frac{\alpha_k}{\sqrt{|M_k|}}
   \exp\frac{x^\top M_k^{-1}(S_k-I)x+2x^\top M_k^{-1}r_k-t\,r_k^\top M_k^{-1}r_k}{2\epsilon}, $$

which is regular up to $t=1$. $S_k=Q_k\,\mathrm{diag}(e^{l_k})\,Q_k^\top$ with orthogonal $Q_k$, or diagonal without
them: in its frame every component is worked off coordinate by coordinate. Everything is computed in logarithms.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from sphereflow.drifting.inputs import LARGEST, moderate
from sphereflow.drifting.samplers import Sampler
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.fitting import Descent, descend, own, rate_or
from sphereflow.seeds import Seed, key_from


class LightBridge(eqx.Module):
    """The mixture potential, the plan it stands for and the diffusion between its ends.

    `frames` holds the orthogonal matrices $Q_k$; without them the $S_k$ are diagonal. `light_bridge` makes one from
    weights, centres and matrices.
    """

    scaled_log_weights: Float[Array, " K"]
    centres: Float[Array, "K D"]
    log_spread: Float[Array, "K D"]
    epsilon: float = eqx.field(static=True)
    frames: Float[Array, "K D D"] | None = None

    @property
    def covariances(self) -> Float[Array, "K D D"]:
        """The matrices $S_k$."""
        frames = self._axes()
        return jnp.einsum("kde,ke,kfe->kdf", frames, jnp.exp(self.log_spread), frames)

    @eqx.filter_jit
    def log_normaliser(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """log c(x)."""
        return jax.scipy.special.logsumexp(self._summands(x), axis=1)

    @eqx.filter_jit
    def log_potential(self, y: Float[Array, "n D"]) -> Float[Array, " n"]:
        r"""log $\varphi(y)$."""
        exponent = self._log_gaussians(y[:, None, :] - self.centres[None], self.epsilon * jnp.exp(self.log_spread))
        return jax.scipy.special.logsumexp(self.scaled_log_weights / self.epsilon + exponent, axis=1)

    @eqx.filter_jit
    def mean_map(self, x: Float[Array, "n D"]) -> Float[Array, "n D"]:
        """The barycentre of the plan: deterministic."""
        return jnp.einsum("nk,nkd->nd", jax.nn.softmax(self._summands(x), axis=1), self._moved(x))

    @eqx.filter_jit
    def sample(self, x: Float[Array, "n D"], key: PRNGKeyArray) -> Float[Array, "n D"]:
        """One draw of the plan for every row."""
        which, noise = jax.random.split(key)
        # By the distribution function: the usual draw, one random number for every summand, compiles in twice the time.
        below = jnp.cumsum(jax.nn.softmax(self._summands(x), axis=1), axis=1)[:, :-1]
        k = jnp.sum(jax.random.uniform(which, (len(x), 1)) > below, axis=1)
        spread = jnp.exp(self.log_spread)[k]
        shaken = jnp.sqrt(self.epsilon * spread) * jax.random.normal(noise, x.shape)
        if self.frames is None:
            return self.centres[k] + spread * x + shaken
        frames = self.frames[k]
        inside = spread * jnp.einsum("nd,nde->ne", x, frames) + shaken
        return self.centres[k] + jnp.einsum("ne,nde->nd", inside, frames)

    def drift(self, x: Float[Array, "n D"], t: Float[Array, ""] | float) -> Float[Array, "n D"]:
        """b(x, t) for 0 <= t <= 1."""
        return self._drift(x, jnp.asarray(t, x.dtype))  # as an array: one program for all times

    @eqx.filter_jit
    def _drift(self, x: Array, t: Array) -> Array:
        spread, r, z = jnp.exp(self.log_spread), self._turned_centres(), self._turned(x)
        mixed = t * spread + (1 - t)
        # Weights are those of x^T M^-1 (S - I) x + 2 x^T M^-1 r - t r^T M^-1 r, coordinate by coordinate.
        exponent = ((spread - 1) * z**2 + 2 * r * z - t * r**2) / mixed / self.epsilon - jnp.log(mixed)
        logits = self.scaled_log_weights / self.epsilon + 0.5 * jnp.sum(exponent, axis=-1)
        pushed = self._back((r + (spread - 1) * z) / mixed)
        return jnp.einsum("nk,nkd->nd", jax.nn.softmax(logits, axis=1), pushed)

    def moments(
        self, x: Float[Array, "n D"], t: Float[Array, ""] | float = 1.0
    ) -> tuple[Float[Array, "n D"], Float[Array, "n D D"]]:
        """Mean and covariance of the position at time t given the start x: of the plan, if t is one."""
        return self._moments(x, jnp.asarray(t, x.dtype))

    @eqx.filter_jit
    def _moments(self, x: Array, t: Array) -> tuple[Array, Array]:
        chosen = jax.nn.softmax(self._summands(x), axis=1)
        ends = self._moved(x)
        mean = jnp.einsum("nk,nkd->nd", chosen, ends)
        away = ends - mean[:, None]
        covariance = jnp.einsum("nk,nkd,nke->nde", chosen, away, away)
        covariance += self.epsilon * jnp.einsum("nk,kde->nde", chosen, self.covariances)
        still = self.epsilon * t * (1 - t) * jnp.eye(x.shape[1], dtype=x.dtype)
        return (1 - t) * x + t * mean, t**2 * covariance + still

    @eqx.filter_jit
    def log_transition(
        self, x: Float[Array, "n D"], y: Float[Array, "n D"], t: Float[Array, ""] | float
    ) -> Float[Array, " n"]:
        """log of the density at y of the position at time 0 < t <= 1 given the start x, row by row."""
        variance = self.epsilon * (t**2 * jnp.exp(self.log_spread) + t * (1 - t))
        away = y[:, None, :] - (1 - t) * x[:, None, :] - t * self._moved(x)
        return jax.scipy.special.logsumexp(
            jax.nn.log_softmax(self._summands(x), axis=1) + self._log_gaussians(away, variance), axis=1
        )

    def _summands(self, x: Array) -> Array:
        spread = jnp.exp(self.log_spread)
        stretched = x**2 @ spread.T if self.frames is None else jnp.sum(spread * self._turned(x) ** 2, axis=-1)
        return (self.scaled_log_weights + (stretched + 2 * x @ self.centres.T) / 2) / self.epsilon

    def _moved(self, x: Array) -> Array:
        """r_k + S_k x, of shape (n, K, D)."""
        return self.centres[None] + self._back(jnp.exp(self.log_spread)[None] * self._turned(x))

    def _log_gaussians(self, away: Array, variance: Array) -> Array:
        if self.frames is not None:
            away = jnp.einsum("nkd,kde->nke", away, self.frames)
        return -0.5 * jnp.sum(away**2 / variance + jnp.log(2 * jnp.pi * variance), axis=-1)

    def _turned(self, rows: Array) -> Array:
        """Rows in the frame of every component: (n, K, D), or (n, 1, D) where all frames are the coordinates."""
        return rows[:, None, :] if self.frames is None else jnp.einsum("nd,kde->nke", rows, self.frames)

    def _turned_centres(self) -> Array:
        return self.centres if self.frames is None else jnp.einsum("kd,kde->ke", self.centres, self.frames)

    def _back(self, parts: Array) -> Array:
        return parts if self.frames is None else jnp.einsum("nke,kde->nkd", parts, self.frames)

    def _axes(self) -> Array:
        k, d = self.centres.shape
        return jnp.broadcast_to(jnp.eye(d), (k, d, d)) if self.frames is None else self.frames


def light_bridge(weights: ArrayLike, centres: ArrayLike, spreads: ArrayLike, epsilon: float) -> LightBridge:
    r"""The bridge of $\varphi=\sum_k\alpha_k\mathcal N(r_k,\epsilon S_k)$ from weights (K), centres (K, D) and spreads
    $S_k$: diagonals (K, D), or symmetric matrices (K, D, D).
    """
    epsilon = real_number("epsilon", epsilon, above=0, most=LARGEST)
    r = moderate("centres", centres, shape=("K", "D"))
    alpha, s = moderate("weights", weights, shape=(len(r),)), moderate("spreads", spreads)
    if s.shape not in (r.shape, (*r.shape, r.shape[1])):
        raise SphereflowError(
            f"centres and spreads must have the shapes (K, D) and (K, D) or (K, D, D) with one K and D; got "
            f"{r.shape} and {s.shape}."
        )
    if not np.all(alpha > 0):
        raise SphereflowError(f"weights must be positive, got {float(alpha.min())!r}.")
    frames = None
    if s.ndim == 3:
        if not np.allclose(s, s.transpose(0, 2, 1), rtol=1e-10, atol=1e-14):
            raise SphereflowError("spreads of shape (K, D, D) must be symmetric matrices.")
        s, frames = np.linalg.eigh(s)
    if not np.all(s > 0):
        raise SphereflowError(f"spreads must be positive (definite), got {float(s.min())!r}.")
    logs = epsilon * np.log(alpha)
    turned = None if frames is None else jnp.asarray(frames)
    return LightBridge(jnp.asarray(logs), jnp.asarray(r), jnp.asarray(np.log(s)), epsilon, turned)


def train_light_bridge(
    source: Sampler,
    target: Sampler,
    *,
    potentials: int = 10,
    epsilon: float = 0.1,
    covariance: str = "diagonal",
    steps: int = 10_000,
    batch: int = 128,
    rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    falling: bool = False,
    seed: Seed = 0,
) -> tuple[LightBridge, Float[np.ndarray, " steps"]]:
    """Descent on the objective, centres started at data; returns the bridge and the history of the objective.

    The matrices of the potentials are diagonal, or with `covariance="full"` any positive ones: they cost the square of
    the dimension, and are needed where coordinates are correlated and potentials few.

    Steps are those of Adam, at a constant `rate` (1e-3 unless given), as published, or one `falling` to zero along a
    cosine; or of an `optimiser` of optax.
    """
    whole_number("potentials", potentials)
    epsilon = real_number("epsilon", epsilon, above=0)
    one_of("covariance", covariance, COVARIANCES)
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
        # Equal spreads have no frame to be turned towards: from the coordinates alone some would never be found.
        0.1 * jax.random.normal(start, (*centres.shape, centres.shape[1]), kind) if covariance == "full" else None,
    )
    at = Descent(initial, rule.init(initial))
    values = []
    for done in range(0, steps, _CHUNK):
        numbers = np.arange(done, min(done + _CHUNK, steps))
        now = jnp.asarray(rates[numbers]) if rule is _ADAM else None
        at, objective = _advance(at, source, target, rule, now, jnp.asarray(numbers), run, batch)
        values.append(np.asarray(objective))
    return _turned(at.weights), np.concatenate(values)


COVARIANCES = ("diagonal", "full")
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
        bridge = _turned(bridge)
        return jnp.mean(bridge.log_normaliser(x)) - jnp.mean(bridge.log_potential(y)), None

    at, (values, _) = descend(objective, at, numbers, optimiser, rates=rates)
    return at, values


def _turned(bridge: LightBridge) -> LightBridge:
    """Descent moves any matrices B; their frames are Cayley's orthogonal ones, of the skew parts B - B^T."""
    if bridge.frames is None:
        return bridge
    skew = bridge.frames - bridge.frames.transpose(0, 2, 1)
    one = jnp.eye(skew.shape[1], dtype=skew.dtype)
    return eqx.tree_at(lambda b: b.frames, bridge, jnp.linalg.solve(one + skew, one - skew))
