r"""The stochastic Fokker-Planck equation on the sphere in three dimensions: its solver, exact solutions, and networks.

$$d\langle\mu,\varphi\rangle=\tfrac16\langle\mu,s_\mu\Delta\varphi\rangle d\tau
  +\langle\mu,\nabla\varphi\cdot d\xi\rangle,\qquad p_l=\iint P_l(\langle x,y\rangle)\,d\mu\,d\mu .$$
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.random_transformers_homogenization import PAPER, independent
from sphereflow.papers.random_transformers_homogenization.density import EQUATION, second_moments
from sphereflow.random_transformers.network import RandomNetwork, advance, realisation_keys
from sphereflow.random_transformers.sphere_density import SphereStep, solve_sphere_density, starting_harmonics
from sphereflow.random_transformers.weight_laws import weights
from sphereflow.seeds import rng_from
from sphereflow.sphere import fibonacci

TOKENS, BATCH = 48, 3000
ROWS = ("E p_1", "E p_2", "Var p_1")


class Kernel:
    r"""The uniform law moved by a boost: a Poisson kernel whose centre has the hyperbolic distance $\rho$."""

    def __init__(self, rho: float):
        self.t = math.tanh(rho)

    def __call__(self, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.asarray((1 - self.t**2) / (1 - self.t * z) ** 2)

    def tokens(self, n: int) -> np.ndarray:
        """The images of n points that are spread evenly."""
        x = np.asarray(fibonacci(n))
        whole = 1 + self.t * x[:, 2]
        flat = x[:, :2] * (math.sqrt(1 - self.t**2) / whole)[:, None]
        return np.concatenate([flat, ((x[:, 2] + self.t) / whole)[:, None]], axis=1)

    @property
    def mean_square(self) -> float:
        r"""$m=\psi^2$, $\psi=\coth\rho-\rho/\sinh^2\rho$."""
        rho = math.atanh(self.t)
        return (1 / self.t - rho / math.sinh(rho) ** 2) ** 2


def other_equation(
    kernel: Kernel, beta: float, second: float, paths: int, steps: int, degree: int, seed: int
) -> list[np.ndarray]:
    r"""$p_1$ and $p_2$ at $\tau=1$ with another multiple of the second-order term."""
    move, rng = SphereStep(beta, "product", degree, second=second), rng_from(seed)
    c = np.broadcast_to(starting_harmonics(kernel, degree), (paths, (degree + 1) ** 2)).copy()
    for _ in range(steps):
        for low in range(0, paths, move.chunk):
            part = slice(low, low + move.chunk)
            c[part] = move(rng, c[part], 1 / steps)
    return [np.sum(c[:, k**2 : (k + 1) ** 2] ** 2, axis=1) for k in (1, 2)]


def statistics(powers: list[np.ndarray], centre: float) -> dict[str, Estimate]:
    return dict(zip(ROWS, (mean(powers[0]), mean(powers[1]), second_moments(powers[0], centre)), strict=True))


@PAPER.claim(
    "density-solver-on-the-sphere",
    says="In three dimensions the equation solved by its generator in spherical harmonics, from a Poisson kernel at "
    "$\\beta=0$, has at $\\tau=1$ the mean and the variance of $p_1=|\\int x\\,d\\mu|^2$ and the mean of $p_2$ of the "
    "exact solution: a Poisson kernel whose centre follows an equation of one variable.",
    basis=EQUATION,
    formula=r"dc_{lm}=-\tfrac{l(l+1)}6\langle\mu,s_\mu Y_{lm}\rangle d\tau+\langle\mu,\nabla Y_{lm}\cdot d\xi\rangle,"
    r"\quad d\rho=\tfrac m3\coth\rho\,d\tau+\sqrt{m/3}\,dB,\ m=(\coth\rho-\rho/\sinh^2\rho)^2",
)
def density_solver_on_the_sphere(run: Run) -> Check:
    paths, steps, degree, kernel = (4000, 50, 8, Kernel(1.0)) if run.quick else (60_000, 100, 10, Kernel(1.0))
    seen = solve_sphere_density(
        kernel, beta=0.0, t1=1.0, repeats=paths, steps=steps, degree=degree, seed=run.seed, progress=False
    )
    note = f"last degree {seen.tail:.2g}, largest harmonic {seen.largest:.2g}"
    check = Check(note, {"d": 3, "rho": 1, "tau": 1, "paths": paths, "steps": steps, "degree": degree})
    exact = independent.hyperbolic_centre(3, 1.0, kernel.mean_square)
    predicted = dict(zip(ROWS, (exact[0], exact[2], exact[1] - exact[0] ** 2), strict=True))
    for row, found in statistics([seen.powers(k)[:, -1] for k in (1, 2)], exact[0]).items():
        check.row(
            row,
            predicted=predicted[row],
            measured=found.value,
            error=found.error,
            repeats=paths,
            relative=1 / steps if row != ROWS[2] else 2 / steps,
            because="the error bar over paths; steps of weak order 1, relative to a unit of time",
        )
    for name, second in (("without the second-order term", 0.0), ("twice the second-order term", 2.0)):
        other = other_equation(kernel, 0.0, second, 1000, 50, degree, run.seed + 1)
        check.rival(name, {row: float(np.mean(each)) for row, each in zip(ROWS[:2], other, strict=True)})
    circle = independent.hyperbolic_centre(2, 1.0, kernel.mean_square)
    check.rival("the equation of the circle", [circle[0], circle[2], circle[1] - circle[0] ** 2])
    alone = kernel.mean_square / (1 + 2 * kernel.mean_square / 3)
    check.rival("noise of its own for each token", {ROWS[0]: alone, ROWS[2]: 0.0})
    return check


@PAPER.claim(
    "sphere-density-against-networks",
    says="In three dimensions at $\\beta=1$ networks of 48 tokens spread over a Poisson kernel have at $\\tau=1$ the "
    "mean and the variance of $p_1$ and the mean of $p_2$ of the equation, which is solved in spherical harmonics "
    "without any network.",
    basis=EQUATION,
    formula=r"d\langle\mu,\varphi\rangle=\tfrac16\langle\mu,s_\mu\Delta\varphi\rangle d\tau"
    r"+\langle\mu,\nabla\varphi\cdot d\xi\rangle,\quad d\xi(x)=P_x\,dB\,m_A(x)",
)
def sphere_density_against_networks(run: Run) -> Check:
    networks, paths, steps, degree, eta = (BATCH, 1000, 16, 6, 0.25) if run.quick else (8 * BATCH, 12_000, 50, 8, 0.125)
    kernel = Kernel(0.7)
    parameters = {
        "d": 3,
        "n": TOKENS,
        "rho": 0.7,
        "beta": 1,
        "tau": 1,
        "eta": eta,
        "networks": networks,
        "paths": paths,
    }
    check = Check(parameters=parameters)
    seen = solve_sphere_density(
        kernel, beta=1.0, t1=1.0, repeats=paths, steps=steps, degree=degree, seed=run.seed + 1, progress=run.notify
    )
    solved = [seen.powers(k)[:, -1] for k in (1, 2)]
    centre = float(np.mean(solved[0]))
    predicted = statistics(solved, centre)
    for row, found in statistics(network_powers(kernel, eta, networks, run.seed), centre).items():
        check.row(
            row,
            predicted=predicted[row].value,
            measured=found.value,
            error=np.hypot(found.error, predicted[row].error),
            repeats=paths,
            relative=0.5 / steps,
            because="the error bars of both; steps of weak order 1, relative to a unit of time",
        )
    for name, beta, second in (
        ("without the second-order term", 1.0, 0.0),
        ("twice the second-order term", 1.0, 2.0),
        ("the equation of flat attention", 0.0, 1.0),
    ):
        other = other_equation(kernel, beta, second, 200 if run.quick else 2000, 16, degree, run.seed + 2)
        check.rival(name, {row: float(np.mean(each)) for row, each in zip(ROWS[:2], other, strict=True)})
    return check


def network_powers(kernel: Kernel, eta: float, networks: int, seed: int) -> list[np.ndarray]:
    r"""$p_1$ and $p_2$ of the tokens of many networks at $\tau=1$, from their inner products."""
    network = RandomNetwork(weights("product", d=3), 1.0, eta)
    start = jnp.broadcast_to(jnp.asarray(kernel.tokens(TOKENS)), (BATCH, TOKENS, 3))
    keys, last = realisation_keys(seed, networks), jnp.asarray(round(1 / eta**2))
    parts = [keys[k : k + BATCH] for k in range(0, networks, BATCH)]
    x = np.concatenate([np.asarray(advance(network, part, start, jnp.asarray(0), last)) for part in parts])
    squares = np.einsum("ria,rib->rab", x, x) / TOKENS
    return [np.sum(x.mean(axis=1) ** 2, axis=1), (3 * np.sum(squares**2, axis=(1, 2)) - 1) / 2]
