r"""One layer: mean and variance of the change of overlaps, and of the tokens themselves.

$$E\,\Delta R_{ij}=\tfrac{\eta^2}H\,D_{ij}(R)+O(\eta^4),\qquad P_{x_i}E\,\Delta x_i=0,\qquad
  E\langle x,N(x+\sigma g)\rangle=c(d,\sigma).$$
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.compilation import compiled
from sphereflow.papers.random_transformers_homogenization import PAPER
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.overlap_equation import overlap_bracket, overlap_drift
from sphereflow.random_transformers.weight_laws import ProductMatrix, ValueLaw, Weights

D, BETA, STEP = 8, 2.0, 0.05
OVERLAPS = (0.3, -0.2, 0.5)
PAIRS = ((0, 1), (0, 2), (1, 2))
GRAM = np.array([[1.0, 0.3, -0.2], [0.3, 1.0, 0.5], [-0.2, 0.5, 1.0]])


def start() -> np.ndarray:
    """Three tokens in R^8 with the given overlaps."""
    return np.pad(np.linalg.cholesky(GRAM), ((0, 0), (0, D - 3)))


def network(sign: float = 1.0, beta: float = BETA, step: float = STEP) -> RandomNetwork:
    """The paper's Gaussian weights; the sign of V makes antithetic pairs."""
    return RandomNetwork(Weights(ProductMatrix(jnp.asarray(D**-0.25)), ValueLaw(jnp.asarray(sign))), beta, step)


