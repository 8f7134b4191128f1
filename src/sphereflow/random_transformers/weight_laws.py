r"""Laws of a head's weights (V, A): drawn whole, or only the part that the tokens can see.

A layer sees $A$ through $XAX^T$ and $V$ through $VM^T$. If the law of $A$ does not change under rotations,
$A\to QAQ^T$, then $XAX^T$ has the law of $LA_rL^T$ with $X=LQ$, $L$ of shape (n, r), $r=\min(n,d)$ and $A_r$ the
leading r x r block of $A$. Blocks are drawn directly:

- product $A=\sigma^2WW'^T$: $A_r=\sigma^2TN$, $T$ the triangular Bartlett factor of a Wishart matrix with d degrees of
  freedom, $N$ a square of normals: $\tfrac32r^2$ numbers instead of $2d^2$;
- one Gaussian matrix: $r^2$ numbers; orthogonal (Haar): $\tfrac32r^2$.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.random_transformers.normals import standard_normals
from sphereflow.reading import real_array

# One chi-square variable costs about as much time as this many normals, and an entry put below a diagonal as much as
# two (measured); where the triangular form saves less, the whole matrix is drawn.
_CHI_COST, _ENTRY_COST = 40, 2

_LARGE = 16_384  # entries

SCORE_NAMES = ("product", "gaussian", "orthogonal", "identity")


def _number(value: float | Array) -> Float[Array, ""]:
    return jnp.asarray(value, dtype=float)


LARGEST = 1e100  # of any scale


class ScoreLaw(eqx.Module):
    r"""Law of $A$ with $A\sim QAQ^T$ for every rotation Q; logits are $\beta\langle Ax_i,x_k\rangle$, softmax over k.

    `scale` is the standard deviation of an entry of each Gaussian factor (the factor itself for orthogonal and
    identity), `mean` adds mean times the identity. A block is built from standard normals that the network draws in
    one go; `key` serves the few chi-square variables.
    """

    scale: Float[Array, ""] = eqx.field(converter=_number, default=1.0)
    mean: Float[Array, ""] = eqx.field(converter=_number, default=0.0)

    @property
    @abc.abstractmethod
    def factors(self) -> int:
        """How many Gaussian matrices are multiplied."""

    @abc.abstractmethod
    def normals(self, r: int, d: int) -> int:
        """How many normals the r x r block takes."""

    @abc.abstractmethod
    def centred_block(self, z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "r r"]:
        """The leading r x r block of A of size d x d, without its mean and scale."""

    def leading_block(self, z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "r r"]:
        """The leading r x r block of the d x d matrix A."""
        size = self.scale ** max(self.factors, 1)
        return (size * self.centred_block(z, key, r, d) + self.mean * jnp.eye(r)).astype(z.dtype)


class ProductMatrix(ScoreLaw):
    r"""$A=WW'^T$ with independent normal entries of standard deviation `scale`."""

    @property
    def factors(self) -> int:
        return 2

    def normals(self, r: int, d: int) -> int:
        return wishart_normals(r, d) + r * (r if bartlett_pays(r, d) else d)

    def centred_block(self, z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "r r"]:
        first = wishart_normals(r, d)
        return wishart_root(z[:first], key, r, d) @ z[first:].reshape(r, -1).T


class GaussianMatrix(ScoreLaw):
    """One matrix of independent normal entries of standard deviation `scale`."""

    @property
    def factors(self) -> int:
        return 1

    def normals(self, r: int, d: int) -> int:
        return r * r

    def centred_block(self, z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "r r"]:
        return z.reshape(r, r)


class Orthogonal(ScoreLaw):
    """A uniformly random orthogonal matrix times `scale`."""

    @property
    def factors(self) -> int:
        return 0

    def normals(self, r: int, d: int) -> int:
        return haar_normals(r, d)

    def centred_block(self, z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "r r"]:
        return haar_block(z, key, r, d)


class Identity(ScoreLaw):
    """`scale` times the identity: the only randomness is in V."""

    @property
    def factors(self) -> int:
        return 0

    def normals(self, r: int, d: int) -> int:
        return 0

    def centred_block(self, z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "r r"]:
        return jnp.eye(r, dtype=z.dtype)


class ValueLaw(eqx.Module):
    r"""Law of $V$: `mean` times the identity plus a centred part with $E[V_{ab}V_{a'b'}]=\sigma_V^2\delta\delta$.

    `scale` is $\sigma_V\sqrt d$, so that 1 is the standard scaling $\sigma_V^2=1/d$; `kind` is "gaussian" or
    "orthogonal" (a Haar matrix times `scale`, with the same covariance).
    """

    scale: Float[Array, ""] = eqx.field(converter=_number, default=1.0)
    mean: Float[Array, ""] = eqx.field(converter=_number, default=0.0)
    kind: str = eqx.field(static=True, default="gaussian")

    def __check_init__(self) -> None:
        one_of("kind", self.kind, ("gaussian", "orthogonal"))


class Weights(eqx.Module):
    """Independent laws of V and A: the structure that lets a network draw few numbers."""

    score: ScoreLaw
    value: ValueLaw


class AnyLaw(eqx.Module):
    """A law given by its sampler, `sample(key, d) -> (V, A)`, two d x d matrices: nothing is assumed about it."""

    sample: Callable[[Array, int], tuple[Array, Array]]


