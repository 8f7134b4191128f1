# %% [markdown]
# # Clusters that rest for $e^{400}$ units of time
#
# At large $\beta$ clusters hardly feel one another: they rest, two merge, they rest again. A step that resolves the
# merger would have to be taken $e^{400}$ times. Time is counted by its logarithm instead, and clusters are atoms.

# %%
import sphereflow as sf

history = sf.simulate(n=20, d=2, beta=200.0, t1="inf")
history

# %% [markdown]
# Each row is a merger: when, in the logarithm of time, and how many clusters are left.

# %%
for merge in history.merges[-6:]:
    print(merge)

# %%
history.plot()

# %% [markdown]
# Two clusters at an angle: the exact time to merge beside Laplace's formula for it.

# %%
from sphereflow import metastability

for beta in (50.0, 100.0, 200.0):
    pair = metastability.merge_pair(theta=1.0, beta=beta)
    print(f"beta {beta:g}: log t = {pair.log_time:.4f}, formula {metastability.laplace_log_time(1.0, beta):.4f}")
