"""Expansions by name, with the bound of their error, for tests: modes are counted for the request, or given."""

import jax
import numpy as np

from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.expansion import circle_modes_bound, sphere_degree
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.linear import expand, kernel_error
from sphereflow.interaction.nufft import CircleNufft, SphereNufft, available
from sphereflow.interaction.polynomial import Monomials

# From this many modes on, the non-uniform FFT is faster than matrix products (measured in benchmarks/linear_time.py).
NUFFT_FROM = {"fourier": 40, "harmonic": 20, "polynomial": np.inf}


def expanded(name, queries, keys, values, beta, *, modes=None, unit_queries=False, nufft=None, **options):
    """Attention by Fourier modes on the circle, spherical harmonics on S^2 or powers of the inner product.

    `unit_queries` promises queries of unit length to the Fourier modes; otherwise they are counted for the longest.
    `nufft` asks for the non-uniform FFT or for matrix products; by default the faster one.
    """
    if modes is None:
        any_length = name == "fourier" and not unit_queries
        longest = max(1.0, float(np.linalg.norm(queries, axis=1).max())) if any_length else 1.0
        count = sphere_degree if name == "harmonic" else circle_modes_bound
        modes = count(float(beta) * longest, kernel_error(options.get("tol", 1e-9), len(keys), queries.dtype))
    modes = max(1, modes)
    if nufft is None:
        nufft = "mask" not in options and modes >= NUFFT_FROM[name] and available() and jax.default_backend() == "cpu"
    if name == "fourier":
        expansion = (CircleNufft if nufft else CircleModes)(modes, any_query=not unit_queries)
    elif name == "harmonic":
        expansion = (SphereNufft if nufft else SphereModes)(modes)
    else:
        expansion = Monomials(modes, keys.shape[1])
    return expand(expansion, queries, keys, values, beta, **options)
