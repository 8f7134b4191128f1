r"""The attention matrix $P_{ij}$ of a model at given tokens: its rank and its leaders."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics import Attention
from sphereflow.errors import SphereflowError, real_number
from sphereflow.interaction import attend
from sphereflow.reading import real_array


def attention_matrix(model: Attention, x: Float[Array, "n d"]) -> Float[Array, "h n n"]:
    r"""$P_{ij}\propto w_j p_{ij} k(\langle Qx_i,Kx_j\rangle)$ with the model's kernel, for every head; rows sum to one.

    The exponential kernel is $k(s)=e^{\beta s}$.
    """
    if not isinstance(model, Attention):
        raise SphereflowError(f"{type(model).__name__} has no attention matrix of this kind.")
    unit = jnp.eye(x.shape[0], dtype=x.dtype)
    heads = []
    for h in range(model.heads):
        q = x if model.query is None else x @ model.query[h % model.query.shape[0]].T
        k = x if model.key is None else x @ model.key[h % model.key.shape[0]].T
        attended = attend(q, k, unit, model.beta, weights=model.weights, mask=model.mask, kernel=model.kernel)
        heads.append(attended.average)
    return jnp.stack(heads)


def numerical_rank(matrix: np.ndarray, threshold: float = 1e-3) -> int:
    """Number of singular values above the threshold."""
    given = real_array("matrix", matrix, shape=("m", "n"))
    return int(np.sum(np.linalg.svd(given, compute_uv=False) > real_number("threshold", threshold, least=0)))


def leaders(matrix: np.ndarray) -> np.ndarray:
    """Tokens that receive more than their share: columns of mean attention above 1/n."""
    column = real_array("matrix", matrix, shape=("m", "n")).mean(axis=0)
    return np.nonzero(column > 1 / len(column))[0]


def followed(matrix: np.ndarray) -> np.ndarray:
    """For each token, the token that it attends to most; for each head if there is an axis of heads."""
    given = real_array("matrix", matrix)
    if given.ndim < 2:
        raise SphereflowError(f"matrix must have the shape (..., m, n), got {given.shape}.")
    return np.argmax(given, axis=-1)
