r"""The Light Schroedinger Bridge whole: drift, paths, full covariances, the Gaussian benchmark and its scores."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.linalg import sqrtm
from scipy.optimize import brentq

from sphereflow.claims import Check, Run, basis
from sphereflow.drifting import (
    bridge_paths,
    bw_uvp,
    cbw_uvp,
    from_rows,
    gaussian_bridge,
    gaussian_marginal,
    light_bridge,
    train_light_bridge,
)
from sphereflow.estimates import mean
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.sources import BRIDGE

# Two Gaussians in the plane, the second with correlated coordinates.
A, B, SHIFT, EPSILON = np.diag([1.0, 2.0]), np.array([[1.5, 0.6], [0.6, 0.8]]), np.array([1.0, -0.5]), 0.5


@PAPER.claim(
    "bridge-drift",
    says="The drift of the Light Schroedinger Bridge in closed form is the mean direction to the end, on the line with "
    "diagonal and in the plane with full covariances, at the start, in the middle and near the end.",
    basis=BRIDGE,
    formula=r"b(x,t)=\frac{E[X_1|X_t=x]-x}{1-t},\quad X_1|X_t=x\sim "
    r"e^{|y|^2/2\epsilon}\varphi(y)\,N(y;x,\epsilon(1-t)I)",
)
def bridge_drift(run: Run) -> Check:
    alpha, r, spread, epsilon = (0.3, 0.7), (1.0, -0.5), (0.5, 1.2), 0.4
    bridge = light_bridge(np.array(alpha), np.array(r)[:, None], np.array(spread)[:, None], epsilon)

    def direction(x: float, t: float, factor: float = epsilon) -> float:
        """By quadrature; `factor` is what multiplies S in the potential."""

        def weight(y: float) -> float:
            parts = zip(alpha, r, spread, strict=True)
            density = sum(a * np.exp(-((y - m) ** 2) / (2 * factor * s)) / np.sqrt(s) for a, m, s in parts)
            return float(density * np.exp(y * y / (2 * epsilon) - (y - x) ** 2 / (2 * epsilon * (1 - t))))

        ends = [quad(lambda y, k=k: y**k * weight(y), -9, 9, epsabs=0, epsrel=1e-12)[0] for k in (0, 1)]
        return float((ends[1] / ends[0] - x) / (1 - t))

    check = Check(parameters={"epsilon": epsilon})
    still, missing = {}, {}
    for x, t in ((0.6, 0.0), (0.6, 0.5), (-0.3, 0.9)):
        name = f"line, $b({x:g},{t:g})$"
        found = bridge.drift(jnp.asarray([[x]]), t)[0, 0]
        check.row(name, predicted=direction(x, t), measured=found, tolerance=1e-9, because="quadrature")
        if t:
            still[name] = direction(x, 0.0)
            missing[name] = direction(x, t, 1.0)
    check.rival("the mean of the plan for every t, no time factor", still)
    check.rival(r"$\epsilon$ missing in the covariances", missing)
    diagonal: dict[str, float] = {}
    turned = np.array([[[0.9, 0.3], [0.3, 0.5]], [[0.4, -0.1], [-0.1, 1.1]]])
    centres, weights = np.array([[1.0, 0.0], [0.0, -1.0]]), np.array([0.4, 0.6])
    plane = light_bridge(weights, centres, turned, epsilon)
    place = np.array([0.3, -0.4])
    for t in (0.25, 0.75):
        found = np.asarray(plane.drift(jnp.asarray(place[None]), t))[0]
        names = [f"plane, coordinate {k + 1}, t = {t:g}" for k in range(2)]
        right = _direction_in_plane(weights, centres, turned, epsilon, place, t)
        check.series(names, predicted=right, measured=found, tolerance=1e-9, because="sums over a grid")
        plain = _direction_in_plane(weights, centres, turned * np.eye(2), epsilon, place, t)
        diagonal |= dict(zip(names, plain, strict=True))
    check.rival("the diagonals of the covariances alone", diagonal)
    return check


def _direction_in_plane(
    weights: np.ndarray, centres: np.ndarray, spreads: np.ndarray, epsilon: float, x: np.ndarray, t: float
) -> np.ndarray:
    """The mean direction by the trapezoidal rule, which converges geometrically for Gaussians."""
    line = np.linspace(-8, 8, 301)
    y = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = np.sum(y**2, axis=1) / (2 * epsilon) - np.sum((y - x) ** 2, axis=1) / (2 * epsilon * (1 - t))
    parts = [
        np.log(w / np.sqrt(np.linalg.det(s))) - np.einsum("nd,de,ne->n", y - m, np.linalg.inv(s), y - m) / (2 * epsilon)
        for w, m, s in zip(weights, centres, spreads, strict=True)
    ]
    logs = logs + np.logaddexp(*parts)
    mass = np.exp(logs - logs.max())
    return np.asarray((mass @ y / mass.sum() - x) / (1 - t))


@PAPER.claim(
    "bridge-paths",
    says="Paths of the bridge between $N(0,1)$ and $N(0,4)$, as Brownian bridges between ends of the plan, have the "
    "variance of the closed form at every time; Euler-Maruyama steps have that of their own recursion.",
    basis=BRIDGE,
    formula=r"\mathrm{Var}X_t=(1-t)^2+4t^2+t(1-t)(2S+\epsilon),\qquad "
    r"v\mapsto\Big(1+h\tfrac{S-1}{tS+1-t}\Big)^2v+\epsilon h",
)
def paths_between_gaussians(run: Run) -> Check:
    batches, rows, steps, epsilon = 20, 2000 if run.quick else 50_000, 10, 1.0
    s = (np.sqrt(16 + epsilon**2) - epsilon) / 2  # the root of S^2 + epsilon S = 4
    rng = np.random.default_rng(run.seed)
    # Starts with mean zero and variance one exactly: the noise of the paths is the only one.
    x0 = rng.normal(size=(batches, rows))
    x0 = ((x0 - x0.mean(axis=1, keepdims=True)) / x0.std(axis=1, keepdims=True)).reshape(-1, 1)
    bridge = gaussian_bridge(([0.0], [[1.0]]), ([0.0], [[4.0]]), epsilon)
    times = np.array([0.5, 1.0])

    def closed(t: float, noise: float = epsilon) -> float:
        return float((1 - t) ** 2 + t * t * (s * s + epsilon * s) + 2 * t * (1 - t) * s + noise * t * (1 - t))

    def recursion(shrinking: bool = False, factor: bool = True) -> list[float]:
        v, kept = 1.0, []
        for i in range(steps):
            t = i / steps
            slope = (s - 1) / (t * s + 1 - t) if factor else s - 1
            v = (1 + slope / steps) ** 2 * v + epsilon * ((1 - t) if shrinking else 1) / steps
            kept.append(v)
        return [kept[steps // 2 - 1], kept[-1]]

    check = Check(parameters={"epsilon": epsilon, "paths": batches * rows, "steps": steps})
    names = {}
    for method, right in (("bridge", [closed(t) for t in times]), ("euler", recursion())):
        found = bridge_paths(bridge, x0, saveat=times, method=method, steps=steps, seed=run.seed).positions
        seen = mean(np.var(found.reshape(2, batches, rows), axis=2).T)
        names[method] = [f"{method}, variance at t = {t:g}" for t in times]
        check.series(
            names[method],
            predicted=right,
            measured=seen.value,
            error=seen.error,
            repeats=batches,
            relative=1 / rows,
            because="standard error over batches; a sample's own mean",
        )
    middle = gaussian_marginal(([0.0], [[1.0]]), ([0.0], [[4.0]]), epsilon, 0.5)[1][0, 0]
    check.row(
        "library, variance at t = 0.5", predicted=closed(0.5), measured=middle, tolerance=1e-12, because="rounding"
    )
    check.rival(r"noise $\sqrt{\epsilon(1-t)}$", dict(zip(names["euler"], recursion(shrinking=True), strict=True)))
    check.rival("a drift without its time factor", dict(zip(names["euler"], recursion(factor=False), strict=True)))
    check.rival("straight lines between ends", {names["bridge"][0]: closed(0.5, 0.0)})
    return check


@PAPER.claim(
    "gaussian-bridge",
    says="The entropic plan between Gaussians is a bridge with one potential, and its matrix is that of the closed "
    "form: on the line against Sinkhorn's iteration on a grid, in the plane by the covariance of its end.",
    basis=basis.Derived("the stationarity of the entropic plan between Gaussians"),
    formula=r"S=A^{-1/2}\Big(\big(A^{1/2}BA^{1/2}+\tfrac{\epsilon^2}4\big)^{1/2}-\tfrac\epsilon2\Big)A^{-1/2},\ "
    r"\epsilon S=B-SAS",
)
def gaussian_benchmark(run: Run) -> Check:
    check = Check()
    halved, plain = {}, {}
    for epsilon in (1.0, 10.0):
        name = f"slope of the plan, 1 to 4, $\\epsilon={epsilon:g}$"
        found = gaussian_bridge(([0.0], [[1.0]]), ([0.0], [[4.0]]), epsilon).covariances[0, 0, 0]
        check.row(
            name, predicted=_sinkhorn_slope(epsilon), measured=found, tolerance=1e-6, because="iteration and grid"
        )
        halved[name] = brentq(lambda s, e=epsilon: s * s + e / 2 * s - 4, 0, 3)
        plain[name] = 2.0
    s = np.asarray(gaussian_bridge((np.zeros(2), A), (SHIFT, B), EPSILON).covariances[0])
    names = [f"plane, entry {i + 1}{j + 1} of $SAS+\\epsilon S$" for i, j in ((0, 0), (0, 1), (1, 1))]
    entries = np.triu_indices(2)
    got = (s @ A @ s + EPSILON * s)[entries]
    check.series(names, predicted=B[entries], measured=got, tolerance=1e-12, because="rounding")
    check.rival(r"$\epsilon/2$: the cost without its half", halved)
    check.rival("the optimal map, no entropy", plain)
    root, back = np.real(sqrtm(A)), np.linalg.inv(np.real(sqrtm(A)))
    wrong = back @ (np.real(sqrtm(root @ B @ root + EPSILON**2 * np.eye(2))) - EPSILON * np.eye(2)) @ back
    check.rival(
        r"$\epsilon$ for $\epsilon/2$ under the root",
        dict(zip(names, (wrong @ A @ wrong + EPSILON * wrong)[entries], strict=True)),
    )
    return check


def _sinkhorn_slope(epsilon: float, cells: int = 241) -> float:
    """The covariance of start and end in the plan between N(0, 1) and N(0, 4) on grids, by Sinkhorn's iteration."""
    x, y = np.linspace(-6, 6, cells), np.linspace(-12, 12, cells)
    p, q = np.exp(-(x**2) / 2), np.exp(-(y**2) / 8)
    p, q = p / p.sum(), q / q.sum()
    k = np.exp(-((x[:, None] - y) ** 2) / (2 * epsilon))
    v = np.ones(cells)
    for _ in range(2000):
        u = p / (k @ v)
        new = q / (k.T @ u)
        if np.max(np.abs(new / v - 1)) < 1e-12:
            break
        v = new
    return float((u * x) @ k @ (v * y) / (p @ x**2))


