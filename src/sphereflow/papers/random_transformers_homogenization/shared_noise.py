r"""One noise for all tokens: two prompts in one network, and the law of infinitely many tokens.

$$E\,W_2^2(\mu^n,\mu)\lesssim\frac1n,\qquad d\langle\mu,\varphi\rangle=\langle\mu,L_\mu\varphi\rangle d\tau
  +\int\langle\mu,\nabla\varphi\cdot G_\mu\rangle W(d\theta,d\tau).$$
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.estimates import fraction, mean, order
from sphereflow.papers.random_transformers_homogenization import PAPER
from sphereflow.random_transformers.circle_density import advance_density
from sphereflow.random_transformers.network import RandomNetwork, advance, prompts, realisation_keys, run
from sphereflow.random_transformers.weight_laws import matrices, weights

D, LENGTH = 6, 3


class Prompts(NamedTuple):
    """Cross overlaps of the two prompts' centres, in one network and in two independent ones, at the saved times."""

    times: np.ndarray
    shared: np.ndarray
    independent: np.ndarray
    spread: np.ndarray


@lru_cache(maxsize=2)
def two_prompts(networks: int, tau: float, seed: int) -> Prompts:
    """Two prompts of three tokens through the same random network; other realisations serve as other networks."""
    eta = 0.2
    rng = np.random.default_rng(seed)
    # Both prompts are cut from one cloud, so that their overlap starts above zero.
    cloud = rng.standard_normal((1, 1, D)) * 0.6 + rng.standard_normal((1, 2 * LENGTH, D))
    x0 = np.broadcast_to(cloud / np.linalg.norm(cloud, axis=-1, keepdims=True), (networks, 2 * LENGTH, D))
    network = RandomNetwork(weights("product", d=D), 1.0, eta, mask=prompts(LENGTH, LENGTH))
    depths = [0, *(round(t / eta**2) for t in (1.0, 2.0, 5.0, tau))]

    def observe(x: jax.Array) -> dict[str, jax.Array]:
        first, second = x[:, :LENGTH].mean(axis=1), x[:, LENGTH:].mean(axis=1)
        size = jnp.linalg.norm(first, axis=1) * jnp.linalg.norm(second, axis=1)
        other = jnp.roll(second, 1, axis=0)
        apart = jnp.linalg.norm(first, axis=1) * jnp.linalg.norm(other, axis=1)
        return {
            "shared": jnp.sum(first * second, axis=1) / size,
            "independent": jnp.sum(first * other, axis=1) / apart,
            "spread": 1 - jnp.linalg.norm(first, axis=1),
        }

    seen = run(network, x0, depths, observe=jax.jit(observe), seed=seed).values
    return Prompts(np.array(depths) * eta**2, seen["shared"], seen["independent"], seen["spread"])


@PAPER.claim(
    "two-prompts",
    statement="Two prompts in one network become equal or opposite; in independent networks they forget each other.",
    source="Common noise (corrected: only up to sign)",
    formula=r"r\to\pm1\ \text{at rate }2/d,\qquad E\,r\to0\ \text{for independent weights}",
    falsifier="prompts that meet with one sign only, or that meet in independent networks",
)
def prompts_meet(run_: Run) -> Measurement:
    networks, tau = (100, 15.0) if run_.quick else (2000, 30.0)
    found = two_prompts(networks, tau, run_.seed)
    met = fraction(np.abs(found.shared[:, -1]) > 0.99)
    minus = fraction(found.shared[:, -1] < -0.9)
    apart = fraction(np.abs(found.independent[:, -1]) > 0.99)
    forgotten = mean(found.independent[:, -1])
    # Single tokens have |r| > .99 in 41 per cent of the networks at tau = 10, in 72 per cent at 20: a third is safe.
    return at_most(
        [0.0, 0.0, 0.0, 0.0],
        [
            1 / 3 - float(met.value) - 3 * float(met.error),
            0.05 - float(minus.value) - 3 * float(minus.error),
            float(apart.value) - 3 * float(apart.error),
            abs(float(forgotten.value)) - 3 * float(forgotten.error),
        ],
        because="three standard errors of the shares and of the mean",
        labels=("met up to sign", "opposite ones exist", "met in other networks", "mean overlap in other networks"),
        note=f"|r| > .99 in {met} of the networks, r < -.9 in {minus}; independent weights: {apart}, mean {forgotten}.",
        parameters={"d": D, "tokens": (LENGTH, LENGTH), "s": 1, "eta": 0.2, "tau": tau, "networks": networks},
    )


