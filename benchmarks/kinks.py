"""ReLU flows: `solve` beside the classical Runge-Kutta method in NumPy with a fixed step, in one process.

    python benchmarks/kinks.py

Attention and a perceptron of five ReLU neurons on the circle, energy going down, n = 200, beta = 5, t1 = 10, 51 frames:
the setting of the authors of the paper on perceptrons, whose step is 0.1. The script is run with the steps 0.1, 0.05,
... until its error is at most 1e-8. Errors are the largest of any token in any frame, against tolerance 1e-12.
Processor seconds from call to result, warm: the script once for each step, the others as the median of rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import sphereflow as sf
from sphereflow.solving import FORWARD, SOLVERS

N, BETA, T1, TOL = 200, 5.0, 10.0, 1e-8
TIMES = np.linspace(0, T1, 51)


def classical(x0: np.ndarray, outer: np.ndarray, inner: np.ndarray, step: float) -> np.ndarray:
    """The script: four stages, then back to the circle; frames every 0.2."""

    def field(x: np.ndarray) -> np.ndarray:
        pull = np.exp(BETA * (x @ x.T - 1)) @ x / len(x) + (np.maximum(x @ inner.T, 0) * outer) @ inner
        return -(pull - np.sum(pull * x, axis=1, keepdims=True) * x)

    x, frames, every = x0, [x0], round(0.2 / step)
    for number in range(1, round(T1 / step) + 1):
        a = field(x)
        b = field(x + step / 2 * a)
        c = field(x + step / 2 * b)
        x = x + step / 6 * (a + 2 * b + 2 * c + field(x + step * c))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        if number % every == 0:
            frames.append(x)
    return np.stack(frames)


def main(rounds: int) -> None:
    rng = np.random.default_rng(777)
    outer, inner = rng.normal(size=5), rng.normal(size=(5, 2))
    x0 = np.asarray(sf.draw("uniform", N, 2, 42))
    model = -(sf.USA(BETA) + sf.Perceptron(outer, inner))
    exact = np.asarray(sf.solve(model, x0, TIMES, tol=1e-12, adjoint=FORWARD).xs)

    def error(frames: np.ndarray) -> float:
        return float(np.abs(frames - exact).max())

    def timed(call: Callable[[], np.ndarray]) -> tuple[float, float]:
        began = time.process_time()
        frames = call()
        return time.process_time() - began, error(frames)

    def ours(name: str, tol: float) -> np.ndarray:
        return np.asarray(sf.solve(model, x0, TIMES, tol=tol, solver=SOLVERS[name][0], adjoint=FORWARD).xs)

    calls = {
        "solve, dopri8, 1e-5": lambda: ours("dopri8", 1e-5),
        "solve, tsit5, 1e-5": lambda: ours("tsit5", 1e-5),
        "solve, dopri8, 1e-8": lambda: ours("dopri8", TOL),
        "solve, tsit5, 1e-8": lambda: ours("tsit5", TOL),
        "evolve, 1e-8": lambda: np.asarray(sf.evolve(model, x0, T1, saveat=TIMES).xs),
    }
    print("| call | error | processor s |\n| --- | --- | --- |")
    for call in calls.values():
        call()
    for name, call in calls.items():
        took = np.median([timed(call) for _ in range(rounds)], axis=0)
        print(f"| {name} | {took[1]:.1e} | {took[0]:.2f} |", flush=True)
    parts, found = 1, np.inf
    while found > TOL:
        took, found = timed(lambda step=0.1 / parts: classical(x0, outer, inner, step))
        print(f"| script, step 0.1/{parts} | {found:.1e} | {took:.2f} |", flush=True)
        parts *= 2
    steps = [int(sf.solve(model, x0, TIMES, solver=SOLVERS[k][0], adjoint=FORWARD).steps) for k in ("dopri8", "tsit5")]
    print(f"\nSteps at 1e-8, those rejected included: dopri8 {steps[0]}, tsit5 {steps[1]}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="repetitions")
    main(parser.parse_args().rounds)