@compiled
def _pairs(pair: tuple[RandomNetwork, RandomNetwork], x: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Tokens after one layer, with V and with -V."""
    return tuple(jax.vmap(lambda k, net=net: net.layer(k, x))(keys) for net in pair)  # type: ignore[return-value]


class OneLayer(NamedTuple):
    """Per antithetic pair: change of overlaps over eta^2, its square over eta^2, and the change of the tokens."""

    drift: np.ndarray
    square: np.ndarray
    moved: np.ndarray


@lru_cache(maxsize=4)
def sampled(samples: int, seed: int, merged: bool = False, step: float = STEP) -> OneLayer:
    """One layer on three tokens (or on three equal ones) under many draws of the weights."""
    x = np.tile(start()[:1], (3, 1)) if merged else start()
    keys = jax.random.split(jax.random.key(seed), samples)
    after = [np.asarray(y) for y in _pairs((network(1.0, step=step), network(-1.0, step=step)), jnp.asarray(x), keys)]
    change = [np.stack([np.sum(y[:, i] * y[:, j], -1) - x[i] @ x[j] for i, j in PAIRS], axis=1) for y in after]
    return OneLayer(
        (change[0] + change[1]) / (2 * step**2),
        (change[0] ** 2 + change[1] ** 2) / (2 * step**2),
        np.stack([y - x for y in after], axis=1),
    )


def sampled_means(samples: int, seed: int) -> np.ndarray:
    r"""$E\langle m_i,m_j\rangle$ with whole matrices A = W W'^T and explicit sums, in NumPy."""
    rng = np.random.default_rng(seed)
    x, scale = start(), D**-0.5
    total = np.zeros((3, 3))
    done = 0
    while done < samples:
        size = min(20_000, samples - done)
        # Only the images of the three tokens under W^T and W'^T are needed; they are products of normals.
        keys, queries = (rng.standard_normal((size, D, D)).swapaxes(1, 2) @ x.T for _ in range(2))
        logits = BETA * scale * np.einsum("sai,sak->sik", queries, keys)
        means = softmax(logits, axis=2) @ x
        total += np.einsum("sia,sja->ij", means, means)
        done += size
    return total / samples


@PAPER.claim(
    "overlap-drift-and-variance",
    statement="One layer changes overlaps with the mean and the variance of the closed overlap equation.",
    source="Gaussian weights: overlap equation",
    formula=r"dR_{ij}=\left[\tfrac{d-2+R_{ij}^2}{d}s_{ij}-\tfrac{d-1}{2d}R_{ij}(s_{ii}+s_{jj})\right]d\tau+dM_{ij}",
    falsifier="softmax over the wrong axis, a missing projection, or a variance of V other than 1/d",
)
def overlap_equation(run: Run) -> Measurement:
    samples = 60_000 if run.quick else 400_000
    seen = sampled(samples, run.seed)
    s = sampled_means(60_000 if run.quick else 400_000, run.seed + 1)
    i, j = np.array(PAIRS).T
    predicted = [*overlap_drift(GRAM, s, D)[i, j], *overlap_bracket(GRAM, s, D)[i, j]]
    return agreement(
        predicted,
        [*seen.drift.mean(axis=0), *seen.square.mean(axis=0)],
        relative=0.02 if run.quick else 0.01,
        because="three standard errors of the sampled moments and of s, and the remainder of order eta^2",
        labels=tuple(f"{kind} of R{a + 1}{b + 1}" for kind in ("drift", "variance") for a, b in PAIRS),
        parameters={"d": D, "n": 3, "beta": BETA, "eta": STEP, "overlaps": OVERLAPS, "samples": samples},
    )


@PAPER.claim(
    "no-mean-motion",
    statement="The mean change of a token has no tangent part; along the token it is the exact one-step factor.",
    source="Gaussian weights: the mean field vanishes (corrected: only its tangent part)",
    formula=r"P_xE\Delta x=0,\quad E\langle x,N(x+\sigma g)\rangle="
    r"\frac{\Gamma(\frac{d+1}2)}{\sigma\sqrt2\,\Gamma(\frac d2+1)}{}_1F_1(\tfrac12;\tfrac d2+1;-\tfrac1{2\sigma^2})",
    falsifier="a drift of single tokens, or a normal part of zero",
)
def no_mean_motion(run: Run) -> Measurement:
    from scipy.integrate import dblquad

    seen = sampled(60_000 if run.quick else 400_000, run.seed, merged=True, step=0.6).moved.mean(axis=1)[:, 0]
    x = start()[0]
    along = seen @ x
    aside = seen - along[:, None] * x
    sigma = 0.6 / np.sqrt(D)
    # E (1 + sigma g)/|x + sigma g'| by direct integration over the part along x and the length of the rest.
    exact = dblquad(
        lambda q, g: (1 + sigma * g) / np.sqrt((1 + sigma * g) ** 2 + (sigma * q) ** 2)
        * np.exp(-(g * g + q * q) / 2) * q ** (D - 2), -9, 9, 0, 10, epsabs=1e-8,
    )[0] / dblquad(lambda q, g: np.exp(-(g * g + q * q) / 2) * q ** (D - 2), -9, 9, 0, 10, epsabs=1e-8)[0]  # fmt: skip
    bars = np.array([along.std(), *aside.std(axis=0)[1:]]) / np.sqrt(len(along))
    return agreement(
        [exact - 1, *np.zeros(D - 1)],
        [along.mean(), *aside.mean(axis=0)[1:]],
        absolute=4 * bars,
        because="four standard errors; the prediction is a double integral",
        labels=("along the token", *[f"across, direction {k}" for k in range(2, D + 1)]),
        parameters={"d": D, "sigma": sigma, "samples": len(along)},
    )


@PAPER.claim(
    "largest-noise",
    statement="The noise of a token is largest when all tokens coincide: its variance is then (d-1)/d times eta^2.",
    source="Gaussian weights: variance proxy",
    formula=r"s_*^2=\sigma_V^2(d-1)=\max_{X,j}E|G_j|^2",
    falsifier="a spread configuration that is noisier",
)
def largest_noise(run: Run) -> Measurement:
    samples = 60_000 if run.quick else 400_000
    spread, merged = (sampled(samples, run.seed, merged=m).moved / STEP for m in (False, True))
    tangent = merged[:, 0] - (merged[:, 0] @ start()[0])[..., None] * start()[0]
    sizes = np.sum(tangent**2, axis=-1).mean(axis=1)
    most = np.sum(spread**2, axis=-1).mean(axis=(0, 1)).max()
    bar = 4 * sizes.std() / np.sqrt(samples)
    proxy = (D - 1) / D
    return at_most(
        [proxy + bar, proxy - most, 0.0],
        [sizes.mean(), 0.0, proxy - bar - 3 * STEP**2 - sizes.mean()],
        because="four standard errors, and a relative remainder of order eta^2 where equality is expected",
        labels=("merged tokens, from above", "spread tokens are quieter", "merged tokens, from below"),
        note=f"merged {sizes.mean():.4f}, spread at most {most:.4f}, proxy {proxy:.4f}.",
        parameters={"d": D, "eta": STEP, "samples": samples},
    )
