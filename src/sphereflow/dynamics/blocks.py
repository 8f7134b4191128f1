r"""One layer of a Transformer, $x \leftarrow x + A(N_1x)$, $x \leftarrow x + M(N_2x)$, and a network of such layers."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics.base import in_precision
from sphereflow.dynamics.sublayers import MLP, LayerNorm, MultiHeadAttention, Norm, RMSNorm, weight
from sphereflow.errors import SphereflowError, one_of
from sphereflow.parameters import known
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import normalise, tokens

PLACEMENTS = ("pre", "post", "none", "sphere")


class Block(eqx.Module):
    r"""One Transformer layer: attention A, then an MLP M if there is one, with normalisation around them.

    $$\begin{aligned}
    \text{pre:}\quad & x \leftarrow x + A(N_1x), && x \leftarrow x + M(N_2x),\\
    \text{post:}\quad & x \leftarrow N_1(x + A(x)), && x \leftarrow N_2(x + M(x)),\\
    \text{none:}\quad & x \leftarrow x + A(x), && x \leftarrow x + M(x),\\
    \text{sphere:}\quad & x \leftarrow \tfrac{x + A(x)}{|x + A(x)|}, && x \leftarrow \tfrac{x + M(x)}{|x + M(x)|}.
    \end{aligned}$$

    **Arguments:**

    - `attention`: a `MultiHeadAttention`; `mlp`: an `MLP`, or None.
    - `placement`: where normalisation sits, "pre", "post", "none" or "sphere", as above.
    - `attention_norm`, `mlp_norm`: a `LayerNorm` or `RMSNorm` for each sublayer, where placement is "pre" or "post".
    - `parallel`: both sublayers read the same tokens, $x + A(N_1x) + M(N_2x)$. With "post" there is then one norm,
      `attention_norm`: $N_1(x + A(x) + M(x))$.

    `block(x)` takes tokens (n, d) or (..., n, d) of any length and keeps their precision. A block is a PyTree of its
    weights: it can be compiled, mapped and differentiated.
    """

    attention: MultiHeadAttention
    mlp: MLP | None
    attention_norm: Norm | None
    mlp_norm: Norm | None
    placement: str = eqx.field(static=True)
    parallel: bool = eqx.field(static=True)

    def __init__(
        self,
        attention: MultiHeadAttention,
        mlp: MLP | None = None,
        *,
        placement: str,
        attention_norm: Norm | None = None,
        mlp_norm: Norm | None = None,
        parallel: bool = False,
    ):
        _kind("attention", attention, MultiHeadAttention)
        for name, given, kinds in (
            ("mlp", mlp, (MLP,)),
            ("attention_norm", attention_norm, (LayerNorm, RMSNorm)),
            ("mlp_norm", mlp_norm, (LayerNorm, RMSNorm)),
        ):
            if given is not None:
                _kind(name, given, *kinds)
        self.attention, self.mlp, self.attention_norm, self.mlp_norm = attention, mlp, attention_norm, mlp_norm
        self.placement = one_of("placement", placement, PLACEMENTS)
        if not isinstance(parallel, (bool, np.bool_)):
            raise SphereflowError(f"parallel must be True or False, got {parallel!r}.")
        self.parallel = bool(parallel)
        self._check_norms()
        self._check_dimension()

    def _check_norms(self) -> None:
        """Every norm that the placement asks for is there, and no other: none would be forgotten in silence."""
        normed = self.placement in ("pre", "post")
        second = normed and self.mlp is not None and not (self.parallel and self.placement == "post")
        for name, given, wanted in (
            ("attention_norm", self.attention_norm, normed),
            ("mlp_norm", self.mlp_norm, second),
        ):
            if wanted and given is None:
                raise SphereflowError(f"placement '{self.placement}' needs {name}, a LayerNorm or RMSNorm.")
            if given is not None and not wanted:
                raise SphereflowError(f"{name} has no place in this block with placement '{self.placement}'.")

    def _check_dimension(self) -> None:
        parts = {"mlp": None if self.mlp is None else self.mlp.down.shape[0]}
        for name, norm in (("attention_norm", self.attention_norm), ("mlp_norm", self.mlp_norm)):
            parts[name] = None if norm is None else norm.dimension
        for name, length in parts.items():
            if length not in (None, self.dimension):
                raise SphereflowError(f"{name} is for tokens of dimension {length}, attention for {self.dimension}.")

    @property
    def dimension(self) -> int:
        """d, the dimension of the tokens."""
        return self.attention.query.shape[2]

    def __call__(self, x: ArrayLike) -> Float[Array, "*batch n d"]:
        if not isinstance(x, jax.Array):
            x = start(x, (self,))
        if x.ndim < 2 or x.shape[-1] != self.dimension or not jnp.issubdtype(x.dtype, jnp.floating):
            raise SphereflowError(
                f"a block takes tokens, real numbers of shape (n, {self.dimension}), got {x.dtype} of shape {x.shape}."
            )
        return _apply(self, x)

    def _layer(self, x: Array) -> Array:
        moved = x + self.attention(self._before(x, self.attention_norm))
        if self.mlp is not None and self.parallel:
            return self._after(moved + self.mlp(self._before(x, self.mlp_norm)), self.attention_norm)
        x = self._after(moved, self.attention_norm)
        if self.mlp is None:
            return x
        return self._after(x + self.mlp(self._before(x, self.mlp_norm)), self.mlp_norm)

    def _before(self, x: Array, norm: Norm | None) -> Array:
        return norm(x) if self.placement == "pre" and norm is not None else x

    def _after(self, x: Array, norm: Norm | None) -> Array:
        if self.placement == "sphere":
            return normalise(x)
        return norm(x) if self.placement == "post" and norm is not None else x


@eqx.filter_jit
def _apply(block: Block, x: Float[Array, "*batch n d"]) -> Float[Array, "*batch n d"]:
    """One program for all blocks of the same shapes."""
    layer = in_precision(block, x)._layer
    for _ in x.shape[:-2]:
        layer = jax.vmap(layer)
    return layer(x)


class Network(eqx.Module):
    r"""A Transformer: embedding and positions, blocks, a final norm, and the map to scores of words.

    **Arguments:** all but `blocks` may be None.

    - `embedding`: (vocabulary, d); `positions`: (length, d), added to the first n tokens.
    - `final_norm`: a `LayerNorm` or `RMSNorm` after the last block.
    - `unembedding`: (vocabulary, d), and `unembedding_bias`: (vocabulary,).

    `network(ids)` gives the scores of words (n, vocabulary), or tokens (n, d) if there is no unembedding. In place of
    ids, whole numbers (..., n), it takes vectors (..., n, d) that stand for their embeddings. Layer by layer:
    `sf.run_layers(network.blocks, network.embed(ids))`.
    """

    blocks: tuple[Block, ...]
    embedding: Float[Array, "words d"] | None
    positions: Float[Array, "length d"] | None
    final_norm: Norm | None
    unembedding: Float[Array, "words d"] | None
    unembedding_bias: Float[Array, " words"] | None

    def __init__(
        self,
        blocks: Sequence[Block],
        embedding: ArrayLike | None = None,
        positions: ArrayLike | None = None,
        final_norm: Norm | None = None,
        unembedding: ArrayLike | None = None,
        unembedding_bias: ArrayLike | None = None,
    ):
        self.blocks = chain(blocks)
        self.embedding, self.positions = weight("embedding", embedding, "v d"), weight("positions", positions, "n d")
        self.unembedding = weight("unembedding", unembedding, "v d")
        self.unembedding_bias = weight("unembedding_bias", unembedding_bias, "v")
        if final_norm is not None:
            _kind("final_norm", final_norm, LayerNorm, RMSNorm)
        self.final_norm = final_norm
        self._check_shapes()

    def _check_shapes(self) -> None:
        d = self.blocks[0].dimension
        for name in ("embedding", "positions", "unembedding"):
            table = getattr(self, name)
            if table is not None and table.shape[1] != d:
                raise SphereflowError(f"{name} must have d={d} columns, as the blocks, got shape {table.shape}.")
        if self.final_norm is not None and self.final_norm.dimension not in (None, d):
            raise SphereflowError(f"final_norm is for dimension {self.final_norm.dimension}, the blocks for {d}.")
        words = None if self.unembedding is None else self.unembedding.shape[:1]
        if self.unembedding_bias is not None and self.unembedding_bias.shape != words:
            raise SphereflowError(f"unembedding_bias needs an unembedding with {len(self.unembedding_bias)} rows.")

    def embed(self, given: ArrayLike) -> Float[Array, "*batch n d"]:
        """The tokens that enter the first block: of ids (..., n), or of vectors (..., n, d); positions are added."""
        x = self._looked_up(given) if _whole(given) else start(given, self.blocks)
        if self.positions is None:
            return x
        n = x.shape[-2]
        if n > len(self.positions):
            raise SphereflowError(f"there are {n} tokens, but positions for {len(self.positions)} only.")
        return x + self.positions[:n].astype(x.dtype)

    def _looked_up(self, given: ArrayLike) -> Array:
        if self.embedding is None:
            raise SphereflowError("this network has no embedding: give vectors of shape (n, d), not ids of words.")
        words = len(self.embedding)
        ids = jnp.asarray(given)
        if ids.ndim < 1 or 0 in ids.shape:
            raise SphereflowError(f"ids must have shape (n,) or (..., n), got {ids.shape}.")
        wrong = (ids < 0) | (ids >= words)
        if known(ids) and bool(wrong.any()):
            raise SphereflowError(f"ids must be from 0 to {words - 1}, got {int(ids[wrong][0])}.")
        # An id that could not be looked at must not become another word: it shows as NaN.
        return jnp.where(wrong[..., None], jnp.nan, self.embedding[jnp.clip(ids, 0, words - 1)])

    def __call__(self, given: ArrayLike) -> Float[Array, "*batch n out"]:
        x = self.embed(given)
        for block in self.blocks:
            x = block(x)
        if self.final_norm is not None:
            x = self.final_norm(x)
        if self.unembedding is None:
            return x
        scores = x @ self.unembedding.T.astype(x.dtype)
        return scores if self.unembedding_bias is None else scores + self.unembedding_bias.astype(x.dtype)


def chain(blocks: object) -> tuple[Block, ...]:
    """Blocks that can follow one another, at least one."""
    members = tuple(blocks) if isinstance(blocks, (list, tuple)) else ()
    if not members or not all(isinstance(block, Block) for block in members):
        raise SphereflowError(f"blocks must be a list of Block, at least one, got {type(blocks).__name__}.")
    if len({block.dimension for block in members}) > 1:
        raise SphereflowError(f"all blocks must have one dimension d, got {[block.dimension for block in members]}.")
    return members


def start(x0: ArrayLike, blocks: Sequence[Block]) -> Float[Array, "*batch n d"]:
    """Tokens of any length that fit the blocks; where they are traced, only their shape is looked at."""
    x = jnp.asarray(x0) if not known(x0) else tokens(x0, "x0", on_sphere=False)
    d = blocks[0].dimension
    if x.ndim < 2 or x.shape[-1] != d or 0 in x.shape:
        raise SphereflowError(f"x0 must be tokens of shape (n, {d}) or (..., n, {d}), got {x.shape}.")
    return x


def _whole(given: ArrayLike) -> bool:
    """Whether these are whole numbers; what is no array at all is left to the checks of tokens."""
    try:
        return bool(jnp.issubdtype(getattr(given, "dtype", None) or np.asarray(given).dtype, jnp.integer))
    except (TypeError, ValueError):
        return False


def _kind(name: str, given: object, *kinds: type) -> None:
    if not isinstance(given, kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise SphereflowError(f"{name} must be a {wanted}, got {type(given).__name__}.")
