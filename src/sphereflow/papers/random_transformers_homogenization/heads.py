r"""Many heads: they average the noise away, and only $\eta^2L/H$ is left of step, heads and depth.

$$\Big(\tfrac1nE|X-X_{ODE}|^2\Big)^{1/2}=\sqrt{K_1\eta/H+K_2^2\eta^2},\qquad \tau=\eta^2L/H .$$
"""

from __future__ import annotations

from functools import cache

import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean, order
from sphereflow.papers.random_transformers_homogenization import PAPER, sources
from sphereflow.papers.random_transformers_homogenization.orders import START, D, N
from sphereflow.random_transformers.network import RandomNetwork, advance, realisation_keys
from sphereflow.random_transformers.weight_laws import weights

UNIT = START / np.linalg.norm(START, axis=1, keepdims=True)


def mean_field(y: np.ndarray) -> np.ndarray:
    """P_x m(x) of softmax attention with beta = 1, in plain NumPy."""
    z = y.reshape(N, D) / np.linalg.norm(y.reshape(N, D), axis=1, keepdims=True)
    kernel = np.exp(z @ z.T)
    pull = kernel / kernel.sum(axis=1, keepdims=True) @ z
    return np.asarray((pull - np.sum(pull * z, axis=1, keepdims=True) * z).ravel())


@cache
def noise_constant() -> float:
    r"""$K_1$ of $\frac1nE|X-X_{mean}|^2=K_1\eta/H$ at t = 1:
    $S'=JS+SJ^T+C$, $C_{ij}=\frac1dP_iP_j\langle m_i,m_j\rangle$."""
    size = N * D

    def rhs(t: float, state: np.ndarray) -> np.ndarray:
        y, spread = state[:size], state[size:].reshape(size, size)
        x = y.reshape(N, D) / np.linalg.norm(y.reshape(N, D), axis=1, keepdims=True)
        h = 1e-5
        jacobian = np.stack([(mean_field(y + h * e) - mean_field(y - h * e)) / (2 * h) for e in np.eye(size)], axis=1)
        kernel = np.exp(x @ x.T)
        means = kernel / kernel.sum(axis=1, keepdims=True) @ x
        tangent = np.eye(D) - x[:, :, None] * x[:, None, :]
        force = np.einsum("iab,jcb,ij->iajc", tangent, tangent, means @ means.T / D).reshape(size, size)
        return np.concatenate([mean_field(y), (jacobian @ spread + spread @ jacobian.T + force).ravel()])

    begin = np.concatenate([UNIT.ravel(), np.zeros(size * size)])
    end = solve_ivp(rhs, (0, 1), begin, rtol=1e-4, atol=1e-6).y[:, -1]
    x = end[:size].reshape(N, D)
    tangent = np.eye(D) - x[:, :, None] * x[:, None, :]
    spread = end[size:].reshape(N, D, N, D)
    return float(np.einsum("iab,ibia->", tangent, spread) / N)


def recursion(eta: float) -> np.ndarray:
    """The network without its noise at t = 1: V = I, A = I, beta = 1."""
    y = UNIT
    for _ in range(round(1 / eta)):
        kernel = np.exp(y @ y.T)
        y = y + eta * kernel / kernel.sum(axis=1, keepdims=True) @ y
        y = y / np.linalg.norm(y, axis=1, keepdims=True)
    return y


def ends(eta: float, heads: int, networks: int, seed: int) -> np.ndarray:
    """Tokens of networks with E V = I, A = I, beta = 1 at t = 1."""
    law = weights("identity", d=D, value_mean=1.0)
    start = jnp.broadcast_to(jnp.asarray(UNIT), (networks, N, D))
    keys = realisation_keys(seed, networks)
    network = RandomNetwork(law, 1.0, eta, heads)
    return np.asarray(advance(network, keys, start, jnp.asarray(0), jnp.asarray(round(1 / eta))))


