r"""The unit sphere S^{d-1}: tangent vectors, geodesics, distances and ways to draw tokens.

$$P_x v = v - \langle x, v\rangle x, \qquad \exp_x(v) = \cos|v|\, x + \sin|v|\, v/|v|.$$

Tokens are rows of an array of shape (..., n, d). Functions of one or two points act on the last axis.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, enough_memory, one_of, real_number, whole_number
from sphereflow.seeds import Seed, key_from
from sphereflow.shapes import AnyArray

STARTS = ("uniform", "hemisphere", "vmf", "orthogonal", "mixture", "fibonacci", "grid")


def normalise(x: Float[AnyArray, "... d"]) -> Float[Array, "... d"]:
    """x / |x| along the last axis."""
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def project(x: Float[AnyArray, "... d"], v: Float[AnyArray, "... d"]) -> Float[Array, "... d"]:
    r"""$P_x v = v - \langle x, v\rangle x$, the part of v tangent to the sphere at the unit vector x."""
    return jnp.subtract(v, x * jnp.sum(x * v, axis=-1, keepdims=True))


def exponential(x: Float[AnyArray, "... d"], v: Float[AnyArray, "... d"]) -> Float[Array, "... d"]:
    r"""$\exp_x(v)$: the point reached from x along the great circle with initial velocity v, after unit time."""
    length = jnp.linalg.norm(v, axis=-1, keepdims=True)
    return normalise(jnp.cos(length) * x + jnp.sinc(length / jnp.pi) * v)


def distance(x: Float[AnyArray, "... d"], y: Float[AnyArray, "... d"]) -> Float[Array, "..."]:
    r"""Geodesic distance, $2\,\mathrm{atan2}(|x-y|, |x+y|)$: accurate for equal and for antipodal points."""
    return 2 * jnp.arctan2(jnp.linalg.norm(x - y, axis=-1), jnp.linalg.norm(x + y, axis=-1))


def gap(x: Float[AnyArray, "... d"], y: Float[AnyArray, "... d"]) -> Float[Array, "..."]:
    r"""$1-\langle x,y\rangle = |x-y|^2/2$ for unit vectors, without cancellation when x and y are close."""
    return jnp.sum((x - y) ** 2, axis=-1) / 2


def from_angles(theta: Float[AnyArray, "..."]) -> Float[Array, "... 2"]:
    """Points of the circle at the given angles."""
    return jnp.stack([jnp.cos(theta), jnp.sin(theta)], axis=-1)


def to_angles(x: Float[AnyArray, "... 2"]) -> Float[Array, "..."]:
    """Angles in (-pi, pi] of points of the plane."""
    return jnp.arctan2(x[..., 1], x[..., 0])


def uniform(key: Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Independent uniform points of S^{d-1}, d = shape[-1]: normalised Gaussian vectors."""
    return normalise(jax.random.normal(key, shape))


def von_mises_fisher(key: Array, n: int, centre: Float[AnyArray, " d"], concentration: float) -> Float[Array, "n d"]:
    r"""Points with density proportional to $e^{\kappa\langle x, c\rangle}$ (Wood's rejection method).

    The height $\langle x,c\rangle$ is drawn from a Beta envelope; the rest is uniform on the circle of that height.
    """
    d = centre.shape[-1]
    if d < 2:
        raise SphereflowError(f"a von Mises-Fisher law needs dimension d of at least 2, got {d}.")

    def heights(words: Array) -> np.ndarray:
        rng = np.random.default_rng(np.asarray(words))
        return _vmf_heights(rng, n, d, concentration).astype(directions.dtype)

    directions = normalise(project(centre, jax.random.normal(key, (n, d))))
    # Rejection has no fixed length, so NumPy does it, also from within a traced function. `scipy.stats.vonmises_fisher`
    # would draw other tokens for every seed, and takes 0.15 s for 20,000 points of d = 64 (heights here: 8 ms).
    shape = jax.ShapeDtypeStruct((n,), directions.dtype)
    height = jax.pure_callback(heights, shape, jax.random.key_data(key), vmap_method="sequential")[:, None]
    return normalise(height * centre + jnp.sqrt(1 - height**2) * directions)


def _vmf_heights(rng: np.random.Generator, n: int, d: int, kappa: float) -> np.ndarray:
    b = (d - 1) / (2 * kappa + np.sqrt(4 * kappa**2 + (d - 1) ** 2))
    x0 = (1 - b) / (1 + b)
    c = kappa * x0 + (d - 1) * np.log1p(-(x0**2))
    accepted = np.empty(0)
    while accepted.size < n:
        z = rng.beta((d - 1) / 2, (d - 1) / 2, size=max(2 * (n - accepted.size), 64))
        w = (1 - (1 + b) * z) / (1 - (1 - b) * z)
        keep = kappa * w + (d - 1) * np.log1p(-x0 * w) - c >= np.log(rng.random(z.size))
        accepted = np.concatenate([accepted, w[keep]])
    return accepted[:n]


def orthogonal_frame(key: Array, n: int, d: int) -> Float[Array, "n d"]:
    """n orthonormal vectors in R^d (n <= d), uniformly distributed."""
    if n > d:
        raise SphereflowError(f"an orthogonal start needs n <= d, got n={n} tokens in dimension d={d}.")
    return jnp.linalg.qr(jax.random.normal(key, (d, n)))[0].T


