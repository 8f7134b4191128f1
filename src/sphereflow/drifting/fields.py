r"""The drift of generated samples: pulled towards data, pushed away from each other.

$$ V_{p,q}(x)=\frac{E_{y\sim p}[k(x,y)(y-x)]}{E_{y\sim p}[k(x,y)]}-\frac{E_{z\sim q}[k(x,z)(z-x)]}{E_{z\sim q}[k(x,z)]},
   \qquad V_{p,p}=0 . $$

Four estimators share one call, `field(data, generated)` for the drift of the generated samples themselves. Weights are
softmaxes of logarithms, so nothing underflows; a sample that sees nothing on one side is reported as blind and does
not move. Rows are worked off in blocks: memory grows with the number of samples, not with its square.

What a sample does with itself decides the character of the field, so `itself` must be said:
"include" (the formula above: pairs on one mode contract, but slowly), "mask" (as published: pairs repel always).
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sphereflow.drifting.radial import KERNELS, log_kernel, squared_distances
from sphereflow.errors import SphereflowError, one_of, real_number

ITSELF = ("include", "mask")
_WIDEST = 1e15  # of a kernel: its square must be a number in float32
# Entries of one block of rows: what stays near a processor core, and what keeps a graphics processor busy.
_BLOCK_ENTRIES, _BLOCK_ENTRIES_GPU = 2**20, 2**24


class DriftField(NamedTuple):
    """The drift of every sample, how many others it listens to on each side, and whether it sees anything at all.

    `raw` is the drift before any scaling of forces: its mean square is what falls during training; the loss is not.
    """

    value: Float[Array, "n D"]
    raw: Float[Array, "n D"]
    effective_sample_size: Float[Array, " n"]
    heard_generated: Float[Array, " n"]
    blind: Bool[Array, " n"]


class Field(eqx.Module):
    """A drift field; see the module."""

    @abc.abstractmethod
    def __call__(self, data: Float[Array, "m D"], generated: Float[Array, "n D"]) -> DriftField:
        """The drift of the generated samples."""


class KernelField(Field):
    """A field of one kernel, of one width."""

    width: Float[Array, ""]
    kernel: str = eqx.field(static=True)

    def __init__(self, kernel: str = "laplace", width: float = 1.0):
        self.kernel = one_of("kernel", kernel, KERNELS)
        self.width = jnp.asarray(real_number("width", width, least=1 / _WIDEST, most=_WIDEST))


class PopulationField(KernelField):
    r"""$V=P\,Y-Q\,Z$ with row softmaxes $P,Q$: the field of the two empirical laws, which may carry weights.

    ```python
    import jax, sphereflow as sf
    from sphereflow.drifting import PopulationField
    key = jax.random.key(0)
    PopulationField("laplace", 0.5, itself="include")(jax.random.normal(key, (64, 2)), jax.numpy.zeros((8, 2))).value
    ```
    """

    itself: str = eqx.field(static=True)

    def __init__(self, kernel: str = "laplace", width: float = 1.0, *, itself: str):
        super().__init__(kernel, width)
        self.itself = one_of("itself", itself, ITSELF)

    @eqx.filter_jit
    def __call__(
        self,
        data: Float[Array, "m D"],
        generated: Float[Array, "n D"],
        data_weights: Float[Array, " m"] | None = None,
        generated_weights: Float[Array, " n"] | None = None,
    ) -> DriftField:
        own = self.itself == "mask"
        return self.at(generated, data, generated, data_weights, generated_weights, masked=own)

    @eqx.filter_jit
    def at(
        self,
        places: Float[Array, "k D"],
        data: Float[Array, "m D"],
        generated: Float[Array, "n D"],
        data_weights: Float[Array, " m"] | None = None,
        generated_weights: Float[Array, " n"] | None = None,
        masked: bool = False,
    ) -> DriftField:
        """The field at any places; `masked` only where the places are the generated samples, in their order."""
        _check(places, data)
        _check(places, generated)
        log_p = _log_weights(data_weights, len(data))
        log_q = _log_weights(generated_weights, len(generated))

        def rows(x: Array, numbers: Array) -> DriftField:
            a = log_kernel(self.kernel, squared_distances(x, data), self.width) + log_p
            b = log_kernel(self.kernel, squared_distances(x, generated), self.width) + log_q
            if masked:
                b = jnp.where(numbers[:, None] == jnp.arange(len(generated))[None, :], -jnp.inf, b)
            pull, heard_p, blind_p = _softmax(a)
            push, heard_q, blind_q = _softmax(b)
            blind = blind_p | blind_q
            value = jnp.where(blind[:, None], 0.0, pull @ data - push @ generated)
            return DriftField(value, value, heard_p, heard_q, blind)

        return _in_blocks(rows, places, len(data) + len(generated))


class UnnormalisedField(KernelField):
    r"""$V_i=\frac1m\sum_jk(x_i,y_j)(y_j-x_i)-\frac1{n-1}\sum_{j\ne i}k(x_i,x_j)(x_j-x_i)$.

    A sample is left out of its own mean. The field of the two-particle surrogate: repulsion wins below a distance
    fixed by the width of the kernel.
    """

    def __init__(self, kernel: str = "laplace", width: float = 1.0):
        super().__init__(kernel, width)

    @eqx.filter_jit
    def __call__(self, data: Float[Array, "m D"], generated: Float[Array, "n D"]) -> DriftField:
        _check(generated, data)
        n, m = len(generated), len(data)
        if n < 2:
            raise SphereflowError("leaving a sample out of its own mean needs at least two generated samples.")

        def rows(x: Array, numbers: Array) -> DriftField:
            k = jnp.exp(log_kernel(self.kernel, squared_distances(x, data), self.width)) / m
            others = numbers[:, None] != jnp.arange(n)[None, :]
            near = jnp.exp(log_kernel(self.kernel, squared_distances(x, generated), self.width))
            near = jnp.where(others, near, 0.0) / (n - 1)
            pull = k @ data - x * k.sum(axis=1, keepdims=True)
            push = near @ generated - x * near.sum(axis=1, keepdims=True)
            blind = (k.sum(axis=1) == 0) & (near.sum(axis=1) == 0)
            return DriftField(pull - push, pull - push, _heard(k), _heard(near), blind)

        return _in_blocks(rows, generated, n + m)


class TwoSidedField(KernelField):
    r"""The published toy estimator: kernel weights divided by the roots of their row and column sums.

    $$ \tilde K_{ij}=\frac{K_{ij}}{\sqrt{r_ic_j}},\quad \tilde K=[\tilde K^-|\tilde K^+],\quad
       V=\tilde K^+\,\mathrm{rowsum}(\tilde K^-)\,Y-\tilde K^-\,\mathrm{rowsum}(\tilde K^+)\,X . $$

    Each side is multiplied by the mass of the other, so the two masses are equal and a common shift changes nothing.
    Column sums run over the generated rows only; a sample is masked from itself. Computed in logarithms.
    """

    def __init__(self, kernel: str = "laplace", width: float = 0.05):
        super().__init__(kernel, width)

    @eqx.filter_jit
    def __call__(self, data: Float[Array, "m D"], generated: Float[Array, "n D"]) -> DriftField:
        _check(generated, data)
        n = len(generated)
        targets = jnp.concatenate([generated, data])

        def logits(x: Array, numbers: Array) -> Array:
            log_k = log_kernel(self.kernel, squared_distances(x, targets), self.width)
            return jnp.where(numbers[:, None] == jnp.arange(len(targets))[None, :], -jnp.inf, log_k)

        columns = _column_sums(logits, generated, len(targets))

        def rows(x: Array, numbers: Array) -> DriftField:
            half = 0.5 * (_log_sums(lambda: logits(x, numbers), axis=1)[:, None] + columns[None, :])
            scaled = jnp.exp(jnp.where(jnp.isfinite(half), logits(x, numbers) - half, -jnp.inf))
            return _balanced(scaled[:, :n], scaled[:, n:], generated, data)

        return _in_blocks(rows, generated, len(targets))


class MultiRadiusField(Field):
    r"""The published large-scale estimator: distances in units of their mean, several radii, forces scaled to size one.

    For each radius $R$: $A=\sqrt{\mathrm{softmax}_{row}\,\mathrm{softmax}_{column}}$ of $-d/R$ (clipped below at
    $10^{-6}$ under the root), coefficients as in `TwoSidedField`, force divided by its root mean square; the drift is
    the sum, in units of the mean distance over $\sqrt D$. By construction its size says nothing: watch `raw`.
    """

    radii: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, radii: tuple[float, ...] = (0.02, 0.05, 0.2)):
        chosen = np.atleast_1d(np.asarray(radii, dtype=object))
        if not len(chosen):
            raise SphereflowError("radii must name at least one radius.")
        self.radii = tuple(real_number("each of radii", radius, above=0, most=_WIDEST) for radius in chosen)

    @eqx.filter_jit
    def __call__(self, data: Float[Array, "m D"], generated: Float[Array, "n D"]) -> DriftField:
        _check(generated, data)
        n, dimension = generated.shape
        targets = jnp.concatenate([generated, data])
        distances = jnp.sqrt(squared_distances(generated, targets))
        unit = jnp.maximum(jnp.mean(distances) / jnp.sqrt(dimension), 1e-3)
        x, y = generated / unit, data / unit
        d = distances / jnp.mean(distances) + 100.0 * jnp.eye(n, len(targets))
        total, raw = jnp.zeros_like(x), jnp.zeros_like(x)
        parts = []
        for radius in self.radii:
            logits = -d / radius
            row, column = jax.nn.softmax(logits, axis=1), jax.nn.softmax(logits, axis=0)
            weights = jnp.sqrt(jnp.maximum(row * column, 1e-6))
            part = _balanced(weights[:, :n], weights[:, n:], x, y)
            total = total + part.value / jnp.sqrt(jnp.maximum(jnp.mean(part.value**2), 1e-8))
            raw = raw + part.value
            parts.append(part)
        heard = [
            jnp.mean(jnp.stack(side), axis=0)
            for side in ([p.effective_sample_size for p in parts], [p.heard_generated for p in parts])
        ]
        return DriftField(total * unit, raw * unit, heard[0], heard[1], jnp.zeros(n, dtype=bool))


def _balanced(minus: Array, plus: Array, generated: Array, data: Array) -> DriftField:
    """Attraction times the mass of repulsion, and the other way round."""
    pull, push = plus.sum(axis=1, keepdims=True), minus.sum(axis=1, keepdims=True)
    value = push * (plus @ data) - pull * (minus @ generated)
    blind = ((pull == 0) | (push == 0))[:, 0]
    return DriftField(value, value, _heard(plus), _heard(minus), blind)


def _log_sums(logits: Callable[[], Array], axis: int) -> Array:
    """log of the sums of exponentials along an axis.

    In float32, where speed was asked for, the largest term is taken out only if some sum is small: a sum above 1e-20
    has lost nothing that counts to underflow, and looking at sums is cheaper than looking for largest terms.
    """
    safe = lambda: jax.scipy.special.logsumexp(logits(), axis=axis)  # noqa: E731
    entries = logits()
    if entries.dtype != jnp.float32:
        return safe()
    sums = jnp.exp(entries).sum(axis=axis)
    return jax.lax.cond(jnp.all(sums > 1e-20), lambda: jnp.log(sums), safe)


def _softmax(logits: Array) -> tuple[Array, Array, Array]:
    """Row weights, the number of entries they amount to, and rows without any mass."""
    top = jnp.max(logits, axis=1, keepdims=True)
    blind = jnp.isneginf(top)  # a sample that is not a number is not blind: it must be seen in the result
    weights = jnp.exp(logits - jnp.where(blind, 0.0, top))
    weights = weights / jnp.where(blind, 1.0, weights.sum(axis=1, keepdims=True))
    return weights, _heard(weights), blind[:, 0]


def _heard(weights: Array) -> Array:
    """1 / sum w^2 of normalised weights; zero for a row without mass."""
    mass, squares = weights.sum(axis=1), jnp.sum(weights**2, axis=1)
    return jnp.where(squares > 0, mass**2 / jnp.where(squares > 0, squares, 1.0), 0.0)


def _log_weights(weights: Array | None, count: int) -> Array | float:
    if weights is None:
        return 0.0
    if weights.shape != (count,):
        raise SphereflowError(f"{count} samples need {count} weights; got an array of shape {weights.shape}.")
    return jnp.log(weights)


def _column_sums(logits, generated: Array, count: int) -> Array:  # type: ignore[no-untyped-def]
    """log of the sums over generated rows, block by block."""

    def one(block: tuple[Array, Array]) -> Array:
        x, numbers = block
        return _log_sums(lambda: jnp.where(numbers[:, None] >= 0, logits(x, numbers), -jnp.inf), axis=0)

    places, numbers = _blocks(generated, count)
    if len(places) == 1:
        return one((places[0], numbers[0]))
    return jax.scipy.special.logsumexp(jax.lax.map(one, (places, numbers)), axis=0)


def _in_blocks(rows, places: Array, count: int) -> DriftField:  # type: ignore[no-untyped-def]
    """Apply a function of rows and their numbers to all rows, a block at a time."""
    blocks, numbers = _blocks(places, count)
    if len(blocks) == 1:
        return rows(blocks[0], numbers[0])
    blockwise = jax.lax.map(lambda block: rows(*block), (blocks, numbers))
    return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:]))[: len(places)], blockwise)


def _blocks(places: Array, count: int) -> tuple[Array, Array]:
    """Rows and their numbers in blocks of equal size; rows that fill the last block have the number -1."""
    n = len(places)
    entries = _BLOCK_ENTRIES if jax.default_backend() == "cpu" else _BLOCK_ENTRIES_GPU
    size = max(1, min(n, entries // max(count, 1)))
    blocks = -(-n // size)
    padding = blocks * size - n
    numbers = jnp.concatenate([jnp.arange(n), jnp.full(padding, -1)]) if padding else jnp.arange(n)
    padded = jnp.concatenate([places, jnp.repeat(places[-1:], padding, axis=0)]) if padding else places
    return padded.reshape(blocks, size, -1), numbers.reshape(blocks, size)


def _check(x: Array, y: Array) -> None:
    if not all(isinstance(each, (jax.Array, np.ndarray)) for each in (x, y)):
        raise SphereflowError("samples must be two arrays (n, D) of NumPy or JAX.")
    if jnp.iscomplexobj(x) or jnp.iscomplexobj(y):
        raise SphereflowError("samples must be real numbers, got complex ones.")
    if len(x) == 0 or len(y) == 0 or x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise SphereflowError(
            f"samples must be two non-empty arrays (n, D) of one dimension; got shapes {x.shape} and {y.shape}."
        )
