r"""One path of the noise, met by networks of any depth and width and by the limit itself.

$$x\leftarrow N\big(x+h\,v\,b[\mu](x)+\Delta W\,\phi(x)\big),\qquad
  x\leftarrow\exp_x\big(P_x(h\,v\,b[\mu](x)+\Delta W\,\phi(x))\big),$$

a layer and a step of the limiting equation; $\Delta W$ is the increment of the same Brownian matrix. Given its inner
weights, a layer of width m has Gaussian outputs at n tokens, of covariance $\hat K=\frac1m\sum_j\sigma(w_jx_i)
\sigma(w_jx_k)$: it takes the field $\xi$ of covariance K to $T\xi$ with the optimal map
$T=K^{-1/2}(K^{1/2}\hat KK^{1/2})^{1/2}K^{-1/2}$, has its exact law, and is within $O(m^{-1/2})$ of the field.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Complex, Float
from scipy.special import ive

from sphereflow.errors import enough_memory, real_number
from sphereflow.numerics.unit_vectors import exponential, unit
from sphereflow.synchronisation.noise_modes import NoiseModes, unit_powers

Array = np.ndarray

_SINGULAR = 1e-12
_NEGLIGIBLE = 1e-10
_MOST = 1e4  # of times, strengths and inverse temperatures: beyond it nothing of a path is resolved


def checked_times(t1: float, strength: float, beta: float) -> tuple[float, float, float]:
    """Time, strength and inverse temperature of a path that can be followed, or one sentence about what is wrong."""
    v = real_number("strength", strength, least=-_MOST, most=_MOST)
    return real_number("t1", t1, above=0, most=_MOST), v, real_number("beta", beta, least=0, most=_MOST)


def attention_modes(beta: float) -> Float[Array, " k"]:
    r"""$I_k(\beta)e^{-\beta}$, k = 0, 1, ...: the Fourier coefficients of $e^{\beta(\cos f-1)}$ that matter."""
    table = ive(np.arange(int(42 + 12 * np.sqrt(beta))), beta)
    return table[: 2 + int(np.flatnonzero(table > _NEGLIGIBLE * table[0])[-1])]


def require_room(field: NoiseModes, repeats: int, n: int, beta: float) -> None:
    """Refuse more tokens and paths than there is memory for."""
    powers = max([len(attention_modes(beta)), *field.orders]) + 1 if field.d == 2 else field.count + n
    enough_memory(
        3 * 16.0 * repeats * n * powers, f"{repeats} paths of {n} tokens", "ask for fewer repeats or smaller sizes"
    )


def moves(
    field: NoiseModes,
    x: Float[Array, "r n d"],
    noise: Float[Array, "r p d"],
    drift: float,
    beta: float,
    law: Complex[Array, "r k"] | None = None,
) -> tuple[Float[Array, "r n d"], Complex[Array, "r k"] | None]:
    r"""(move, modes): $\mathrm{drift}\cdot b[\mu](x)+\Delta W\phi(x)$, and the Fourier modes of the tokens if d = 2.

    $b[\mu](x)=\int ye^{\beta\langle x,y\rangle}d\mu/\int e^{\beta\langle x,y\rangle}d\mu$ with the law of the
    tokens themselves, or on the circle with the modes `law`.
    """
    if field.d > 2:
        move = field.features(x) @ noise
        if drift:
            weight = np.exp(beta * (x @ np.swapaxes(x, 1, 2) - 1))
            move = move + drift * (weight @ x / weight.sum(axis=-1, keepdims=True))
        return move, None
    kernel = attention_modes(beta) if drift else np.ones(1)
    top = max(len(kernel) - 1, *field.orders)
    powers = unit_powers(x[..., 0] + 1j * x[..., 1], top)
    # Everything is the real part of a polynomial in z: two components of the noise, three integrals of attention.
    table = np.zeros((len(x), top + 1, 5 if drift else 2), dtype=complex)
    table[:, : max(field.orders) + 1, :2] = noise_polynomials(field, noise)
    modes = None
    if drift:
        modes = np.conj(powers[..., : len(kernel)].mean(axis=1))
        table[:, : len(kernel), 2:] = attention_integrals(modes if law is None else law, kernel)
    parts = np.concatenate([table.real, -table.imag], axis=-1).reshape(len(x), -1, table.shape[-1])
    values = powers.view(float) @ parts
    move = values[..., :2]
    if drift:
        along, beside = (drift * values[..., 2 + k] / values[..., 4] for k in (0, 1))
        c, s = x[..., 0], x[..., 1]
        move = move + np.stack([along * c - beside * s, along * s + beside * c], axis=-1)
    return move, modes


def noise_polynomials(field: NoiseModes, noise: Float[Array, "r p 2"]) -> Complex[Array, "r k 2"]:
    """Coefficients of z^k: the two components of the field on the circle are the real parts of these polynomials."""
    pairs = noise.reshape(len(noise), -1, 2, 2) * np.sqrt(field.weights)[:, None, None]
    table = np.zeros((len(noise), max(field.orders) + 1, 2), dtype=complex)
    table[:, list(field.orders)] = pairs[:, :, 0] - 1j * pairs[:, :, 1]
    return table


def attention_integrals(c: Array, kernel: Array) -> Array:
    r"""Coefficients of $z^k$ in $\int(\cos f,\sin f,1)e^{\beta(\cos f-1)}d\mu$, where token y is at $\theta+f$."""
    below = np.concatenate([kernel[1:2], kernel[:-1]])  # I_{k-1}, with I_{-1} = I_1
    above = np.append(kernel[1:], 0.0)
    twice = np.where(np.arange(len(kernel)) > 0, 2.0, 1.0)
    # cos f: (I_{k-1} + I_{k+1})/2 at e^{ik(theta - y)}; sin f: with f = y - theta, -(I_{k-1} - I_{k+1})/2i.
    parts = (below + above) / 2, 1j * (below - above) / 2, kernel + 0j
    return np.stack([twice * part * c for part in parts], axis=-1)


def geodesic(x: Float[Array, "... d"], move: Float[Array, "... d"]) -> Float[Array, "... d"]:
    """Along the great circle in the direction of the tangential part of `move`, as far as it is long."""
    return exponential(x, move - np.sum(move * x, axis=-1, keepdims=True) * x)


def increments(modes: NoiseModes, rng: np.random.Generator, repeats: int, step: float) -> Float[Array, "r p d"]:
    """One step of the Brownian matrix of every repeat, transposed; drawn in 24 bits."""
    drawn = rng.standard_normal((repeats, modes.count, modes.d), dtype=np.float32)
    return drawn * np.sqrt(step)


def follow_depths(
    field: NoiseModes,
    x: Float[Array, "r n d"],
    depths: Sequence[int],
    steps: int,
    t1: float,
    v: float,
    beta: float,
    rng: np.random.Generator,
) -> list[Float[Array, "r n d"]]:
    """Tokens at t1 in networks of each depth, and last in the limit followed in `steps` steps, on the same paths."""
    tokens, gathered, limit = [x] * len(depths), [np.zeros(1)] * len(depths), x
    for count in range(steps):
        noise = increments(field, rng, len(x), t1 / steps)
        for k, depth in enumerate(depths):
            gathered[k] = gathered[k] + noise
            if (count + 1) % (steps // depth) == 0:
                tokens[k] = unit(tokens[k] + moves(field, tokens[k], gathered[k], t1 / depth * v, beta)[0])
                gathered[k] = np.zeros(1)
        limit = geodesic(limit, moves(field, limit, noise, t1 / steps * v, beta)[0])
    return [*tokens, limit]


def narrowed(
    phi: Float[Array, "r n p"], hidden: Float[Array, "r n m"], field: Float[Array, "r n d"]
) -> Float[Array, "r n d"]:
    """The output of a layer of finite width with these activations, coupled to the Gaussian field of features phi."""
    root, inverse = _roots(phi @ np.swapaxes(phi, 1, 2))
    sample = hidden @ np.swapaxes(hidden, 1, 2) / hidden.shape[-1]
    return np.asarray(inverse @ (_roots(root @ sample @ root)[0] @ (inverse @ field)))


def _roots(matrices: Array) -> tuple[Array, Array]:
    """K^{1/2} and K^{-1/2}, the latter zero where tokens that have met leave no direction."""
    values, vectors = np.linalg.eigh(matrices)
    values = np.maximum(values, 0.0)
    regular = values > _SINGULAR * values[:, -1:]
    root = np.sqrt(values)
    inverse = np.where(regular, 1 / np.where(regular, root, 1.0), 0.0)
    both = (vectors * part[:, None, :] @ np.swapaxes(vectors, 1, 2) for part in (root, inverse))
    first, second = both
    return first, second
