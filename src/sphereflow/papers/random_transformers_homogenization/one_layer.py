r"""One layer: mean and variance of the change of overlaps, and of the tokens themselves.

$$E\,\Delta R_{ij}=\tfrac{\eta^2}H\,D_{ij}(R)+O(\eta^4),\qquad P_{x_i}E\,\Delta x_i=0,\qquad
  E\langle x,N(x+\sigma g)\rangle=c(d,\sigma).$$
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import dblquad
from scipy.special import softmax

from sphereflow.claims import Check, Run, basis
from sphereflow.compilation import compiled
from sphereflow.estimates import mean
from sphereflow.papers.random_transformers_homogenization import PAPER, sources
from sphereflow.random_transformers.network import RandomNetwork
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


@lru_cache(maxsize=2)
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
    says="One layer with Gaussian weights changes the overlaps of three tokens in dimension 8 with the mean and the "
    "mean square of the closed overlap equation.",
    basis=basis.Equation("Gaussian weights: overlaps", via=sources.LEAN),
    formula=r"dR_{ij}=\left[\tfrac{d-2+R_{ij}^2}{d}s_{ij}-\tfrac{d-1}{2d}R_{ij}(s_{ii}+s_{jj})\right]d\tau+dM_{ij},\ "
    r"d\langle M_{ij}\rangle=\tfrac{1-R_{ij}^2}d(s_{ii}+s_{jj}-2R_{ij}s_{ij})d\tau",
)
def overlap_equation(run: Run) -> Check:
    samples = 60_000 if run.quick else 400_000
    seen = sampled(samples, run.seed)
    s = sampled_means(60_000 if run.quick else 400_000, run.seed + 1)
    check = Check(parameters={"d": D, "n": 3, "beta": BETA, "eta": STEP, "overlaps": OVERLAPS, "samples": samples})
    because = "the error bar of the sampled layer; 1 % for the sampled s and for the remainder of order eta^2"
    drift, square = mean(seen.drift), mean(seen.square)
    wide, lost, alone = {}, {}, {}
    for k, (i, j) in enumerate(PAIRS):
        r, here, ends = GRAM[i, j], s[i, j], s[i, i] + s[j, j]
        row = f"drift of R{i + 1}{j + 1}"
        check.row(
            row,
            predicted=(D - 2 + r * r) / D * here - (D - 1) / (2 * D) * r * ends,
            measured=drift.value[k],
            error=drift.error[k],
            repeats=samples,
            relative=0.01,
            because=because,
        )
        wide[row] = here - r * ends / 2
        lost[row] = (D - 2) / D * here - (D - 1) / (2 * D) * r * ends
        row = f"mean square of R{i + 1}{j + 1}"
        check.row(
            row,
            predicted=(1 - r * r) / D * (ends - 2 * r * here),
            measured=square.value[k],
            error=square.error[k],
            repeats=samples,
            relative=0.015,
            because=because,
        )
        alone[row] = (1 - r * r) / D * ends
    check.rival("the drift of infinite dimension", wide)
    check.rival("the term with R squared lost", lost)
    check.rival("weights of its own for each token", alone)
    return check


@PAPER.claim(
    "no-mean-motion",
    says="The mean change of a token under one layer with Gaussian weights has no part across it; along the token it "
    "is the exact factor of one step, at a step where the leading order is 18 % off.",
    basis=basis.Theorem("Gaussian weights: the mean field vanishes", via=sources.LEAN),
    formula=r"P_xE\Delta x=0,\quad E\langle x,N(x+\sigma g)\rangle="
    r"\frac{\Gamma(\frac{d+1}2)}{\sigma\sqrt2\,\Gamma(\frac d2+1)}{}_1F_1(\tfrac12;\tfrac d2+1;-\tfrac1{2\sigma^2})",
)
def no_mean_motion(run: Run) -> Check:
    samples = 60_000 if run.quick else 400_000
    seen = sampled(samples, run.seed, merged=True, step=0.6).moved.mean(axis=1)[:, 0]
    x = start()[0]
    along = mean(seen @ x)
    across = mean(seen - (seen @ x)[:, None] * x)
    sigma = 0.6 / np.sqrt(D)

    def integral(part: Callable[[float, float], float]) -> float:
        """Over the part along x and the length of the rest."""
        return dblquad(
            lambda q, g: part(q, g) * np.exp(-(g * g + q * q) / 2) * q ** (D - 2), -9, 9, 0, 10, epsabs=1e-8
        )[0]

    factor = integral(lambda q, g: (1 + sigma * g) / np.hypot(1 + sigma * g, sigma * q)) / integral(lambda q, g: 1.0)
    check = Check(parameters={"d": D, "sigma": sigma, "samples": samples})
    because = "the error bar; the prediction is a double integral"
    check.row("along", predicted=factor - 1, measured=along.value, error=along.error, repeats=samples, because=because)
    for k in range(1, D):
        check.row(
            f"across, direction {k + 1}",
            predicted=0.0,
            measured=across.value[k],
            error=across.error[k],
            repeats=samples,
            because="the error bar",
        )
    check.rival("no mean motion along the token either", {"along": 0.0})
    check.rival("the leading order of the step", {"along": -(D - 1) * sigma**2 / 2})
    check.rival("values of variance 1/(d-1)", {"along": (factor - 1) * D / (D - 1)})
    return check


@PAPER.claim(
    "largest-noise",
    says="The tangent noise of a token in one layer has the variance $\\frac{d-1}d\\eta^2$ when all tokens coincide, "
    "and $s_{ii}$ times as much for three spread tokens, which is less.",
    basis=basis.Theorem("Gaussian weights: variance proxy", via=sources.LEAN),
    formula=r"s_*^2=\sigma_V^2(d-1)=\max_{X,j}E|G_j|^2",
)
def largest_noise(run: Run) -> Check:
    samples = 60_000 if run.quick else 400_000
    proxy = (D - 1) / D
    s = sampled_means(60_000 if run.quick else 400_000, run.seed + 1)
    check = Check(parameters={"d": D, "eta": STEP, "samples": samples})
    same = {}
    for name, merged, x in (("merged", True, np.tile(start()[:1], (3, 1))), ("spread", False, start())):
        moved = sampled(samples, run.seed, merged=merged).moved / STEP
        for k in range(1 if merged else 3):
            tangent = moved[:, :, k] - (moved[:, :, k] @ x[k])[..., None] * x[k]
            found = mean(np.sum(tangent**2, axis=-1).mean(axis=1))
            row = f"{name}, token {k + 1}"
            check.row(
                row,
                predicted=proxy * (1.0 if merged else s[k, k]),
                measured=found.value,
                error=found.error,
                repeats=samples,
                relative=0.01,
                because="the error bar; 1 % for the sampled s and the remainder of order eta^2",
            )
            check.at_most(
                f"{row}, against the proxy", bound=proxy, measured=found.value, tolerance=0.01, because="as above"
            )
            if not merged:
                same[row] = proxy
    check.rival("noise without the projection", {"merged, token 1": 1.0})
    check.rival("the same noise for every configuration", same)
    return check
