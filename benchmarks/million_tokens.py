"""A whole run of 10^6 tokens on the circle, from nearly uniform to metastable clusters, with a movie of the density.

    python benchmarks/million_tokens.py [--n 1000000] [--out FOLDER]

Prints how long the run took, the engine, the clusters, the growth rate of the fastest mode beside the linear theory
(k^2 I_k(beta) / (beta I_0(beta)) for softmax attention), and writes density.mp4.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.special import ive

import sphereflow as sf
from sphereflow.evolution.density import circle_density

BETA, T1 = 9.0, 16.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("."))
    arguments = parser.parse_args()
    n = arguments.n
    modes = np.arange(1, 9)
    rates = modes**2 * ive(modes, BETA) / (BETA * ive(0, BETA))
    fastest = int(modes[np.argmax(rates)])
    uniform = 2 * np.pi * (np.arange(n) + 0.5) / n
    # A perturbation of the fastest mode and a little of the others, so that clusters are not all alike.
    ripple = sum(1e-3 / (1 + abs(k - fastest)) * np.sin(k * uniform + k**2) for k in modes)
    start = sf.normalise(np.stack([np.cos(uniform + ripple), np.sin(uniform + ripple)], axis=1))

    begin = time.perf_counter()
    run = sf.evolve(sf.SA(BETA), start, T1, saveat=65, tol=1e-6, progress=None)
    seconds = time.perf_counter() - begin
    moments = [np.abs(np.mean(np.exp(1j * fastest * np.arctan2(x[:, 1], x[:, 0])))) for x in run.xs[:13]]
    growth = np.polyfit(run.ts[:13], np.log(moments), 1)[0]
    density = circle_density(run.final)[1]
    print(run.summary())
    print(f"solve                    {seconds:9.1f} s  ({n * run.steps / seconds:.3g} token-steps per second)")
    print(f"growth of mode {fastest}         {growth:9.4f}    theory {rates[fastest - 1]:.4f}")
    print(f"highest density          {density.max():9.1f}    (uniform is 1)")
    begin = time.perf_counter()
    movie = run.movie(arguments.out / "density.mp4")
    print(f"movie                    {time.perf_counter() - begin:9.1f} s  {movie}")


if __name__ == "__main__":
    main()
