r"""What tokens tend to under attention with given matrices, read from their spectra.

$$\dot x_i=\sum_jP_{ij}Vx_j,\qquad P_{ij}=\mathrm{softmax}_j\langle Qx_i,Kx_j\rangle,\qquad z_i=e^{-tV}x_i .$$

With $B=Q^\top K$ and $\lambda_1$ the eigenvalue of V with the largest real part, $\varphi^*$ its left eigenvectors:

- $\lambda_1>0$ simple and larger than the others in modulus, $\langle\varphi_1,B\varphi_1\rangle>0$:
  $\varphi_1^*(z_i)\to c_i\in\{a,0,b\}$, parallel hyperplanes; in dimension one P becomes Boolean besides;
- $V=\lambda_1$ on a space F of dimension two or more, B symmetric positive definite: $\pi_Fz_i\to x$ with $x=0$ or
  $\langle x,Bx\rangle=\max_j\langle x,Bv_j\rangle$, $v_j$ the vertices of a polytope;
- $S=-BV^{-1}$ and the symmetric part of B positive definite, S symmetric: $x_i\to0$, because

$$\tfrac12\tfrac{d}{dt}\sum_i\langle x_i,Sx_i\rangle=-\sum_{ij}P_{ij}\langle x_i,Bx_j\rangle\le-\tfrac1n\sum_{ij}\langle
  x_i,Bx_j\rangle\le0$$

with equality at the origin only (a softmax average is at least the plain one).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Complex, Float

from sphereflow import parameters
from sphereflow.errors import SphereflowError, one_of, real_number
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (
    "polytope",
    "polytope times subspace",
    "hyperplanes",
    "Boolean matrix",
    "origin",
    "single point",
    "antipodal points",
    "open",
)
_WORDS = {
    "polytope": "rescaled tokens tend to 0 or to points of the boundary of a convex polytope, vertices as a rule",
    "polytope times subspace": "rescaled tokens tend to 0 or to the boundary of a convex polytope in a subspace of "
    "dimension {k}, and are free along the other directions",
    "hyperplanes": "rescaled tokens tend to at most three parallel hyperplanes",
    "Boolean matrix": "attention becomes a Boolean matrix but for at most one row: tokens follow the first or the last",
    "origin": "the tokens themselves tend to the origin",
    "single point": "all tokens tend to one point of the sphere, from almost every start",
    "antipodal points": "tokens tend as a rule to the two opposite points along the leading eigenvector, or to one",
    "open": "no theorem says what the tokens tend to",
}


@dataclass(frozen=True, eq=False, repr=False)
class PredictedLimit(Result):
    r"""What the spectra say: `kind`, whether a theorem `proved` it, and the `hypothesis` that is met or missed.

    `coordinates` has the left eigenvectors of the leading eigenvalue as rows, shape (k, d): `coordinates @ z` are the
    numbers that converge. `form` is $Q^\top K$ in these coordinates, shape (k, k), the metric of the polytope. Both are
    empty where no direction leads. `eigenvalues` of V are sorted by real part, largest first; `gap` is how much the
    real part of the leading one exceeds that of the next: what is not seen by $e^{-\mathrm{gap}\,t}$ is gone.
    """

    kind: str
    proved: bool
    hypothesis: str
    eigenvalues: Complex[np.ndarray, " d"]
    coordinates: Float[np.ndarray, "k d"]
    form: Float[np.ndarray, "k k"]
    gap: float
    derived = ("codimension",)

    @property
    def codimension(self) -> int:
        """Number of eigenvalues of V with a positive real part, of which the conjecture on codimension speaks."""
        return int(np.sum(self.eigenvalues.real > 0))

    def facts(self) -> list[str]:
        told = [_WORDS[self.kind].format(k=len(self.coordinates)), self.hypothesis]
        if self.kind == "hyperplanes" and self.codimension > 1:
            told.append(
                f"conjectured: at most three parallel subspaces of codimension {self.codimension}, the number of "
                "eigenvalues with positive real part"
            )
        return told

    def variables(self) -> Variables:
        return {
            "eigenvalue": ("mode", self.eigenvalues.real),
            "rotation": ("mode", self.eigenvalues.imag),
            "coordinates": (("leading", "component"), self.coordinates),
            "form": (("leading", "other"), self.form),
        }

    def miss(self, x: Float[np.ndarray, "n d"]) -> float:
        r"""The largest distance of a token from the predicted object: 0 when all have reached it.

        Give rescaled tokens where the prediction is about them (only their leading coordinates are looked at, so tokens
        divided by $e^{\lambda_1t}$ will do), tokens themselves for the origin and for points of the sphere. Distances
        from a polytope are in the metric of `form`.
        """
        x = real_array("x", x)
        if x.ndim != 2 or x.shape[1] != len(self.eigenvalues) or not np.isfinite(x).all():
            raise SphereflowError(
                f"x must be finite numbers of shape (n, {len(self.eigenvalues)}), got shape {x.shape}."
            )
        if self.kind == "open":
            raise SphereflowError("nothing is predicted for these matrices, so there is nothing to miss.")
        if self.kind == "origin":
            return float(np.linalg.norm(x, axis=1).max())
        if self.kind == "single point":
            return float(np.linalg.norm(x[:, None] - x[None], axis=2).max() / 2)
        if self.kind == "antipodal points":
            direction = self.coordinates[0]
            return float(np.sqrt(np.maximum(1 - (x @ direction) ** 2, 0)).max())
        c = x @ self.coordinates.T
        if self.kind in ("hyperplanes", "Boolean matrix"):
            return float(np.abs(c - [c.min(), 0.0, c.max()]).min(axis=1).max())
        products = c @ self.form @ c.T
        norms = np.sqrt(np.diag(products))
        short = products.max(axis=1) - norms**2
        return float(np.minimum(short / np.where(norms > 0, norms, 1.0), norms).max())

    def plot(self) -> Figure:
        """The eigenvalues of V in the complex plane, the leading ones filled."""
        from sphereflow.pictures import blank, look

        leads = max(len(self.coordinates), 1)
        with look():
            figure = blank(4.6, 3.6)
            axes = figure.subplots()
            axes.axvline(0, color="0.7", lw=0.8)
            for part, face in ((self.eigenvalues[leads:], "none"), (self.eigenvalues[:leads], "C0")):
                axes.plot(part.real, part.imag, "o", markerfacecolor=face, markeredgecolor="C0")
            axes.set(xlabel="real part", ylabel="imaginary part", title=self.kind)
        return figure


@recorded_call
def predict_limit(
    Q: ArrayLike | None = None,
    K: ArrayLike | None = None,
    V: ArrayLike | None = None,
    *,
    space: str = "euclidean",
    tol: float = 1e-6,
) -> PredictedLimit:
    """Which object tokens tend to under attention with the matrices Q, K, V, by their spectra; nothing is simulated.

    **Arguments:** `Q` and `K` of shape (k, d), `V` of shape (d, d); None is the identity, and one of them must be
    given. `space="euclidean"` is attention without normalisation (`EuclideanAttention`), `"sphere"` the flow on the
    unit sphere (`Attention`). Numbers that differ by less than `tol`, relative to the size of their matrix, are equal.
    """
    q, k, v = given_matrices(Q, K, V)
    one_of("space", space, ("euclidean", "sphere"))
    tol = real_number("tol", tol, above=0.0, most=0.1)
    spectrum = _Spectrum(v, q.T @ k, tol)
    return _on_sphere(spectrum) if space == "sphere" else _in_space(spectrum)


def given_matrices(
    query: ArrayLike | None, key: ArrayLike | None, value: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q, K and V as arrays of one dimension d, identities where none were given."""
    given = {"Q": (query, "k d"), "K": (key, "k d"), "V": (value, "d d")}
    found = {
        name: np.asarray(parameters.array(name, m, shape), dtype=float)
        for name, (m, shape) in given.items()
        if m is not None
    }
    if not found:
        raise SphereflowError("give at least one of Q, K and V: the identity has no dimension of its own.")
    first = next(iter(found))
    d = found[first].shape[1]
    if d == 0:
        raise SphereflowError(f"{first} must act on tokens of dimension 1 or more, got shape {found[first].shape}.")
    for name, m in found.items():
        if m.shape[1] != d:
            raise SphereflowError(f"{name} acts on tokens of dimension {m.shape[1]}, but {first} on dimension {d}.")
    q, k, v = (found.get(name, np.eye(d)) for name in ("Q", "K", "V"))
    if len(q) != len(k):
        raise SphereflowError(f"queries and keys must have the same dimension, got {len(q)} and {len(k)}.")
    return q, k, v


