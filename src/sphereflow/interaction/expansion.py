r"""How many modes the exponential kernel has: coefficients, tails and truncation.

$$e^{\beta(\cos t-1)} = \sum_k \hat I_k e^{ikt},\qquad
  e^{\beta(t-1)} = \sum_l (2l+1)\lambda_l P_l(t),\qquad
  e^{\beta(t-1)} = \sum_l p_l \frac{C_l^\nu(t)}{C_l^\nu(1)},$$

with $\hat I_k=e^{-\beta}I_k(\beta)$ on the circle, $\lambda_l=e^{-\beta}i_l(\beta)$ on S^2, $\nu=(d-2)/2$ on S^{d-1}.
All coefficients are positive and sum to one, so the sum of those left out bounds the error of the kernel at every
pair of tokens. The number kept depends on beta and on the error only, never on the tokens.

Plans are made with NumPy from a concrete beta; the coefficients themselves are JAX functions of beta.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float

# --- the circle -------------------------------------------------------------------------------------------------


def circle_modes(beta: float, error: float) -> int:
    r"""The smallest K with $T_K=\sum_{|k|>K}\hat I_k\le$ `error`, by summing the tail from its small end."""
    if beta == 0:
        return 0
    # Beyond `last` the terms are too small to change the sum of the tail.
    last = circle_modes_bound(beta, min(error, 1.0) * 1e-20) + 20
    coefficients = scipy.special.ive(np.arange(last + 1), beta)
    tails = 2 * np.cumsum(coefficients[::-1])[::-1]  # tails[k] = mass of |j| >= k
    return int(np.argmax(tails <= error)) - 1


def circle_modes_bound(beta: float, error: float) -> int:
    r"""The K that solves $K\,\mathrm{asinh}(K/\beta)-\sqrt{K^2+\beta^2}+\beta=\log(2/\epsilon)$, rounded up.

    The large-deviation bound of the difference of two Poisson(beta/2) variables: at most a tenth above the smallest K.
    """
    if beta == 0:
        return 0
    target = np.log(2 / error)
    low, high = 0.0, np.sqrt(2 * beta * target) + 2 * target + 1
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if _rate(middle, beta) < target else (low, middle)
    return int(np.ceil(high))


def _rate(k: float, beta: float) -> float:
    return k * np.arcsinh(k / beta) - k * k / (np.hypot(k, beta) + beta)


def circle_tail(modes: int, beta: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""A bound of $T_K$: $2\exp(-[K\,\mathrm{asinh}(K/\beta)-K^2/(\sqrt{K^2+\beta^2}+\beta)])$; 0 at beta = 0."""
    beta = jax.lax.stop_gradient(beta)
    safe = jnp.where(beta > 0, beta, 1)
    k = jnp.asarray(modes, beta.dtype)
    rate = k * jnp.arcsinh(k / safe) - k * k / (jnp.hypot(k, safe) + safe)
    return jnp.where(beta > 0, 2 * jnp.exp(-rate), 0)


def bessel_ratios(order: float, count: int, beta: Float[Array, "..."]) -> Float[Array, "count ..."]:
    r"""$I_{\nu+k+1}(\beta)/I_{\nu+k}(\beta)$, k < count, by $r=\beta/(2(\nu+k+1)+\beta r')$ run downwards.

    It forgets its start at the rate $(I_N/I_K)^2$, so a third more orders than wanted are enough.
    """
    first = count + count // 3 + 30
    nu = jnp.asarray(order, beta.dtype)
    start = beta / (nu + first + jnp.hypot(nu + first, beta))

    def down(ratio: Array, k: Array) -> tuple[Array, Array]:
        ratio = beta / (2 * (nu + k + 1) + beta * ratio)
        return ratio, ratio

    return jax.lax.scan(down, start, jnp.arange(first, dtype=beta.dtype), reverse=True)[1][:count]


def circle_coefficients(modes: int, beta: Float[Array, ""] | float) -> Float[Array, " k"]:
    r"""$\hat I_0,\dots,\hat I_K$, with $\hat I_k=e^{-\beta}I_k(\beta)$."""
    beta = jnp.asarray(beta)
    return _cumulate(jax.scipy.special.i0e(beta), bessel_ratios(0, modes, beta))


