r"""Which laws a field identifies: $V_{p,q}=0$ on an open set; the Gaussian closed form; the fission of a pair."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from sphereflow.claims import Check, Run, basis
from sphereflow.drifting import Field, PopulationField, gaussian_field, gaussian_step, recover_law
from sphereflow.estimates import mean
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.padded import drift_of, field_at
from sphereflow.papers.drifting_with_friction.sources import ATLAS, IDENTIFIED

STEPS = (1, 10, 30, 60)
KERNELS = ("gaussian", "laplace")


def quantile_run(n: int) -> np.ndarray:
    """Mean and variance of n quantile particles at the steps, drifting towards n quantiles of N(1.5, 2)."""
    z = ndtri((np.arange(n) + 0.5) / n)[:, None]
    data, x = 1.5 + np.sqrt(2.0) * z, -1.0 + np.sqrt(0.5) * z
    path = _run(PopulationField("gaussian", 0.7, itself="include"), data, x)
    chosen = np.asarray(path)[np.array(STEPS) - 1]
    return np.concatenate([chosen[:, 0], chosen[:, 1]])


@jax.jit
def _run(field: Field, data: jax.Array, x: jax.Array) -> jax.Array:
    def step(y: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        y = y + 0.2 * field(data, y).value
        return y, jnp.stack([jnp.mean(y), jnp.var(y)])

    return jax.lax.scan(step, x, None, length=STEPS[-1])[1]


@PAPER.claim(
    "identifiability",
    says="On five nodes the Gaussian-kernel field seen on a short interval, among the nodes or beside them, determines "
    "the law; if it vanishes there, that law is the data's. The Laplace-kernel field beside the nodes does not.",
    basis=IDENTIFIED,
    formula=r"V_{p,q}=0\ \text{on an open set}\Rightarrow q=p;\quad\sum_jq_jk(x,y_j)(y_j-x-V_p^+(x)+V(x))=0",
)
def identifiability(run: Run) -> Check:
    p = np.full(5, 0.2)
    other = np.random.default_rng(run.seed + 2).dirichlet(np.full(5, 3.0))
    places = {"among the nodes": np.linspace(-0.3, 0.3, 31), "beside the nodes": np.linspace(-2, -1.2, 31)}
    check = Check(parameters={"width": 0.5, "interval": 0.6})
    laplace = {}
    for where, x in places.items():
        for what, q in (("another law", other), ("the data", p)):
            name = f"W1 to the truth: {what}, {where}"
            errors = [0.5 * np.abs(np.cumsum(law - q)).sum() for law in (recovered(k, x, p, q) for k in KERNELS)]
            check.row(
                name,
                predicted=0.0,
                measured=errors[0],
                tolerance=1e-5,
                because="rounding over the least singular value",
            )
            if name == "W1 to the truth: another law, beside the nodes":
                laplace[name] = float(errors[1])
    check.null("the Laplace kernel", laplace)
    return check


def recovered(kernel: str, x: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The law that `recover_law` finds on five nodes from the exact field of q, computed by sums, at the places x."""
    nodes = np.linspace(-1, 1, 5)
    apart = x[:, None] - nodes
    k = np.exp(-2 * apart**2) if kernel == "gaussian" else np.exp(-2 * np.abs(apart))
    seen = (k * p) @ nodes / (k @ p) - (k * q) @ nodes / (k @ q)
    return recover_law(kernel, x, seen, nodes, nodes, width=0.5, noise=0.0, data_weights=p).weights


@PAPER.claim(
    "gaussian-closed-form",
    says="Gaussian samples drifting towards Gaussian data stay Gaussian; mean and variance follow two recursions.",
    basis=basis.Derived("the field between Gaussians is affine"),
    formula=r"S'=S\big(1+\eta\sigma^2(\tfrac{1}{S+\sigma^2}-\tfrac{1}{S_p+\sigma^2})\big)^2",
)
def gaussian_closed_form(run: Run) -> Check:
    n = 1000 if run.quick else 4000
    law = (np.array([-1.0]), np.array([[0.5]]))
    m, s, first = -1.0, 0.5, 0.5
    particles = quantile_run(n)
    check = Check(parameters={"n": n, "sigma": 0.7, "eta": 0.2})
    linear = {}
    for t in range(1, STEPS[-1] + 1):
        law = gaussian_step((np.array([1.5]), np.array([[2.0]])), law, 0.7, 0.2)
        m += 0.2 * 0.49 / 2.49 * (1.5 - m)
        s *= (1 + 0.2 * 0.49 * (1 / (s + 0.49) - 1 / 2.49)) ** 2
        first *= 1 + 2 * 0.2 * 0.49 * (1 / (first + 0.49) - 1 / 2.49)
        if t not in STEPS:
            continue
        at = STEPS.index(t)
        for what, right, exact, seen, width in (
            ("mean", m, law[0][0], particles[at], 1e-3),
            ("variance", s, law[1][0, 0], particles[len(STEPS) + at], (0.003 if run.quick else 0.001) * s),
        ):
            check.row(
                f"recursion, {what}, step {t}", predicted=right, measured=exact, tolerance=1e-12, because="rounding"
            )
            check.row(
                f"particles, {what}, step {t}",
                predicted=right,
                measured=seen,
                tolerance=width,
                because="quantile particles: 1e-3 in the mean, 0.3 % in the variance at n = 1000 (tails cut)",
            )
        linear[f"particles, variance, step {t}"] = first
    check.rival("variance to first order in the step", linear)
    return check


