r"""The random network: fresh weights for every head of every layer, the same for all tokens.

$$x_i^{\ell+1}=N\Big(x_i^\ell+\frac\eta H\sum_{h=1}^HV_h^\ell m_{ih}^\ell\Big),\qquad
  m_{ih}=\sum_k\mathrm{softmax}_k\big(\beta\langle A_hx_i,x_k\rangle\big)x_k.$$

Weights exist only while their layer is computed, and only the part of them that the tokens can see is drawn (`laws`).
Realisations are independent: each has its own stream of keys.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from sphereflow.compilation import compiled
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.progress import Progress, reporting
from sphereflow.random_transformers.normals import standard_normals
from sphereflow.random_transformers.weight_laws import AnyLaw, Law, ValueLaw, Weights, finite, haar_block, lq_factor
from sphereflow.reading import whole_numbers
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, key_from
from sphereflow.shapes import AnyArray
from sphereflow.sphere import normalise, tokens

_CHI_STREAM = 2**31 - 1


class RandomNetwork(eqx.Module):
    r"""One layer as a random map of tokens; depth repeats it with fresh weights.

    **Arguments:**

    - `law`: law of (V, A), from `weights` or `AnyLaw`.
    - `beta`: inverse temperature; `step`: eta; `heads`: H, averaged with 1/H.
    - `mask`: boolean (n, n), token i sees the tokens k with mask[i, k]; None sees all. `prompts` makes one for several
      prompts that share the network.
    - `attention`: "softmax" or "hardmax" (all weight on the best key).
    """

    law: Law
    beta: Float[Array, ""]
    step: Float[Array, ""]
    mask: Bool[Array, "n n"] | None
    heads: int = eqx.field(static=True)
    attention: str = eqx.field(static=True)

    def __init__(
        self,
        law: Law,
        beta: float | Array,
        step: float | Array,
        heads: int = 1,
        *,
        mask: Bool[AnyArray, "n n"] | None = None,
        attention: str = "softmax",
    ):
        self.law = law
        self.beta, self.step = finite("beta", beta, least=0.0), finite("step", step, least=0.0)
        if self.beta.ndim or self.step.ndim:
            raise SphereflowError("beta and step must be one number each.")
        self.heads = whole_number("heads", heads)
        self.mask = None if mask is None else jnp.asarray(mask)
        self.attention = one_of("attention", attention, ("softmax", "hardmax"))

    def attend(self, root: Float[Array, "n r"], scores: Float[Array, "h r r"]) -> Float[Array, "h n n"]:
        r"""Attention weights: softmax over k of $\beta\langle Ax_i,x_k\rangle$."""
        logits = self.beta.astype(root.dtype) * jnp.einsum("ka,hab,ib->hik", root, scores, root)
        if self.mask is not None:
            logits = jnp.where(self.mask, logits, -jnp.inf)
        if self.attention == "hardmax":
            return jax.nn.one_hot(jnp.argmax(logits, axis=-1), root.shape[0], dtype=root.dtype)
        return jax.nn.softmax(logits, axis=-1)

    def increment(self, key: Array, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        r"""$\frac1H\sum_hV_hm_{ih}$ for one draw of the weights of all heads."""
        n, d = x.shape
        if isinstance(self.law, AnyLaw):
            sample = self.law.sample
            v, a = jax.vmap(lambda k: sample(k, d))(jax.random.split(key, self.heads))
            means = self.attend(x, a) @ x
            return jnp.einsum("hab,hib->ia", v, means).astype(x.dtype) / self.heads
        root = lq_factor(x) if n < d else x
        counts = self.normals(n, d)
        z = standard_normals(key, sum(counts), x.dtype)
        scores = self.scores(z[: counts[0]], chi_key(key), root.shape[1], d)
        means = self.attend(root, scores) @ x
        return _transformed(self.law.value, z[counts[0] :], means) / self.heads

    def normals(self, n: int, d: int) -> tuple[int, int]:
        """How many normals a layer draws, for the scores and for the values; the law is `Weights`."""
        assert isinstance(self.law, Weights)
        scores = self.heads * self.law.score.normals(min(n, d), d)
        matrices = self.law.value.kind == "orthogonal"
        return scores, d * (self.heads * d if matrices else min(n, self.heads * d))

    def scores(self, z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "h r r"]:
        """The leading blocks of A of all heads."""
        assert isinstance(self.law, Weights)
        law = self.law.score
        keys = jax.random.split(key, self.heads)
        return jax.vmap(lambda each, k: law.leading_block(each, k, r, d))(z.reshape(self.heads, -1), keys)

    def layer(self, key: Array, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """One layer on the tokens of one realisation."""
        return normalise(x + self.step.astype(x.dtype) * self.increment(key, x))


def _transformed(law: ValueLaw, z: Float[Array, " m"], means: Float[Array, "h n d"]) -> Float[Array, "n d"]:
    r"""$\sum_hV_hm_{ih}$: Gaussian, with covariance $\sigma_V^2\sum_h\langle m_{ih},m_{jh}\rangle$ per coordinate.

    So n x d normals serve all heads at once; with few heads and many tokens the matrices themselves are fewer.
    """
    h, n, d = means.shape
    drift = law.mean.astype(means.dtype) * jnp.sum(means, axis=0)
    if law.kind == "orthogonal":
        v = jax.vmap(lambda each: haar_block(each, jax.random.key(0), d, d))(z.reshape(h, -1))
        return drift + law.scale.astype(means.dtype) * jnp.einsum("hab,hib->ia", v, means)
    stacked = jnp.swapaxes(means, 0, 1).reshape(n, h * d)
    if n < h * d:
        stacked = lq_factor(stacked)
    return drift + (law.scale / d**0.5).astype(means.dtype) * (stacked @ z.reshape(-1, d))


def chi_key(key: Array) -> Array:
    """The key of a layer's chi-square variables, far from the counters of its normals; not computed if not needed."""
    return jax.random.fold_in(key, _CHI_STREAM)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Depths(Result):
    """What was observed: `layers` (S,), and `values`, a tree of arrays whose first axes are realisation and depth."""

    layers: np.ndarray
    values: PyTree

    def variables(self) -> Variables:
        """What was observed, by depth and realisation; of a tree of arrays each leaf under its own name."""
        variables: Variables = {"layer": ("layer", self.layers)}
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.values):
            name = re.sub(r"\W+", "_", jax.tree_util.keystr(path)).strip("_") or "value"
            rest = tuple(f"{name}_{i}" for i in range(leaf.ndim - 2))
            variables[name] = (("layer", "repeat", *rest), np.swapaxes(leaf, 0, 1))
        return variables

    def facts(self) -> list[str]:
        names = [name for name in self.variables() if name != "layer"]
        return [
            f"{', '.join(names)} of {len(jax.tree.leaves(self.values)[0])} networks",
            f"at {len(self.layers)} depths up to layer {self.layers[-1]}",
        ]