class _Spectrum:
    """V and B = Q^T K, and what is asked about them."""

    def __init__(self, value: np.ndarray, form: np.ndarray, tol: float):
        self.value, self.form, self.tol = value, form, tol
        self.d = len(value)
        self.size = max(float(np.linalg.norm(value, 2)), np.finfo(float).tiny)
        values = np.linalg.eigvals(value).astype(complex)
        self.eigenvalues = values[np.lexsort((values.imag, -values.real))]
        self.leading = float(self.eigenvalues[0].real)
        near = np.abs(self.eigenvalues.real - self.leading) <= tol * self.size
        self.rotates = bool(np.any(np.abs(self.eigenvalues[near].imag) > tol * self.size))
        self.multiplicity = int(near.sum())
        self.others = self.eigenvalues[~near]
        self.gap = self.leading - float(self.others[0].real) if len(self.others) else float("inf")
        shifted = value - self.leading * np.eye(self.d)
        left, sizes, right = np.linalg.svd(shifted)
        self.defective = bool(sizes[-self.multiplicity] > np.sqrt(tol) * self.size)
        self.right = right[-self.multiplicity :].T
        coordinates = left[:, -self.multiplicity :].T
        if self.multiplicity == 1:
            coordinates = coordinates * np.sign(coordinates[0, np.argmax(np.abs(coordinates[0]))])
        across = coordinates @ self.right
        self.defective = self.defective or bool(np.linalg.cond(across) > 1 / np.sqrt(tol))
        self.coordinates = coordinates
        # x = right @ inv(across) @ c on the leading space, c being the coordinates.
        back = self.right if self.defective else np.linalg.solve(across.T, self.right.T).T
        self.inner = back.T @ form @ back

    def limit(self, kind: str, proved: bool, hypothesis: str) -> PredictedLimit:
        leads = kind not in ("open", "origin", "single point")
        coordinates = self.coordinates if leads else np.zeros((0, self.d))
        inner = self.inner if leads else np.zeros((0, 0))
        return PredictedLimit(kind, proved, hypothesis, self.eigenvalues, coordinates, inner, self.gap)

    @property
    def modulus_elsewhere(self) -> float:
        return float(np.abs(self.others).max()) if len(self.others) else 0.0

    def positive(self, matrix: np.ndarray) -> bool:
        """Whether a matrix is symmetric and positive definite."""
        scale = float(np.linalg.norm(matrix, 2))
        symmetric = np.linalg.norm(matrix - matrix.T, 2) <= self.tol * scale
        return bool(symmetric and np.linalg.eigvalsh(matrix + matrix.T).min() > self.tol * scale)

    def multiple_of_identity(self, matrix: np.ndarray) -> float | None:
        factor = float(np.trace(matrix)) / self.d
        near = np.linalg.norm(matrix - factor * np.eye(self.d), 2) <= self.tol * np.linalg.norm(matrix, 2)
        return factor if near else None