COUNTS = (20, 60, 180)
MODES, POINTS, LAYERS, STEP = 32, 128, 10, 0.15


@lru_cache(maxsize=2)
def chaos(repeats: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Square distances of the first four modes, tokens against density under the same weights; and all modes.

    The clouds of different sizes are prompts of one network: they do not see each other but share its weights.
    """
    law = matrices(weights("product", d=2))
    keys = realisation_keys(seed, repeats)
    start = np.zeros((repeats, MODES + 1), complex)
    start[:, :3] = 1.0, 0.3, 0.15j  # rho = 1 + 0.6 cos(theta) - 0.3 sin(2 theta)
    modes = advance_density(RandomNetwork(law, 1.0, STEP), keys, jnp.asarray(start), jnp.asarray(LAYERS), POINTS)
    theta = _draw(np.random.default_rng(seed), (repeats, sum(COUNTS)))
    x = jnp.asarray(np.stack([np.cos(theta), np.sin(theta)], axis=-1))
    clouds = RandomNetwork(law, 1.0, STEP, mask=prompts(*COUNTS))
    end = np.asarray(advance(clouds, keys, x, jnp.asarray(0), jnp.asarray(LAYERS)))
    angles = np.arctan2(end[..., 1], end[..., 0])
    waves = np.exp(-1j * np.arange(1, 5)[:, None, None] * angles)
    squares = [
        np.sum(np.abs(cloud.mean(axis=-1) - np.asarray(modes).T[1:5]) ** 2, axis=0)
        for cloud in np.split(waves, np.cumsum(COUNTS)[:-1], axis=-1)
    ]
    return np.array(squares), np.abs(np.asarray(modes))


def _draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Angles with the density of `chaos`, by inverting its distribution function on a grid."""
    theta = np.linspace(0, 2 * np.pi, 4001)
    distribution = (theta + 0.6 * np.sin(theta) + 0.15 * (np.cos(2 * theta) - 1)) / (2 * np.pi)
    return np.interp(rng.random(shape), distribution, theta)


@PAPER.claim(
    "propagation-of-chaos",
    statement="Tokens on the circle follow the stochastic Fokker-Planck equation under the same noise, at rate 1/n.",
    source="Mean field: propagation of chaos with common noise",
    formula=r"E\,|\langle\mu^n,\varphi\rangle-\langle\mu,\varphi\rangle|^2\le\frac Cn",
    falsifier="a distance that does not vanish with n (noise that is not shared)",
)
def propagation_of_chaos(run_: Run) -> Measurement:
    repeats = 30 if run_.quick else 1000
    squares, modes = chaos(repeats, run_.seed)
    found = mean(squares.T)
    slope = order(np.array(COUNTS, dtype=float), found)
    return agreement(
        [-1.0, 1.0],
        [float(slope.value), float(modes[:, 0].min())],
        absolute=[3 * float(slope.error) + 0.05, 1e-12],
        because="three standard errors of the fitted slope; the mass is conserved up to rounding",
        labels=("slope of the mean square distance", "mass"),
        note=f"mean squares {found}; last mode at most {modes[:, -1].max():.1e}.",
        parameters={"n": COUNTS, "layers": LAYERS, "eta": STEP, "beta": 1, "repeats": repeats},
    )