@PAPER.claim(
    "bridge-scores",
    says="The scores of the benchmark, per cent of half the variance, tell a diagonal bridge, the independent plan and "
    "the identity from the entropic plan between two Gaussians with a correlation; with the paper's sizes, a "
    "trained bridge with full covariances comes closer to it than any diagonal one with a single potential that "
    "matches the variances.",
    basis=basis.Derived("the Bures distance between Gaussians, for each start; the code of the bridge has no scores"),
    formula=r" "
    r"\mathrm{cBW\text{-}UVP}=\frac{100}{\frac12\mathrm{tr}B}E_x\mathrm{BW}^2\big(\hat\pi(\cdot|x),\pi^*(\cdot|x)\big)",
)
def bridge_scores(run: Run) -> Check:
    target = (SHIFT, B)
    truth = gaussian_bridge((np.zeros(2), A), target, EPSILON)
    # The scores are quadratic in x: four starts with the moments of N(0, A) give the mean exactly.
    starts = np.sqrt(2) * np.vstack([np.sqrt(A), -np.sqrt(A)])
    x = jnp.asarray(starts)
    right = truth.moments(x)
    each = np.array([brentq(lambda s, i=i: A[i, i] * s * s + EPSILON * s - B[i, i], 0, 9) for i in range(2)])
    diagonal = light_bridge([1.0], SHIFT[None], np.diag(each)[None], EPSILON)
    s = _matrix()
    half, d = np.trace(B) / 2, np.diag(each)
    independent = (np.tile(SHIFT, (4, 1)), np.tile(B, (4, 1, 1)))
    check = Check(parameters={"epsilon": EPSILON})
    for name, predicted, measured in (
        ("BW, diagonal", _bures(d @ A @ d + EPSILON * d, B), bw_uvp((SHIFT, d @ A @ d + EPSILON * d), target)),
        ("BW, identity", _bures(A, B) + SHIFT @ SHIFT, bw_uvp((np.zeros(2), A), target)),
        (
            "cBW, diagonal",
            np.trace((d - s) @ A @ (d - s).T) + _bures(EPSILON * d, EPSILON * s),
            cbw_uvp(diagonal.moments(x), right, target),
        ),
        ("cBW, independent", np.trace(s @ A @ s) + _bures(B, EPSILON * s), cbw_uvp(independent, right, target)),
    ):
        check.row(name, predicted=100 * predicted / half, measured=measured, relative=1e-9, because="rounding")
    halves = check.times(0.5)
    without = {"BW, identity": 100 * _bures(A, B) / half}
    check.rival("the trace for half of it as the divisor", halves)
    check.rival("the means not compared", without)
    if run.quick:  # training compiles for longer than all the rest
        return check
    # Trained on samples, judged against the closed form.
    rng = np.random.default_rng(run.seed)
    rows = 200_000
    laws = [from_rows(rng.multivariate_normal(m, c, rows)) for m, c in ((np.zeros(2), A), target)]
    learned, _ = train_light_bridge(
        *laws,
        potentials=1,
        epsilon=EPSILON,
        covariance="full",
        steps=5000,
        batch=1024,
        rate=1e-1,
        falling=True,
        seed=run.seed,
    )
    trained = "cBW, trained, full covariance"
    got = cbw_uvp(learned.moments(x), right, target)
    because = "the mean over starts is exact; the bridge is rounded to float32"
    check.at_most(trained, bound=0.1, measured=got, tolerance=1e-4, because=because)
    check.null("the diagonal bridge", {trained: cbw_uvp(diagonal.moments(x), right, target)})
    check.null("the independent plan", {trained: cbw_uvp(independent, right, target)})
    return check


def _matrix() -> np.ndarray:
    root = np.real(sqrtm(A))
    back = np.linalg.inv(root)
    middle = np.real(sqrtm(root @ B @ root + EPSILON**2 / 4 * np.eye(2))) - EPSILON / 2 * np.eye(2)
    return np.asarray(back @ middle @ back)


def _bures(a: np.ndarray, b: np.ndarray) -> float:
    root = np.real(sqrtm(b))
    return float(np.trace(a + b - 2 * np.real(sqrtm(root @ a @ root))))