def _in_space(s: _Spectrum) -> PredictedLimit:
    if _decays(s):
        return s.limit(
            "origin",
            True,
            "-Q^T K V^-1 is symmetric and positive definite, and so is the symmetric part of Q^T K: a quadratic "
            "function of the tokens decreases to 0",
        )
    told = f"{s.leading:.4g}"
    if s.leading <= s.tol * s.size:
        return s.limit("open", False, f"missed: no eigenvalue of V has a positive real part, the largest is {told}")
    if s.rotates:
        return s.limit("open", False, f"missed: the eigenvalues of V with the largest real part, {told}, are not real")
    if s.defective:
        return s.limit("open", False, f"missed: the leading eigenvalue {told} of V has a Jordan block")
    return _one_leading(s, told) if s.multiplicity == 1 else _many_leading(s, told)


def _one_leading(s: _Spectrum, told: str) -> PredictedLimit:
    along = float(s.inner[0, 0])
    if along <= s.tol * np.linalg.norm(s.form, 2):
        why = f"missed: <Q phi, K phi> = {along:.4g} is not positive along the leading eigenvector phi of V"
        return s.limit("open", False, why)
    if s.d == 1:
        return s.limit("Boolean matrix", True, "met: V and QK are positive numbers")
    simple = f"the leading eigenvalue {told} of V is real, positive and simple, and <Q phi, K phi> > 0"
    if s.modulus_elsewhere < s.leading:
        return s.limit("hyperplanes", True, f"met: {simple}, and it exceeds all others in modulus")
    larger = f"another eigenvalue has the modulus {s.modulus_elsewhere:.4g}, though a smaller real part"
    if s.positive(s.form + s.form.T):
        why = f"{simple}; missed: {larger}; this is expected, for Q^T K is positive and the other directions stay small"
        return s.limit("hyperplanes", False, why)
    why = f"{simple}; missed: {larger}, and where Q^T K is negative tokens may grow with the modulus"
    return s.limit("open", False, why)


