r"""How long collapse takes: context, dimension, temperature, and what delays it, on networks.

$$dm=\tfrac{n-1}nD(\gamma)d\tau+\sqrt{q}\,dB,\quad q=\tfrac4d\Big[S\,m(1-m)^2+\tfrac{P-S}n\,m(1-m)\Big],
  \qquad m=\tfrac{1+(n-1)\gamma}n .$$
"""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.random_transformers_homogenization import PAPER
from sphereflow.papers.random_transformers_homogenization.collapse import N
from sphereflow.random_transformers.collapse import Architecture, collapse_depth, predict
from sphereflow.random_transformers.depth_observables import pair_overlap
from sphereflow.random_transformers.equiangular import time_between
from sphereflow.random_transformers.gram_chain import run_gram
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.network import run as run_layers
from sphereflow.random_transformers.passage_times import passage_of_few, passage_of_many
from sphereflow.random_transformers.weight_laws import weights

FIRST_ORDER = basis.Derived("the overlap equation for tokens of one common overlap, to first order in 1/d")


@jax.jit
def _mean_square(x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.mean(x, axis=1) ** 2, axis=-1)


def passages(n: int, d: int, s: float, eta: float, last: float, networks: int, seed: int) -> np.ndarray:
    """When each of the networks, from independent uniform tokens, reaches m = 1/2; those that do not, at the end."""
    x = np.random.default_rng(seed).standard_normal((networks, n, d))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    every = max(1, round(0.16 / eta**2))
    depths = list(range(0, round(last / eta**2) + every, every))
    network = RandomNetwork(weights("product", d=d), s, eta)
    m = run_layers(network, x, depths, observe=_mean_square, seed=seed).values
    return eta**2 * every * np.array([first_passage(path) for path in m])


def first_passage(path: np.ndarray, level: float = 0.5) -> float:
    """Where a path first crosses the level, between its samples; the last sample if it never does."""
    above = np.flatnonzero(path >= level)
    if not len(above):
        return len(path) - 1.0
    k = int(above[0])
    return k - float((path[k] - level) / (path[k] - path[k - 1])) if k else 0.0


def deviation(times: np.ndarray) -> Estimate:
    """The standard deviation and its standard error."""
    square = mean((times - times.mean()) ** 2)
    size = np.sqrt(square.value)
    return Estimate(size, square.error / (2 * size))


@PAPER.claim(
    "collapse-time-and-context",
    says="At infinite temperature independent uniform tokens in networks reach the mean overlap 1/2 after the mean "
    "first-passage time of the equation for the mean overlap: 4 tokens in dimension 32, 16 tokens in dimension 8; in "
    "the larger preset 4 to 256 tokens in dimensions 8 to 128, with the equation of many tokens where they exceed 2d.",
    basis=FIRST_ORDER,
    formula=r"dy=\Big(1-\frac{4-3m}d\Big)d\tau+\frac2{\sqrt d}dB,\qquad E\,T\approx\frac{\log(n-1)}{1-4/d}",
)
def collapse_time_and_context(run: Run) -> Check:
    cells = [(4, 32, 0.2, 150), (16, 8, 0.3, 150)]
    if not run.quick:
        cells = [(n, d, 0.2, 60 if n == 256 else 300) for n in (4, 16, 64, 256) for d in (8, 32, 128)]
    check = Check(parameters={"networks": tuple(cell[-1] for cell in cells)})
    narrow: dict[str, float] = {}
    alone: dict[str, float] = {}
    for k, (n, d, eta, networks) in enumerate(cells):
        run.notify(k / len(cells), f"n={n}, d={d}")
        predicted, spread = passage_of_many(n, d) if n > 2 * d else passage_of_few(n, d, 0.0)
        found = mean(passages(n, d, 0.0, eta, predicted + 4 * spread, networks, run.seed + k))
        row = f"n={n}, d={d}"
        check.row(
            row,
            predicted=predicted,
            measured=found.value,
            error=found.error,
            repeats=networks,
            tolerance=3 * eta**2 + predicted / d**2,
            because="the error bar over networks; detection and step, about three layers; the next order in 1/d",
        )
        narrow[row] = math.log(n - 1)
        alone[row] = passage_of_few(4, d, 0.0)[0]
    check.rival("no effect of the dimension", narrow)
    check.rival("no effect of the number of tokens", {row: v for row, v in alone.items() if not row.startswith("n=4,")})
    return check


@jax.jit
def _overlap(x: jax.Array) -> jax.Array:
    return pair_overlap(x)


@lru_cache(maxsize=16)
def passage_layers(a: Architecture, networks: int, seed: int) -> np.ndarray:
    """Depths at which orthogonal tokens have the mean overlap 1/2, one per network."""
    m = (1 + (a.n - 1) / 2) / a.n
    average, spread = (
        a.layers_per_time * each for each in passage_of_few(a.n, a.d, a.sharpness, m, np.array([1 / a.n]))
    )
    every = max(1, round(0.16 * a.layers_per_time))
    depths = list(range(0, round(average + 5 * spread) + every, every))
    seen = run_gram(a.network(), np.eye(a.n), a.d, depths, networks, observe=_overlap, seed=seed).values
    return every * np.array([first_passage(path) for path in seen])


def orthogonal(beta: float, step: float = 0.25) -> Architecture:
    """Eight tokens in dimension 32: with 400 networks the shape of `network_path`, whose program serves."""
    return Architecture(d=32, n=N, layers=100, heads=1, step=step, beta=beta)


