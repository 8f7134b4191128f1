r"""Matrices of attention drawn at random, or given: what the replicas of a phase diagram are made of.

With G of independent standard Gaussian entries, each time drawn anew,

$$Q^\top K:\quad I,\qquad GG/\sqrt d,\qquad (G+G^\top)/\sqrt2\ \text{(GOE)};\qquad
  V:\quad I,\qquad GG^\top/\sqrt d,\qquad \pm Q^\top K/c ,$$

c being $\sqrt d$, for the GOE $\sqrt{d+1}$, for the identity 1. So are they scaled in the program of the authors of 'A
mathematical perspective on Transformers'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, one_of
from sphereflow.evolution.limits import given_matrices
from sphereflow.seeds import rng_from

FORMS = ("identity", "gaussian", "goe")
VALUES = ("identity", "gaussian", "form", "-form")
Matrices = tuple[np.ndarray, np.ndarray, np.ndarray]
Law = Callable[[Array], Sequence[Any]]


def draw_matrices(form: str, value: str, d: int, rng: np.random.Generator) -> Matrices:
    """Q, K and V with $Q^T K$ and V of the named laws; K is the identity."""
    one_of("matrices", form, FORMS)
    one_of("value", value, VALUES)
    if form == "identity":
        product, scale = np.eye(d), 1.0
    elif form == "gaussian":
        product, scale = rng.normal(size=(d, d)) @ rng.normal(size=(d, d)) / np.sqrt(d), np.sqrt(d)
    else:
        g = rng.normal(size=(d, d))
        product, scale = (g + g.T) / np.sqrt(2), np.sqrt(d + 1)
    if value == "gaussian":
        g = rng.normal(size=(d, d))
        return product.T, np.eye(d), g @ g.T / np.sqrt(d)
    return product.T, np.eye(d), {"identity": np.eye(d), "form": product / scale, "-form": -product / scale}[value]


def matrices_of(
    matrices: str | Sequence[Any] | Law, value: str, d: int, keys: Sequence[Array]
) -> tuple[Float[np.ndarray, "R k d"], Float[np.ndarray, "R k d"], Float[np.ndarray, "R d d"]]:
    """One triple of matrices for every key: drawn from it by law, or the same ones each time if they were given."""
    if isinstance(matrices, str):
        drawn = [draw_matrices(matrices, value, d, rng_from(key)) for key in keys]
    elif value != "identity":
        raise SphereflowError("value is for laws given by name: your matrices bring their own V.")
    elif callable(matrices):
        drawn = [_three(matrices(key), d, "what matrices returned") for key in keys]
        if len({tuple(m.shape for m in one) for one in drawn}) > 1:
            raise SphereflowError("matrices must return arrays of the same shapes each time.")
    else:
        drawn = [_three(matrices, d, "matrices")] * len(keys)
    q, k, v = (np.stack(each) for each in zip(*drawn, strict=True))
    return q, k, v


def _three(given: Any, d: int, name: str) -> Matrices:
    if not isinstance(given, Sequence) or len(given) != 3:
        raise SphereflowError(f"{name} must be a name out of {', '.join(FORMS)}, or three matrices Q, K and V.")
    found = given_matrices(*given)
    if found[2].shape[0] != d:
        raise SphereflowError(f"{name} must act on tokens of dimension d={d}, got d={found[2].shape[0]}.")
    return found
