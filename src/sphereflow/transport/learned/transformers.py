r"""Learned baseline: the weights of a few full Transformer blocks on the sphere, found by gradient descent.

$$\min_\theta\;\frac1N\sum_i \mathrm{loss}\big(\Phi_\theta\mu_0^i,\mu_1^i\big),\qquad
\dot x=P_x^\perp\big(V_kA_{B_k}[\mu](x)+W_k(U_kx+b_k)_+\big)\text{ for unit time, } k=1..K,$$

by Adam through a few Runge-Kutta steps per piece. Without attention (V = 0) no training passes `perceptron_bound`.
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
from scipy.optimize import linear_sum_assignment

from sphereflow.errors import MissingExtra, SphereflowError, one_of, whole_number
from sphereflow.fitting import Descent, adam, descend, own, rate_or
from sphereflow.numerics.unit_vectors import angle_table
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import AnyArray, ArrayLike
from sphereflow.transport.sphere.inputs import Measure, pairs
from sphereflow.transport.sphere.pieces import TransformerBlock
from sphereflow.transport.sphere.schedule import SphereSchedule

LOSSES = ("w2", "sinkhorn", "mmd")
_BLUR = 0.05  # of the entropic plan
_SHARPNESS = 1.0  # of the kernel e^{<x,y>-1} in the discrepancy: sharper kernels do not feel opposite points
_PLAN_LASTS = 10  # steps of descent between two exact plans

Weights = Float[AnyArray, "pieces entries"]  # V, B, W, U, b of each piece in one row


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TrainedTransformer(Result):
    """`schedule` as any other; `w2` is exact, by an adaptive solve of the trained weights; `losses` per step."""

    schedule: SphereSchedule
    w2: Float[np.ndarray, " N"]
    losses: Float[np.ndarray, " steps"]

    def variables(self) -> Variables:
        return {"loss": ("step", self.losses), "w2": ("measure", self.w2)}

    def facts(self) -> list[str]:
        steps = len(self.losses)
        return [
            f"{len(self.schedule)} pieces, max W2 {self.w2.max():.3g}",
            f"loss {self.losses[0]:.4g} -> {self.losses[-1]:.4g} in {steps} steps",
        ]


@recorded_call
def train_transformer(
    sources: ArrayLike,
    targets: ArrayLike,
    pieces: int,
    *,
    attention: bool = True,
    softmax: bool = True,
    loss: str = "w2",
    steps: int = 300,
    rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    substeps: int = 6,
    start: SphereSchedule | None = None,
    seed: Seed = 0,
) -> TrainedTransformer:
    """Descent on the weights of `pieces` blocks.

    **Arguments:**

    - `attention`: False keeps V = 0; `softmax`: False keeps B = 0.
    - `loss`: "w2" (exact plan, refreshed every ten steps), "sinkhorn" (entropic plan) or "mmd".
    - `rate`: of Adam, 2e-2 unless given; `optimiser`: one of optax instead.
    - `start`: a schedule to begin with, instead of small random weights; each of its pieces becomes one of unit time,
      so long pieces want more `substeps`.
    """
    starts, ends = pairs(sources, targets)
    one_of("loss", loss, LOSSES)
    whole_number("steps", steps)
    whole_number("substeps", substeps)
    rule = own(optimiser, rate=rate) or adam(rate_or(2e-2, rate))
    d = starts[0].d
    weights: Any = _small(whole_number("pieces", pieces), d, seed) if start is None else _given(start, d)
    allowed = {"V": jnp.asarray(float(attention)), "B": jnp.asarray(float(attention and softmax))}
    x, m = _padded(starts)
    y, n = _padded(ends)
    at = Descent(weights, rule.init(weights))
    losses: list[np.ndarray] = []
    settled = loss != "w2" or all(len(end) == 1 for end in ends)  # the plan is not used, or is always the same
    plan = _plans(x, starts, y, ends)
    for done in range(0, steps, _PLAN_LASTS):
        if done and not settled:
            plan = _plans(_final(at.weights, allowed, x, m, substeps), starts, y, ends)
        count = min(_PLAN_LASTS, steps - done)
        at, seen = _descend(at, rule, allowed, x, m, y, n, plan, loss, substeps, count)
        losses.append(np.asarray(seen))
    schedule = _as_schedule(at.weights, allowed, d)
    moved = schedule.apply([s.points for s in starts], [s.masses for s in starts])
    w2 = [Measure(p, s.masses).distance(e) for p, s, e in zip(moved, starts, ends, strict=True)]
    return TrainedTransformer(schedule, np.array(w2), np.concatenate(losses))


def _small(pieces: int, d: int, seed: Seed) -> Weights:
    return 0.5 / np.sqrt(d) * rng_from(seed).normal(size=(pieces, 4 * d * d + d))


def _given(start: SphereSchedule, d: int) -> Weights:
    if start.d != d or len(start) == 0:
        raise SphereflowError(f"start must be a schedule with pieces in dimension {d}, got {start!r}.")
    lasting = {"V", "W"}  # a unit of time at dt times the speed
    return np.stack(
        [
            np.concatenate([np.ravel(row[name] * (row["dt"] if name in lasting else 1.0)) for name in "VBWUb"])
            for row in start.matrices()
        ]
    )


def _parts(weights: Any, allowed: dict[str, Any], d: int) -> dict[str, Any]:
    """The matrices of all pieces by name, what is not allowed set to zero."""
    named = {name: weights[:, k * d * d : (k + 1) * d * d].reshape(-1, d, d) for k, name in enumerate("VBWU")}
    named = {name: value * allowed.get(name, 1.0) for name, value in named.items()}
    return named | {"b": weights[:, 4 * d * d :]}


def _as_schedule(weights: Weights, allowed: dict[str, Array], d: int) -> SphereSchedule:
    held = {name: np.asarray(value) for name, value in _parts(weights, allowed, d).items()}
    return SphereSchedule(
        [TransformerBlock(duration=1.0, **{n: v[k] for n, v in held.items()}) for k in range(len(weights))], d
    )


def _padded(given: list[Measure]) -> tuple[Array, Array]:
    """Clouds of one length, filled up with particles of mass zero."""
    longest = max(len(m) for m in given)
    points = [np.concatenate([m.points, np.repeat(m.points[:1], longest - len(m), axis=0)]) for m in given]
    masses = [np.pad(m.masses, (0, longest - len(m))) for m in given]
    return jnp.asarray(np.stack(points)), jnp.asarray(np.stack(masses))


def _plans(x: Array, starts: list[Measure], y: Array, ends: list[Measure]) -> Array:
    """Exact plans between the current clouds and their targets, zero where padded."""
    plans = np.zeros((len(starts), x.shape[1], y.shape[1]))
    for i, (s, e) in enumerate(zip(starts, ends, strict=True)):
        cost = angle_table(np.asarray(x[i, : len(s)]), e.points) ** 2
        if len(e) == 1:
            plans[i, : len(s), 0] = s.masses
        elif len(s) == len(e) and np.ptp(s.masses) < 1e-15 and np.ptp(e.masses) < 1e-15:
            plans[(i, *linear_sum_assignment(cost))] = 1 / len(s)
        else:
            plans[i, : len(s), : len(e)] = _emd(s.masses, e.masses, cost)
    return jnp.asarray(plans)


def _emd(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> np.ndarray:
    try:
        import ot
    except ImportError:
        raise MissingExtra("POT", "ot", "training towards weighted clouds") from None
    return ot.emd(a, b, cost, numItermax=10**8)


@eqx.filter_jit
def _final(weights: Weights, allowed: dict[str, Array], x: Array, m: Array, substeps: int) -> Array:
    return _flow(weights, allowed, x, m, substeps)


def _flow(weights: Weights, allowed: dict[str, Array], x: Array, m: Array, substeps: int) -> Array:
    def velocity(w: dict[str, Array], z: Array) -> Array:
        z = z / jnp.linalg.norm(z, axis=-1, keepdims=True)
        logits = (z @ w["B"].T) @ jnp.swapaxes(z, 1, 2)
        share = m[:, None] * jnp.exp(logits - logits.max(axis=-1, keepdims=True))
        mean = jnp.einsum("inm,imc->inc", share / share.sum(axis=-1, keepdims=True), z)
        pull = mean @ w["V"].T + jax.nn.relu(z @ w["U"].T + w["b"]) @ w["W"].T
        return pull - jnp.sum(pull * z, axis=-1, keepdims=True) * z

    h = 1 / substeps
    stages = jnp.array([[0.0, h / 6], [h / 2, h / 3], [h / 2, h / 3], [h, h / 6]])

    def step(z: Array, w: dict[str, Array]) -> tuple[Array, None]:
        # A loop over the four stages of Runge and Kutta: the block is compiled once, not four times.
        def stage(carry: tuple[Array, Array], at: Array) -> tuple[tuple[Array, Array], None]:
            k, total = carry
            k = velocity(w, z + at[0] * k)
            return (k, total + at[1] * k), None

        z = jax.lax.scan(stage, (jnp.zeros_like(z), z), stages)[0][1]
        return z / jnp.linalg.norm(z, axis=-1, keepdims=True), None

    each = jnp.repeat(weights, substeps, axis=0)
    return jax.lax.scan(step, x, _parts(each, allowed, x.shape[-1]))[0]


def _distances(x: Array, y: Array) -> Array:
    """Geodesic, with a derivative everywhere."""
    near = jnp.sqrt(jnp.sum((x[:, :, None] - y[:, None]) ** 2, axis=-1) + 1e-24)
    far = jnp.sqrt(jnp.sum((x[:, :, None] + y[:, None]) ** 2, axis=-1) + 1e-24)
    return 2 * jnp.arctan2(near, far)


def _entropic(cost: Array, a: Array, b: Array) -> Array:
    """Sinkhorn plan with the blur above; padded particles have log-mass -inf."""
    log_a, log_b = jnp.log(jnp.maximum(a, 1e-300)), jnp.log(jnp.maximum(b, 1e-300))

    def sweep(g: Array, _: None) -> tuple[Array, None]:
        f = -_BLUR * jax.nn.logsumexp((g[:, None] - cost) / _BLUR + log_b[:, None], axis=2)
        return -_BLUR * jax.nn.logsumexp((f[:, :, None] - cost) / _BLUR + log_a[:, :, None], axis=1), None

    g = jax.lax.scan(sweep, jnp.zeros_like(b), None, length=50)[0]
    f = -_BLUR * jax.nn.logsumexp((g[:, None] - cost) / _BLUR + log_b[:, None], axis=2)
    return jnp.exp((f[:, :, None] + g[:, None] - cost) / _BLUR + log_a[:, :, None] + log_b[:, None])


def _mmd(x: Array, m: Array, y: Array, n: Array) -> Array:
    def mean(p: Array, w: Array, q: Array, v: Array) -> Array:
        return jnp.einsum("in,im,inm->i", w, v, jnp.exp(_SHARPNESS * (p @ jnp.swapaxes(q, 1, 2) - 1)))

    return jnp.mean(mean(x, m, x, m) + mean(y, n, y, n) - 2 * mean(x, m, y, n))


@eqx.filter_jit
def _descend(
    at: Descent,
    optimiser: optax.GradientTransformation,
    allowed: dict[str, Array],
    x: Array,
    m: Array,
    y: Array,
    n: Array,
    plan: Array,
    loss: str,
    substeps: int,
    count: int,
) -> tuple[Descent, Array]:
    def value(w: Weights, _: Array) -> tuple[Array, None]:
        z = _flow(w, allowed, x, m, substeps)
        if loss == "mmd":
            return _mmd(z, m, y, n), None
        cost = _distances(z, y) ** 2
        held = plan if loss == "w2" else jax.lax.stop_gradient(_entropic(cost, m, n))
        return jnp.sum(held * cost) / len(x), None

    at, (losses, _) = descend(value, at, jnp.arange(count), optimiser)
    return at, losses
