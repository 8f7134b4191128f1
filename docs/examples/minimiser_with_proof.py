"""A minimiser with a proof.

Attention plus one neuron on the circle. The measure of least energy is a handful of atoms; their masses are the bars,
and the first variation of the energy (the line) is least where they sit. A duality gap on the whole circle proves that
nothing is lower by more than the number in the title.
"""

import numpy as np
from matplotlib.figure import Figure

import sphereflow as sf

problem = sf.landscape.Problem(beta=10.0, outer=[1.0], inner=[[1.0, 0.0]], activation="relu")
found = sf.landscape.minimise(problem)

theta = np.linspace(0, 2 * np.pi, 600)
circle = np.stack([np.cos(theta), np.sin(theta)], axis=1)
atoms = found.angles
potential = sf.landscape.first_variation(
    problem, np.stack([np.cos(atoms), np.sin(atoms)], axis=1), found.masses, circle
)

figure = Figure(figsize=(7, 3.2), layout="constrained")
axes = figure.add_subplot()
axes.plot(theta, potential)
axes.set(xlabel="angle", ylabel="first variation (line)", title=f"{len(found)} atoms, proved to {found.gap:.0e}")
bars = axes.twinx()
bars.bar(atoms, found.masses, width=0.08, color="tab:orange", alpha=0.7)
bars.set(ylabel="mass of an atom (bars)", ylim=(0, 0.3))
figure.savefig("minimiser_with_proof.png", dpi=150)
