"""How long does it take to count the modes of a density estimate? Up to 10^7 samples, beside SciPy and scikit-learn.

    python benchmarks/kde_modes.py [--most 10000000] [--peers 100000] [--repeats 3]

beta = n^0.75, in the middle of the regime with many modes. The peers evaluate the density on a grid of twelve points
per bandwidth and count its local maxima; they cannot tell whether a maximum was missed. sphereflow proves its count.
Times are processor seconds, the smallest of the repeats; all take the sizes in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import scipy
import sklearn
from scipy.stats import gaussian_kde
from sklearn.neighbors import KernelDensity

from sphereflow.modes import expected_modes, find_modes

PER_BANDWIDTH = 12


def grid(sample: np.ndarray, beta: float) -> np.ndarray:
    h = beta**-0.5
    return np.arange(sample.min() - h, sample.max() + h, h / PER_BANDWIDTH)


def maxima(values: np.ndarray) -> int:
    return int(np.sum((values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:])))


def by_scipy(sample: np.ndarray, beta: float) -> int:
    estimate = gaussian_kde(sample, bw_method=beta**-0.5 / sample.std(ddof=1))
    return maxima(estimate(grid(sample, beta)))


def by_sklearn(sample: np.ndarray, beta: float) -> int:
    estimate = KernelDensity(bandwidth=beta**-0.5, rtol=1e-8).fit(sample[:, None])
    return maxima(estimate.score_samples(grid(sample, beta)[:, None]))


def by_sphereflow(sample: np.ndarray, beta: float) -> int:
    found = find_modes(sample, beta)
    if not found.certain:
        raise RuntimeError("a count was not certain")
    return len(found)


def measure(count: Callable[[np.ndarray, float], int], sample: np.ndarray, beta: float) -> tuple[float, int]:
    began = time.process_time()
    modes = count(sample, beta)
    return time.process_time() - began, modes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("most", 10_000_000), ("peers", 100_000), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    ways = {"sphereflow": by_sphereflow, "SciPy": by_scipy, "scikit-learn": by_sklearn}
    sizes = [n for n in (1000, 10_000, 100_000, 1_000_000, 10_000_000) if n <= arguments.most]
    samples = {n: np.random.default_rng(0).standard_normal(n) for n in sizes}
    by_sphereflow(samples[sizes[0]], 10.0)  # first use of the libraries
    best: dict[tuple[str, int], tuple[float, int]] = {}
    for repeat in range(arguments.repeats):
        for n in sizes:
            for name, way in ways.items():
                slow = name != "sphereflow"
                if slow and (n > arguments.peers or (repeat and n > 10_000)):
                    continue
                found = measure(way, samples[n], n**0.75)
                best[name, n] = min(found, best.get((name, n), found))
    print(f"numpy {np.__version__}, scipy {scipy.__version__}, scikit-learn {sklearn.__version__}")
    print(f"{'n':>9} {'beta':>8} {'expected':>9} " + " ".join(f"{name:>22}" for name in ways))
    for n in sizes:
        cells = []
        for name in ways:
            if (name, n) in best:
                seconds, modes = best[name, n]
                cells.append(f"{seconds:9.3f} s {modes:5d} modes")
            else:
                cells.append("")
        print(f"{n:9d} {n**0.75:8.0f} {expected_modes(n, n**0.75):9.1f} " + " ".join(f"{cell:>22}" for cell in cells))
    for name in ways:
        known = [n for n in sizes if (name, n) in best][-3:]
        if len(known) > 1:
            slope = np.polyfit(np.log(known), np.log([best[name, n][0] for n in known]), 1)[0]
            print(f"slope of time against n over the last {len(known)} sizes, {name}: {slope:.2f}")
    most = min(sizes[-1], 1_000_000)
    for a in (0.25, 0.5, 1.0, 1.5, 1.75, 2.0):
        seconds, modes = measure(by_sphereflow, samples[most], float(most) ** a)
        print(
            f"n = {most}, beta = n^{a:g}: {seconds:.2f} s, {modes} modes, {expected_modes(most, most**a):.0f} expected"
        )


if __name__ == "__main__":
    main()
