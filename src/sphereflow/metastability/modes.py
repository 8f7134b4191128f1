r"""Saddle to saddle: the slow directions at a plateau.

At a plateau the clusters are almost at rest, with velocities of order $e^{C}$, $C=\max_{i\ne j}\beta(\langle
x_i,x_j\rangle-1)$. The linearisation of the atoms' field is $e^CJ$; a positive eigenvalue $e^C\mu$ is an unstable
direction, along which the plateau is left after a time of about $e^{-C}/\mu$. For two clusters of USA at angle u,

$$\mu e^C=(\alpha_1+\alpha_2)e^{-\beta(1-\cos u)}(\beta\sin^2u-\cos u).$$

Inside a cluster everything contracts, at rate 1 (SA) or at the mass of the cluster (USA). Eigenvalues that differ by
more than ten digits from the largest are drowned by its rounding and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.dynamics import Dynamics, attention_name
from sphereflow.errors import SphereflowError, real_number
from sphereflow.metastability.atoms import exponents, real_tokens
from sphereflow.numerics.unit_vectors import tangent_frames
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call

_DIGITS = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class UnstableModes(Result):
    """Eigenvalues of the motion of clusters as sign and logarithm of the absolute value, largest first."""

    signs: Float[np.ndarray, " m"]
    logs: Float[np.ndarray, " m"]

    @property
    def unstable(self) -> int:
        """Number of resolved unstable directions."""
        return int(np.sum(self.signs > 0))

    @property
    def log_lifetime(self) -> float:
        """log of 1 / (largest positive eigenvalue): about the log of the time until the plateau is left."""
        positive = self.logs[self.signs > 0]
        return float(-positive.max()) if positive.size else np.inf

    derived = ("unstable", "log_lifetime")

    def variables(self) -> Variables:
        return {"sign": ("direction", self.signs), "log_rate": ("direction", self.logs)}

    def facts(self) -> list[str]:
        left = f"left after log t of about {self.log_lifetime:.6g}" if self.unstable else "nothing leaves the plateau"
        return [f"{self.unstable} unstable of {len(self.logs)} resolved directions", left]


@recorded_call
def slow_modes(
    x: Float[np.ndarray, "k d"], masses: Float[np.ndarray, " k"], beta: float, model: str | Dynamics = "sa"
) -> UnstableModes:
    """The resolved slow eigenvalues of clusters at x with the given masses."""
    x, masses = real_tokens("x", x), real_array("masses", masses)
    kind = attention_name(model, beta)
    beta = real_number("beta", beta, least=0, most=1e6)
    if masses.shape != x.shape[:1] or not (masses > 0).all() or masses.sum() > 1e100:
        raise SphereflowError(f"slow modes need clusters (k, d) and k positive masses, got {x.shape}, {masses.shape}.")
    if len(x) < 2:
        return UnstableModes(np.empty(0), np.empty(0))
    scale, matrix = linearisation(x, masses, beta, kind)
    values = np.linalg.eigvals(matrix)
    sizes = np.abs(values)
    reliable = values[sizes > _DIGITS * sizes.max()]
    reliable = reliable[np.argsort(-np.abs(reliable))]
    return UnstableModes(np.sign(reliable.real), scale + np.log(np.abs(reliable)))


def linearisation(
    x: Float[np.ndarray, "k d"], masses: Float[np.ndarray, " k"], beta: float, kind: str
) -> tuple[float, Float[np.ndarray, "m m"]]:
    """C and the matrix J of the covariant derivative of the field, in orthonormal tangent coordinates, m = k(d-1)."""
    k, d = x.shape
    table = exponents(x, beta)
    scale = float(table.max())
    weights = np.exp(table - scale) * masses
    inner = x @ x.T
    frames = tangent_frames(x)  # (k, d, d-1)
    # pulls[i, j] = P_i x_j in the frame of i; turned[i, :, j, :] = P_i restricted to the tangent space of j.
    pulls = np.einsum("ida,jd->ija", frames, x)
    turned = np.einsum("ida,jdb->iajb", frames, frames)
    strength = np.sum(weights * inner, axis=1)
    stretched = beta * np.einsum("ij,ija,ijb->iab", weights, pulls, pulls)
    jacobian = beta * np.einsum("ij,ija,jib->iajb", weights, pulls, pulls)
    jacobian += weights[:, None, :, None] * turned
    rows = np.arange(k)
    jacobian[rows, :, rows, :] = stretched - strength[:, None, None] * np.eye(d - 1)
    if kind == "sa":
        factor = np.exp(scale)
        total = masses + factor * weights.sum(axis=1)
        field = np.einsum("ij,ija->ia", weights, pulls)
        own = factor * beta * field
        other = factor * beta * np.einsum("ij,jib->ijb", weights, pulls)
        change = other.copy()
        change[rows, rows] = own
        jacobian = jacobian / total[:, None, None, None]
        jacobian -= np.einsum("ia,ijb->iajb", field / total[:, None] ** 2, change)
    size = k * (d - 1)
    return scale, jacobian.reshape(size, size)
