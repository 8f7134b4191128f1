"""A small measurement of heads, as `sphereflow measure` writes it, with known numbers."""

import numpy as np
import xarray as xr


def measurement():
    """A dataset of the form that `sphereflow measure` writes: 2 documents, 3 layers, 4 heads."""
    axes = ("document", "layer", "head", "selection", "sink", "distance", "N")
    rng = np.random.default_rng(0)
    features = {
        name: (axes[:3], rng.uniform(0, 1, (2, 3, 4)))
        for name in ("sink_mass", "compression", "sink_cosine", "effective_number")
    }
    return xr.Dataset(
        features
        | {
            "f": (axes, rng.uniform(0, 1, (2, 3, 4, 2, 2, 2, 3))),
            "regime": (("layer", "head"), np.arange(12, dtype=np.int32).reshape(3, 4) % 3),
        },
        coords={
            "selection": ["attention", "random"],
            "sink": ["with sink", "without sink"],
            "distance": ["euclidean", "cosine"],
            "N": [2, 4, 8],
        },
        attrs={"model": "my-model", "documents": "2", "window": "64"},
    )