def equiangular_frame(n: int, d: int, inner: float) -> Float[Array, "n d"]:
    r"""n unit vectors with $\langle x_i,x_j\rangle$ = `inner` for all i != j; needs d >= n."""
    if n > d:
        raise SphereflowError(f"an equiangular start needs n <= d, got n={n} tokens in dimension d={d}.")
    gram = (1 - inner) * np.eye(n) + inner
    values, vectors = np.linalg.eigh(gram)
    if values[0] < -1e-12:
        raise SphereflowError(f"{n} vectors cannot have all inner products equal to {inner}: it is below -1/(n-1).")
    root = vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T
    return normalise(jnp.asarray(np.pad(root, ((0, 0), (0, d - n)))))


def gaussian_mixture(key: Array, n: int, d: int, components: int = 3, spread: float = 0.2) -> Float[Array, "n d"]:
    """Normalised Gaussian clouds of standard deviation `spread` around uniform centres, equally likely."""
    centre_key, label_key, noise_key = jax.random.split(key, 3)
    centres = uniform(centre_key, (components, d))
    labels = jax.random.randint(label_key, (n,), 0, components)
    return normalise(centres[labels] + spread * jax.random.normal(noise_key, (n, d)))


def fibonacci(n: int) -> Float[Array, "n 3"]:
    """n nearly equidistributed points of S^2 on a golden-angle spiral."""
    i = jnp.arange(n) + 0.5
    height = 1 - 2 * i / n
    angle = jnp.pi * (1 + 5**0.5) * i
    radius = jnp.sqrt(1 - height**2)
    return jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle), height], axis=-1)


def circle_grid(n: int) -> Float[Array, "n 2"]:
    """n equally spaced points of the circle."""
    return from_angles(2 * jnp.pi * jnp.arange(n) / n)


def draw(
    start: str, n: int, d: int, seed: Seed = 0, *, concentration: float = 10.0, components: int = 3
) -> Float[Array, "n d"]:
    """Initial tokens by name: uniform, hemisphere, vmf, orthogonal, mixture, fibonacci (d=3) or grid (d=2).

    A hemisphere is that of a positive last coordinate, uniform there.
    `seed` is a whole number or a JAX key, and may be traced:

    ```python
    import jax
    import sphereflow as sf
    keys = jax.random.split(jax.random.key(0), 100)
    jax.vmap(lambda key: sf.draw("uniform", 64, 3, key))(keys)   # 100 starts at once
    ```
    """
    one_of("start", start, STARTS)
    whole_number("n", n)
    whole_number("d", d)
    enough_memory(3 * 8 * n * d, f"drawing n={n} tokens in dimension d={d}")  # the draw, its norms, the result
    key = key_from(seed)
    if start == "uniform":
        return uniform(key, (n, d))
    if start == "hemisphere":
        x = uniform(key, (n, d))
        return x * jnp.where(x[:, -1:] < 0, -1.0, 1.0)
    if start == "vmf":
        real_number("concentration", concentration, above=0)
        return von_mises_fisher(key, n, jnp.eye(1, d)[0], concentration)
    if start == "orthogonal":
        return orthogonal_frame(key, n, d)
    if start == "mixture":
        return gaussian_mixture(key, n, d, whole_number("components", components))
    needed = {"fibonacci": 3, "grid": 2}[start]
    if d != needed:
        raise SphereflowError(f"the start '{start}' exists for d={needed} only, got d={d}.")
    return fibonacci(n) if start == "fibonacci" else circle_grid(n)


def check_unit(name: str, worst: float, dtype: str) -> None:
    """Refuse tokens of which a norm differs from 1 by so much."""
    if worst > (1e-4 if dtype == "float32" else 1e-8):
        raise SphereflowError(
            f"{name} must be unit vectors, but a norm differs from 1 by {worst:.1e}; use sphereflow.normalise."
        )


def tokens(x: object, name: str = "tokens", *, on_sphere: bool = True) -> Float[Array, "... n d"]:
    """Check an array a user gives as tokens: shape (..., n, d), finite, and of unit length if asked."""
    try:
        array = np.asarray(x)
        if array.dtype.kind not in "fiub":  # imaginary parts would be dropped, and words read as numbers
            raise TypeError
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise SphereflowError(f"{name} must be an array of numbers of shape (n, d), got {type(x).__name__}.") from None
    if array.ndim < 2 or 0 in array.shape:
        raise SphereflowError(f"{name} must have shape (n, d) with n, d >= 1, got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise SphereflowError(f"{name} must be finite, but {np.count_nonzero(~np.isfinite(array))} entries are not.")
    if on_sphere:
        check_unit(name, float(np.abs(np.linalg.norm(array, axis=-1) - 1).max()), str(array.dtype))
    if array.dtype == np.float64 and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise SphereflowError(
            f"{name} are float64, but 64-bit numbers are switched off (JAX_ENABLE_X64): give float32 tokens, or set "
            "jax.config.update('jax_enable_x64', True)."
        )
    # Tokens that are on their device already stay there; the check above looked at the same memory.
    return x if isinstance(x, jax.Array) and x.dtype == array.dtype else jnp.asarray(array)
