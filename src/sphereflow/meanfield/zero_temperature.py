r"""The limit of zero temperature for laws with full support: every token follows its own linear flow.

Scores $\beta x^\top By$, values V, $M=VB^\top$. As beta grows, softmax attends to $u(x)=B^\top x/|B^\top x|$ only, and

$$\dot x=P_xV\frac{B^\top x}{|B^\top x|},\qquad
  x(s)=\frac{e^{sM}x_0}{|e^{sM}x_0|},\quad t=\int_0^s|B^\top x(s')|\,ds'.$$

If M has a real dominant eigenvalue $\lambda_1$ with eigenspace E, tokens tend to $\Pi(x)=P_Ex/|P_Ex|$, where $P_E$
projects along the complementary invariant subspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import integrate, linalg, special

from sphereflow.dynamics import Dynamics, Traits
from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import project

_SAME = 1e-9  # eigenvalues closer than this, relative to the largest, are one


class ZeroTemperature(Dynamics):
    """The field P_x V B^T x / |B^T x|; tokens do not see each other."""

    traits = Traits(masses="any")
    value: Float[Array, "d d"]
    form: Float[Array, "d d"]

    def __init__(self, value: ArrayLike, form: ArrayLike):
        self.value, self.form = jnp.asarray(value, dtype=float), jnp.asarray(form, dtype=float)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        key = x @ self.form
        nearest = key / jnp.linalg.norm(key, axis=1, keepdims=True)
        return project(x, nearest @ self.value.T)


@dataclass(frozen=True, eq=False, repr=False)
class Concentration(Result):
    r"""Where tokens go at zero temperature: the dominant eigenspace E of $M=VB^\top$.

    `eigenvalue` is $\lambda_1$, `next_eigenvalue` the largest real part among the others, `basis` (d, k) an orthonormal
    basis of E, `projector` the matrix $P_E$.
    """

    value: Float[np.ndarray, "d d"]
    form: Float[np.ndarray, "d d"]
    eigenvalue: float
    next_eigenvalue: float
    basis: Float[np.ndarray, "d k"]
    projector: Float[np.ndarray, "d d"]

    @property
    def k(self) -> int:
        """The dimension of E."""
        return self.basis.shape[1]

    def limit(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        r"""$\Pi(x)=P_Ex/|P_Ex|$."""
        return unit(x @ self.projector.T)

    def rate(self, e: Float[np.ndarray, " d"]) -> float:
        r"""$(\lambda_1-\lambda_2)/|B^\top e|$: contraction towards e in E; escape from e in the next eigenspace."""
        return (self.eigenvalue - self.next_eigenvalue) / float(np.linalg.norm(self.form.T @ e))

    derived = ("k",)

    def variables(self) -> Variables:
        square = ("row", "column")
        return {
            "basis": (("row", "direction"), self.basis),
            "projector": (square, self.projector),
            "value": (square, self.value),
            "form": (square, self.form),
        }

    def facts(self) -> list[str]:
        return [
            f"tokens go to a space of dimension {self.k} in R^{len(self.value)}",
            f"its eigenvalue is {self.eigenvalue:.6g}, the next {self.next_eigenvalue:.6g}",
        ]


@recorded_call
def concentration(value: ArrayLike, form: ArrayLike | None = None) -> Concentration:
    r"""The dominant eigenspace of $VB^\top$ for values V and scores $x^\top By$ (B the identity by default)."""
    v = real_array("value", value)
    b = np.eye(*v.shape[:1]) if form is None else real_array("form", form)
    if v.ndim != 2 or v.shape[0] != v.shape[1] or b.shape != v.shape:
        raise SphereflowError(f"value and form must be square matrices of one size, got {v.shape} and {b.shape}.")
    if np.linalg.cond(b) > 1e12:
        raise SphereflowError("form must be invertible: some queries would attend to nothing in particular.")
    m = v @ b.T
    values, left, right = linalg.eig(m, left=True, right=True)
    top = np.argmax(values.real)
    slack = _SAME * max(1.0, float(np.abs(values).max()))
    near = np.abs(values.real - values[top].real) < slack
    if np.abs(values[near].imag).max() > slack:
        raise SphereflowError(
            "the dominant eigenvalues of V B^T are complex: tokens turn for ever, nothing is reached."
        )
    space = linalg.orth(np.hstack([right[:, near].real, right[:, near].imag]))
    if space.shape[1] != near.sum():
        raise SphereflowError("the dominant eigenvalue of V B^T has too few eigenvectors (a Jordan block).")
    dual = linalg.orth(np.hstack([left[:, near].real, left[:, near].imag]))
    projector = space @ np.linalg.solve(dual.T @ space, dual.T)
    rest = values[~near].real
    return Concentration(v, b, float(values[top].real), float(rest.max()) if rest.size else -np.inf, space, projector)


def uniform_square_distance(d: int, k: int, ct: float) -> float:
    r"""$W_2^2=E\arctan^2(e^{-ct}\tan\phi)$ to the limit, from the uniform law of S^{d-1}, with B = 1 and dim E = k.

    V has the eigenvalues $\lambda_1$ (k times) and $\lambda_1-c$ (d-k times); $\phi$, the angle to E, has density
    proportional to $\cos^{k-1}\phi\,\sin^{d-k-1}\phi$ on [0, pi/2].
    """
    d, k, ct = whole_number("d", d, least=2), whole_number("k", k), real_number("ct", ct, least=0)
    if k >= d:
        raise SphereflowError(f"the eigenspace must be smaller than the space, got k={k} of d={d}.")
    total = special.beta(k / 2, (d - k) / 2) / 2

    def integrand(psi: float) -> float:  # psi = pi/2 - phi
        angle = np.arctan2(np.exp(-ct) * np.cos(psi), np.sin(psi))
        return angle**2 * np.sin(psi) ** (k - 1) * np.cos(psi) ** (d - k - 1)

    edges = [0.0, *[e for e in (np.exp(-ct), 10 * np.exp(-ct)) if e < np.pi / 2], np.pi / 2]
    pieces = [integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(edges)]
    return float(sum(pieces) / total)


def laplace_barycentre(
    beta: float, x: Float[np.ndarray, " d"], form: Float[np.ndarray, "d d"], log_gradient: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    r"""$m_\beta(x)\approx u+\frac1{\beta|k|}\big[-\frac{d-1}2u+P_u\nabla\log\rho(u)\big]$, $k=B^\top x$, $u=k/|k|$.

    `log_gradient` is the gradient of log rho at u; the error is of order $\beta^{-2}$.
    """
    key = np.asarray(form, dtype=float).T @ x
    length = float(np.linalg.norm(key))
    u = key / length
    tangent = log_gradient - (u @ log_gradient) * u
    return u + (tangent - (len(x) - 1) / 2 * u) / (beta * length)
