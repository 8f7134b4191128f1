r"""The third cumulant of the last token with two sources, to leading order in 1/N, for independent uniform tokens.

$$\kappa_3=E\cos\big(n_1\theta_N(t)+n_2\theta_j(0)+n_3\theta_k(0)\big)=F_N(t)+O(N^{-3}),\qquad n_1+n_2+n_3=0,$$
$$\dot F=a_{n_1}\omega F-n_1\big[n_3I_{n_3}\,u_2\odot(\omega u_3)+n_2I_{n_2}\,u_3\odot(\omega u_2)\big],\qquad
  u_2=e^{a_{n_2}t\omega}e_j,\quad u_3=e^{a_{n_3}t\omega}e_k .$$

Only the two pairings of a token with one source and of its past with the other are of order $N^{-2}$; the second
cumulant $(e^{a_nt\omega})_{Nk}$ is of order 1/N.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import iv

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.retrieval.linear import weight_matrix
from sphereflow.retrieval.positions import CausalWeights


def third_cumulant(
    n: int,
    sources: tuple[int, int],
    t: float,
    *,
    beta: float,
    weights: CausalWeights | float,
    waves: tuple[int, int, int] = (2, -1, -1),
    target: int | None = None,
) -> float:
    """The leading third cumulant of the last of n tokens at time t with the starts of two sources (from one).

    **Arguments:** `weights` are positional weights, or the slope of ALiBi; `waves` are whole numbers other than 0 that
    sum to 0, the first for the last token. `target`: another token than the last, after both sources.
    """
    n = whole_number("n", n, least=3, most=4096)
    j, k = (whole_number("each of sources", s, most=n - 1) - 1 for s in sources)
    if j == k:
        raise SphereflowError(f"the two sources must be different tokens, got {tuple(sources)}.")
    last = n if target is None else whole_number("target", target, least=max(j, k) + 2, most=n)
    if len(waves) != 3 or sum(waves) != 0 or 0 in waves:
        raise SphereflowError(f"waves must be three whole numbers other than 0 that sum to 0, got {tuple(waves)}.")
    t, beta = real_number("t", t, above=0, most=1e3), real_number("beta", beta, above=0, most=500)
    matrix = weight_matrix(n, weights)
    bessel = iv(np.abs(waves), beta)
    rates = np.asarray(waves) ** 2 * bessel
    first, second, third = waves

    def rate(_t: float, state: np.ndarray) -> np.ndarray:
        f, u, v = state.reshape(3, n)
        past = matrix @ np.stack([f, u, v]).T
        joined = third * bessel[2] * u * past[:, 2] + second * bessel[1] * v * past[:, 1]
        return np.concatenate([rates[0] * past[:, 0] - first * joined, rates[1] * past[:, 1], rates[2] * past[:, 2]])

    start = np.zeros((3, n))
    start[1, j] = start[2, k] = 1.0
    solution = solve_ivp(rate, (0.0, t), start.ravel(), "DOP853", rtol=1e-10, atol=1e-14)
    return float(solution.y[last - 1, -1])
