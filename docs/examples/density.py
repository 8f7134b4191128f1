"""Infinitely many tokens.

The density of infinitely many tokens on the circle, from a start with two bumps. Nodes move with the flow, so the peaks
that form stay resolved.
"""

import numpy as np
from matplotlib.figure import Figure

import sphereflow as sf

flow = sf.meanfield.evolve_density(beta=4.0, density="two-bumps", t1=0.6, saveat=7, nodes=256)

theta = np.linspace(-np.pi, np.pi, 800)
figure = Figure(figsize=(7, 3.2), layout="constrained")
axes = figure.add_subplot()
for index, t in enumerate(flow.ts):
    colour = str(0.8 * (1 - index / (len(flow.ts) - 1)))
    axes.plot(theta, flow.density(theta, index), color=colour, label=f"t = {t:g}")
axes.set(xlabel="angle", ylabel="density (uniform = 1)", yscale="log", ylim=(1e-3, None))
axes.legend(fontsize=8)
figure.savefig("density.png", dpi=150)
