# %% [markdown]
# # Tokens gather in clusters
#
# Tokens are points on the sphere, layers are time, and attention pulls tokens towards those they resemble:
# $$\dot x_i = P_{x_i}\sum_j \frac{e^{\beta\langle x_i,x_j\rangle}}{\sum_k e^{\beta\langle x_i,x_k\rangle}}\,x_j .$$
# On a hosted notebook, first `!pip install` a checkout or a wheel of the package. A GPU is used if there is one.

# %%
import sphereflow as sf

run = sf.simulate(n=64, d=3, beta=9.0, t1=20.0)
run

# %% [markdown]
# Turn the sphere with the mouse and move through time; the charts follow.

# %%
run.player()

# %% [markdown]
# Every number that was drawn can be had as an array. The error was controlled while solving; `error_estimate` solves
# once more, a thousand times tighter, and compares.

# %%
print("clusters at the end:", run.cluster_count()[-1])
print("error of any coordinate at any frame:", run.error_estimate)

# %%
run.to_xarray()[["order_parameter"]]

# %% [markdown]
# How long clusters last depends on the temperature. A phase diagram over time and $\beta$, with a mean over eight
# starts in each cell:

# %%
import numpy as np

times, betas = np.linspace(0.0, 20.0, 21), np.geomspace(0.1, 20.0, 12)
sf.evolution.phase_diagram(times, betas, n=16, d=3, repeats=8, tol=1e-4).plot()