@PAPER.claim(
    "collapse-time-and-temperature",
    says="Eight orthogonal tokens in networks of dimension 32 collapse later at $s=8$ than at $s=0.5$, and the time "
    "varies more from network to network: mean and standard deviation of the first passage of the overlap 1/2 are "
    "those of the equation of the mean overlap with attention in drift and noise (larger preset: independent tokens, "
    "n = 4, 16, 64, dimensions 32 and 128, $s=0$, 2, 8).",
    basis=FIRST_ORDER,
    formula=r"dm=\tfrac{n-1}nD\,d\tau+\sqrt{q}\,dB,\qquad q=\tfrac4d\Big[S\,m(1-m)^2+\tfrac{P-S}n\,m(1-m)\Big]",
)
def collapse_time_and_temperature(run: Run) -> Check:
    networks, eta = 400, 0.25
    check = Check(parameters={"eta": eta, "networks": networks})
    flat: dict[str, float] = {}
    noiseless: dict[str, float] = {}

    def compare(where: str, d: int, predicted: tuple[float, float], times: np.ndarray) -> None:
        for row, exact, found, tolerance in (
            (f"mean, {where}", predicted[0], mean(times), 2 * eta**2 + 1.5 * predicted[0] / d),
            (f"deviation, {where}", predicted[1], deviation(times), 3 * predicted[1] / d),
        ):
            check.row(
                row,
                predicted=exact,
                measured=found.value,
                error=found.error,
                repeats=len(times),
                tolerance=tolerance,
                because="the error bar over networks; two layers for detection and step; the order 1/d of attention",
            )

    for k, s in enumerate((0.5, 8.0)):
        middle, start = (1 + (N - 1) / 2) / N, np.array([1 / N])
        times = eta**2 * passage_layers(orthogonal(s), networks, run.seed + k)
        where = f"n={N}, d=32, s={s:g}"
        compare(where, 32, passage_of_few(N, 32, s, middle, start), times)
        other = passage_of_few(N, 32, 0.0, middle, start)
        if s > 1:
            flat |= {f"mean, {where}": other[0], f"deviation, {where}": other[1]}
        noiseless[f"mean, {where}"] = time_between(0.0, 0.5, N, 0.0)
    if not run.quick:
        cells = [(n, d, s) for d in (32, 128) for n in (4, 16, 64) for s in (0.0, 2.0, 8.0)]
        for k, (n, d, s) in enumerate(cells):
            run.notify(k / len(cells), f"n={n}, d={d}, s={s:g}")
            predicted = passage_of_few(n, d, s)
            last = predicted[0] + 5 * predicted[1]
            times = passages(n, d, s, eta, last, 150, run.seed + k)
            compare(f"independent, n={n}, d={d}, s={s:g}", d, predicted, times)
    check.rival("no effect of the temperature", flat)
    check.rival("the spread of flat attention", {row: v for row, v in flat.items() if row.startswith("deviation")})
    check.rival("the logistic time of infinite dimension", noiseless)
    return check


@PAPER.claim(
    "mitigations",
    says="What delays collapse, and by how much: in networks of eight orthogonal tokens in dimension 32 half the step "
    "multiplies the depth of overlap 1/2 by four, attention sixteen times colder by the factor of the closed equation "
    "(larger preset: also values halved, heads, context and width doubled), as `random_transformers.predict` says.",
    basis=basis.Derived("the diffusive clock and the closed equation of equiangular tokens"),
    formula=r"L=\frac H{\eta^2v^2}\int_0^{1/2}\frac{d\gamma}{D(\gamma)}",
)
def mitigations(run: Run) -> Check:
    networks, base = 400, orthogonal(0.5, 0.5)
    check = Check(parameters={"d": 32, "n": N, "eta": base.step, "beta": base.beta, "networks": networks})
    fine, cold = orthogonal(0.5), orthogonal(8.0)
    told = {knob.name: knob for knob in predict(base).knobs}
    colder = collapse_depth(cold, 0.5) / collapse_depth(fine, 0.5)
    # The streams of `collapse_time_and_temperature` where the networks are the same.
    streams = {fine: 0, cold: 1, base: 2}
    cases = [("step halved", told["step halved"].factor, base, fine), ("beta times 16", colder, fine, cold)]
    if not run.quick:
        others = {
            "values halved": dataclasses.replace(base, value_scale=base.value_scale / 2),
            "heads doubled": dataclasses.replace(base, heads=2 * base.heads),
            "context doubled": dataclasses.replace(base, n=2 * base.n),
            "width doubled": dataclasses.replace(base, d=2 * base.d),
        }
        cases += [(name, told[name].factor, base, other) for name, other in others.items()]
    for name, factor, before, after in cases:
        first, second = (
            mean(passage_layers(a, networks, run.seed + streams.get(a, len(check.rows) + 3))) for a in (before, after)
        )
        ratio = second.value / first.value
        check.row(
            f"depth, {name}",
            predicted=factor,
            measured=ratio,
            error=ratio * math.hypot(first.error / first.value, second.error / second.value),
            repeats=networks,
            tolerance=factor * (1.5 / float(first.value) + 1 / before.d),
            because="the error bars; detection and step, 1.5 layers of the base; the order 1/d of the equation",
        )
    check.rival("the ballistic clock eta L", {"depth, step halved": 2.0})
    check.rival("temperature does not matter", {"depth, beta times 16": 1.0})
    return check