@PAPER.claim(
    "gaussian-field",
    says="In two dimensions the drift between Gaussians is the affine field of the closed form; large samples agree.",
    basis=basis.Derived("Gaussian convolutions"),
    formula=r"V(x)=\sigma^2[(S+\sigma^2I)^{-1}(x-m)-(S_p+\sigma^2I)^{-1}(x-m_p)]",
)
def affine_field(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    root_p, root_q = np.array([[1.0, 0.3], [0.0, 0.8]]), np.array([[0.6, 0.0], [-0.2, 1.1]])
    mean_p, mean_q = np.array([0.5, -0.3]), np.array([-0.2, 0.4])
    count, batches = 4000, 16
    places = rng.normal(size=(3, 2))
    field = PopulationField("gaussian", 1.0, itself="include")

    def drawn() -> np.ndarray:
        y, z = rng.normal(size=(count, 2)) @ root_p.T + mean_p, rng.normal(size=(count, 2)) @ root_q.T + mean_q
        return np.asarray(field.at(jnp.asarray(places), jnp.asarray(y), jnp.asarray(z)).value).ravel()

    seen = mean(np.stack([drawn() for _ in range(batches)]))
    p, q = (mean_p, root_p @ root_p.T), (mean_q, root_q @ root_q.T)

    def affine(first: np.ndarray, second: np.ndarray, shift: float = 1.0) -> np.ndarray:
        pull = (places - mean_p) @ np.linalg.inv(first + shift * np.eye(2))
        return np.asarray((places - mean_q) @ np.linalg.inv(second + shift * np.eye(2)) - pull).ravel()

    names = [f"place {k + 1}, coordinate {j + 1}" for k in range(3) for j in range(2)]
    check = Check(parameters={"samples": count * batches})
    check.series(
        names,
        predicted=affine(p[1], q[1]),
        measured=seen.value,
        error=seen.error,
        repeats=batches,
        tolerance=1.0 / count,
        because="standard error over batches, and the bias of a ratio of order 1/4000",
    )
    library = gaussian_field(places, p, q, 1.0).ravel()
    closed = [f"library, {name}" for name in names]
    check.series(closed, predicted=affine(p[1], q[1]), measured=library, tolerance=1e-12, because="rounding")
    check.rival("covariances exchanged", dict(zip(names, affine(q[1], p[1]), strict=True)))
    check.rival("data and samples not smoothed", dict(zip(names, affine(p[1], q[1], 0.0), strict=True)))
    return check


@PAPER.claim(
    "laplace-not-local",
    says="For the Laplace kernel two different laws on the line have a vanishing field on a half line; the Gaussian "
    "kernel tells them apart there.",
    basis=basis.Derived("the tilted means of one and of two atoms"),
    formula=r"p=\delta_1,\ q=w\,\delta_{0.5}+(1-w)\,\delta_2,\ \tfrac{1-w}w=\tfrac12e^{3/2}:\ V_{p,q}(x)=0\ (x\le0.5)",
)
def laplace_not_local(run: Run) -> Check:
    ratio = 0.5 * np.exp(1.5)
    weights = np.array([1, ratio]) / (1 + ratio)
    p, q = np.array([[1.0]]), np.array([[0.5], [2.0]])
    left = np.linspace(-4, 0.5, 10)[:, None]

    def largest(kernel: str, places: np.ndarray, w: np.ndarray) -> float:
        field = PopulationField(kernel, 1.0, itself="include")
        return float(np.max(np.abs(field_at(field, places, p, q, None, w))))

    check = Check()
    name = "Laplace, largest field on $x\\le0.5$"
    check.row(name, predicted=0.0, measured=largest("laplace", left, weights), tolerance=1e-12, because="rounding")
    tilt = weights * np.exp(-np.abs(0.8 - np.array([0.5, 2.0])))
    right = 1 - tilt @ [0.5, 2.0] / tilt.sum()
    inside = "Laplace, field at $x=0.8$"
    got = largest("laplace", np.array([[0.8]]), weights)
    check.row(inside, predicted=abs(right), measured=got, tolerance=1e-12, because="rounding")
    check.null("the Gaussian kernel", {name: largest("gaussian", left, weights)})
    check.null("a law with the mean of the data", {name: largest("laplace", left, np.array([2 / 3, 1 / 3]))})
    check.rival("zero everywhere", {inside: 0.0})
    return check


@PAPER.claim(
    "compact-mass-blind",
    says="A kernel of finite range does not see the masses of two clusters that lie further apart than twice its "
    "range; the Laplace kernel does.",
    basis=ATLAS,
    formula=r"V_{p,q}=V_{p',q}",
)
def compact_mass_blind(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    centres = np.repeat([[0.0, 0.0], [3.0, 0.0]], 20, axis=0)
    clusters = centres + rng.uniform(-0.2, 0.2, (40, 2))
    x = clusters[::5] + 0.05
    even, tilted = (np.repeat([a, 1 - a], 20) / 20 for a in (0.5, 0.9))

    def change(kernel: str, width: float = 1.0) -> float:
        field = PopulationField(kernel, width, itself="include")
        seen = [field_at(field, x, clusters, clusters, weights) for weights in (even, tilted)]
        return float(np.max(np.abs(seen[0] - seen[1])))

    check = Check()
    check.row("change of the field", predicted=0.0, measured=change("compact"), tolerance=1e-14, because="rounding")
    check.null("the Laplace kernel", change("laplace"))
    check.null("a compact kernel that reaches the other cluster", change("compact", 4.0))
    return check


@PAPER.claim(
    "fission",
    says="A pair collapsed onto a zero of the attraction that is no data point splits again, at the rate of the "
    "tilted mean distance; with the mask faster by one.",
    basis=ATLAS,
    formula=r"1+m_p'(c)=\tfrac1\tau E_w|y-c|",
)
def fission(run: Run) -> Check:
    y, w, tau = np.array([-1.0, 0.2, 1.5]), np.array([0.4, 0.2, 0.4]), 0.8

    def attraction(c: float) -> float:
        k = w * np.exp(-np.abs(y - c) / tau)
        return float(k @ (y - c) / k.sum())

    c = brentq(attraction, 0.0, 0.19, xtol=1e-15)
    tilt = w * np.exp(-np.abs(y - c) / tau)
    rate = float(tilt @ np.abs(y - c) / tilt.sum() / tau)
    a = 1e-7
    pair = np.array([[c + a], [c - a]])
    check = Check()
    for name, itself, right in (("self included", "include", rate), ("self masked", "mask", 1 + rate)):
        drift = drift_of(PopulationField("laplace", tau, itself=itself), y[:, None], pair, w)
        split = float(drift[0, 0] - drift[1, 0]) / (2 * a)
        check.row(name, predicted=right, measured=split, tolerance=1e-6, because="a pair of half-width 1e-7")
    check.rival("the mask confused", {"self included": 1 + rate, "self masked": rate})
    check.rival("attraction alone", {"self included": rate - 1})
    plain = float(w @ np.abs(y - c) / tau)
    check.rival("the mean distance without the tilt", {"self included": plain, "self masked": 1 + plain})
    return check


@PAPER.claim(
    "curl",
    says="In the plane the Gaussian-kernel field is a gradient; the Laplace-kernel field has curl.",
    basis=basis.Summary("texts about drifting, which name the potential of the Gaussian kernel"),
    formula=r"V=\nabla\big(\sigma^2\log\tfrac{p*k}{q*k}\big)",
)
def curl(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    y, z = (jnp.asarray(rng.normal(size=(9, 2))) for _ in range(2))
    places = jnp.asarray(rng.normal(size=(20, 2)))
    along = [jnp.asarray(np.tile(e, (20, 1))) for e in np.eye(2)]

    def largest(kernel: str) -> float:
        field = PopulationField(kernel, 0.8, itself="include")
        first, second = (np.asarray(_derivative(field, places, e, y, z)) for e in along)
        return float(np.max(np.abs(second[:, 0] - first[:, 1])))

    check = Check()
    check.row(
        "largest curl, Gaussian", predicted=0.0, measured=largest("gaussian"), tolerance=1e-12, because="rounding"
    )
    check.null("the Laplace kernel", largest("laplace"))
    return check


@jax.jit
def _derivative(field: PopulationField, places: jax.Array, along: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
    """The derivative of the field along given directions: every row depends on its own place only."""
    return jax.jvp(lambda x: field.at(x, y, z).value, (places,), (along,))[1]