Law = Weights | AnyLaw


class _Matrices(eqx.Module):
    """Whole matrices of structured weights."""

    weights: Weights

    def __call__(self, key: Array, d: int) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
        score, value = self.weights.score, self.weights.value
        count = score.normals(d, d)
        z = standard_normals(key, count + d * d)
        spare = jax.random.fold_in(key, 2**31 - 1)
        v = z[count:].reshape(d, d)
        if value.kind == "orthogonal":
            v = haar_block(v.ravel(), spare, d, d) * d**0.5
        return value.mean * jnp.eye(d) + value.scale / d**0.5 * v, score.leading_block(z[:count], spare, d, d)


def matrices(weights: Weights) -> AnyLaw:
    """The same law, drawn as whole d x d matrices: the plain way, for checks and for what needs the matrices."""
    return AnyLaw(_Matrices(weights))


def weights(
    score: str = "product",
    *,
    d: int,
    score_scale: float | Array = 1.0,
    value: str = "gaussian",
    value_scale: float | Array = 1.0,
    value_mean: float | Array = 0.0,
) -> Weights:
    r"""Weights by name, scaled so that logits have standard deviation $\beta\cdot$`score_scale` in high dimension.

    For the product law this is $\sigma_A^2=$ `score_scale`$/\sqrt d$, for one Gaussian $\sigma_A=$ `score_scale`; a
    matrix `score_scale` times $\sqrt d$ for orthogonal, `score_scale` itself for the identity.
    """
    one_of("score", score, SCORE_NAMES)
    d = whole_number("d", d)
    size, spread = finite("score_scale", score_scale, least=0.0), finite("value_scale", value_scale, least=0.0)
    centre = finite("value_mean", value_mean)
    laws: dict[str, ScoreLaw] = {
        "product": ProductMatrix(jnp.sqrt(size) / d**0.25),
        "gaussian": GaussianMatrix(size),
        "orthogonal": Orthogonal(size * d**0.5),
        "identity": Identity(size),
    }
    return Weights(laws[score], ValueLaw(spread, centre, value))


def finite(name: str, value: float | Array, least: float = -LARGEST) -> Array:
    """A number or an array of numbers within [least, 1e100]; inside a compiled program they are not known yet."""
    if not isinstance(value, jax.core.Tracer):
        numbers = real_array(name, value)
        if (numbers < least).any() or (numbers > LARGEST).any():
            raise SphereflowError(f"{name} must be within [{least:g}, {LARGEST:g}], got {value!r}.")
    return jnp.asarray(value, dtype=float)


def bartlett_pays(r: int, d: int) -> bool:
    """Whether the triangular factor of an r x d matrix of normals is cheaper to draw than the matrix."""
    return _ENTRY_COST * r * (r - 1) // 2 + _CHI_COST * r < r * d


def wishart_normals(r: int, d: int) -> int:
    """How many normals `wishart_root` takes."""
    return r * (r - 1) // 2 if bartlett_pays(r, d) else r * d


def wishart_root(z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "r k"]:
    r"""T with $TT^T\sim ZZ^T$, Z of shape (r, d) with normal entries: Z itself, or triangular (Bartlett) if cheaper."""
    if not bartlett_pays(r, d):
        return z.reshape(r, d)
    chi = jnp.sqrt(jax.random.chisquare(key, jnp.arange(d, d - r, -1, dtype=z.dtype), dtype=z.dtype))
    return jnp.diag(chi).at[np.tril_indices(r, -1)].set(z)


def haar_normals(r: int, d: int) -> int:
    """How many normals `haar_block` takes."""
    return r * r + wishart_normals(r, d - r)


def haar_block(z: Float[Array, " m"], key: Array, r: int, d: int) -> Float[Array, "r r"]:
    r"""Corner of a uniform orthogonal matrix: $C^{-1}G_1$, with $CC^T=G_1G_1^T+G_2G_2^T$, $(G_1,G_2)$ r x d normals."""
    first = z[: r * r].reshape(r, r)
    if d == r:
        q, upper = jnp.linalg.qr(first)
        return q * jnp.sign(jnp.diagonal(upper))
    whole = lq_factor(jnp.concatenate([first, wishart_root(z[r * r :], key, r, d - r)], axis=1))
    return solve_triangular(whole * jnp.sign(jnp.diagonal(whole)), first, lower=True)


def lq_factor(m: Float[Array, "n k"]) -> Float[Array, "n r"]:
    r"""L with $LL^T=MM^T$, lower triangular with $r=\min(n,k)$ columns, by Householder reflections.

    No jitter and no failure for dependent rows: distances between nearly equal rows survive down to rounding.
    """
    n = m.shape[0]
    tall = m.T
    # Large ones are folded in blocks of 4n rows: LAPACK would split them over threads that wait for each other.
    while tall.size > _LARGE and tall.shape[0] > 4 * n:
        short = -tall.shape[0] % (4 * n)
        blocks = jnp.pad(tall, ((0, short), (0, 0))).reshape(-1, 4 * n, n)
        tall = jnp.linalg.qr(blocks, mode="r").reshape(-1, n)
    return jnp.linalg.qr(tall, mode="r").T
