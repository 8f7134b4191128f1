"""How fast is a certified minimiser? Attention plus one relu neuron on the circle, 1,440 nodes, beside generic solvers.

    python benchmarks/landscape.py [--beta 5] [--nodes 1440] [--repeats 5]

Every method minimises the same energy. `above` is its energy above the certified minimum, `gap` its own duality gap
lambda - min g: on the nodes for the grid methods, proved on the whole circle for sphereflow. Times are processor
seconds of the process, so that other work on the machine does not count. The peers are

- SLSQP of SciPy on the masses at the nodes of a coarser grid (its cost grows with the cube of their number),
- accelerated projected gradient on the simplex at the same nodes, a fixed number of steps,
- particle descent with explicit Euler steps of 0.1, 500 equal particles, as in published experiments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from sphereflow import landscape
from sphereflow.landscape import Problem
from sphereflow.landscape.sphere_space import SphereSpace


def timed(job: Callable[[], tuple[float, float]], repeats: int = 1) -> tuple[float, float, float]:
    """(median seconds, energy, gap)"""
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        energy, gap = job()
        spent.append(time.process_time() - began)
    return float(np.median(spent)), energy, gap


def slsqp(gram: np.ndarray, linear: np.ndarray) -> tuple[float, float]:
    n = len(linear)
    found = minimize(
        lambda m: m @ gram @ m / 2 + linear @ m,
        np.full(n, 1 / n),
        jac=lambda m: gram @ m + linear,
        method="SLSQP",
        bounds=[(0, None)] * n,
        constraints={"type": "eq", "fun": lambda m: m.sum() - 1, "jac": lambda m: np.ones(n)},
        options={"maxiter": 200, "ftol": 1e-14},
    )
    g = gram @ found.x + linear
    return float(found.fun), float(found.x @ g - g.min())


def to_simplex(m: np.ndarray) -> np.ndarray:
    ordered = np.sort(m)[::-1]
    thresholds = (np.cumsum(ordered) - 1) / np.arange(1, len(m) + 1)
    return np.maximum(m - thresholds[np.flatnonzero(ordered > thresholds)[-1]], 0)


def projected_gradient(gram: np.ndarray, linear: np.ndarray, steps: int) -> tuple[float, float]:
    m = ahead = np.full(len(linear), 1 / len(linear))
    step, momentum = 1 / np.linalg.eigvalsh(gram)[-1], 1.0
    for _ in range(steps):
        new = to_simplex(ahead - step * (gram @ ahead + linear))
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead, m, momentum = new + (momentum - 1) / following * (new - m), new, following
    g = gram @ m + linear
    return float(m @ (g + linear)) / 2, float(m @ g - g.min())


def particles(beta: float, weight: float, count: int, steps: int) -> tuple[float, float]:
    theta = np.random.default_rng(0).uniform(0, 2 * np.pi, count)
    for _ in range(steps):
        apart = theta[:, None] - theta
        force = -np.mean(np.sin(apart) * np.exp(beta * (np.cos(apart) - 1)), axis=1)
        force -= weight * np.maximum(np.cos(theta), 0) * np.sin(theta)
        theta = theta - 0.1 * force
    here = landscape.inspect(Problem(beta, [weight], [[1.0, 0.0]]), theta)
    return here.energy, here.gap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beta", type=float, default=5.0)
    parser.add_argument("--nodes", type=int, default=1440)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    beta, problem = arguments.beta, Problem(arguments.beta, [1.0], [[1.0, 0.0]])

    def ours() -> tuple[float, float]:
        found = landscape.minimise(problem, arguments.nodes)
        return found.energy, found.gap

    began = time.process_time()
    exact = ours()[0]
    first = time.process_time() - began

    def on_grid(nodes: int) -> tuple[np.ndarray, np.ndarray]:
        space = SphereSpace(problem)
        grid = space.grid(nodes)
        return space.kernel(grid, grid) + 1 / beta, space.half_potential(grid).value

    fine, coarse = on_grid(arguments.nodes), on_grid(240)
    rows = [
        (f"sphereflow, {arguments.nodes} nodes, certified", timed(ours, arguments.repeats)),
        ("SciPy SLSQP, 240 nodes", timed(lambda: slsqp(*coarse))),
        (f"projected gradient, {arguments.nodes} nodes", timed(lambda: projected_gradient(*fine, 2000))),
        ("particle descent, 500 particles, 1,000 steps", timed(lambda: particles(beta, 1.0, 500, 1000))),
    ]
    print(f"relu, one neuron of weight 1, beta = {beta:g}, peak convention; minimum {exact:.12g}")
    print(f"first call with compilation: {first:.2f} s")
    print(f"{'method':<46}{'seconds':>9}{'ratio':>8}{'above':>10}{'gap':>10}")
    for name, (seconds, energy, gap) in rows:
        print(f"{name:<46}{seconds:9.3f}{seconds / rows[0][1][0]:8.1f}{energy - exact:10.1e}{gap:10.1e}")
    print(f"\n{'problem':<46}{'seconds':>9}{'atoms':>8}{'kind':>12}{'gap':>10}")
    sweep = [(f"circle, beta = {b:g}", Problem(b, [1.0], [[1.0, 0.0]])) for b in (2.0, 10.0, 50.0)]
    sweep += [
        (f"circle, 3 random {a} neurons, beta = 8", Problem.random(8.0, 2, 3, seed=1, activation=a))
        for a in ("relu", "gelu", "tanh", "softplus")
    ]
    sweep += [
        ("rings in d = 3, w = 0.5, beta = 10", Problem(10.0, [-0.5], np.eye(1, 3))),
        ("rings in d = 64, w = 0.5, beta = 10", Problem(10.0, [-0.5], np.eye(1, 64))),
        ("S^2, 3 random relu neurons, beta = 3", Problem.random(3.0, 3, 3, seed=4)),
        ("S^2, 3 random tanh neurons, beta = 10", Problem.random(10.0, 3, 3, seed=2, activation="tanh")),
    ]
    for name, each in sweep:
        landscape.minimise(each)
        began = time.process_time()
        found = landscape.minimise(each)
        print(f"{name:<46}{time.process_time() - began:9.3f}{len(found):8d}{found.kind:>12}{found.gap:10.1e}")


if __name__ == "__main__":
    main()
