"""A staircase of mergers.

Twelve tokens on the circle are followed until one cluster is left. The energy rests on plateaus, sums of squared
cluster masses, for times that are exponentially long: the axis shows the logarithm of time.
"""

import numpy as np
from matplotlib.figure import Figure

import sphereflow as sf

history = sf.simulate(n=12, d=2, beta=200.0, t1="inf", seed=1)

log_t = np.linspace(-2, history.log_times[-1] * 1.05, 4000)
figure = Figure(figsize=(7, 3.2), layout="constrained")
axes = figure.add_subplot()
axes.plot(log_t, history.energy(log_t))
axes.plot(history.log_times, [merge.energy_after for merge in history.merges], ".", label="mergers")
axes.set(xscale="symlog", xlabel="log t", ylabel="normalised energy")
axes.legend()
figure.savefig("staircase.png", dpi=150)
