"""How long causal attention on the circle takes: one step against the number of tokens, and a Monte Carlo run.

    python benchmarks/retrieval.py            all tables, about three minutes on two cores
    python benchmarks/retrieval.py --quick    smaller ones

Peers, measured in the same run: the pairwise sum in NumPy, and the double loop in plain Python.
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.retrieval import CausalCircle, wave_influence
from sphereflow.retrieval.bessel import growth_rates
from sphereflow.retrieval.closed_form import two_time_influence
from sphereflow.retrieval.influence import circle_advance


def pairwise(theta: np.ndarray, beta: float, slope: float) -> np.ndarray:
    """The masked n x n sum."""
    n = len(theta)
    steps = np.subtract.outer(np.arange(n), np.arange(n))
    weights = np.where(steps > 0, np.exp(-slope * np.maximum(steps, 0) / n), 0.0)
    angle = np.subtract.outer(theta, theta)
    total = np.maximum(weights.sum(axis=1), 1e-300)
    return np.sum(weights * -beta * np.sin(angle) * np.exp(beta * np.cos(angle)), axis=1) / total


def double_loop(theta: np.ndarray, beta: float, slope: float) -> np.ndarray:
    """One pair at a time."""
    n = len(theta)
    moved = np.zeros(n)
    for j in range(1, n):
        force = total = 0.0
        for k in range(j):
            weight = np.exp(-slope * (j - k) / n)
            angle = theta[j] - theta[k]
            force -= weight * beta * np.sin(angle) * np.exp(beta * np.cos(angle))
            total += weight
        moved[j] = force / total
    return moved


def best(call, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def one_step(quick: bool) -> None:
    print("One evaluation of the force, beta = slope = 1, one sequence\n")
    print("| tokens | recursion, ms | pairs in NumPy, ms | double loop, ms | largest difference |")
    print("|---|---|---|---|---|")
    model = CausalCircle(1.0, 1.0)
    field = jax.jit(lambda model, x: model.field(jnp.zeros(()), x))
    sizes = (64, 1000, 4000, 10_000) if quick else (64, 1000, 4000, 10_000, 30_000, 100_000, 1_000_000)
    times = {}
    for n in sizes:
        theta = np.random.default_rng(n).uniform(0, 2 * np.pi, n)
        x = jnp.asarray(theta[:, None])
        found = np.asarray(field(model, x))[:, 0]
        times[n] = best(lambda x=x: field(model, x).block_until_ready())
        row = [f"{n}", f"{1e3 * times[n]:.2f}"]
        difference = 0.0
        for peer, most in ((pairwise, 4000), (double_loop, 1000)):
            if n <= most:
                difference = max(difference, float(np.abs(peer(theta, 1.0, 1.0) - found).max()))
                row.append(f"{1e3 * best(lambda theta=theta, peer=peer: peer(theta, 1.0, 1.0), 1):.1f}")
            else:
                row.append("")
        print("| " + " | ".join([*row, f"{difference:.0e}" if n <= 4000 else ""]) + " |", flush=True)
    large = [n for n in sizes if n >= 1000]
    slope = np.polyfit(np.log(large), np.log([times[n] for n in large]), 1)[0]
    print(f"\nslope of log time against log tokens from 1000 tokens on: {slope:.2f}\n")


def many_samples(quick: bool) -> None:
    print("Samples to t = 1 (beta = slope = 1, error of angles 1e-5)\n")
    print("| tokens | samples | wall s | processor s | processor ns per token, sample and evaluation |")
    print("|---|---|---|---|---|")
    for n, samples in ((64, 1024), (512, 1024)) if quick else ((64, 1024), (512, 1024), (2048, 1024)):
        model = CausalCircle(1.0, 1.0, length=n)
        advance = circle_advance(model, 1.0)
        theta = np.random.default_rng(0).uniform(0, 2 * np.pi, (samples, n))
        advance(theta[:256])
        used = time.process_time()
        seconds = best(lambda advance=advance, theta=theta: advance(theta), 1)
        used = time.process_time() - used
        print(f"| {n} | {samples} | {seconds:.1f} | {used:.1f} | {1e9 * used / (n * samples * 25):.0f} |", flush=True)
    print()


def against_the_closed_form(quick: bool) -> None:
    print("N E cos n(theta_N(1) - theta_k(0)) against the closed form, beta = slope = 1, source at 0.297 N\n")
    print("| tokens | environments | wave | measured | closed form | N (measured - closed form) | band | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    cases = ((64, 500), (128, 500)) if quick else ((64, 4000), (128, 4000), (512, 1000), (2048, 256))
    for n, repeats in cases:
        k = round(0.297 * n)
        began = time.perf_counter()
        estimate = wave_influence(n, k - 1, 1.0, beta=1.0, weights=1.0, waves=(1, 2), repeats=repeats)
        seconds = time.perf_counter() - began
        sigma0 = (k - 0.5) / n
        exact = two_time_influence(growth_rates(1.0)[:2], 1.0, 1.0, sigma0, 1.0)
        for m, value, error, closed in zip((1, 2), estimate.value, estimate.error, exact, strict=True):
            band = 3 * error + m**2 * (0.4 + 0.15 / sigma0) / n
            inside = "inside" if abs(value - closed) <= band else "OUTSIDE"
            print(
                f"| {n} | {repeats} | {m} | {value:.4f} ± {error:.4f} | {closed:.4f} | "
                f"{n * (value - closed):.2f} ± {n * error:.2f} | {band:.4f}, {inside} | {seconds:.0f} |",
                flush=True,
            )


def main() -> None:
    quick = "--quick" in sys.argv
    one_step(quick)
    many_samples(quick)
    against_the_closed_form(quick)


if __name__ == "__main__":
    main()
