"""Store and recall: a small memory for everyday use.

```python
from sphereflow.memory import DenseMemory
memory = DenseMemory(images, beta=20.0)
found = memory.recall(noisy_images, steps=3)
found.index, found.confidence
```

A memory is a module of Equinox: a layer of a network, batched, with gradients to its patterns and queries.

```python
states = memory(queries)                   # inside jit, vmap and grad
index, overlap = memory.nearest(queries, 10)
```
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.memory import blocks
from sphereflow.memory.energies import LSE, LSR, Energy, PolynomialEnergy, products, to_sphere
from sphereflow.memory.landscapes import Full
from sphereflow.memory.sampling import metropolis, published_step
from sphereflow.memory.sharp import softmax_average
from sphereflow.memory.state import REFERENCE_B
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, key_from
from sphereflow.shapes import ArrayLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = ("lse", "lsr", "polynomial")
SPACES = ("sphere", "euclidean")
DEFAULT_SHARPNESS = {"lse": 1.0, "lsr": REFERENCE_B, "polynomial": 3}

_QUERIES_AT_ONCE = 128  # of a kernel that needs all its weights at once
_WARMEST_STEP = 1.0  # moves grow with the temperature up to here


class DenseMemory(eqx.Module):
    r"""Patterns, an energy whose minima they are, and the way down from a query.

    **Arguments:**

    - `patterns`: (M, N). On the sphere only directions count: patterns and queries are scaled to length $\sqrt N$.
    - `kernel`: "lse" (softmax attention), "lsr" (compact support: exact recall inside it), "polynomial".
    - `beta`: the sharpness. For lse the factor of $|x-\xi|^2/2$; for lsr on the sphere the number b of
      $[1-b(1-\phi)]_+$, in Euclidean space the factor of $|x-\xi|^2/2$; for polynomial the power (2, 3, ...).
    - `space`: "sphere" or "euclidean".

    `stored` is the only leaf: a network trains it, the kernel and its sharpness are fixed.
    """

    kernel: str = eqx.field(static=True)
    space: str = eqx.field(static=True)
    stored: Float[Array, "M N"]
    beta: float = eqx.field(static=True)

    def __init__(self, patterns: ArrayLike, kernel: str = "lse", beta: float | None = None, *, space: str = "sphere"):
        self.kernel = one_of("kernel", kernel, KERNELS)
        self.space = one_of("space", space, SPACES)
        self.stored = _rows(patterns, "patterns")
        self.beta = real_number("beta", DEFAULT_SHARPNESS[kernel] if beta is None else beta, above=0, most=1e12)
        if kernel == "polynomial":
            self.beta = whole_number("beta (the power of a polynomial kernel)", int(self.beta), least=2, most=64)
            if space == "euclidean":
                raise SphereflowError("a polynomial energy is bounded below on the sphere only; use space='sphere'.")
        if self.on_sphere and kernel == "lsr" and self.beta <= 1:
            raise SphereflowError(f"beta of the lsr kernel on the sphere must be above 1, got {self.beta:g}.")
        _ = self._patterns  # refused here, not when it is first used

    @cached_property
    def _patterns(self) -> Float[Array, "M N"]:
        return self._placed(self.stored, "patterns")

    @property
    def on_sphere(self) -> bool:
        return self.space == "sphere"

    @property
    def dimension(self) -> int:
        return self.stored.shape[1]

    def __len__(self) -> int:
        return self.stored.shape[0]

    def __repr__(self) -> str:
        load = np.log(len(self)) / self.dimension
        return (
            f"DenseMemory({len(self)} patterns of dimension {self.dimension}, kernel={self.kernel}, "
            f"beta={self.beta:g}, {self.space}; load ln(M)/N = {load:.4g})"
        )

    @property
    def energy(self) -> Energy:
        """The energy as a function of the state, for use with the other tools of this package."""
        if self.kernel == "polynomial":
            return PolynomialEnergy(int(self.beta))
        if self.kernel == "lsr":
            return LSR.on_sphere(self.beta, self.dimension) if self.on_sphere else LSR(self.beta)
        return LSE(self.beta)

    def __call__(
        self,
        x: Float[Array, "*batch N"],
        *,
        steps: int = 1,
        top: int | None = None,
        block: int | None = None,
        key: Array | None = None,
    ) -> Float[Array, "*batch N"]:
        """`steps` updates of every query, to be traced: a layer of a network, in the dtype of the queries.

        `top` lets only so many nearest patterns act. Patterns are read `block` at a time, so that the working memory is
        that of one block; gradients keep one state per block and compute the weights again. `key` is not used; layers
        of Equinox have it.
        """
        _traced(x, self.dimension)
        steps = whole_number("steps", steps, least=0)
        top = None if top is None else whole_number("top", top, most=len(self))
        state, patterns = x.reshape(-1, self.dimension), self.stored.astype(x.dtype)
        state = to_sphere(state) if self.on_sphere else state
        beta = self.beta / self.dimension if self.kernel == "lsr" and self.on_sphere else self.beta
        size = self._block(block) if top is None else self._searched(block)
        for _ in range(steps):
            if top is None:
                state = blocks.average(state, patterns, self.kernel, beta, self.on_sphere, size)
            else:
                state = blocks.average_of_nearest(state, patterns, self.kernel, beta, self.on_sphere, size, top)
            state = to_sphere(state) if self.on_sphere else state
        return state.reshape(x.shape)

    def _block(self, asked: int | None) -> int:
        return blocks.block_size(len(self), blocks.BLOCK if asked is None else whole_number("block", asked))

    def _searched(self, asked: int | None) -> int:
        return blocks.SEARCHED if asked is None else whole_number("block", asked)

    def nearest(
        self, x: Float[Array, "*batch N"], count: int = 1, *, block: int | None = None
    ) -> tuple[Int[Array, "*batch k"], Float[Array, "*batch k"]]:
        """Exact search, to be traced: the `count` nearest patterns, nearest first, and their cosines with the query."""
        _traced(x, self.dimension)
        count = whole_number("count", count, most=len(self))
        state, patterns = x.reshape(-1, self.dimension), self.stored.astype(x.dtype)
        state = to_sphere(state) if self.on_sphere else state
        index, _ = blocks.nearest(state, patterns, count, self.on_sphere, self._searched(block))
        near = patterns[index]
        lengths = jnp.linalg.norm(near, axis=-1) * jnp.linalg.norm(state, axis=-1, keepdims=True)
        cosine = jnp.einsum("qkn,qn->qk", near, state) / jnp.maximum(lengths, jnp.finfo(x.dtype).tiny)
        shape = (*x.shape[:-1], count)
        return index.reshape(shape), cosine.reshape(shape)

    @recorded_call
    def recall(self, query: ArrayLike, steps: int = 1, temperature: float = 0.0, *, seed: Seed = 0) -> Recall:
        r"""Let each query come to rest.

        **Arguments:**

        - `query`: (N,) or (Q, N).
        - `steps`: updates $x'=\sum w_\mu\xi^\mu/\sum w_\mu$ at temperature 0 (one is enough below capacity); Metropolis
          moves at a temperature above 0.
        - `temperature`: of the bath; `seed` of its randomness.

        **Returns:** a `Recall`, with `state`, `index`, `pattern`, `confidence`, `energy`, `overlap`.
        """
        single = real_array("query", query).ndim == 1
        rows = _rows(np.asarray(query)[None] if single else query, "query")
        if rows.shape[1] != self.dimension:
            raise SphereflowError(f"a query must have dimension {self.dimension}, got {rows.shape[1]}.")
        whole_number("steps", steps, least=0)
        real_number("temperature", temperature, least=0, most=1e6)
        key = key_from(seed)
        state = self._placed(rows.astype(self.stored.dtype), "query")
        if temperature > 0:
            state = self._heated(state, temperature, steps, key)
        else:
            for _ in range(steps):
                state = self._updated(state)
        return Recall(self, state, single)

    def _updated(self, state: Float[Array, "Q N"]) -> Float[Array, "Q N"]:
        if self.kernel == "lse":
            mean = softmax_average(state, self._patterns, self.beta, equal_lengths=self.on_sphere)
        else:
            mean = _updated_in_parts(self.energy, state, self._patterns)
        return to_sphere(mean) if self.on_sphere else mean

    def _heated(self, state: Float[Array, "Q N"], temperature: float, steps: int, key: Array) -> Float[Array, "Q N"]:
        place = Full(self.energy, self._patterns)
        sigma = float(published_step(self.dimension, min(temperature, _WARMEST_STEP)))
        parts = []
        for first in range(0, state.shape[0], _QUERIES_AT_ONCE):
            x = state[first : first + _QUERIES_AT_ONCE]
            filled = jnp.ones_like(x[:, 0])
            part = jax.random.fold_in(key, first)
            parts.append(
                metropolis(place, x, temperature * filled, sigma * filled, part, steps, 0, self.on_sphere).final
            )
        return jnp.concatenate(parts)

    def _placed(self, rows: Float[Array, "k N"], name: str) -> Float[Array, "k N"]:
        if not self.on_sphere:
            return rows
        if not bool(jnp.all(jnp.any(rows != 0, axis=1))):
            raise SphereflowError(f"{name} must not contain a zero vector: it has no direction on the sphere.")
        largest = jnp.abs(rows).max(axis=1, keepdims=True)  # squares of tiny numbers would be zero
        return to_sphere(rows / jax.lax.stop_gradient(largest))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Recall(Result):
    """What came back: the final `state` of each query and what it means. Fields are computed when asked for."""

    memory: DenseMemory
    states: Float[Array, "Q N"]
    single: bool = False

    @property
    def state(self) -> Float[np.ndarray, "..."]:
        """Where each query came to rest."""
        return self._shown(np.asarray(self.states))

    @property
    def index(self) -> Int[np.ndarray, "..."]:
        """The nearest stored pattern."""
        return self._shown(np.asarray(self._nearest[0]))

    @property
    def pattern(self) -> Float[np.ndarray, "..."]:
        """The nearest stored pattern itself, as it was given."""
        return np.asarray(self.memory.stored)[self.index]

    @property
    def overlap(self) -> Float[np.ndarray, "..."]:
        """The cosine between the state and the nearest pattern."""
        near = self.memory._patterns[self._nearest[0]]
        lengths = jnp.linalg.norm(near, axis=1) * jnp.linalg.norm(self.states, axis=1)
        return self._shown(np.asarray(jnp.sum(near * self.states, axis=1) / jnp.maximum(lengths, 1e-300)))

    @property
    def confidence(self) -> Float[np.ndarray, "..."]:
        """The share of the nearest pattern in the sum over all: 1: nothing else is heard; 0: nothing is."""
        return self._shown(np.asarray(self._nearest[1]))

    @property
    def energy(self) -> Float[np.ndarray, "..."]:
        """H at the state; infinite where a compact kernel sees no pattern."""
        return self._shown(np.asarray(self._nearest[2]))

    @cached_property
    def _nearest(self) -> tuple[Array, Array, Array]:
        return _judged(self.memory.energy, self.states, self.memory._patterns)

    def _shown(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows[0]) if self.single else rows

    def variables(self) -> Variables:
        columns = {name: np.atleast_1d(getattr(self, name)) for name in ("index", "overlap", "confidence", "energy")}
        found: Variables = {name: ("query", column) for name, column in columns.items()}
        return found | {"state": (("query", "component"), self.states)}

    def facts(self) -> list[str]:
        sure = np.atleast_1d(self.confidence)
        memory = self.memory
        return [
            f"{len(self.states)} queries, confidence {sure.min():.3g} to {sure.max():.3g}",
            f"{len(memory)} patterns of dimension {memory.dimension}, {memory.kernel}, beta = {memory.beta:g}",
        ]

    def plot(self) -> Figure:
        """Confidence and overlap with the nearest pattern, query by query."""
        from sphereflow.memory.pictures import draw_recall

        return draw_recall(self)


def _traced(x: Array, dimension: int) -> None:
    """Refuse what is no batch of queries; values are not known inside a compiled program."""
    if not (hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)):
        raise SphereflowError("x must be an array of real numbers; use recall for lists.")
    if x.ndim < 1 or x.shape[-1] != dimension:
        raise SphereflowError(f"a query must have dimension {dimension}, got shape {tuple(x.shape)}.")


@eqx.filter_jit
def _updated_in_parts(energy: Energy, state: Array, patterns: Array) -> Array:
    return jax.lax.map(lambda x: energy.update(x, patterns), state, batch_size=_QUERIES_AT_ONCE)


@eqx.filter_jit
def _judged(energy: Energy, state: Array, patterns: Array) -> tuple[Array, Array, Array]:
    """Nearest pattern, its share, and the energy, for some queries at a time."""

    def one(x: Array) -> tuple[Array, Array, Array]:
        inner, half = products(x, patterns)
        nearest = jnp.argmin(half - inner)
        return nearest, energy.shares(inner, half, x.shape[-1])[nearest], energy.value(inner, half, x.shape[-1])

    return jax.lax.map(one, state, batch_size=_QUERIES_AT_ONCE)


def _rows(values: Any, name: str) -> Float[Array, "k N"]:
    single = getattr(values, "dtype", None) == np.float32
    rows = real_array(name, values)
    if rows.ndim != 2 or 0 in rows.shape:
        raise SphereflowError(f"{name} must have shape (count, dimension) with neither zero, got {rows.shape}.")
    if np.abs(rows).max() > (1e15 if single else 1e100):
        raise SphereflowError(f"{name} must have squares that are numbers: an entry is too large.")
    return jnp.asarray(rows, jnp.float32 if single else jnp.float64)
