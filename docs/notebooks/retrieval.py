# %% [markdown]
# # Lost in the middle
#
# A causal decoder that favours near tokens retrieves the first and the last token of its prompt better than those in
# the middle. In the limit of long prompts the profile is known in closed form.

# %%
import sphereflow as sf

curve = sf.retrieval.profile(beta=1.0, slope=1.0, t=1.0)
curve

# %% [markdown]
# The same at four depths, each with its lowest place.

# %%
sf.figures.profiles({f"t = {t}": sf.retrieval.profile(1.0, 1.0, t) for t in (0.5, 1.0, 1.5, 2.0)})

# %% [markdown]
# Simulated prompts of 60 tokens lie on the curve: dots with three standard errors.

# %%
sources = (1, 15, 30, 45, 59)
measured = sf.retrieval.measure_profile(60, 1.0, beta=1.0, weights=1.0, vocab=8, sources=sources, repeats=400)
curve.plot(measured)

# %% [markdown]
# A real decoder, measured and kept with the package: how often SmolLM2-135M finds the value of a key, by its place in a
# list of sixteen, tested against profiles that only rise or only fall.

# %%
sf.llm.recorded_result("position/retrieval-smollm2")
