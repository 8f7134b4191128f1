"""Counting bumps with certainty.

The number of modes of a density estimate of 10,000 normal samples against the inverse squared bandwidth: every count is
proved, the line is the prediction.
"""

import numpy as np
from matplotlib.figure import Figure

from sphereflow import modes

n = 10_000
samples = np.random.default_rng(0).normal(size=n)
betas = np.geomspace(10, 1e7, 25)
counts = [len(modes.find_modes(samples, beta).positions) for beta in betas]

figure = Figure(figsize=(7, 3.2), layout="constrained")
axes = figure.add_subplot()
axes.loglog(betas, [modes.expected_modes(n, beta) for beta in betas], label="expected")
axes.loglog(betas, counts, "o", ms=4, label="counted in one sample")
axes.set(xlabel="beta = 1 / bandwidth squared", ylabel="modes")
axes.legend()
figure.savefig("modes_counted.png", dpi=150)
