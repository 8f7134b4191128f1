# %% [markdown]
# # Theory beside a trained network
#
# Recordings of five real models come with the package: norms and cosines of values, summaries of attention, cosines of
# tokens through the layers. No weights are needed to look at them.

# %%
import sphereflow as sf

print(sf.llm.recordings())
recording = sf.llm.recording("smollm2")
recording

# %% [markdown]
# Assumptions of the theory of heads, tested: are norms of values stable, with a small first one (the sink)?

# %%
sf.llm.value_norms(recording)

# %% [markdown]
# Does the similarity of values decay exponentially with distance? Four forms are fitted to every head.

# %%
sf.llm.similarity_decay(recording)

# %% [markdown]
# Retriever, Mixer, Reset: are there three kinds of heads, if nobody says so?

# %%
sf.llm.found_regimes(recording)

# %% [markdown]
# With weights on your disk, `sphereflow measure FOLDER --out heads` makes a page of all theories beside your model, and
# `sf.llm.record(model, texts)` a recording like these.
