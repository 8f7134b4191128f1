"""A Gaussian becomes three.

One ReLU neuron at a time, with weights constant on pieces of time. Every piece has a closed-form flow, so points are
carried exactly and carried back exactly.
"""

import numpy as np
from matplotlib.figure import Figure

from sphereflow import transport

source = transport.gaussian(2)
target = transport.Mixture([[1.5, 0.0], [-0.75, 1.3], [-0.75, -1.3]], 0.5)
found = transport.fit(source, target, pieces=200)
start = source.sample(3000, 1)
end = np.asarray(found.schedule.apply(start))

figure = Figure(figsize=(7, 3.5), layout="constrained")
for place, (points, title) in enumerate(((start, "before"), (end, "after"))):
    axes = figure.add_subplot(1, 2, place + 1)
    axes.scatter(*points.T, c=start[:, 0], cmap="viridis", s=3)
    axes.set(title=title, xlim=(-3.5, 3.5), ylim=(-3.5, 3.5), aspect="equal")
figure.savefig("exact_transport.png", dpi=150)
