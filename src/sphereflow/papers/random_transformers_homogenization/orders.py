r"""Weak error of the limits against the step: closed forms, quadrature, and coupled sampling.

$$|E\varphi(X(t))-E\varphi(X^\eta(t))|\le C\eta,\qquad \text{with the modified drift }\le C\eta\max(\eta,\alpha)
  \text{ at grid times.}$$
"""

from __future__ import annotations

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean, order
from sphereflow.papers.random_transformers_homogenization import PAPER, independent, sources
from sphereflow.random_transformers.common_noise import CommonNoise, coupled_ends
from sphereflow.random_transformers.mean_field import MeanField, Modified
from sphereflow.random_transformers.normals import standard_normals
from sphereflow.random_transformers.pair_equation import network_expectation, pair_expectation
from sphereflow.random_transformers.time_scales import one_step_factor
from sphereflow.sphere import normalise

D, N, HEADS, SUBSTEPS = 3, 4, 4, 4
# Four tokens in general position, fixed so that the constants in front of the orders are those tested.
START = np.array([[1.0, 0.2, -0.3], [-0.4, 1.0, 0.5], [0.1, -0.6, 1.0], [0.7, 0.6, 0.6]])


@PAPER.claim(
    "one-token-decay",
    says="A single token in dimension 8 forgets its start at the diffusive rate, with an error of second order in the "
    "step, by the exact factor of one layer.",
    basis=basis.Derived("Gaussian values of variance 1/d; the transcribed theorem bounds the error by the first order"),
    formula=r"E\langle x_L,x_0\rangle=c(d,\eta/\sqrt{Hd})^L\to e^{-(d-1)\tau/(2d)}",
)
def one_token(run: Run) -> Check:
    d, steps = 8, np.array([0.5, 0.25, 0.125])
    chain = np.array([float(one_step_factor(d, eta / np.sqrt(d))) ** round(1 / eta**2) for eta in steps])
    limit = np.exp(-(d - 1) / (2 * d))
    check = Check(parameters={"d": d, "H": 1, "tau": 1})
    # Two steps take the second order away, three the fourth.
    zero = (64 * chain[2] - 20 * chain[1] + chain[0]) / 45
    check.row("E<x, x_0> as eta tends to 0", predicted=limit, measured=zero, tolerance=5e-6, because="the sixth order")
    orders = np.log2((chain[:-1] - limit) / (chain[1:] - limit))
    names = ["order, eta=0.5 to 0.25", "order, eta=0.25 to 0.125"]
    check.series(names, predicted=2.0, measured=orders, tolerance=0.02, because="the next order, eta^4")
    check.rival("values of variance 1/(d-1)", {"E<x, x_0> as eta tends to 0": np.exp(-0.5)})
    check.rival("an error of first order", dict.fromkeys(names, 1.0))
    return check


@PAPER.claim(
    "two-token-weak-error",
    says="Two tokens in dimension 5 at infinite temperature: the mean overlap of the network, its layer integrated "
    "without sampling, reaches that of the limit equation with an error of second order in the step.",
    basis=basis.Derived("the overlap equation for two tokens at beta = 0"),
    formula=r"E\,r_L-E\,r(\tau)=O(\eta^2),\qquad D=\frac{(1-r^2)(d-2-r)}{2d},\quad Q=\frac{(1-r^2)^2}d",
)
def two_tokens(run: Run) -> Check:
    d, steps = 5, (0.5, 0.25, 0.125)
    identity = lambda r: r  # noqa: E731
    chain = [network_expectation(identity, 0.0, round(1 / eta**2), eta, d, points=24) for eta in steps]
    limit = pair_expectation(identity, 0.0, 1.0, d, 0.0)
    exact = independent.two_tokens(d, 1.0, 0.0)
    check = Check(parameters={"d": d, "beta": 0, "tau": 1})
    check.row("limit equation", predicted=exact, measured=limit, tolerance=5e-5, because="a grid of spacing 0.02")
    zero = (64 * chain[2] - 20 * chain[1] + chain[0]) / 45
    check.row("network as eta tends to 0", predicted=exact, measured=zero, tolerance=5e-5, because="as above; eta^6")
    order_row = "order, eta=0.25 to 0.125"
    measured = np.log2((chain[1] - limit) / (chain[2] - limit))
    check.row(order_row, predicted=2.0, measured=measured, tolerance=0.2, because="the next order, eta^4")
    check.rival("an error of first order", {order_row: 1.0})
    for name, other in (
        ("the drift of infinite dimension", lambda r: 0.5 + 0 * r),
        ("one direction too many", lambda r: (d - 1 - r) / (2 * d)),
    ):
        check.rival(name, {"network as eta tends to 0": independent.two_tokens(d, 1.0, 0.0, other)})
    return check


def field() -> MeanField:
    """E V = I, A = I, beta = 1: the mean field is softmax attention."""
    return MeanField(1.0, np.eye(D), 1.0)