def _many_leading(s: _Spectrum, told: str) -> PredictedLimit:
    m, whole = s.multiplicity, s.multiplicity == s.d
    kind = "polytope" if whole else "polytope times subspace"
    where = f"V is {told} times the identity" + ("" if whole else f" on an invariant space of dimension {m}")
    if not s.positive(s.inner):
        return s.limit("open", False, f"{where}; missed: Q^T K is not symmetric and positive definite there")
    missed = []
    if not s.positive(s.form):
        missed.append("Q^T K is not symmetric and positive definite elsewhere")
    if s.modulus_elsewhere >= s.leading:
        missed.append(f"another eigenvalue has the modulus {s.modulus_elsewhere:.4g}")
    if len(missed) == 2 and not s.positive(s.form + s.form.T):
        return s.limit("open", False, f"{where}; missed: {' and '.join(missed)}")
    if missed:
        return s.limit(kind, False, f"{where}; missed: {' and '.join(missed)}, so this is expected")
    return s.limit(kind, True, f"met: {where}, and Q^T K is symmetric and positive definite")


def _decays(s: _Spectrum) -> bool:
    if np.abs(s.eigenvalues).min() <= s.tol * s.size:
        return False
    symmetric = -np.linalg.solve(s.value.T, s.form.T).T
    return s.positive(symmetric) and s.positive(s.form + s.form.T)


def _on_sphere(s: _Spectrum) -> PredictedLimit:
    if s.d == 1:
        return s.limit(
            "open", False, "missed: the sphere of dimension 0 has two points, and tokens stay where they are"
        )
    strength, form = s.multiple_of_identity(s.value), s.multiple_of_identity(s.form)
    if strength is not None and strength > 0:
        if form is not None and form >= 0:
            return s.limit("single point", True, "met: V and Q^T K are non-negative multiples of the identity")
        why = (
            "V is a positive multiple of the identity; missed: Q^T K is not, so this is known for tokens that begin in "
        )
        return s.limit("single point", False, why + "one open hemisphere")
    if s.rotates or s.defective or s.multiplicity > 1 or s.leading <= s.tol * s.size:
        return s.limit(
            "open",
            False,
            "missed: V is neither a positive multiple of the identity nor has it one simple, "
            "real, positive leading eigenvalue",
        )
    found = _one_leading(s, f"{s.leading:.4g}")
    if found.kind == "open":
        return found
    axis = s.right[:, 0]
    why = (
        f"the leading eigenvalue {s.leading:.4g} of V is real, positive and simple, and <Q phi, K phi> > 0; expected "
        "as without normalisation, where the direction of a token tends to this eigenvector; at a finite temperature "
        "some tokens may be held beside the axis"
    )
    return replace(
        s.limit("antipodal points", False, why), coordinates=axis[None] * np.sign(axis[np.argmax(np.abs(axis))])
    )
