"""How many clusters form first.

Around the uniform law on the circle each harmonic grows at its own rate. The fastest one decides into how many clusters
the tokens break up at first; it moves up with the inverse temperature like its square root.
"""

import numpy as np
from matplotlib.figure import Figure

import sphereflow as sf

betas = np.geomspace(1.0, 200.0, 60)
rates = np.array([sf.meanfield.growth_rates(beta, d=2, count=24) for beta in betas])

figure = Figure(figsize=(7, 3.4), layout="constrained")
axes = figure.add_subplot()
image = axes.pcolormesh(betas, np.arange(1, 25), rates.T / rates.max(axis=1), cmap="viridis")
axes.plot(betas, 1 + rates.argmax(axis=1), color="white", label="fastest")
axes.set(xscale="log", xlabel="inverse temperature", ylabel="harmonic")
axes.legend()
figure.colorbar(image, label="growth rate, relative to the fastest")
figure.savefig("first_harmonic.png", dpi=150)
