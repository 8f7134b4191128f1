r"""Several tokens under one noise: their overlaps are a diffusion, whose brackets couple the pairs.

$$\frac{d\langle R_{ij},R_{kl}\rangle}{dt}=\kappa(R_{ik})c^{ji}_{lk}+\kappa(R_{il})c^{ji}_{kl}
  +\kappa(R_{jk})c^{ij}_{lk}+\kappa(R_{jl})c^{ij}_{kl},\qquad
  c^{ji}_{lk}=R_{jl}-R_{kl}R_{jk}-R_{ij}R_{il}+R_{ij}R_{kl}R_{ik}.$$
"""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER, sources
from sphereflow.papers.synchronization_by_noise.independent import pair_averages, relu_kappa
from sphereflow.synchronisation.covariance import of_activation
from sphereflow.synchronisation.gram import run_gram
from sphereflow.synchronisation.network import advance, run_network
from sphereflow.synchronisation.random_fields import RandomPerceptron

D, ONE = 6, 0.5  # the dimension, and kappa(1) of ReLU
FOUR = np.array([[1, 0.3, -0.2, 0.6], [0.3, 1, 0.5, 0.1], [-0.2, 0.5, 1, -0.4], [0.6, 0.1, -0.4, 1]])
THREE = FOUR[:3, :3]


def bracket(gram: np.ndarray, first: tuple[int, int], second: tuple[int, int]) -> float:
    """The formula above, term by term: the noise at one end of each pair, projected twice."""
    total = 0.0
    for i, j in (first, first[::-1]):
        for k, m in (second, second[::-1]):
            # The noises at i and k, along what is left of j beside i and of m beside k.
            left = gram[j, m] - gram[k, m] * gram[j, k] - gram[i, j] * gram[i, m]
            left += gram[i, j] * gram[k, m] * gram[i, k]
            total += float(relu_kappa(gram[i, k])) * left
    return total


def bracket_of_layers(layers: int, step: float, seed: int) -> Estimate:
    """Products of the random changes of all pairs of overlaps in one layer of width one, per unit of time.

    Half the difference of the changes under a layer and under its negative has no drift.
    """
    x = np.zeros((layers, 4, D))
    x[:, :, :4] = np.linalg.cholesky(FOUR)
    field, tokens = RandomPerceptron("relu", 1), jnp.asarray(x)
    out, inner, shift = field.draw(jax.random.key(seed), layers, 4, D)
    i, j = np.triu_indices(4, 1)
    plus, minus = (
        np.sum(y[:, i] * y[:, j], axis=-1)
        for y in (np.asarray(advance(field, (s * out, inner, shift), tokens, jnp.asarray(step))) for s in (1, -1))
    )
    change = (plus - minus) / 2
    return mean(change[:, :, None] * change[:, None, :] / step)


def overlaps_of_network(step: float, repeats: int, seed: int) -> np.ndarray:
    """Overlaps of three tokens after the time 1 in networks of ReLU layers of width 4, as vectors."""
    x = np.zeros((repeats, 3, D))
    x[:, :, :3] = np.linalg.cholesky(THREE)
    frames = run_network(RandomPerceptron("relu", 4), x, layers=round(1 / step), step=step, seed=seed, observe=_pairs)
    return np.asarray(frames[-1])


def _pairs(x: jax.Array) -> jax.Array:
    return jnp.stack([jnp.sum(x[:, i] * x[:, j], axis=-1) for i, j in combinations(range(3), 2)], axis=-1)


