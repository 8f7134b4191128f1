r"""Slow motion near a manifold: the constants of the Otto-Reznikoff framework for tokens near k clusters.

Attention is a gradient flow of $F=-\frac1{2\beta}\sum_{ij}a_ia_jK_{ij}$, $K_{ij}=e^{\beta(\langle x_i,x_j\rangle-1)}$,
in the metric $\sum_ia_i|v_i|^2$ (USA) or $\sum_ia_iZ_i|v_i|^2$, $Z_i=\sum_ja_jK_{ij}$ (SA). The slow manifold N holds
the configurations in which all tokens of cluster q lie at one point $z_q$. With $m_q$ the mass of a cluster,
$R_q=|\sum a_ix_i|/m_q$, $\rho_q$ the smallest inner product in it,
$\mathrm{dist}_q^2=\sum a_i|x_i-z_q|^2=2m_q(1-R_q)$ and $G_q=\frac1{2\beta}\sum_{i,j\in q}a_ia_j(1-K_{ij})$,

$$\phi(\beta(1-\rho_q))\,\tfrac{m_q(1+R_q)}4\le\frac{G_q}{\mathrm{dist}_q^2}\le\tfrac{m_q(1+R_q)}4,\quad
  \phi(y)=\tfrac{1-e^{-y}}y,\qquad
  |\nabla F_q|^2\ge2c_qG_q,\quad c_q=m_q\rho_q^2e^{-2\beta(1-\rho_q)}\ \text{(USA)},$$

and without the factor $m_q$ for SA (over $1+\zeta$, $\zeta$ the part of $Z_i$ from other clusters over $m_q$). Proof of
the second: test the field with $P_{x_i}\bar x$, and Cauchy-Schwarz. Along N the gradient is
$\delta=(\sum_qm_q|f_q|^2)^{1/2}\sim e^{-\beta(1-\cos D)}$, $f_q=\sum_{p\ne q}m_pK_{pq}P_{z_q}z_p$, D the smallest gap.

Two phases follow: $\sqrt{G_q}$ falls like $e^{-c_qt}$ or faster, and N is invariant, so it goes on falling; the centres
move by less than $\epsilon$ until $\epsilon/\max_q\sum_pm_pe^{-\beta(1-\cos(D_{pq}-2\epsilon))}$ at least (SA: each sum
over $m_q$). Caps with pairwise inner products at least $1-\delta$ keep them, while no two tokens of different clusters
have an inner product above $\alpha$, if $a\,\delta(1-\delta)e^{-\delta\beta}>a^{-1}e^{-(1-\alpha)\beta}$, a the
smallest mass of a token (1/n in the paper).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

from sphereflow.dynamics import Dynamics, attention_name
from sphereflow.errors import SphereflowError, real_number
from sphereflow.metastability.atoms import Atoms, all_angles, exponents, real_tokens, scaled_field
from sphereflow.metastability.slow import follow
from sphereflow.numerics.unit_vectors import tangent_frames, unit
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

_GLUE = 1e-6  # centres this near would be one cluster


@dataclass(frozen=True, eq=False, repr=False)
class SlowManifold(Result):
    r"""The constants of tokens near k clusters; arrays but `labels` have one entry per cluster.

    `distance` is $\mathrm{dist}_q^2$, `gap` $G_q$, `dissipation` $|\nabla F_q|^2$ of the forces inside the cluster,
    `constant` the guaranteed $c_q$, `rate` the rate at which $\sqrt{G_q}$ falls in the end, `log_speed` the logarithm
    of the speed of a centre, `log_gradient` that of $\delta$; `shrinking` says that caps are certain to keep their
    smallest inner products while the clusters stay apart.
    """

    model: str
    beta: float
    labels: Int[np.ndarray, " n"]
    centres: Float[np.ndarray, "k d"]
    masses: Float[np.ndarray, " k"]
    smallest_product: Float[np.ndarray, " k"]
    distance: Float[np.ndarray, " k"]
    gap: Float[np.ndarray, " k"]
    dissipation: Float[np.ndarray, " k"]
    constant: Float[np.ndarray, " k"]
    rate: Float[np.ndarray, " k"]
    log_speed: Float[np.ndarray, " k"]
    log_gradient: float
    shrinking: bool

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.masses)

    @property
    def growth(self) -> Float[np.ndarray, "3 k"]:
        r"""$G_q/\mathrm{dist}_q^2$ between its two bounds: rows lower, value, upper; NaN where tokens coincide."""
        upper = self.masses * (1 - self.distance / (4 * self.masses)) / 2
        y = self.beta * (1 - self.smallest_product)
        lower = upper * np.where(y > 0, -np.expm1(-y) / np.where(y > 0, y, 1), 1.0)
        apart = self.distance > 0
        return np.stack([lower, np.where(apart, self.gap / np.where(apart, self.distance, 1), np.nan), upper])

    @property
    def quotient(self) -> Float[np.ndarray, " k"]:
        r"""$|\nabla F_q|^2/2G_q$, at least `constant`; NaN where tokens coincide."""
        apart = self.gap > 0
        return np.where(apart, self.dissipation / np.where(apart, 2 * self.gap, 1), np.nan)

    def approach_time(self, share: float = 1e-3) -> float:
        r"""$\max_q\log(1/\mathrm{share})/c_q$: when all $\sqrt{G_q}$ have fallen to this share, in a window."""
        share = real_number("share", share, above=0, most=1)
        alone = self.gap == 0
        return float(np.max(np.where(alone, 0.0, -math.log(share) / np.where(alone, 1.0, self.constant))))

    def log_slow_time(self, epsilon: float = 0.1) -> float:
        r"""$\log$ of a time before which no centre moves by $\epsilon$: a bound; infinite for one cluster."""
        epsilon = real_number("epsilon", epsilon, above=0, most=1)
        if self.k == 1:
            return math.inf
        gaps = all_angles(self.centres)  # infinite on the diagonal
        nearest = np.maximum(gaps - 2 * epsilon, 0.0)
        pulls = np.where(np.isfinite(gaps), -2 * self.beta * np.sin(np.minimum(nearest, np.pi) / 2) ** 2, -np.inf)
        sums = logsumexp(pulls + np.log(self.masses), axis=1)
        if self.model == "sa":
            sums = sums - np.log(self.masses)
        return math.log(epsilon) - float(sums.max())

    def log_departure(self, epsilon: float = 0.1, tol: float = 1e-9) -> float:
        r"""$\log$ of the time at which a centre has moved by $\epsilon$, computed; infinite if none ever does."""
        epsilon = real_number("epsilon", epsilon, above=0, most=1)
        tol = real_number("tol", tol, least=1e-12, most=1e-3)
        chord = 2 * math.sin(epsilon / 2)
        atoms, log_t = Atoms(self.centres, self.masses, np.arange(self.k)), -math.inf

        def left(x: np.ndarray) -> float:
            return chord - float(np.linalg.norm(x - self.centres, axis=1).max())

        while self.k > 1:
            leg = follow(atoms, self.beta, self.model, _GLUE, tol, left)
            log_t = float(np.logaddexp(log_t, leg.log_elapsed))
            if leg.stopped or leg.balanced:
                return math.inf if leg.balanced else log_t
            if leg.collisions:
                raise SphereflowError(f"two clusters meet before one has moved by {epsilon:g}: choose epsilon smaller.")
            atoms = Atoms(leg.positions, self.masses, atoms.names)
        return math.inf

    def window(self, share: float = 1e-3, epsilon: float = 0.1) -> tuple[float, float] | None:
        """(log of the approach time, log of the slow time), or None where the first is not below the second."""
        start = self.approach_time(share)
        log_start, log_end = math.log(start) if start > 0 else -math.inf, self.log_slow_time(epsilon)
        return (log_start, log_end) if log_start < log_end else None

    derived = ("k",)

    def variables(self) -> Variables:
        lower, value, upper = self.growth
        columns = {
            "mass": self.masses,
            "smallest_product": self.smallest_product,
            "distance": self.distance,
            "gap": self.gap,
            "dissipation": self.dissipation,
            "growth_lower": lower,
            "growth": value,
            "growth_upper": upper,
            "constant": self.constant,
            "quotient": self.quotient,
            "rate": self.rate,
            "log_speed": self.log_speed,
        }
        table: Variables = {name: ("cluster", values) for name, values in columns.items()}
        return table | {"centre": (("cluster", "component"), self.centres), "label": ("token", self.labels)}

    def facts(self) -> list[str]:
        open_window = self.window()
        setting = f"{len(self.labels)} tokens near {self.k} clusters, {self.model.upper()}, beta = {self.beta:g}"
        phases = (
            f"a thousandth by log t = {open_window[0]:.4g}, centres within 0.1 until log t = {open_window[1]:.4g}"
            if open_window
            else "no window between approach and motion is guaranteed"
        )
        return [setting, f"c >= {self.constant.min():.4g}, log gradient along N {self.log_gradient:.6g}", phases]


@recorded_call
def slow_manifold(
    x: ArrayLike,
    beta: float,
    model: str | Dynamics = "sa",
    *,
    masses: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> SlowManifold:
    r"""The constants of slow motion for tokens x of shape (n, d) near clusters.

    `labels` say who is in which cluster; without them, tokens connected by steps shorter than $\sqrt{2/\beta}$, the
    width of the kernel, are one. `masses` are scaled to sum one, equal by default. The tokens of a cluster must lie
    within a right angle of each other.
    """
    points, beta = unit(real_tokens("x", x)), real_number("beta", beta, above=0, most=1e6)
    kind = attention_name(model, beta)
    weights = np.ones(len(points)) if masses is None else real_array("masses", masses)
    if weights.shape != (len(points),) or not (weights > 0).all():
        raise SphereflowError(f"masses must be {len(points)} positive numbers, one per token.")
    weights = weights / weights.sum()
    clusters = _labels(points, beta, labels)
    parts = [np.flatnonzero(clusters == q) for q in range(clusters.max() + 1)]
    whole = np.array([weights[part].sum() for part in parts])
    centres = unit(np.stack([weights[part] @ points[part] for part in parts]))
    field = scaled_field(centres, whole, beta, kind) if len(parts) > 1 else None
    outside = _outside(points, weights, clusters, beta)
    rows = [_inside(points[part], weights[part], beta, kind, outside[part]) for part in parts]
    rho, distance, gap, dissipation, constant = np.array(rows).T
    speeds = np.full(len(parts), -np.inf)
    log_gradient = -math.inf
    if field is not None:
        with np.errstate(divide="ignore"):
            speeds = field.scale + np.log(np.linalg.norm(field.velocity, axis=1))
        table = exponents(centres, beta)
        full = np.log(whole) if kind == "usa" else np.log(whole) + np.log(whole + np.exp(table) @ whole)
        log_gradient = float(logsumexp(full + 2 * speeds)) / 2
    rates = _late_rates(centres, whole, beta, kind)
    shrinking = _shrinking(points, weights, clusters, beta, rho)
    inside = (rho, distance, gap, dissipation, constant)
    return SlowManifold(kind, beta, clusters, centres, whole, *inside, rates, speeds, log_gradient, shrinking)


def _labels(x: np.ndarray, beta: float, labels: ArrayLike | None) -> Int[np.ndarray, " n"]:
    if labels is None:
        near = all_angles(x) < math.sqrt(2 / beta)
        return np.asarray(connected_components(near, directed=False)[1], dtype=int)
    given = np.asarray(labels)
    if given.shape != (len(x),):
        raise SphereflowError(f"labels must be {len(x)} names of clusters, one per token, got the shape {given.shape}.")
    return np.unique(given, return_inverse=True)[1].astype(int)


def _outside(x: np.ndarray, weights: np.ndarray, labels: np.ndarray, beta: float) -> Float[np.ndarray, " n"]:
    """The part of Z_i that tokens of other clusters contribute."""
    table = exponents(x, beta)
    return np.where(labels[:, None] == labels[None, :], 0.0, np.exp(table)) @ weights


def _inside(x: np.ndarray, a: np.ndarray, beta: float, kind: str, outside: np.ndarray) -> tuple[float, ...]:
    """(rho, dist^2, G, |grad F|^2, c) of one cluster; differences are formed before anything small is left of them."""
    mass = a.sum()
    apart = x[None, :] - x[:, None]
    squares = np.sum(apart**2, axis=-1)
    rho = 1 - squares.max() / 2
    if rho <= 0:
        raise SphereflowError(
            f"tokens of one cluster must lie within a right angle of each other, got the inner product {rho:.3g}; "
            f"give other labels."
        )
    # dist^2 = 2m(1-R) and 1-R^2 = sum a_i a_j |x_i-x_j|^2 / 2m^2.
    missing = float(a @ squares @ a) / (2 * mass**2)
    distance = 2 * mass * missing / (1 + math.sqrt(1 - missing))
    gap = float(a @ -np.expm1(-beta * squares / 2) @ a) / (2 * beta)
    kernel = np.exp(-beta * squares / 2) * a
    tangent = apart + squares[:, :, None] / 2 * x[:, None]  # P_{x_i} x_j
    force = np.einsum("ij,ijd->id", kernel, tangent)
    total = kernel.sum(axis=1) + outside
    dissipation = float((a / total if kind == "sa" else a) @ np.sum(force**2, axis=1))
    factor = 1 / (1 + outside.max() / mass) if kind == "sa" else mass
    return rho, distance, gap, dissipation, float(factor * rho**2 * math.exp(-2 * beta * (1 - rho)))


def _shrinking(x: np.ndarray, a: np.ndarray, labels: np.ndarray, beta: float, rho: np.ndarray) -> bool:
    between = labels[:, None] != labels[None, :]
    if not between.any():
        return True
    delta = 1 - rho[np.bincount(labels) > 1]
    pull = beta * ((x @ x.T)[between].max() - 1) - 2 * math.log(a.min())
    with np.errstate(divide="ignore"):
        return bool(np.all((delta == 0) | (np.log(delta * (1 - delta)) - delta * beta > pull)))


def _late_rates(z: np.ndarray, masses: np.ndarray, beta: float, kind: str) -> Float[np.ndarray, " k"]:
    """The smallest eigenvalue of the contraction inside a cluster that is nearly a point, others pulling at it."""
    if len(z) == 1:
        return np.ones(1) if kind == "sa" else masses.copy()
    kernel = np.exp(exponents(z, beta)) * masses
    frames = tangent_frames(z)
    pulls = np.einsum("ida,jd->ija", frames, z)
    rates = []
    for q, mass in enumerate(masses):
        w, s = kernel[q], pulls[q]
        matrix = (mass + w @ (z @ z[q])) * np.eye(s.shape[1]) - beta * (s.T * w) @ s
        if kind == "sa":
            total, force = mass + w.sum(), w @ s
            matrix = matrix / total + beta * np.outer(force, force) / total**2
        rates.append(float(np.linalg.eigvalsh(matrix)[0]))
    return np.array(rates)
