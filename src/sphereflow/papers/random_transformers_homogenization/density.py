r"""The stochastic Fokker-Planck equation on the circle: its solver, its exact solutions, and networks.

$$d\rho=\tfrac14\partial_\theta^2(s_\mu\rho)d\tau-\partial_\theta(\rho\,d\xi),\qquad
  d\xi(\theta)d\xi(\theta')=\tfrac12\cos(\theta-\theta')s_\mu(\theta,\theta')d\tau .$$
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.random_transformers_homogenization import PAPER, independent, sources
from sphereflow.papers.random_transformers_homogenization.shared_noise import distribution
from sphereflow.random_transformers.fokker_planck import Step, solve_density
from sphereflow.random_transformers.network import RandomNetwork, advance, realisation_keys
from sphereflow.random_transformers.weight_laws import AnyLaw, ValueLaw, Weights, weights
from sphereflow.seeds import rng_from

EQUATION = basis.Equation("stochastic Fokker-Planck equation", via=sources.LEAN)
TOKENS, BATCH = 24, 3000  # one shape for all networks here, so that one program serves
START = (1.0, 0.3, 0.15j)  # modes of 1 + 0.6 cos(theta) - 0.3 sin(2 theta)
MODES = 12


def quantiles() -> np.ndarray:
    """Tokens at the quantiles of the density with the modes `START`."""
    theta = np.interp((np.arange(TOKENS) + 0.5) / TOKENS, *distribution())
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


def poisson_tokens(n: int, modulus: float) -> np.ndarray:
    """Tokens at the quantiles of a Poisson kernel: a Moebius image of equally spaced ones, c_k = a^k up to a^(n-1)."""
    z = np.exp(2j * np.pi * (np.arange(n) + 0.5) / n)
    w = (z + modulus) / (1 + modulus * z)
    return np.stack([w.real, w.imag], axis=-1)


def token_modes(x: np.ndarray) -> list[np.ndarray]:
    r"""$|c_1|^2$ and $|c_2|^2$ of tokens on the circle."""
    turned = x[..., 0] + 1j * x[..., 1]
    return [np.abs((turned**k).mean(axis=-1)) ** 2 for k in (1, 2)]


def network_ends(x: np.ndarray, beta: float, eta: float, tau: float, networks: int, seed: int) -> np.ndarray:
    """The tokens x of many networks at tau."""
    network = RandomNetwork(weights("product", d=2), beta, eta)
    start = jnp.broadcast_to(jnp.asarray(x), (BATCH, TOKENS, 2))
    keys = realisation_keys(seed, networks)
    parts = [keys[k : k + BATCH] for k in range(0, networks, BATCH)]
    last = jnp.asarray(round(tau / eta**2))
    return np.concatenate([np.asarray(advance(network, part, start, jnp.asarray(0), last)) for part in parts])


def second_moments(squares: np.ndarray, centre: float) -> Estimate:
    """The variance of a quantity whose mean is known."""
    return mean((squares - centre) ** 2)


@PAPER.claim(
    "density-solver",
    says="The equation solved by its generator, from a Poisson kernel at $\\beta=0$, has at $\\tau=1$ the mean and the "
    "variance of $|c_1|^2$ and the mean of $|c_2|^2$ of the exact solution: a Poisson kernel whose centre follows an "
    "equation of one variable.",
    basis=EQUATION,
    formula=r"dc_k=-\tfrac{k^2}4\langle\mu,s_\mu e^{-ik\theta}\rangle d\tau"
    r"-ik\langle\mu,e^{-ik\theta}d\xi\rangle,\quad "
    r"c_k=a^k:\ dR=\tfrac R4(1-R)^2d\tau+\tfrac{R(1-R)}{\sqrt2}dB,\ R=|a|^2",
)
def density_solver(run: Run) -> Check:
    paths = 6000 if run.quick else 60_000
    seen = solve_density(0.5 ** np.arange(MODES + 1), beta=0.0, t1=1.0, repeats=paths, modes=MODES, seed=run.seed)
    note = f"last mode {seen.tail:.2g}, largest {seen.largest:.2g}"
    check = Check(note, {"d": 2, "start": 0.25, "tau": 1, "paths": paths, "modes": MODES})
    first, second = (np.abs(seen.modes[:, -1, k]) ** 2 for k in (1, 2))
    exact = independent.poisson_kernel(1.0)
    found = {
        "E|c_1|^2": (exact[0], mean(first)),
        "E|c_2|^2": (exact[1], mean(second)),
        "Var|c_1|^2": (exact[1] - exact[0] ** 2, second_moments(first, exact[0])),
    }
    for row, (predicted, estimate) in found.items():
        check.row(
            row,
            predicted=predicted,
            measured=estimate.value,
            error=estimate.error,
            repeats=paths,
            tolerance=0.0015,
            because="the error bar over paths; steps of 0.02, of weak order 1",
        )

    def moments(**other: float | bool) -> list[float]:
        one, two = independent.poisson_kernel(1.0, **other)  # type: ignore[arg-type]
        return [one, two, two - one**2]

    check.rival("half of the second-order term", moments(second=0.5))
    check.rival("twice the second-order term", moments(second=2.0))
    check.rival("noise in the sense of Stratonovich", moments(stratonovich=True))
    check.rival("noise of its own for each token", {"E|c_1|^2": 0.25 / (1 + 0.125), "Var|c_1|^2": 0.0})
    return check


def solver_moments(beta: float, paths: int, steps: int, seed: int, second: float = 1.0) -> list[np.ndarray]:
    r"""$|c_1|^2$ and $|c_2|^2$ at $\tau=1$, with another multiple of the second-order term."""
    move, rng = Step(beta, "product", MODES, 1, "generator", second), rng_from(seed)
    c = np.zeros((paths, MODES + 1), complex)
    c[:, :3] = START
    for _ in range(steps):
        for low in range(0, paths, 200):
            c[low : low + 200] = move(rng, c[low : low + 200], 1 / steps)
    return [np.abs(c[:, k]) ** 2 for k in (1, 2)]


@PAPER.claim(
    "density-against-networks",
    says="At $\\beta=1$ networks of 24 tokens at the quantiles of $1+0.6\\cos\\theta-0.3\\sin2\\theta$ have at "
    "$\\tau=1$ the mean and the variance of $|c_1|^2$ and the mean of $|c_2|^2$ of the equation, which is solved by "
    "its generator without any network.",
    basis=EQUATION,
    formula=r"d\rho=\tfrac14\partial_\theta^2(s_\mu\rho)d\tau-\partial_\theta(\rho\,d\xi),\quad "
    r"d\xi(\theta)d\xi(\theta')=\tfrac12\cos(\theta-\theta')s_\mu(\theta,\theta')d\tau",
)
def density_against_networks(run: Run) -> Check:
    number, paths, eta = (4 * BATCH, 4000, 0.25) if run.quick else (20 * BATCH, 30_000, 0.1)
    steps = 40 if run.quick else 50
    check = Check(parameters={"d": 2, "n": TOKENS, "beta": 1, "tau": 1, "eta": eta, "networks": number, "paths": paths})

    def density(theta: np.ndarray) -> np.ndarray:
        return 1 + 0.6 * np.cos(theta) - 0.3 * np.sin(2 * theta)

    seen = solve_density(density, beta=1.0, t1=1.0, repeats=paths, steps=steps, modes=MODES, seed=run.seed + 1)
    network = token_modes(network_ends(quantiles(), 1.0, eta, 1.0, number, run.seed))
    solved = [np.abs(seen.modes[:, -1, k]) ** 2 for k in (1, 2)]
    centre = float(np.mean(solved[0]))

    def numbers(squares: list[np.ndarray]) -> dict[str, Estimate]:
        return {
            "E|c_1|^2": mean(squares[0]),
            "E|c_2|^2": mean(squares[1]),
            "Var|c_1|^2": second_moments(squares[0], centre),
        }

    predicted = numbers(solved)
    for row, found in numbers(network).items():
        check.row(
            row,
            predicted=predicted[row].value,
            measured=found.value,
            error=np.hypot(found.error, predicted[row].error),
            repeats=paths,
            tolerance=0.02 * float(predicted[row].value),
            because="the error bars of both; the steps of network and solver, 2 %",
        )
    for name, beta, second in (
        ("half of the second-order term", 1.0, 0.5),
        ("twice the second-order term", 1.0, 2.0),
        ("the equation of flat attention", 0.0, 1.0),
    ):
        other = numbers(solver_moments(beta, 600 if run.quick else 2000, 20, run.seed + 2, second))
        check.rival(name, {row: float(found.value) for row, found in other.items() if row != "Var|c_1|^2"})
    return check


def normal_values(variances: tuple[float, float] = (0.5, 0.5)) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes and weights for $w=Vc/|c|$ whose parts are independent and normal, by Gauss quadrature."""
    z, weight = np.polynomial.hermite_e.hermegauss(16)
    nodes = np.stack(np.meshgrid(z, z), axis=-1).reshape(-1, 2) * np.sqrt(variances)
    return nodes, np.outer(weight, weight).ravel() / weight.sum() ** 2