def _cumulate(first: Array, ratios: Array) -> Array:
    return (
        first * jnp.concatenate([jnp.ones_like(ratios[:1]), jnp.cumprod(ratios, axis=0)])
        if len(ratios)
        else first[None]
    )


# --- the sphere S^2 ---------------------------------------------------------------------------------------------


def sphere_degree(beta: float, error: float) -> int:
    r"""The smallest L with $T_L=\sum_{l>L}(2l+1)\lambda_l=\beta(\lambda_L+\lambda_{L+1})\le$ `error`."""
    if beta == 0:
        return 0
    most = int(np.ceil(np.sqrt(2 * beta * np.log(2 / error)) + 2 * np.log(2 / error))) + 2
    coefficients = np.sqrt(np.pi / (2 * beta)) * scipy.special.ive(np.arange(most + 2) + 0.5, beta)
    return int(np.argmax(beta * (coefficients[:-1] + coefficients[1:]) <= error))


def sphere_coefficients(degree: int, beta: Float[Array, "..."]) -> Float[Array, "l ..."]:
    r"""$\lambda_0,\dots,\lambda_L$, starting from $\lambda_0=(1-e^{-2\beta})/(2\beta)$."""
    safe = jnp.where(beta > 0, beta, 1)
    # The series serves the derivative at beta = 0 as well.
    first = jnp.where(beta > 1e-6, -jnp.expm1(-2 * safe) / (2 * safe), 1 - beta + 2 * beta**2 / 3)
    return _cumulate(first, bessel_ratios(0.5, degree, beta))


def sphere_tail(degree: int, beta: Float[Array, ""]) -> Float[Array, ""]:
    r"""$T_L=\beta(\lambda_L+\lambda_{L+1})$, exactly."""
    beta = jax.lax.stop_gradient(beta)
    return beta * jnp.sum(sphere_coefficients(degree + 1, beta)[-2:])


# --- any dimension ----------------------------------------------------------------------------------------------


def zonal_coefficients(d: int, beta: float, degree: int) -> np.ndarray:
    r"""$p_0,\dots,p_L$ on S^{d-1}, d >= 3, through the ratios of Bessel functions, normalised to sum one.

    $p_l/p_{l-1}=\rho_l\,\frac{(2l+d-2)(l+d-3)}{(2l+d-4)\,l}$ with $\rho_l=I_{\nu+l}/I_{\nu+l-1}$: nothing
    overflows, even where the closed form with Gamma functions is zero times infinity.
    """
    if beta == 0:
        return np.eye(1, degree + 1)[0]
    nu = (d - 2) / 2
    top = max(degree, zonal_size(d, beta, 1e-20)) + 60
    rho = np.zeros(top + 2)
    for k in range(top, 0, -1):
        rho[k] = 1 / (2 * (nu + k) / beta + rho[k + 1])
    order = np.arange(1, top + 1)
    grow = (2 * order + d - 2) * (order + d - 3) / ((2 * order + d - 4) * order)
    logs = np.concatenate([[0.0], np.cumsum(np.log(rho[1 : top + 1] * grow))])
    p = np.exp(logs - logs.max())
    return (p / p[::-1].sum())[: degree + 1]


def zonal_size(d: int, beta: float, error: float) -> int:
    r"""An estimate from above of the degree needed, $\sqrt\beta(\sqrt{d-1}+\sqrt{2\log 1/\epsilon})$ plus a margin."""
    log = np.log(1 / error)
    return int(np.ceil(1.2 * np.sqrt(beta) * (np.sqrt(d - 1) + np.sqrt(2 * log)) + log / 2)) + 10


def zonal_degree(d: int, beta: float, error: float) -> int:
    r"""The smallest L with $\sum_{l>L}p_l\le$ `error`."""
    p = zonal_coefficients(d, beta, zonal_size(d, beta, error * 1e-6))
    tails = np.cumsum(p[::-1])[::-1]
    return int(np.argmax(tails <= error) - 1) if tails[-1] <= error else len(p) - 1
