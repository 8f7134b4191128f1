"""Tokens become clusters.

500 tokens on the sphere under softmax attention at inverse temperature 9. They gather into a few clusters quickly; the
clusters then stay for a long time.
"""

import numpy as np
from matplotlib.figure import Figure

import sphereflow as sf

run = sf.simulate(n=500, d=3, beta=9.0, t1=20.0, saves=5, tol=1e-6, progress=False)

around, up = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(0, np.pi, 13))
globe = np.sin(up) * np.cos(around), np.sin(up) * np.sin(around), np.cos(up)

figure = Figure(figsize=(9, 3.2))
figure.subplots_adjust(left=0, right=1, bottom=0, top=0.92, wspace=0)
for place, index in enumerate((0, 1, 4)):
    x = run.frame(index)
    axes = figure.add_subplot(1, 3, place + 1, projection="3d")
    axes.plot_wireframe(*globe, color="0.9", lw=0.5)
    axes.scatter(*x.T, c=run.frame(0)[:, 2], cmap="viridis", s=8)
    axes.set(title=f"t = {run.ts[index]:g}", xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    axes.set_box_aspect((1, 1, 1), zoom=1.5)
    axes.set_axis_off()
figure.savefig("clusters_on_the_sphere.png", dpi=150)