@PAPER.claim(
    "brackets-of-pairs",
    says="One ReLU layer of width one in dimension 6 changes the overlaps of four tokens with the covariances of the "
    "equation of the Gram matrix: of a pair with itself, of pairs that share a token, and of pairs that share none.",
    basis=basis.Derived(f"the scaling limit of {sources.MODEL}, for several tokens"),
    formula=r"d\langle R_{ij},R_{kl}\rangle/dt=\kappa(R_{ik})c^{ji}_{lk}+\kappa(R_{il})c^{ji}_{kl}"
    r"+\kappa(R_{jk})c^{ij}_{lk}+\kappa(R_{jl})c^{ij}_{kl}",
)
def brackets_of_pairs(run: Run) -> Check:
    layers, step = (40_000 if run.quick else 1_000_000), 1e-3
    found = bracket_of_layers(layers, step, run.seed)
    check = Check(parameters={"d": D, "h": step, "layers": layers})
    names = list(combinations(range(4), 2))
    alone, unprojected = {}, {}
    for a, b in ((0, 0), (0, 1), (0, 3), (1, 5), (0, 5), (1, 4), (2, 3)):
        (i, j), (k, m) = names[a], names[b]
        row = f"R{i + 1}{j + 1} with R{k + 1}{m + 1}"
        exact = bracket(FOUR, names[a], names[b])
        sizes = bracket(FOUR, names[a], names[a]) * bracket(FOUR, names[b], names[b])
        check.row(
            row,
            predicted=exact,
            measured=found.value[a, b],
            error=found.error[a, b],
            repeats=layers,
            tolerance=3 * (D + 2) * step * float(np.sqrt(sizes)),
            because="the error bar; the next order of a layer of width one, about 3 (d+2) h of the pairs' own rates",
        )
        alone[row] = exact if a == b else 0.0
        unprojected[row] = sum(
            float(relu_kappa(FOUR[p, q])) * FOUR[s, t] for p, s in ((i, j), (j, i)) for q, t in ((k, m), (m, k))
        )
    check.rival("every pair has noise of its own", alone)
    check.rival("no share of the return to the sphere", unprojected)
    return check


@PAPER.claim(
    "gram-consistency",
    says="Three tokens simulated as vectors in networks of ReLU layers in dimension 6, and their Gram matrix by its "
    "own stochastic equation without vectors: all overlaps at time 1 have the means of the backward equation of a "
    "pair, and the products of overlaps of different pairs agree between the two simulations. These products are not "
    "those of the means: the pairs are coupled.",
    basis=basis.Derived(f"the Gram matrix of tokens under {sources.MODEL} is a Markov process of its own"),
    formula=r"dR_{ij}=D(R_{ij})\,dt+dM_{ij}",
)
def gram_consistency(run: Run) -> Check:
    step, repeats = (0.01, 4000) if run.quick else (0.005, 20_000)
    start = np.array([THREE[pair] for pair in combinations(range(3), 2)])
    vectors = overlaps_of_network(step, repeats, run.seed)
    law, key = of_activation("relu"), jax.random.key(run.seed + 1)
    gram = run_gram(law, jnp.asarray(start), key, step, d=D, n=3, repeats=repeats, steps=round(1 / step))
    check = Check(parameters={"d": D, "h": step, "repeats": repeats})
    exact = np.array([float(pair_averages(D, relu_kappa, [1.0], payoff=lambda r: r, start=r)[0]) for r in start])
    names, first_order = ("12", "13", "23"), (D - 1) * ONE * step
    because = "the error bar; the first order of the step, relatively (d-1) kappa(1) h"
    for kind, sample in (("vectors", vectors), ("Gram matrix", np.asarray(gram))):
        check.series(
            [f"mean of R{name}, {kind}" for name in names],
            predicted=exact,
            measured=mean(sample).value,
            error=mean(sample).error,
            repeats=repeats,
            tolerance=first_order * exact,
            because=because,
        )
    apart = {}
    for a, b in ((0, 1), (0, 2), (1, 2)):
        one, two = (mean(np.asarray(sample)[:, a] * np.asarray(sample)[:, b]) for sample in (gram, vectors))
        row = f"mean of R{names[a]} R{names[b]}"
        check.row(
            row,
            predicted=one.value,
            measured=two.value,
            error=np.hypot(one.error, two.error),
            repeats=repeats,
            tolerance=2 * first_order * float(one.value),
            because="the error bars of both; the first order of the step, relatively (d-1) kappa(1) h, of each",
        )
        apart[row] = float(exact[a] * exact[b])
    check.rival("the pairs move independently of each other", apart)
    alone = {f"mean of R{name}, {kind}": r * np.exp(-(D - 1) * ONE) for kind in ("vectors", "Gram matrix")
             for name, r in zip(names, start, strict=True)}  # fmt: skip
    check.rival("noise of its own for every token", alone)
    return check
