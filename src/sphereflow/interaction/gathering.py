r"""Have tokens gathered so far that sums through clusters are faster than all pairs?

What the tokens are decides, so that this is asked between the steps of a run and not before it: for every order p the
radius within which a cluster keeps the tolerance is known. Centres are looked for among an even selection of the
tokens, and another selection says which share of them lies within it, for any number of clusters. The others, as
queries and as keys, are summed directly, which is part of the price.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.interaction.clusters import find_centres, selection, squared_distances
from sphereflow.interaction.costs import clustered_cost, direct_cost
from sphereflow.interaction.engines import MOST_MOMENTS, Clustered
from sphereflow.interaction.far_field import NARROW, moments, radius
from sphereflow.interaction.polynomial import monomials

# Few of each, so that a run is made of few programs.
CLUSTERS, ORDERS = (1, 4, 16, 64, 256), (1, 2, 3, 5, 8)
# Pairs of one sum below which no program is worth its compilation.
LEAST_PAIRS = 2**27
# So many times as fast the sums must be; and nanoseconds that are not worth another program, of which those for the
# widest clusters are taken.
_WORTH, _TRIFLE = 2.0, 3e7
# Tokens of which it is asked how many lie within clusters; and what a share of which they have none may be, with a
# probability of 5 %: $(1-s)^{8192}$.
_ASKED = 8192
_UNSEEN = 3 / _ASKED


@partial(jax.jit, static_argnames="tol")
def covered(tokens: Float[Array, "n d"], beta: Float[Array, ""], tol: float) -> Float[Array, "p k"]:
    """The share of tokens that keep the tolerance, by order and number of clusters."""
    others = tokens[selection(len(tokens), _ASKED, 0.5)]

    def share(reach: Array) -> Array:
        centres = find_centres(tokens, NARROW * reach, max(CLUSTERS))
        nearest = jax.lax.cummin(squared_distances(others, centres), axis=1)
        return jnp.mean(nearest <= reach**2, axis=0)

    return jax.vmap(share)(jnp.stack([radius(beta, order, tol) for order in ORDERS]))


def choose_clusters(
    queries: list[Float[Array, "n d"]], keys: Float[Array, "n d"], beta: float, tol: float, dtype: str
) -> Clustered | None:
    """The engine for attention of n tokens with these queries (one array for each head); None: all pairs are faster."""
    n, d = keys.shape
    if n * n < LEAST_PAIRS:
        return None
    alone = len(queries) == 1 and queries[0] is keys
    direct = direct_cost(n * n, d, d + 1, alone, dtype, False, alone)
    single = direct_cost(n * n, d, d + 1, False, dtype, False, False)  # what rows cost that are summed directly
    tokens = [keys] if alone else [keys, *queries]
    shares = np.min([covered(each, jnp.asarray(beta, each.dtype), tol) for each in tokens], axis=0)
    best, price = None, direct / _WORTH
    for order, of_order in reversed(list(zip(ORDERS, shares, strict=True))):
        features = monomials(order, d)
        for clusters in reversed(CLUSTERS):
            outside = 1 - float(of_order[clusters - 1])
            apart = 2 ** int(np.ceil(np.log2(max(2 * outside * n, _UNSEEN * n, 1))))
            if moments(clusters, order, d, d + 1) > MOST_MOMENTS or apart >= n:
                continue
            cost = clustered_cost(n, d, d + 1, clusters, features) + (outside + apart / n) * single
            cost = max(cost, _TRIFLE)
            if cost < price:
                best, price = Clustered(clusters, order, apart, tol), cost
    return best
