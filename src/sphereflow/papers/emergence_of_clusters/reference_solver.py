r"""The rescaled equation from its definition, by SciPy: what simulated tokens are compared with.

$$\dot z_i=\sum_jP_{ij}V(z_j-z_i),\qquad P_{ij}=\mathrm{softmax}_j\langle Qe^{tV}z_i,Ke^{tV}z_j\rangle .$$
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import softmax

Array = np.ndarray


def solve(
    x0: Array,
    times: Sequence[float],
    *,
    value: Array | None = None,
    query: Array | None = None,
    key: Array | None = None,
    growth: bool = True,
) -> Array:
    """Rescaled tokens at increasing times after 0, shape (times, n, d); `growth=False` leaves exp(tV) out of logits."""
    n, d = x0.shape
    v = np.eye(d) if value is None else value
    form = (np.eye(d) if query is None else query).T @ (np.eye(d) if key is None else key)
    rates, vectors = np.linalg.eig(v)
    inverse = np.linalg.inv(vectors)

    def rhs(t: float, state: Array) -> Array:
        z = state.reshape(n, d)
        x = z @ np.real((vectors * np.exp(t * rates)) @ inverse).T if growth else z
        p = softmax(x @ form @ x.T, axis=1)
        return np.asarray(((p @ z - z) @ v.T).ravel())

    # The weights change within exp(-2t) once attention is sharp: the step is bounded.
    span = (0.0, float(times[-1]))
    found = solve_ivp(rhs, span, x0.ravel(), method="DOP853", t_eval=times, rtol=1e-11, atol=1e-12, max_step=0.1)
    return np.asarray(found.y.T.reshape(len(times), n, d))


def attention(x: Array) -> Array:
    """Softmax of the inner products of tokens."""
    return np.asarray(softmax(x @ x.T, axis=1))
