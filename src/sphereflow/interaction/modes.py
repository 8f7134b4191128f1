r"""What an expansion of the kernel must offer: moments of the keys, and their evaluation at the queries.

$$k_\beta(\langle q,k\rangle) \approx \sum_a g_a(\beta)\,\phi_a(q)\,\phi_a(k) \quad\Longrightarrow\quad
  \sum_j k_\beta(\langle q,k_j\rangle)\, c_j \approx \sum_a \phi_a(q)\, g_a(\beta)\, m_a,\qquad
  m_a=\sum_j \phi_a(k_j)\,c_j .$$

The kernel enters through its coefficients g alone: those of the exponential are known in closed form, those of any
other function of the inner product are integrals (`series`).

The moments are a sum over tokens, so they can be formed chunk by chunk, carried along a causal sequence, and added
over devices.
"""

from __future__ import annotations

import abc
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.kernels import EXPONENTIAL, Kernel

# Tokens in a chunk, and numbers in its features: they stay in the processor's cache, or fill an accelerator.
CHUNK, FEATURES = 1024, 2**17
ACCELERATOR_FEATURES = 2**26
ACCELERATOR_CAUSAL_CHUNK = 4096
# Longest run of plain additions. Equal tokens (a collapsed cluster) round all in the same direction, so that the error
# of a long run grows like its length; short runs, added up with compensation, keep it near 25 units of rounding.
RUN = 256