def one_layer_squares(eta: float, nodes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    r"""$E|c_k|^2$ after one layer at $\beta=0$, k = 1, 2, 3: the values integrated by quadrature, not sampled.

    At $\beta=0$ the layer sees V through $Vc$ only, whose law over $|c|$ is given by nodes and weights.
    """
    x = dense_quantiles()
    centre = x.mean(axis=0)
    w = nodes * np.linalg.norm(centre)
    values = w[:, :, None] * centre / (centre @ centre)
    end = np.asarray(_layers(jnp.asarray(values), jnp.asarray(eta), jnp.asarray(x)))
    turned = end[..., 0] + 1j * end[..., 1]
    return np.array([weight @ np.abs((turned**k).mean(axis=1)) ** 2 for k in range(1, 4)])


@lru_cache(maxsize=1)
def dense_quantiles() -> np.ndarray:
    theta = np.interp((np.arange(200) + 0.5) / 200, *distribution())
    return np.stack([np.cos(theta), np.sin(theta)], axis=-1)


@jax.jit
def _layers(values: jax.Array, eta: jax.Array, x: jax.Array) -> jax.Array:
    """The tokens after one layer of the network with each of these matrices V, A = I and beta = 0."""

    def layer(v: jax.Array) -> jax.Array:
        return RandomNetwork(AnyLaw(lambda key, d: (v, jnp.eye(d))), 0.0, eta).layer(jax.random.key(0), x)

    return jax.vmap(layer)(values)


@PAPER.claim(
    "generator-of-a-layer",
    says="At $\\beta=0$ one layer, its values integrated without sampling, changes $E|c_k|^2$, k = 1, 2, 3, of a law "
    "on the circle at the rate of the generator of the equation, with an error of second order in the step.",
    basis=EQUATION,
    formula=r"\frac d{d\tau}E|c_k|^2=\tfrac{k^2}4|c_1|^2\big(|c_{k+1}|^2+|c_{k-1}|^2-2|c_k|^2\big)",
)
def generator_of_a_layer(run: Run) -> Check:
    turned = dense_quantiles()[:, 0] + 1j * dense_quantiles()[:, 1]
    squares = np.array([np.abs((turned**k).mean()) ** 2 for k in range(5)])
    steps = (0.4, 0.2, 0.1)
    rates = [(one_layer_squares(eta, *normal_values()) - squares[1:4]) / eta**2 for eta in steps]
    check = Check(parameters={"d": 2, "beta": 0, "tokens": len(turned), "eta": steps})
    k = np.arange(1, 4)
    noise, second = k**2 / 4 * squares[1] * (squares[2:] + squares[:3]), k**2 / 2 * squares[1] * squares[1:4]
    names = [f"rate of E|c_{j}|^2 as eta tends to 0" for j in k]
    zero = (64 * rates[2] - 20 * rates[1] + rates[0]) / 45
    check.series(names, predicted=noise - second, measured=zero, tolerance=2e-6, because="the sixth order in eta")
    orders = np.log2((rates[0] - zero) / (rates[1] - zero))
    rows = [f"order of the error, k={j}" for j in k]
    check.series(rows, predicted=2.0, measured=orders, tolerance=0.15, because="the next order, eta^4")
    check.rival("the second-order term forgotten", dict(zip(names, noise, strict=True)))
    check.rival("the second-order term 1 % larger", dict(zip(names, noise - 1.01 * second, strict=True)))
    check.rival("noise of its own for each token", dict(zip(names, -second, strict=True)))
    check.rival("an error of first order", dict.fromkeys(rows, 1.0))
    return check


@PAPER.claim(
    "fokker-planck-at-infinite-temperature",
    says="At $\\beta=0$ on the circle a Poisson kernel stays one, and its centre solves an equation of one variable: "
    "networks of 24 tokens started at quantiles of the kernel have its $E|c_1|^2$ and $E|c_2|^2$ at $\\tau=1$.",
    basis=EQUATION,
    formula=r"d\rho=\tfrac14\partial_\theta^2(s_\mu\rho)d\tau-\partial_\theta(\rho\,d\xi),\quad c_k=a^k,\ R=|a|^2:\ "
    r"dR=\tfrac R4(1-R)^2d\tau+\tfrac{R(1-R)}{\sqrt2}dB",
)
def fokker_planck(run: Run) -> Check:
    networks, eta = 2 * BATCH if run.quick else 15 * BATCH, 0.25
    found = [mean(z) for z in token_modes(network_ends(poisson_tokens(TOKENS, 0.5), 0.0, eta, 1.0, networks, run.seed))]
    check = Check(parameters={"d": 2, "n": TOKENS, "start": 0.25, "tau": 1, "eta": eta, "networks": networks})
    for k, exact in enumerate(independent.poisson_kernel(1.0)):
        check.row(
            f"E|c_{k + 1}|^2",
            predicted=exact,
            measured=found[k].value,
            error=found[k].error,
            repeats=networks,
            tolerance=0.002,
            because="the error bar over networks; the step, of order eta^2/30",
        )
    check.rival("half of the second-order term", independent.poisson_kernel(1.0, second=0.5))
    check.rival("twice the second-order term", independent.poisson_kernel(1.0, second=2.0))
    check.rival("noise in the sense of Stratonovich", independent.poisson_kernel(1.0, stratonovich=True))
    check.rival("noise of its own for each token", {"E|c_1|^2": 0.25 / (1 + 0.125)})
    return check


def generator_slopes(x: np.ndarray, beta: float, draws: int, seed: int) -> tuple[Estimate, Estimate]:
    r"""Slopes of $E|c_1|^2$ and $E|c_2|^2$ in $\tau$ from the equation, with $s_\mu$ sampled over A in plain NumPy.

    $\frac d{d\tau}E|c_k|^2=\frac{k^2}2\big[\iint\cos k(\theta-\theta')\cos(\theta-\theta')\,s\,d\mu d\mu'-
    \mathrm{Re}\,\bar c_k\langle\mu,s(\theta,\theta)e^{-ik\theta}\rangle\big]$.
    """
    rng = np.random.default_rng(seed)
    angle = np.arctan2(x[:, 1], x[:, 0])
    apart = angle[:, None] - angle[None, :]
    factor, other = rng.standard_normal((2, draws, 2, 2)) * 2**-0.25
    logits = beta * np.einsum("ia,rab,kb->rik", x, other @ factor.swapaxes(1, 2), x)
    attention = np.exp(logits - logits.max(axis=-1, keepdims=True))
    means = attention @ x / attention.sum(axis=-1, keepdims=True)
    overlap = np.einsum("ria,rja->rij", means, means)
    results = []
    for k in (1, 2):
        wave = np.exp(-1j * k * angle)
        noise = np.mean(np.cos(k * apart) * np.cos(apart) * overlap, axis=(1, 2))
        own = np.real(np.conj(wave.mean()) * np.mean(np.einsum("rii->ri", overlap) * wave, axis=1))
        results.append(mean(k**2 / 2 * (noise - own)))
    return results[0], results[1]


@PAPER.claim(
    "fokker-planck-slopes",
    says="At $\\beta=1$ one layer of the network changes the mean squares of the first two modes of 24 tokens on the "
    "circle at the rates of the stochastic Fokker-Planck equation, whose generator is evaluated independently.",
    basis=EQUATION,
    formula=r"\frac d{d\tau}E|c_k|^2=\frac{k^2}2\Big[\iint\cos k(\theta-\theta')\cos(\theta-\theta')s_\mu\,d\mu\,d\mu'"
    r"-\mathrm{Re}\,\bar c_k\langle\mu,s_\mu e^{-ik\theta}\rangle\Big]",
)
def fokker_planck_slopes(run: Run) -> Check:
    batches, eta = (2, 0.1) if run.quick else (60, 0.1)
    x, draws = quantiles(), batches * BATCH
    keys = realisation_keys(run.seed, draws)
    tokens = jnp.broadcast_to(jnp.asarray(x), (BATCH, TOKENS, 2))
    pairs = []
    for sign in (1.0, -1.0):  # the same weights with V and -V: the martingale part cancels
        law = Weights(weights("product", d=2).score, ValueLaw(jnp.asarray(sign)))
        network = RandomNetwork(law, 1.0, eta)
        parts = [keys[k : k + BATCH] for k in range(0, draws, BATCH)]
        ends = [np.asarray(advance(network, part, tokens, jnp.asarray(0), jnp.asarray(1))) for part in parts]
        pairs.append(np.concatenate(ends))
    check = Check(parameters={"d": 2, "n": 24, "beta": 1, "eta": eta, "layers": draws})
    slopes = generator_slopes(x, 1.0, 4000 if run.quick else 40_000, run.seed + 1)
    flat = generator_slopes(x, 0.0, 2, run.seed)
    start = x[:, 0] + 1j * x[:, 1]
    rival = []
    for k, exact, other in zip((1, 2), slopes, flat, strict=True):
        before = np.abs((start**k).mean()) ** 2
        after = [np.abs(((y[..., 0] + 1j * y[..., 1]) ** k).mean(axis=1)) ** 2 for y in pairs]
        found = mean((np.mean(after, axis=0) - before) / eta**2)
        check.row(
            f"slope of E|c_{k}|^2",
            predicted=exact.value,
            measured=found.value,
            error=np.hypot(found.error, exact.error),
            repeats=4000,
            tolerance=0.03 * abs(float(exact.value)) + 5e-4,
            because="the error bars of the layers and of the sampled s; the step, eta^2",
        )
        rival.append(float(other.value))
    check.rival("the equation of flat attention", rival)
    check.rival("twice the slopes", check.times(2.0))
    return check