@lru_cache(maxsize=4)
def weak_errors(steps: tuple[float, ...], networks: int, seed: int) -> dict[str, Estimate]:
    """Differences of E m at t = 1, network minus limit, for the plain and the modified equation, and mean positions."""
    x0 = normalise(jnp.asarray(START))
    keys = jax.random.split(jax.random.key(seed), networks)
    found: dict[str, list[Estimate]] = {"plain": [], "modified": [], "distance": []}
    base = field()
    for eta in steps:
        h = eta / SUBSTEPS
        noise = eta / (D * HEADS)
        # A projected Euler step of size h solves b - (h/2) nabla_b b: the fine runs take this back.
        drifts = {
            "plain": Modified(base, -h, 0.0),
            "modified": Modified(base, eta - h, eta / (eta - h)),
        }
        network = CommonNoise(base, drifts["plain"], strength=noise, tangent=0.0)
        fine = tuple(CommonNoise(base, drift, strength=noise) for drift in drifts.values())
        ends = coupled_ends(network, fine, x0, keys, jnp.asarray(eta), jnp.asarray(round(1 / eta)), SUBSTEPS)
        centre = [np.sum(np.asarray(x).mean(axis=1) ** 2, axis=-1) for x in ends]
        for name, value in zip(drifts, centre[1:], strict=True):
            found[name].append(mean(centre[0] - value))
        found["distance"].append(mean(np.asarray(ends[0])))
    return {
        name: Estimate(np.array([e.value for e in each]), np.array([e.error for e in each]))
        for name, each in found.items()
    }


def sizes(run: Run) -> tuple[tuple[float, ...], int]:
    return ((0.2, 0.1, 0.05), 400) if run.quick else ((0.1, 0.05, 0.025), 20_000)


@PAPER.claim(
    "weak-order",
    says="The weak error of the limit equation with common noise is of first order in the step: mean of $|\\bar "
    "x|^2$ at $t=1$ for four tokens in dimension 3 with $E V=I$, networks and equation on the same Brownian paths.",
    basis=basis.Theorem("weak error", via=sources.LEAN),
    formula=r"|E\varphi(X(t))-E\varphi(X^\eta(t))|\le C\eta(t_L+1)e^{Ct_L}\max(1,\alpha)",
)
def weak_order(run: Run) -> Check:
    steps, networks = sizes(run)
    found = weak_errors(steps, networks, run.seed)
    plain = order(np.array(steps), found["plain"])
    note = f"differences {found['plain']}; with the corrected modified drift {found['modified']}"
    check = Check(note, {"d": D, "n": N, "H": HEADS, "E V": 1, "t": 1, "eta": steps, "networks": networks})
    check.row(
        "order",
        predicted=1.0,
        measured=plain.value,
        error=plain.error,
        repeats=networks,
        tolerance=max(steps) / 2,
        because="the error bar of the fitted slope, and the next order in eta",
    )
    check.rival("order one half", 0.5)
    check.rival("order two, as with a corrected drift", 2.0)
    return check


@PAPER.claim(
    "modified-equation",
    says="The layer $N(x+\\eta B)$ follows $b-\\frac\\eta2\\nabla_bb-\\eta\\langle x,B\\rangle b$ with an error of "
    "second order in the step: normalising an increment with a part along $x$ slows it. Without the last term the "
    "error is of first order; it would be right for increments that are projected first.",
    basis=basis.Equation("modified equation", via=sources.LEAN),
    formula=r"b-\tfrac\eta2\nabla_bb-\eta\langle x,B\rangle b",
    prints="The modified equation has the drift $b-\\frac\\eta2\\nabla_bb$; the error against it is of second order.",
)
def modified_equation(run: Run) -> Check:
    errors = deterministic_errors()
    steps = np.array([eta for eta in errors])
    check = Check(parameters={"d": D, "n": N, "beta": 1, "V": "identity", "t": 1, "eta": tuple(errors)})
    for name, row, predicted in (
        ("modified", "order with the term", 2.0),
        ("published", "order of the printed drift", 1.0),
    ):
        sizes_ = np.array([errors[eta][name] for eta in errors])
        check.row(
            row,
            predicted=predicted,
            measured=order(steps, Estimate(sizes_, np.zeros(len(steps)))).value,
            tolerance=0.1,
            because="a deterministic error, which is a power series in eta",
        )
    check.printed({"order of the printed drift": 2.0})
    check.rival("the term does not help", {"order with the term": 1.0})
    return check


