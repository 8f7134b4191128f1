r"""How the limit of each token depends on where all the others began.

$$y=e^{-\lambda_1t}x,\qquad c_i=\varphi^*(y_i),\qquad J_{ij}(t)=\frac{\partial c_i(t)}{\partial x_j(0)} ,$$

solved with the equation of motion. Because the flow does not know the time, a start moved along its own orbit has the
limit $e^{\lambda_1s}c_i$, so that in the limit $\sum_jJ_{ij}\,\dot x_j(0)=\lambda_1c_i$. Had a token's limit nothing
to do with the others, $J_{ij}$ would be zero off the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from jaxtyping import Float

from sphereflow.errors import SphereflowError, enough_memory, real_number
from sphereflow.evolution.limits import PredictedLimit, given_matrices, predict_limit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Weights switch within exp(-2t) once attention is sharp: the step is bounded.
_LONGEST_STEP = 0.1
_MOST_CALLS = 200_000


@dataclass(frozen=True, eq=False, repr=False)
class ContextDependence(Result):
    """Leading coordinates `c` of the tokens at the end, shape (n, k); their `jacobian` by all initial tokens,
    shape (n, k, n, d); the matrix of `attention` at the end; and what the spectra predict, `limit`."""

    c: Float[np.ndarray, "n k"]
    jacobian: Float[np.ndarray, "n k n d"]
    attention: Float[np.ndarray, "n n"]
    limit: PredictedLimit
    derived = ("share",)

    @property
    def strength(self) -> Float[np.ndarray, "n n"]:
        """How much token i depends on the start of token j: the norm of that part of the Jacobian."""
        return np.asarray(np.sqrt((self.jacobian**2).sum(axis=(1, 3))))

    @property
    def share(self) -> float:
        """The part of all dependence that is on the starts of other tokens, between 0 and 1."""
        strength = self.strength
        return float(1 - np.trace(strength) / strength.sum())

    @property
    def leaders(self) -> tuple[int, ...]:
        """The tokens that somebody attends to most at the end."""
        return tuple(int(j) for j in np.unique(self.attention.argmax(axis=1)))

    def facts(self) -> list[str]:
        n, k = self.c.shape
        return [
            f"{100 * self.share:.3g} % of what the limits of {n} tokens depend on is where other tokens began",
            f"{len(self.leaders)} leaders: tokens {', '.join(map(str, self.leaders))} (counted from 0)",
            f"predicted limit: {self.limit.kind}, in {k} leading coordinate{'s' * (k != 1)}",
        ]

    def variables(self) -> Variables:
        return {
            "c": (("token", "leading"), self.c),
            "strength": (("token", "source"), self.strength),
            "attention": (("token", "source"), self.attention),
        }

    def plot(self) -> Figure:
        """Whose start the limit of each token depends on."""
        from sphereflow.pictures import blank, look

        with look():
            figure = blank(4.6, 3.8)
            axes = figure.subplots()
            figure.colorbar(axes.imshow(self.strength, cmap="viridis", vmin=0), ax=axes)
            axes.set(xlabel="start of token", ylabel="limit of token")
        return figure


@recorded_call
def context_dependence(
    x0: ArrayLike,
    t1: float = 12.0,
    Q: ArrayLike | None = None,
    K: ArrayLike | None = None,
    V: ArrayLike | None = None,
    *,
    tol: float = 1e-9,
) -> ContextDependence:
    """The derivative of where tokens end by where all of them began, under attention without normalisation.

    **Arguments:** `x0` of shape (n, d); matrices as in `predict_limit`, which must foresee a limit of rescaled tokens;
    `t1` in units in which the leading eigenvalue of V is what it is: differences left are of size $e^{-\\lambda_1t_1}$.
    """
    x = real_array("x0", x0, shape=("n", "d"))
    if V is None and Q is None and K is None:
        V = np.eye(x.shape[1])
    q, k, v = given_matrices(Q, K, V)
    if v.shape[0] != x.shape[1]:
        raise SphereflowError(f"the matrices act on tokens of dimension {v.shape[0]}, but x0 has d={x.shape[1]}.")
    limit = predict_limit(q, k, v)
    if not len(limit.coordinates):
        raise SphereflowError(f"no limit of rescaled tokens is foreseen for these matrices: {limit.hypothesis}.")
    t1, tol = real_number("t1", t1, above=0.0), real_number("tol", tol, above=0.0, most=0.1)
    enough_memory(8 * 24 * x.size**2, f"the derivative of {x.size} numbers by {x.size} others")
    y, tangent, weights = _solve(x, t1, q.T @ k, v, float(limit.eigenvalues[0].real), tol)
    jacobian = np.einsum("ka,iajb->ikjb", limit.coordinates, tangent)
    return ContextDependence(y @ limit.coordinates.T, jacobian, weights, limit)


def _solve(
    x: np.ndarray, t1: float, form: np.ndarray, value: np.ndarray, rate: float, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y(t1), its derivative by x(0) of shape (n, d, n, d), and the attention matrix."""
    n, d = x.shape
    size, calls = n * d, 0

    def weights(t: float, y: np.ndarray) -> np.ndarray:
        return np.asarray(scipy.special.softmax(np.exp(2 * rate * t) * (y @ form @ y.T), axis=1))

    def both(t: float, state: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > _MOST_CALLS:
            raise SphereflowError(
                f"the derivative changes too fast at t={t:.3g} (entries of x0 are up to {np.abs(x).max():.3g}): "
                "scale x0 or the matrices down."
            )
        y, dy = state[:size].reshape(n, d), state[size:].reshape(n, d, size)
        p = weights(t, y)
        # Logits l_ij = s <y_i, B y_j>; dP_ij = P_ij (dl_ij - sum_k P_ik dl_ik).
        s = np.exp(2 * rate * t)
        dl = s * (np.einsum("iaz,ja->ijz", dy, y @ form.T) + np.einsum("ia,jaz->ijz", y @ form, dy))
        dp = p[:, :, None] * (dl - np.einsum("ik,ikz->iz", p, dl)[:, None])
        average = np.einsum("ijz,ja->iaz", dp, y) + np.einsum("ij,jaz->iaz", p, dy)
        return np.concatenate(
            [(p @ y @ value.T - rate * y).ravel(), (np.einsum("ba,iaz->ibz", value, average) - rate * dy).ravel()]
        )

    begin = np.concatenate([x.ravel(), np.eye(size).ravel()])
    found = scipy.integrate.solve_ivp(both, (0.0, t1), begin, "DOP853", rtol=tol, atol=tol, max_step=_LONGEST_STEP)
    if not found.success:
        raise SphereflowError(f"the equation of the derivative could not be solved to t1={t1:g}: {found.message}")
    y = found.y[:size, -1].reshape(n, d)
    return y, found.y[size:, -1].reshape(n, d, n, d), weights(t1, y)