class Expansion(abc.ABC):
    """A truncated expansion of a kernel; hashable, so that programs compiled for it are found again."""

    kernel: Kernel
    any_query: bool = False  # queries of any length, or unit vectors only
    whole: bool = False  # takes all tokens at once, or chunk by chunk

    @abc.abstractmethod
    def project(self, keys: Float[Array, "n d"], columns: Float[Array, "n c"]) -> Array:
        """The moments of the keys with the given charges, a sum over keys."""

    @abc.abstractmethod
    def coefficients(self, beta: Float[Array, ""]) -> Array:
        """The coefficients g of the kernel."""

    @abc.abstractmethod
    def weigh(self, moments: Array, coefficients: Array) -> Array:
        """Moments times the coefficients of the kernel."""

    @abc.abstractmethod
    def evaluate(self, queries: Float[Array, "m d"], weighed: Array, beta: Float[Array, ""]) -> Float[Array, "m c"]:
        """The kernel sums at the queries, divided by $e^{\\beta(|q|-1)}$ where queries of any length are taken."""

    def sums(
        self,
        queries: Float[Array, "m d"],
        keys: Float[Array, "n d"],
        columns: Float[Array, "n c"],
        beta: Float[Array, ""],
    ) -> Float[Array, "m c"]:
        """All of it: the kernel sums at the queries, by the fastest way, which need not be differentiable."""
        return sums_by_chunks(self, queries, keys, columns, beta)

    @abc.abstractmethod
    def tail(self, beta: Float[Array, "..."]) -> Float[Array, "..."]:
        """The error of the kernel made by truncation: a bound for the exponential, else measured on a dense grid."""

    def row_tail(self, beta: Float[Array, ""], length: Float[Array, " m"]) -> Float[Array, " m"]:
        """The same for queries of these lengths, where any are taken."""
        return self.tail(beta * length)

    @abc.abstractmethod
    def terms(self, beta: Float[Array, ""]) -> Float[Array, " k"]:
        """The coefficients, each times the largest value of what it multiplies at a pair of tokens."""

    def size(self, beta: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        r"""$\sum_k|g_k|$ and $\sum_kk|g_k|$: errors of features grow with the first, of angles with the second."""
        if self.kernel == EXPONENTIAL:
            return jnp.ones_like(beta), 0.8 * jnp.sqrt(beta)
        terms = jnp.abs(jax.lax.stop_gradient(self.terms(beta)))
        return jnp.sum(terms), jnp.arange(terms.shape[0], dtype=terms.dtype) @ terms

    def rounding(self, beta: Float[Array, "..."]) -> Float[Array, "..."]:
        """An estimate from above of the error of the kernel made by rounding."""
        size, speed = self.size(beta)
        return unit_roundoff(beta) * (32 * size + speed / 6.4)

    def pairs(
        self, queries: Float[Array, "m d"], keys: Float[Array, "n d"], beta: Float[Array, ""]
    ) -> Float[Array, "m n"]:
        """The kernel itself, in the convention of `evaluate`."""
        return self.kernel(queries @ keys.T, beta)

    def of(self, kernel: Kernel) -> Expansion:
        """The same modes for another kernel."""
        return replace(self, kernel=kernel)  # type: ignore[type-var]  # every expansion is a dataclass

    def features(self, columns: int) -> int:
        """Numbers formed per token, by expansions that work chunk by chunk."""
        return FEATURES // CHUNK

    def chunk(self, columns: int) -> int:
        """Tokens worked on at a time."""
        if jax.default_backend() == "cpu":
            return int(np.clip(FEATURES // self.features(columns), 32, CHUNK))
        return max(ACCELERATOR_FEATURES // self.features(columns), RUN)

    @property
    def causal_chunk(self) -> int:
        """Tokens that meet pair by pair in a causal sum; longer chunks weigh the moments less often."""
        return 128 if jax.default_backend() == "cpu" else ACCELERATOR_CAUSAL_CHUNK


def multiples(
    cosine: Float[Array, " n"], sine: Float[Array, " n"], count: int
) -> tuple[Float[Array, "k n"], Float[Array, "k n"]]:
    """cos(k t) and sin(k t) for k < count by doubling: $e^{i(k+2^j)t}=e^{ikt}e^{i2^jt}$."""
    re, im = jnp.ones_like(cosine)[None], jnp.zeros_like(sine)[None]
    while re.shape[0] < count:
        re, im = (
            jnp.concatenate([re, re * cosine - im * sine]),
            jnp.concatenate([im, re * sine + im * cosine]),
        )
        cosine, sine = cosine * cosine - sine * sine, 2 * cosine * sine
    return re[:count], im[:count]


def sums_by_chunks(
    expansion: Expansion,
    queries: Float[Array, "m d"],
    keys: Float[Array, "n d"],
    columns: Float[Array, "n c"],
    beta: Float[Array, ""],
) -> Float[Array, "m c"]:
    """The kernel sums at the queries, with the features of one chunk in memory at a time."""
    weighed = expansion.weigh(project_all(expansion, keys, columns), expansion.coefficients(beta))
    return evaluate_all(expansion, queries, weighed, beta, columns.shape[1])


def project_all(expansion: Expansion, keys: Float[Array, "n d"], columns: Float[Array, "n c"]) -> Array:
    """Moments of any number of keys, with the features of one chunk in memory at a time."""
    if expansion.whole:
        return expansion.project(keys, columns)
    size = even_chunk(keys.shape[0], expansion.chunk(columns.shape[1]))
    body = jax.checkpoint(expansion.project, prevent_cse=False)

    def add(state: tuple[Array, Array], part: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        total, lost = state
        grown = body(*part) - lost
        new = total + grown
        return (new, (new - total) - grown), None

    parts = (split(keys, size), split(columns, size))
    start = jnp.zeros_like(expansion.project(keys[:1], columns[:1]))
    return jax.lax.scan(add, (start, start), parts)[0][0]


def long_product(a: Float[Array, "x n"], b: Float[Array, "y n"]) -> Float[Array, "x y"]:
    """a b^T as a sum of products of `RUN` tokens each; all of them at once where there are many."""
    n = a.shape[1]
    if n <= CHUNK:
        return sum((a[:, i : i + RUN] @ b[:, i : i + RUN].T for i in range(RUN, n, RUN)), a[:, :RUN] @ b[:, :RUN].T)
    runs = [jnp.pad(part, ((0, 0), (0, -n % RUN))).reshape(part.shape[0], -1, RUN) for part in (a, b)]
    return jnp.sum(jnp.einsum("xrn,yrn->rxy", *runs), axis=0)


def evaluate_all(
    expansion: Expansion, queries: Float[Array, "m d"], weighed: Array, beta: Float[Array, ""], columns: int
) -> Float[Array, "m c"]:
    """Kernel sums at any number of queries, with the features of one chunk in memory at a time."""
    if expansion.whole:
        return expansion.evaluate(queries, weighed, beta)
    size = even_chunk(queries.shape[0], expansion.chunk(columns))
    body = jax.checkpoint(expansion.evaluate, prevent_cse=False)
    parts = jax.lax.map(lambda part: body(part, weighed, beta), split(queries, size))
    return parts.reshape(-1, columns)[: queries.shape[0]]


def even_chunk(n: int, most: int) -> int:
    """Rows in each of the fewest equal chunks of at most `most` rows."""
    return -(-n // -(-n // most))


def split(x: Float[Array, "n ..."], size: int) -> Float[Array, "b s ..."]:
    """Rows in chunks, the last one filled up with zeros (keys without charge)."""
    return jnp.pad(x, ((0, -x.shape[0] % size), *((0, 0),) * (x.ndim - 1))).reshape(-1, size, *x.shape[1:])


def direction(x: Float[Array, "n d"]) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
    """x/|x| and |x|; the direction of a zero vector is zero."""
    length = jnp.sqrt(jnp.sum(x * x, axis=1))
    return x / jnp.where(length > 0, length, 1)[:, None], length


def unit_roundoff(beta: Float[Array, "..."]) -> float:
    """The spacing of floating-point numbers around one in the type of beta."""
    return float(np.finfo(beta.dtype).eps)
