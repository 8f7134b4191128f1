r"""How strongly the weights answer to the logits.

$$ J=\tfrac1T(\mathrm{diag}\,\alpha-\alpha\alpha^\top),\qquad
   \max_i\alpha_i(1-\alpha_i)\le T\|J\|_2\le\min\big(\max_i\alpha_i,\tfrac12,2\max_i\alpha_i(1-\alpha_i)\big). $$

The norm reaches $1/(2T)$ at two tied logits; $1/(4T)$ bounds single entries only.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.normalisation.distance import weight_rows
from sphereflow.normalisation.normalisers import Entmax, Normaliser, ScalableSoftmax, Sigmoid, Softmax, TopK
from sphereflow.numerics.softmax import spectral_norm as spectral_norm
from sphereflow.reading import real_array
from sphereflow.shapes import AnyArray, ArrayLike


def jacobian_norm(normaliser: Normaliser, logits: Float[AnyArray, "... L"]) -> np.ndarray:
    r"""$\|J\|_2$ of any normaliser, along the last axis; keys whose logit is $-\infty$ are masked.

    - softmax, scalable softmax and top-k: `spectral_norm` of the weights at their temperature;
    - entmax: $J=\frac1T\sum s\,(\mathrm{diag}\,p-pp^\top)$ with $s=\alpha^{2-a}$ on the support, $p=s/\sum s$, so that
      sparsemax has the norm $1/T$ wherever two keys share the weight, and 0 where one has it all;
    - sigmoid: $\max_i\alpha_i(1-\alpha_i)/T$, at most $1/(4T)$: its keys do not compete;
    - every other: the largest singular value of the array, which is formed.
    """
    given = _rows("logits", logits, finite=False)
    if not np.isfinite(given.max(axis=-1)).all():
        raise SphereflowError("logits must be below infinity, and above -infinity (a masked key) once in every row.")
    values = jnp.asarray(given)
    alpha = np.asarray(normaliser.weights(values), float)
    match normaliser:
        case Softmax(temperature=t):
            return spectral_norm(alpha, t)
        case ScalableSoftmax(scale=scale):
            return np.asarray(spectral_norm(alpha) * scale * np.log(np.sum(given > -np.inf, axis=-1)))
        case Entmax(order=order, temperature=t):
            slope = np.where(alpha > 0, np.where(alpha > 0, alpha, 1.0) ** (2 - order), 0.0)
            total = slope.sum(axis=-1)
            return np.asarray(spectral_norm(slope / total[..., None], t) * total)
        case TopK(temperature=t, renormalise=True):
            return spectral_norm(alpha, t)
        case Sigmoid(temperature=t):
            return np.asarray(np.max(alpha * (1 - alpha), axis=-1) / t)
    unit = jnp.eye(alpha.shape[-1])
    rows = [
        normaliser.jacobian_product(jnp.broadcast_to(row, unit.shape), unit) for row in values.reshape(-1, len(unit))
    ]
    return np.linalg.norm(np.asarray(rows), 2, axis=(1, 2)).reshape(alpha.shape[:-1])


def infinity_norm(weights: Float[AnyArray, "... L"], temperature: float = 1.0) -> np.ndarray:
    r"""$2\max_i\alpha_i(1-\alpha_i)/T$: the largest absolute row sum, exactly."""
    alpha, temperature = weight_rows(weights), real_number("temperature", temperature, above=0.0)
    return np.asarray(2 * np.max(alpha * (1 - alpha), axis=-1) / temperature)


def norm_sandwich(weights: Float[AnyArray, "... L"]) -> tuple[np.ndarray, np.ndarray]:
    r"""Lower and upper bound of $T\|J\|_2$ from the weights alone."""
    alpha = weight_rows(weights)
    spread = np.max(alpha * (1 - alpha), axis=-1)
    return np.asarray(spread), np.asarray(np.minimum(np.minimum(np.max(alpha, axis=-1), 0.5), 2 * spread))


def sensitivity(
    logits: Float[AnyArray, "... L"],
    perturbation: Float[AnyArray, "... L"],
    normaliser: Normaliser | None = None,
) -> np.ndarray:
    r"""$\|\nu(l+\varepsilon)-\nu(l)\|/\|\varepsilon\|$, a finite difference, no derivative where $T<|\varepsilon|$."""
    normaliser = Softmax() if normaliser is None else normaliser
    before, step = _rows("logits", logits), _rows("perturbation", perturbation)
    if before.shape != step.shape or not step.any(axis=-1).all():
        raise SphereflowError(
            f"perturbation must have the shape of logits, {before.shape}, and not be zero; got {step.shape}."
        )
    moved, still = (np.asarray(normaliser.weights(jnp.asarray(each))) for each in (before + step, before))
    return np.asarray(np.linalg.norm(moved - still, axis=-1) / np.linalg.norm(step, axis=-1))


def _rows(name: str, given: ArrayLike, *, finite: bool = True) -> np.ndarray:
    rows = real_array(name, given, finite=finite)
    if rows.shape[-1:] in ((), (0,)):
        raise SphereflowError(f"{name} must be one row of numbers at least, got the shape {rows.shape}.")
    return rows
