r"""The Gram matrix K of tokens through a wide network at initialisation: a recursion without weights.

With $A=K/\sqrt{(K_{ii}/D+\epsilon)(K_{jj}/D+\epsilon)}$ the Gram matrix after the norm,

$$K\mathrel{+}=HkD\,\sigma^2\sigma_O^2\;E[PAP^T],\qquad
  K\mathrel{+}=DF\sigma_{\rm down}^2\,\kappa(A)\ \text{ or }\ DF\sigma_{\rm down}^2\,\kappa(A)\,\sigma^2A,$$

$\kappa(A)_{ij}=E\,\phi(a_i)\phi(a_j)$ for normal a of covariance $\sigma^2A$, and $K_0=D\sigma_E^2I$ for each table of
embeddings. P are the weights of attention. For wide heads the logits $s_{ij}$ are Gaussian with
$E\,s_{ij}s_{kl}=\sigma^4A_{ik}A_{jl}\,c(i-j-k+l)$, c being the mean cosine of the rotary angles (1 without them). To
first order in this covariance, about flat attention p,

$$E[PAP^T]_{ik}=\sum_{jl}p_{ij}p_{kl}A_{jl}\Bigl[1+\overline{s_{ij}}\,\overline{s_{kl}}
  +\tfrac12\bigl(\overline{s_{ij}}^2-\langle\overline{s_i}^2\rangle\bigr)
  +\tfrac12\bigl(\overline{s_{kl}}^2-\langle\overline{s_k}^2\rangle\bigr)\Bigr],$$
bars meaning the expectation of products of logits less their mean in the row. `order=0` is flat attention.

The diffusive time is $\tau=\sum HkD\sigma^2\sigma_O^2D/K_{ii}$; homogenisation at infinite temperature, without MLP and
mask, says that the overlap is logistic in it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import gammaln

from sphereflow.random_transformers.blocks import Blocks, activation

_NODES, _TERMS = 120, 60


def gram_path(
    blocks: Blocks, n: int, *, order: int = 1
) -> tuple[Float[np.ndarray, " depth"], Float[np.ndarray, " depth"]]:
    """The mean cosine of n different tokens before the first layer and after each, and the diffusive time there."""
    b = blocks
    gram = b.tables * b.width * b.embedding_sigma**2 * np.eye(n)
    flat = np.tri(n) / np.arange(1, n + 1)[:, None] if b.causal else np.full((n, n), 1 / n)
    turned = rotary_means(b, n) if order else None
    cosines, times = [_off_diagonal(gram)], [0.0]
    strength = b.mixed * b.width * b.sigma**2 * b.attention_sigma**2
    for _ in range(b.layers):
        times.append(times[-1] + strength * b.width / float(np.mean(np.diag(gram))))
        inner = after_norm(gram, b)
        mixed = flat @ inner @ flat.T
        if turned is not None:
            mixed = mixed + b.sigma**4 * first_order(inner, flat, turned)
        gram = gram + strength * mixed
        if b.mlp:
            inner = after_norm(gram, b)
            gate = b.sigma**2 if b.family == "llama" else 1.0
            product = inner if b.family == "llama" else 1.0
            gram = gram + b.width * b.hidden * b.mlp_sigma**2 * dual(inner, b) * gate * product
        cosines.append(_off_diagonal(gram))
    return np.array(cosines), np.array(times)


def logistic(times: Float[np.ndarray, " depth"], n: int) -> Float[np.ndarray, " depth"]:
    r"""$\dot m=m(1-m)$ for $m=(1+(n-1)\gamma)/n$ from $\gamma=0$: the overlap gamma at these diffusive times."""
    m = 1 / (1 + (n - 1) * np.exp(-times))
    return (n * m - 1) / (n - 1)


def after_norm(gram: Float[np.ndarray, "n n"], blocks: Blocks) -> Float[np.ndarray, "n n"]:
    """A: the Gram matrix of the tokens after the norm."""
    size = np.sqrt(np.diag(gram) / blocks.width + blocks.eps)
    return gram / np.outer(size, size)


def rotary_means(blocks: Blocks, n: int) -> Float[np.ndarray, " lags"]:
    """c(m) for m = -2(n-1), ..., 2(n-1): the mean cosine of the rotary angles of m positions."""
    lags = np.arange(-2 * (n - 1), 2 * n - 1)
    if blocks.family == "gpt2":
        return np.ones(len(lags))
    half = blocks.head_width // 2
    return np.cos(lags[:, None] * blocks.theta ** (-np.arange(half) / half)).mean(axis=1)


def first_order(
    inner: Float[np.ndarray, "n n"], flat: Float[np.ndarray, "n n"], turned: Float[np.ndarray, " lags"]
) -> Float[np.ndarray, "n n"]:
    """The part of E[PAP^T] that is linear in the covariance of logits, for sigma = 1."""
    n = len(inner)
    at = np.arange(n)
    change = np.zeros((n, n))
    if np.all(turned == 1):
        change = inner * _crossed(inner, inner, flat, flat)
    else:
        for lag in range(n):  # i - k; the other half is its mirror image
            covariance = inner * turned[lag - at[:, None] + at[None, :] + 2 * (n - 1)]
            part = np.diag(_crossed(inner, covariance, flat[lag:], flat[: n - lag]))
            change[at[lag:], at[: n - lag]] = change[at[: n - lag], at[lag:]] = np.diag(inner, lag) * part
    # Within a row i = k: the variance of a logit less its row's mean, about its own mean in the row.
    own = inner * turned[at[None, :] - at[:, None] + 2 * (n - 1)]
    variance = np.diag(own)[None] - 2 * flat @ own + np.sum((flat @ own) * flat, axis=1, keepdims=True)
    variance = np.diag(inner)[:, None] * variance
    shifted = flat * (variance - np.sum(flat * variance, axis=1, keepdims=True))
    half = 0.5 * shifted @ inner @ flat.T
    return change + half + half.T


def _crossed(
    inner: Float[np.ndarray, "n n"],
    covariance: Float[np.ndarray, "n n"],
    p: Float[np.ndarray, "i n"],
    r: Float[np.ndarray, "k n"],
) -> Float[np.ndarray, "i k"]:
    """Sums over j, l of p_ij r_kl A_jl times the covariance of the logits j and l, each less its mean in the row."""
    left, right = r @ covariance.T, p @ covariance  # sums over l of r_kl C_jl, over j of p_ij C_jl
    towards, back = r @ inner, p @ inner
    crossed = p @ (inner * covariance) @ r.T - p @ (left * towards).T - (right * back) @ r.T
    return crossed + (right @ r.T) * (back @ r.T)


def dual(inner: Float[np.ndarray, "n n"], blocks: Blocks) -> Float[np.ndarray, "n n"]:
    r"""$\kappa$: with $\phi(sh)=\sum_kc_k\mathrm{He}_k(h)/\sqrt{k!}$ it is $\sum_kc_k^2\rho^k$."""
    size = np.diag(inner)
    rho = np.clip(inner / np.sqrt(np.outer(size, size)), -1.0, 1.0)
    squares = _squares(blocks.family, float(blocks.sigma * np.sqrt(size.mean())))
    return np.polynomial.polynomial.polyval(rho, squares)


@lru_cache(maxsize=256)
def _squares(family: str, deviation: float) -> Float[np.ndarray, " terms"]:
    h, w = hermegauss(_NODES)
    w = w / w.sum()
    kind = Blocks(family, 1, 2, 1, 1, 2, 2, 1.0, 1.0, 1.0, 1.0, 0.0)
    phi = activation(kind, deviation * h)
    before, now = np.zeros_like(h), np.ones_like(h)
    coefficients = []
    for k in range(_TERMS):
        coefficients.append(float(w @ (phi * now)) * np.exp(-0.5 * gammaln(k + 1)))
        before, now = now, h * now - k * before
    squares = np.array(coefficients) ** 2
    squares[-1] += max(float(w @ phi**2) - squares.sum(), 0.0)  # exact at rho = 1
    return squares


def _off_diagonal(gram: Float[np.ndarray, "n n"]) -> float:
    size = np.sqrt(np.diag(gram))
    n = len(gram)
    return float((np.sum(gram / np.outer(size, size)) - n) / (n * (n - 1)))
