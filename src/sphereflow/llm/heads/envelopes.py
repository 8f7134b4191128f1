r"""What independent values predict for the separation of a head with given weights.

Model: values with independent uniform directions in $\mathbb R^d$, norm 1; S the first N of the weights sorted by
size, $A=\sum_S\alpha^2$. Up to normal approximation

$$z_i=-\alpha_i^2-2c_i,\ c_i\sim N\big(0,\tfrac{\alpha_i^2(A-\alpha_i^2)}d\big)\ (i\in S),\qquad
  z_j=\alpha_j^2-2c_j,\ c_j\sim N\big(0,\tfrac{\alpha_j^2A}d\big)\ (j\notin S),$$

$$R_N\approx\frac1N\sum_{i\in S}E\prod_{j\notin S}\Pr(z_j>z_i),\qquad
  P_N\approx E\Big[\frac N{N+\sum_{j\notin S}\Pr(z_j\le M)}\Big],\quad M=\max_Sz_i .$$

Real values are anisotropic: pass the effective dimension $1/\overline{\cos^2}$ instead of the width of the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr

from sphereflow.llm.heads.arrays import double, library
from sphereflow.numerics.selection import expected_separation


def expected_recall_precision(
    weights: Float[np.ndarray, " L"], sizes: Sequence[int], d: float
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """(R_N, P_N) of the semi-analytic model for each N; the mean of F is not F of these two."""
    alpha = np.sort(np.asarray(weights, dtype=float))[::-1]
    alpha = alpha[alpha > 0]
    unknown = float("nan"), float("nan")
    each = [expected_separation(alpha[:n], alpha[n:], float(d)) if n < len(alpha) else unknown for n in sizes]
    return np.array([r for r, _ in each]), np.array([p for _, p in each])


def expected_inversions(weights: Float[np.ndarray, " L"], size: int, d: float) -> float:
    r"""$\sum_{ij}\bar\Phi\big(\sqrt d(\alpha_i^2+\alpha_j^2)/2\sqrt{\alpha_i^2(A-\alpha_i^2)+\alpha_j^2A}\big)$."""
    inside, outside, mass2 = _squares(weights, size)
    spread = np.sqrt(inside * (mass2 - inside) + outside * mass2)
    return float(ndtr(-np.sqrt(d) * (inside + outside) / (2 * spread)).sum())


def inversion_bound(weights: Float[np.ndarray, " L"], size: int, d: float) -> float:
    r"""$\sum_{ij}\exp\big(-d(\alpha_i^2+\alpha_j^2)^2/8(\alpha_i^2|s_{-i}|^2+\alpha_j^2|s|^2)\big)$ with $|s|^2=A$.

    An upper bound on the expected number of inversions that is empty at realistic sizes (see `recall_floor`): a bound
    to draw, not a prediction.
    """
    inside, outside, mass2 = _squares(weights, size)
    noise = inside * (mass2 - inside) + outside * mass2
    return float(np.exp(-d * (inside + outside) ** 2 / (8 * noise)).sum())


def recall_floor(inversions: float, size: int) -> float:
    """R_N >= 1 - GInv/N, and never below 0."""
    return max(0.0, 1 - inversions / size)


def precision_floor(inversions: float, size: int) -> float:
    """P_N >= N/(N + GInv); for an expected number of inversions it bounds the expected P (the function is convex)."""
    return size / (size + inversions)


def equal_weights_recall(size: ArrayLike, d: ArrayLike) -> np.ndarray:
    r"""$\varphi_N=\Phi(\sqrt{d/4(N-1)})$: N equal weights, the others negligible; $P_N\approx\varphi_N^N$."""
    n = np.asarray(size, dtype=float)
    return np.asarray(np.where(n > 1, ndtr(np.sqrt(np.asarray(d) / (4 * np.maximum(n - 1, 1)))), 1.0))


def effective_dimension(values: Float[Any, "*heads L d"]) -> Float[Any, "*heads"]:
    r"""$1/\overline{\cos^2(v_i,v_j)}$ over distinct tokens: d for uniform directions, less for anisotropic ones."""
    lib = library(values)
    values = double(values)
    norms = lib.sqrt((values * values).sum(axis=-1))[..., None]
    unit = values / lib.where(norms > 0, norms, 1.0)
    count = double((norms[..., 0] > 0).sum(axis=-1))
    second = lib.swapaxes(unit, -2, -1) @ unit
    mean = ((second * second).sum(axis=(-2, -1)) - count) / (count * (count - 1.0))
    return 1 / mean


def _squares(weights: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, float]:
    squares = np.sort(np.asarray(weights, dtype=float))[::-1] ** 2
    return squares[:size, None], squares[None, size:], float(squares[:size].sum())
