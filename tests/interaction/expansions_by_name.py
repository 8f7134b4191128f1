"""Expansions by name, with the bound of their error, for tests: modes are counted for the request, or given."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.expansion import circle_modes_bound, sphere_degree
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.linear import Expanded, expand, kernel_error
from sphereflow.interaction.masks import Mask
from sphereflow.interaction.nufft import CircleNufft, SphereNufft, available
from sphereflow.interaction.polynomial import Monomials

# From this many modes on, the non-uniform FFT is faster than matrix products (measured in benchmarks/linear_time.py).
NUFFT_MODES = 40
NUFFT_DEGREE = 20


def fourier(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, " n"] | None = None,
    mask: Mask | None = None,
    tol: float = 1e-9,
    modes: int | None = None,
    unit_queries: bool = False,
    nufft: bool | None = None,
    rescue: bool = True,
) -> Expanded:
    """Attention on the circle by Fourier modes.

    `unit_queries` promises queries of unit length, which is faster; otherwise modes are counted for the longest query,
    if it is known. `nufft` asks for the non-uniform FFT or for matrix products; by default the faster one.
    """
    _dimension("fourier", keys, 2)
    if modes is None:
        largest = 1.0 if unit_queries else _longest(queries)
        modes = circle_modes_bound(_known(beta) * largest, kernel_error(tol, keys.shape[0], queries.dtype))
    modes = max(1, whole_number("modes", modes, least=0))
    if nufft is None:
        nufft = mask is None and modes >= NUFFT_MODES and available() and jax.default_backend() == "cpu"
    expansion = (CircleNufft if nufft else CircleModes)(modes, any_query=not unit_queries)
    return expand(expansion, queries, keys, values, beta, weights=weights, mask=mask, tol=tol, rescue=rescue)


def harmonic(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, " n"] | None = None,
    mask: Mask | None = None,
    tol: float = 1e-9,
    modes: int | None = None,
    nufft: bool | None = None,
    rescue: bool = True,
) -> Expanded:
    """Attention of unit vectors on S^2 by spherical harmonics up to the degree `modes`."""
    _dimension("harmonic", keys, 3)
    if modes is None:
        modes = sphere_degree(_known(beta), kernel_error(tol, keys.shape[0], queries.dtype))
    modes = max(1, whole_number("modes", modes, least=0))
    if nufft is None:
        nufft = mask is None and modes >= NUFFT_DEGREE and available() and jax.default_backend() == "cpu"
    expansion = (SphereNufft if nufft else SphereModes)(modes)
    return expand(expansion, queries, keys, values, beta, weights=weights, mask=mask, tol=tol, rescue=rescue)


def polynomial(
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    values: Float[Array, "n p"],
    beta: Float[Array, ""] | float,
    *,
    weights: Float[Array, " n"] | None = None,
    mask: Mask | None = None,
    tol: float = 1e-9,
    modes: int | None = None,
    rescue: bool = True,
) -> Expanded:
    """Attention of unit vectors in d dimensions by powers of the inner product up to the degree `modes`."""
    if modes is None:
        modes = circle_modes_bound(_known(beta), kernel_error(tol, keys.shape[0], queries.dtype))
    modes = max(1, whole_number("modes", modes, least=0))
    expansion = Monomials(modes, keys.shape[1])
    return expand(expansion, queries, keys, values, beta, weights=weights, mask=mask, tol=tol, rescue=rescue)


def _known(beta: Float[Array, ""] | float) -> float:
    if isinstance(beta, jax.core.Tracer):
        raise SphereflowError(
            "beta is traced, so the number of modes cannot be chosen: give modes=, or use method='direct'."
        )
    return real_number("beta", beta, least=0)


def _longest(queries: Array) -> float:
    if isinstance(queries, jax.core.Tracer):
        raise SphereflowError(
            "queries are traced, so the number of modes cannot be chosen: give modes=, or promise unit_queries=True."
        )
    return max(1.0, float(np.sqrt((np.asarray(queries) ** 2).sum(axis=1).max())))


def _dimension(engine: str, keys: Array, d: int) -> None:
    if keys.shape[1] != d:
        raise SphereflowError(f"the {engine} engine works in dimension d={d}, got d={keys.shape[1]}.")
