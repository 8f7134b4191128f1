r"""The learned baseline for maps: the same pieces, found by descending on the map and on the push-forward together,

$$\alpha\,E|\varphi_\theta(X)-\varphi(X)|^2+(1-\alpha)\,E[\log\rho(X)-L(X)-\log\rho_\varphi(\varphi_\theta(X))].$$

The first term is continuous in the weights and plain automatic differentiation is right for it; the second contains the
log-determinant and needs the boundary term of `training`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.fitting import Descent, adam, descend, own, rate_or
from sphereflow.results import recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.learned.schedules import Trained, Weights, carried, small_weights

_GRADIENT = "surrogate"


@recorded_call
def train_map(
    phi: Callable[[Any], Any],
    points: ArrayLike,
    pieces: int,
    *,
    alpha: float = 1.0,
    log_density: Callable[[Any], Any] | None = None,
    log_image: Callable[[Any], Any] | None = None,
    steps: int = 1500,
    batch: int = 500,
    rate: float | None = None,
    optimiser: optax.GradientTransformation | None = None,
    start: Schedule | None = None,
    seed: Seed = 0,
) -> Trained:
    """Descent on points of the base, rows of `points`; below alpha = 1 the densities of base and image are needed.

    Steps are those of Adam, its `rate` (2e-2 unless given) falling along a cosine, or of an `optimiser` of optax.
    `start` is a schedule to begin with (its affine part, say) instead of small random weights; more pieces than it has
    are added as small ones.
    """
    x = np.asarray(points, dtype=float)
    if x.ndim != 2 or 0 in x.shape or not np.isfinite(x).all():
        raise SphereflowError(f"points must be finite, of shape (n, d); got {x.shape}.")
    alpha = real_number("alpha", alpha, least=0, most=1)
    if alpha < 1 and (log_density is None or log_image is None):
        raise SphereflowError("below alpha = 1 the loss needs log_density of the base and log_image of the target.")
    pieces, steps = whole_number("pieces", pieces), whole_number("steps", steps)
    rule = own(optimiser, rate=rate) or adam(rate_or(2e-2, rate), steps)
    weights = small_weights(pieces, x.shape[1], seed)
    if start is not None:
        given = start.normal_form(float(max(start.n_pieces, 1)))
        added = (0.1 * part if i == 0 else part for i, part in enumerate(weights))
        pairs = zip((given.w, given.a, given.b), added, strict=True)
        w, a, b = (jnp.concatenate([jnp.asarray(g), s[: max(pieces - len(given), 0)]]) for g, s in pairs)
        weights = (w, a, b)
    y = np.asarray(phi(x), dtype=float)
    chosen = rng_from(seed).integers(len(x), size=(steps, whole_number("batch", batch)))
    at = Descent(weights, rule.init(weights))
    weights, losses = _descend(
        at, jnp.asarray(x), jnp.asarray(y), jnp.asarray(chosen), rule, alpha, log_density, log_image
    )
    return Trained(Schedule(*(np.asarray(part) for part in weights)), np.asarray(losses), _GRADIENT)


def map_loss(weights: Weights, x: Float[Array, "n d"], y: Float[Array, "n d"]) -> Float[Array, ""]:
    """Mean of |phi_theta(x) - y|^2, over rows."""
    return jnp.mean(jnp.sum((carried(weights, x, _GRADIENT)[0] - y) ** 2, axis=1))


@eqx.filter_jit
def _descend(
    at: Descent,
    x: Float[Array, "n d"],
    y: Float[Array, "n d"],
    chosen: Array,
    optimiser: optax.GradientTransformation,
    alpha: Any,
    log_density: Any,
    log_image: Any,
) -> tuple[Weights, Float[Array, " steps"]]:
    def loss(weights: Weights, rows: Array) -> tuple[Array, None]:
        value = alpha * map_loss(weights, x[rows], y[rows])
        if log_image is not None and log_density is not None:
            moved, log_det = carried(weights, x[rows], _GRADIENT)
            value += (1 - alpha) * jnp.mean(log_density(x[rows]) - log_det - log_image(moved))
        return value, None

    at, (losses, _) = descend(loss, at, chosen, optimiser)
    return at.weights, losses