@PAPER.claim(
    "ballistic-limit",
    says="With mean $E V=I$ networks of 1 and of 64 heads scatter around the noiseless recursion by the predicted "
    "constant times $\\sqrt{\\eta/H}$; their distance to softmax attention adds the error of the recursion, which is "
    "what remains with many heads.",
    basis=basis.Theorem("regimes: ballistic", via=sources.LEAN),
    formula=r"\big(\tfrac1nE|X-X_{ODE}|^2\big)^{1/2}\approx\sqrt{K_1\eta/H+K_2^2\eta^2},\qquad S'=JS+SJ^\top+C",
)
def ballistic(run: Run) -> Check:
    networks = 500 if run.quick else 3000
    cases = [(0.1, 1), (0.025, 1), (0.1, 64), (0.025, 64)]
    if not run.quick:
        cases = [(eta, heads) for heads in (1, 4, 16, 64) for eta in (0.1, 0.05, 0.025)]
    check = Check(parameters={"d": D, "n": N, "beta": 1, "E V": 1, "t": 1, "networks": networks})
    limit = solve_ivp(lambda t, y: mean_field(y), (0, 1), UNIT.ravel(), rtol=1e-9, atol=1e-11).y[:, -1].reshape(N, D)
    constant = np.sqrt(noise_constant())
    rivals: dict[str, dict[str, float]] = {name: {} for name in ("root", "step", "noise", "error")}
    for k, (eta, heads) in enumerate(cases):
        end, y = ends(eta, heads, networks, run.seed + k), recursion(eta)
        noise, error = constant * np.sqrt(eta / heads), float(np.sqrt(np.sum((y - limit) ** 2) / N))
        for name, centre, predicted in (("recursion", y, noise), ("equation", limit, np.hypot(noise, error))):
            found = mean(np.sum((end - centre) ** 2, axis=-1).mean(axis=1))
            size = float(np.sqrt(found.value))
            row = f"distance to the {name}, eta={eta:g}, H={heads}"
            check.row(
                row,
                predicted=predicted,
                measured=size,
                error=float(found.error) / (2 * size),
                repeats=networks,
                tolerance=1.5 * eta * noise**2 / predicted,
                because="the error bar over networks; the next order in eta of the noise",
            )
            if name == "recursion":
                rivals["root"][row] = constant * np.sqrt(eta)
                rivals["step"][row] = constant * np.sqrt(0.1) * eta / 0.1 / np.sqrt(heads)
            elif heads > 1:
                rivals["noise"][row], rivals["error"][row] = noise, error
    check.rival("heads averaged by the root of their number", rivals["root"])
    check.rival("a scatter proportional to the step", rivals["step"])
    check.rival("no error of the recursion", rivals["noise"])
    check.rival("no noise with 64 heads", {row: v for row, v in rivals["error"].items() if row.endswith("=64")})
    return check


def cross_ratio(x: np.ndarray) -> np.ndarray:
    r"""$\log\frac{(1-R_{12})(1-R_{34})}{(1-R_{13})(1-R_{24})}$ of four tokens."""
    gaps = {(i, j): np.log(np.sum((x[:, i] - x[:, j]) ** 2, axis=-1)) for i, j in ((0, 1), (2, 3), (0, 2), (1, 3))}
    return np.asarray(gaps[0, 1] + gaps[2, 3] - gaps[0, 2] - gaps[1, 3])


@PAPER.claim(
    "cross-ratios",
    says="At $\\beta=0$ the common noise moves all tokens by Moebius maps, so that cross ratios of four tokens are "
    "conserved along every path: in networks of dimension 3 the change by $\\tau=1$ vanishes with the first power of "
    "the step. With attention, or with noise of its own for each token, it does not vanish.",
    basis=basis.Derived("the Gaussian equation at beta = 0, whose fields are boosts of SO(d,1)"),
    formula=r"\log\frac{(1-R_{12})(1-R_{34})}{(1-R_{13})(1-R_{24})}=\mathrm{const},\qquad "
    r"d\log(1-R_{ij})=-\tfrac{d-1}dm\,d\tau-\langle dv,x_i+x_j\rangle",
)
def cross_ratios(run: Run) -> Check:
    networks, steps = 500 if run.quick else 3000, np.array([0.25, 0.125, 0.0625])
    before = cross_ratio(UNIT[None])
    start = jnp.broadcast_to(jnp.asarray(UNIT), (networks, N, D))
    law = weights("identity", d=D)
    sizes: dict[str, list[Estimate]] = {"flat": [], "attention": [], "own": []}

    def spread(x: np.ndarray) -> Estimate:
        square = mean((cross_ratio(x) - before) ** 2)
        size = np.sqrt(square.value)
        return Estimate(size, square.error / (2 * size))

    for k, eta in enumerate(steps):
        keys, last = realisation_keys(run.seed + k, networks), jnp.asarray(round(1 / eta**2))
        flat, warm = (
            np.asarray(advance(RandomNetwork(law, beta, eta), keys, start, jnp.asarray(0), last)) for beta in (0.0, 1.0)
        )
        sizes["flat"].append(spread(flat))
        sizes["attention"].append(spread(warm))
        # Each token from another network.
        sizes["own"].append(spread(np.stack([np.roll(flat[:, i], i, axis=0) for i in range(N)], axis=1)))
    found = {name: order(steps, Estimate(*map(np.array, zip(*each, strict=True)))) for name, each in sizes.items()}
    note = ", ".join(f"{name}: {[round(float(e.value), 4) for e in each]}" for name, each in sizes.items())
    check = Check(note, {"d": D, "n": N, "tau": 1, "eta": tuple(steps), "networks": networks})
    check.row(
        "power of the step",
        predicted=1.0,
        measured=found["flat"].value,
        error=found["flat"].error,
        repeats=networks,
        tolerance=0.05,
        because="the error bar of the fitted slope; the next order in eta",
    )
    check.rival("the power 1/2 of a strong approximation", 0.5)
    check.null("attention at beta = 1", float(found["attention"].value))
    check.null("noise of its own for each token", float(found["own"].value))
    return check
