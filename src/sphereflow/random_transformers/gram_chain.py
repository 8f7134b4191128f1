r"""The Gram matrix of the tokens as a Markov chain of its own, at a cost that does not depend on the dimension.

Write the tokens as $X=LQ$, L lower triangular (n, n), $n<d$. Given L, all that a layer adds is Gaussian with a law that
only sees L, so the chain can live in n directions plus what sticks out of them:
$$Y=\big(L+\tfrac\eta HFZ_1,\ \tfrac\eta HFT\big),\qquad FF^T=\tfrac1d\sum_hM_hM_h^T,\quad
  TT^T\sim\mathrm{Wishart}_n(d-n),\qquad L'=\text{rows of }Y\text{ normalised, made triangular again.}$$

Exact in law for everything that is a function of overlaps, for Gaussian V and a rotation-invariant law of A. No
Cholesky factor is taken of a Gram matrix: distances between nearly equal tokens survive down to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from sphereflow.compilation import compiled
from sphereflow.errors import SphereflowError, whole_number
from sphereflow.progress import Progress
from sphereflow.random_transformers.network import Depths, RandomNetwork, chi_key, observed_depths, realisation_keys
from sphereflow.random_transformers.normals import standard_normals
from sphereflow.random_transformers.weight_laws import Weights, lq_factor, wishart_normals, wishart_root
from sphereflow.results import recorded_call
from sphereflow.seeds import Seed
from sphereflow.shapes import AnyArray
from sphereflow.sphere import normalise


def gram_layer(network: RandomNetwork, key: Array, root: Float[Array, "n n"], d: int) -> Float[Array, "n n"]:
    """One layer on the triangular root of the Gram matrix of tokens in dimension d."""
    n = root.shape[0]
    law = network.law
    assert isinstance(law, Weights)
    score_key, rest = chi_key(key), chi_key(chi_key(key))
    counts = network.normals(n, d)[0], n * n, wishart_normals(n, d - n)
    z, inside, outside = jnp.split(standard_normals(key, sum(counts), root.dtype), np.cumsum(counts)[:-1])
    means = network.attend(root, network.scores(z, score_key, n, d)) @ root
    spread = lq_factor(jnp.swapaxes(means, 0, 1).reshape(n, -1)) * (law.value.scale / d**0.5)
    drift = law.value.mean * jnp.sum(means, axis=0)
    size = network.step / network.heads
    within = root + size * (drift + spread @ inside.reshape(n, n))
    beyond = size * (spread @ wishart_root(outside, rest, n, d - n))
    return lq_factor(normalise(jnp.concatenate([within, beyond], axis=1)))


@compiled
def advance_gram(
    network: RandomNetwork,
    keys: Array,
    roots: Float[Array, "R n n"],
    d: int,
    first: Int[Array, ""],
    last: Int[Array, ""],
) -> Float[Array, "R n n"]:
    """Roots after layer `last`, given those after layer `first`."""

    def body(index: Array, state: Array) -> Array:
        return jax.vmap(lambda key, y: gram_layer(network, jax.random.fold_in(key, index), y, d))(keys, state)

    return jax.lax.fori_loop(first, last, body, roots)


@recorded_call
def run_gram(
    network: RandomNetwork,
    gram0: Float[AnyArray, "n n"],
    d: int,
    layers: Sequence[int],
    repeats: int,
    *,
    observe: Callable[[Float[Array, "R n n"]], PyTree],
    seed: Seed = 0,
    progress: Progress = None,
) -> Depths:
    """Realisations from one Gram matrix; `observe` gets the roots, whose rows have the overlaps of the tokens."""
    start = np.asarray(gram0, dtype=float)
    n = start.shape[0]
    whole_number("d", d)
    if n >= d:
        raise SphereflowError(f"the Gram chain needs fewer tokens than dimensions, got n={n}, d={d}; use run.")
    if not isinstance(network.law, Weights) or network.law.value.kind != "gaussian":
        raise SphereflowError("the Gram chain needs Gaussian V independent of A; use run for other laws.")
    values, vectors = np.linalg.eigh(start)
    if values[0] < -1e-10 or not np.allclose(np.diag(start), 1):
        raise SphereflowError(
            "gram0 must be a Gram matrix of unit vectors: ones on the diagonal, no eigenvalue below 0."
        )
    first = np.asarray(np.linalg.qr((vectors * np.sqrt(np.clip(values, 0, None))).T, mode="r")).T
    state = jnp.asarray(np.broadcast_to(first, (repeats, n, n)))
    keys = realisation_keys(seed, repeats)
    return observed_depths(
        lambda roots, *between: advance_gram(network, keys, roots, d, *between), state, layers, observe, progress
    )
