"""Lost in the middle.

How much of a token can be read off the last one, against its position in the prompt, for three slopes of the positional
weight: high at the beginning, low in the middle, high again at the end. Closed form, nothing is simulated.
"""

import numpy as np
from matplotlib.figure import Figure

from sphereflow import retrieval

position = np.linspace(0.002, 0.998, 400)
figure = Figure(figsize=(7, 3.2), layout="constrained")
axes = figure.add_subplot()
for slope in (1.0, 2.0, 4.0):
    curve = retrieval.profile(beta=1.0, slope=slope, t=0.8, vocab=8)
    axes.plot(position, [float(curve.excess(s)) for s in position], label=f"slope {slope:g}: {curve.shape}")
axes.set(xlabel="position of the source in the prompt", ylabel="N (accuracy - chance)")
axes.legend()
figure.savefig("lost_in_the_middle.png", dpi=150)
