"""How long the run to the single cluster takes, and what the published procedure would take.

    python benchmarks/staircase.py            # 5, 50, 500 tokens, large beta, the published procedure
    python benchmarks/staircase.py --crowd    # 10,000 tokens as well

The published procedure moves five tokens by unit-norm steps of length 1e-5 log(beta), a million times for each of six
beta, in plain Python loops; a thousand of its steps are timed here and scaled up. It does not record physical time.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import sphereflow as sf
from sphereflow.metastability import MergeHistory, coarsen_to_one

_PUBLISHED_STEPS, _PUBLISHED_BETAS = 1_000_000, 6


def published_step(theta: list[float], beta: float) -> list[float]:
    """One unit-norm step along the gradient, with loops over pairs."""
    n = len(theta)
    gradient = []
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += math.exp(beta * (math.cos(theta[j] - theta[i]) - 1)) * math.sin(theta[j] - theta[i])
        gradient.append(total / n**2)
    norm = math.sqrt(sum(g * g for g in gradient))
    return [t + 1e-5 * math.log(beta) * g / norm for t, g in zip(theta, gradient, strict=True)]


def seconds(work: Callable[[], object]) -> tuple[float, float, object]:
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - processor, result


def published_seconds() -> float:
    theta = [0.0, 0.0425, 0.17, 0.34, 0.595]

    def thousand() -> None:
        moving = theta
        for _ in range(1000):
            moving = published_step(moving, 500.0)

    return seconds(thousand)[1] / 1000 * _PUBLISHED_STEPS * _PUBLISHED_BETAS


def main() -> None:
    coarsen_to_one("usa", sf.draw("uniform", 5, 2, seed=1), 50.0)  # imports and first use are not timed
    cases = [(5, 2, 200.0), (50, 2, 200.0), (500, 2, 200.0), (50, 3, 200.0), (500, 3, 200.0)]
    cases += [(5, 2, 4000.0), (50, 2, 4000.0), (5, 2, 100_000.0)]
    if "--crowd" in sys.argv:
        cases += [(2000, 2, 100.0), (10_000, 2, 100.0), (10_000, 2, 4000.0)]
    print("| tokens | d | beta | wall s | processor s | last merger, log t | its error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for n, d, beta in cases:
        start = sf.draw("uniform", n, d, seed=1)
        wall, processor, history = seconds(lambda start=start, beta=beta: coarsen_to_one("sa", start, beta))
        assert isinstance(history, MergeHistory)
        last = history.merges[-1]
        print(
            f"| {n} | {d} | {beta:g} | {wall:.2f} | {processor:.2f} | {last.log_time:.6g} | {last.error:.1e} |",
            flush=True,
        )
    print(f"\npublished procedure, five tokens, six beta: about {published_seconds() / 60:.0f} minutes on one core")


if __name__ == "__main__":
    main()