@lru_cache(maxsize=1)
def deterministic_errors() -> dict[float, dict[str, float]]:
    """Largest distance at t = 1 between the network with V = I and the equations, which scipy solves."""
    x0 = START / np.linalg.norm(START, axis=1, keepdims=True)
    base = field()
    errors: dict[float, dict[str, float]] = {}
    for eta in (0.1, 0.05, 0.025):
        x = x0
        for _ in range(round(1 / eta)):
            kernel = np.exp(x @ x.T)
            x = x + eta * kernel / kernel.sum(axis=1, keepdims=True) @ x
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
        errors[eta] = {}
        for name, normal in (("modified", 1.0), ("published", 0.0)):
            model = Modified(base, eta, normal)
            end = solve_ivp(partial(_velocity, model), (0, 1), x0.ravel(), rtol=1e-8, atol=1e-10).y[:, -1]
            errors[eta][name] = float(np.abs(end.reshape(N, D) - x).max())
    return errors


def _velocity(model: Modified, t: float, y: np.ndarray) -> np.ndarray:
    return np.asarray(_field(model, y.reshape(N, D))).ravel()


@jax.jit
def _field(model: Modified, x: jax.Array) -> jax.Array:
    return model.field(jnp.zeros(()), normalise(x))


@jax.jit
def _brownian(keys: jax.Array, layers: jax.Array) -> jax.Array:
    """The normals that `coupled_ends` draws for these layers."""
    draw = lambda key, k: standard_normals(jax.random.fold_in(key, k), SUBSTEPS * D * D)  # noqa: E731
    return jax.vmap(jax.vmap(draw, in_axes=(None, 0)), in_axes=(0, None))(keys, layers)


def reference_paths(normals: np.ndarray, h: float, strength: float, pull: float = 1.0) -> np.ndarray:
    """The ambient Ito equation to t = 1 in plain NumPy on the Brownian paths of `coupled_ends`, steps h/SUBSTEPS."""
    x = np.broadcast_to(START / np.linalg.norm(START, axis=1, keepdims=True), (len(normals), N, D))
    fine = h / SUBSTEPS
    for k in range(round(1 / h)):
        pieces = np.sqrt(fine) * normals[:, k].reshape(-1, SUBSTEPS, D, D)
        for j in range(SUBSTEPS):
            unit = x / np.linalg.norm(x, axis=-1, keepdims=True)
            kernel = np.exp(unit @ unit.swapaxes(1, 2))
            m = kernel / kernel.sum(axis=-1, keepdims=True) @ unit
            moved = pull * fine * m + np.sqrt(strength) * m @ pieces[:, j].swapaxes(1, 2)
            moved = moved - np.sum(moved * unit, axis=-1, keepdims=True) * unit
            x = x + moved - fine * strength / 2 * (D - 1) * np.sum(m * m, axis=-1, keepdims=True) * x
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


@PAPER.claim(
    "strong-order",
    says="Path by path, projected Euler steps approach the ambient Ito equation, written independently and solved with "
    "steps four times finer on the same Brownian paths, with order 1/2.",
    basis=basis.Equation("limit equation: intrinsic Ito form with one noise for all tokens", via=sources.LEAN),
    formula=r"dX_i=b\,dt+\sqrt\varepsilon P_{X_i}dB\,m_i-\tfrac\varepsilon2(d-1)|m_i|^2X_i\,dt,\qquad "
    r"\left(E|X^h(t)-X(t)|^2\right)^{1/2}\sim h^{1/2}",
)
def strong_order(run: Run) -> Check:
    steps, paths, strength = (0.1, 0.05, 0.025), sizes(run)[1] if run.quick else 5000, 0.5
    base = field()
    keys = jax.random.split(jax.random.key(run.seed + 1), paths)
    model = CommonNoise(base, Modified(base, 0.0), strength=strength)
    x0 = normalise(jnp.asarray(START))
    # As many fine models and paths as in `weak_errors`, whose program serves.
    coarse = [
        np.asarray(
            coupled_ends(model, (model, model), x0, keys, jnp.asarray(h), jnp.asarray(round(1 / h)), SUBSTEPS)[0]
        )
        for h in steps
    ]

    normals = np.asarray(_brownian(keys, jnp.arange(round(1 / min(steps)))))

    def slope(normals: np.ndarray, pull: float = 1.0, every: int = 1) -> Estimate:
        squares = [
            mean(np.sum((x - reference_paths(normals, h, strength, pull)) ** 2, axis=(1, 2)))
            for x, h in zip(coarse[::every], steps[::every], strict=True)
        ]
        size = np.sqrt([float(e.value) for e in squares])
        return order(np.array(steps[::every]), Estimate(size, np.array([float(e.error) for e in squares]) / (2 * size)))

    fitted = slope(normals)
    check = Check(parameters={"d": D, "n": N, "noise": strength, "t": 1, "steps": steps, "paths": paths})
    check.row(
        "order",
        predicted=0.5,
        measured=fitted.value,
        error=fitted.error,
        repeats=paths,
        tolerance=0.1,
        because="the error bar of the slope, and the part of order 1 that the drift adds",
    )
    check.rival("order one", 1.0)
    check.null("a drift twice as large", float(slope(normals, 2.0, 2).value))
    check.null("other Brownian paths", float(slope(np.roll(normals, 1, axis=0), 1.0, 2).value))
    return check