def prompts(*lengths: int) -> Bool[np.ndarray, "n n"]:
    """The mask under which several prompts go through one network without seeing each other."""
    label = np.repeat(np.arange(len(lengths)), whole_numbers("lengths", lengths))
    return label[:, None] == label[None, :]


def realisation_keys(seed: Seed, number: int) -> Array:
    """One independent stream of keys per realisation."""
    return jax.random.split(key_from(seed), number)


@compiled
def advance(
    network: RandomNetwork, keys: Array, x: Float[Array, "R n d"], first: Int[Array, ""], last: Int[Array, ""]
) -> Float[Array, "R n d"]:
    """Tokens after layer `last`, given those after layer `first`; compiled once for any number of layers."""

    def body(index: Array, state: Array) -> Array:
        return jax.vmap(lambda key, y: network.layer(jax.random.fold_in(key, index), y))(keys, state)

    return jax.lax.fori_loop(first, last, body, x)


@recorded_call
def run(
    network: RandomNetwork,
    x0: Float[AnyArray, "..."],
    layers: Sequence[int] | int,
    *,
    observe: Callable[[Float[Array, "R n d"]], PyTree],
    seed: Seed = 0,
    progress: Progress = None,
) -> Depths:
    """Run realisations (first axis of x0) to the given depths and keep what `observe` says at each of them."""
    start = tokens(x0, "x0")
    if start.ndim != 3 or np.iscomplexobj(x0):
        raise SphereflowError(f"x0 must be real, of the shape (realisations, n, d), got {start.shape}.")
    real_number("step", network.step, above=0)
    depths = [whole_number("layers", depth, least=0) for depth in np.atleast_1d(np.asarray(layers, dtype=object))]
    if depths != sorted(depths):
        raise SphereflowError("layers must be increasing depths.")
    keys = realisation_keys(seed, start.shape[0])
    return observed_depths(
        lambda state, *between: advance(network, keys, state, *between), start, depths, observe, progress
    )


def observed_depths(
    advance: Callable[[Array, Array, Array], Array],
    state: Array,
    depths: Sequence[int],
    observe: Callable[[Array], PyTree],
    progress: Progress,
) -> Depths:
    """What `observe` says of the state at each depth; `advance(state, first, last)` runs the layers in between."""
    observations, reached = [], 0
    with reporting("layers", progress) as report:
        for depth in depths:
            state = advance(state, jnp.asarray(reached), jnp.asarray(depth))
            reached = depth
            observations.append(jax.tree.map(np.asarray, observe(state)))
            report(depth / max(depths[-1], 1), f"layer {depth} of {depths[-1]}")
    return Depths(np.asarray(depths), jax.tree.map(lambda *a: np.stack(a, axis=1), *observations))
