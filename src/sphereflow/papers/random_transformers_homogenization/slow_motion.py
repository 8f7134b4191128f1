r"""Low temperature and a diffuse cloud: the slow motion of overlaps, whose law depends on the law of the weights.

$$du=-a\,u(1-u^2)d\theta+\sqrt2(1-u^2)dB,
  \qquad a=1\text{ (orthogonal)},\ \tfrac32\text{ (Gaussian)},\ 2\text{ (product)}.$$
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, extrapolate, fraction, growth_rate, mean
from sphereflow.papers.random_transformers_homogenization import PAPER, independent, sources
from sphereflow.random_transformers.low_temperature import finite_moment, image_overlap, limit_moment
from sphereflow.random_transformers.low_temperature_pairs import cold_pairs
from sphereflow.random_transformers.network import RandomNetwork
from sphereflow.random_transformers.network import run as run_layers
from sphereflow.random_transformers.time_scales import layer_time
from sphereflow.random_transformers.weight_laws import weights

LAWS = ("orthogonal", "one Gaussian", "product")


@PAPER.claim(
    "overlap-of-images",
    says="Two directions mapped by random weights lose overlap: $\\frac1{2d}r(1-r^2)$ to leading order for one "
    "Gaussian matrix, and twice that for products of two, here in dimension 40 at $r=0.6$.",
    basis=basis.Theorem("low temperature: lemma on s(r)", via=sources.LEAN),
    formula=r"s(r)=r-\#\frac{r(1-r^2)}{2d}+O(d^{-2})",
    prints="For product weights $s(r)=r-\\frac{r(1-r^2)}{2d}+O(d^{-2})$.",
)
def overlap_of_images(run: Run) -> Check:
    d, r, samples = 40, 0.6, 60_000 if run.quick else 400_000
    rng = np.random.default_rng(run.seed)

    def image(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Images of pairs of vectors under independent Gaussian matrices: Gaussian, with the pairs' Gram matrix."""
        size, c = np.linalg.norm(u, axis=1), np.sum(u * v, axis=1)
        along = c / size
        across = np.sqrt(np.maximum(np.sum(v * v, axis=1) - along**2, 0))
        g, h = rng.standard_normal((2, samples, d))
        return size[:, None] * g, along[:, None] * g + across[:, None] * h

    def cosine(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.sum(u * v, axis=1) / (np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1))

    x, y = np.zeros((2, samples, d))
    x[:, 0], y[:, 0], y[:, 1] = 1, r, np.sqrt(1 - r * r)
    one = image(x, y)
    two = image(*one)
    # The mean after one map is known in closed form; the second map is compared with the first, draw by draw.
    first, second = cosine(*one), cosine(*two)
    known = float(image_overlap(r, d, 1))
    scale = d / (r * (1 - r * r))
    found = [mean((r - first) * scale), mean((r - known + first - second) * scale)]
    check = Check(parameters={"d": d, "r": r, "samples": samples})
    for name, k, estimate in (("one Gaussian", 1, found[0]), ("product", 2, found[1])):
        check.row(
            name,
            predicted=float((r - image_overlap(r, d, k)) * scale),
            measured=estimate.value,
            error=estimate.error,
            repeats=samples,
            because="the error bar; predictions by hypergeometric series and Gauss quadrature",
        )
    check.printed({"product": 0.5})
    check.rival("one Gaussian loses as much as a product", {"one Gaussian": 1.0})
    return check


@PAPER.claim(
    "cold-lyapunov",
    says="In the cold diffuse limit close tokens in dimension 6 approach at a rate fixed by the law of the weights: "
    "1/3 for orthogonal, 5/24 for Gaussian and 5/96 for product matrices per unit of $\\tau$.",
    basis=basis.Derived("the overlap equation with attention replaced by Ax/|Ax|"),
    formula=r"\frac{d}{d\tau}E\log(1-r)=\frac{(d-3)\kappa-(d-1)}d,\quad\kappa=\left(\tfrac{d-1}{d-2}\right)^{\#}",
)
def cold_lyapunov(run: Run) -> Check:
    d, pairs, layers = 6, *((1500, 600) if run.quick else (20_000, 2400))
    step = 0.1
    check = Check(parameters={"d": d, "eta": step, "h": step**2, "layers": layers, "pairs": pairs})
    for factors, (law, exact) in enumerate(zip(LAWS, (-2 / 6, -5 / 24, -5 / 96), strict=True)):
        paths = cold_pairs(d, factors, 1.0, step, layers, pairs, every=layers, seed=run.seed, gap=1e-8)
        found = growth_rate(paths.log_gap, paths.times)
        check.row(
            law,
            predicted=exact,
            measured=found.value,
            error=found.error,
            repeats=pairs,
            tolerance=step**2,
            because="the error bar over pairs; the step h",
        )
    check.rival("one exponent for all laws", {"one Gaussian": -2 / 6, "product": -2 / 6})
    check.rival("a product contracts like one Gaussian", {"product": -5 / 24})
    check.rival("the rate -(d-1)/d of flat attention", -5 / 6)
    return check


@lru_cache(maxsize=8)
def spread(d: int, factors: int, pairs: int, seed: int) -> Estimate:
    """E artanh(r)^2 at theta = 1 from orthogonal tokens, extrapolated to step zero."""
    steps = np.sqrt([0.1, 0.05])
    values = []
    for eta in steps:
        layers = round(d / layer_time(d, eta))
        paths = cold_pairs(d, factors, 0.0, float(eta), layers, pairs, every=layers, seed=seed)
        values.append(mean(paths.artanh[:, -1] ** 2))
    both = Estimate(np.array([e.value for e in values]), np.array([e.error for e in values]))
    return extrapolate(steps**2, both)


@PAPER.claim(
    "slow-motion",
    says="On the clock $\\tau=d\\theta$ the slow variable $\\mathrm{artanh}\\,r$ of two tokens with product weights "
    "has the mean square of the equation with $a=2$, a Brownian motion: overlaps keep returning to zero. Orthogonal "
    "weights have $a=1$.",
    basis=basis.Theorem("low temperature, part 2", via=sources.LEAN),
    formula=r"du=-a\,u(1-u^2)d\theta+\sqrt2(1-u^2)dB,\qquad E\,\mathrm{artanh}(u)^2(1)=2.00\ (a=2),\ 3.52\ (a=1)",
    prints="With product weights the overlap converges to $du=-u(1-u^2)d\\theta+\\sqrt2(1-u^2)dB$.",
)
def slow_motion(run: Run) -> Check:
    d, pairs = (16, 2500) if run.quick else (48, 20_000)
    check = Check(parameters={"d": d, "theta": 1, "pairs": pairs})
    for law, factors in (("orthogonal", 0), ("product", 2)):
        found = spread(d, factors, pairs, run.seed)
        check.row(
            law,
            predicted=finite_moment(1.0, d, factors),
            measured=found.value,
            error=found.error,
            repeats=pairs,
            because="the error bar of the value extrapolated to step zero; the prediction solves the equation of "
            "dimension d",
        )
    check.printed({"product": limit_moment(1.0, 1.0)})
    check.rival("orthogonal weights move like product ones", {"orthogonal": 2.0})
    return check


def limit_mean_square(a: float) -> float:
    r"""$E x(1)^2$ for $dx=(2-a)\tanh x\,d\theta+\sqrt2\,dB$ from 0."""
    found = independent.diffusion_averages(
        lambda x: (2 - a) * np.tanh(x), lambda x: 2.0 + 0 * x, [np.square], 0.0, [1.0], low=-16.0, high=16.0
    )
    return float(found[0, 0])


@PAPER.claim(
    "slow-motion-limits",
    says="The two-token equation of dimension 400 is near its limit with $a=1+\\#/2$ for # = 0, 1 and 2 Gaussian "
    "factors.",
    basis=basis.Derived("s(r) to first order in 1/d for each law of the weights"),
    formula=r"dx=(2-a)\tanh x\,d\theta+\sqrt2\,dB,\qquad a=1,\ \tfrac32,\ 2",
)
def slow_motion_limits(run: Run) -> Check:
    check = Check()
    for k, law in enumerate(LAWS):
        predicted, because = limit_mean_square(1 + k / 2), "the distance to the limit, 4/d, and the grid"
        measured = finite_moment(1.0, 400, k)
        check.row(law, predicted=predicted, measured=measured, tolerance=0.012, because=because)
    check.rival("a = 1 for all laws", {law: limit_mean_square(1.0) for law in LAWS[1:]})
    check.rival("a grows by one with each factor", {LAWS[1]: limit_mean_square(2.0), LAWS[2]: limit_mean_square(3.0)})
    return check


def diffuse_squares(times: list[float]) -> np.ndarray:
    r"""$E\,R^2$ of two tokens of a uniform cloud on the sphere in R^3 under product weights, attention $Ax/|Ax|$.

    In $x=\mathrm{artanh}\,r$ by $dr=\frac13[(1+r^2)s-2r]d\tau+\sqrt{\frac23(1-r^2)(1-rs)}dB$, r uniform at the start.
    """
    nodes = np.linspace(0, 5, 61)
    r = np.tanh(nodes)
    s, gap = np.asarray(image_overlap(r, 3, 2)), 1 - r * r
    variance = 2 / 3 * (1 - r * s) / gap
    speed = ((1 + r * r) * s - 2 * r) / (3 * gap) + r * variance
    starts, weight = np.polynomial.legendre.leggauss(40)
    found = independent.diffusion_averages(
        lambda x: np.sign(x) * np.interp(np.abs(x), nodes, speed),
        lambda x: np.interp(np.abs(x), nodes, variance),
        [lambda x: np.tanh(x) ** 2],
        np.arctanh(starts),
        times,
    )
    return np.asarray(weight @ found[:, 0] / 2)


@jax.jit
def _square_overlap(x: jax.Array) -> jax.Array:
    """Mean of the squared overlaps over pairs of different tokens, from the second moments."""
    n = x.shape[1]
    second = jnp.einsum("rna,rnb->rab", x, x) / n
    return (n * jnp.sum(second**2, axis=(1, 2)) - 1) / (n - 1)


@PAPER.claim(
    "cold-attention-moves-slowly",
    says="Attention itself at $\\beta=300$, on 96 independent tokens in dimension 3: the mean square of the overlaps "
    "in networks at $\\tau=0.5$ and 1 is that of the slow equation on the clock $\\tau/d$, in which every token "
    "follows its own key.",
    basis=basis.Theorem("low temperature, part 1", via=sources.LEAN),
    formula=r"dR=\tfrac1d\left[(d-2+R^2)s(R)-(d-1)R\right]d\tau+\sqrt{\tfrac2d(1-R^2)(1-Rs(R))}\,dB",
)
def cold_tokens(run: Run) -> Check:
    n, networks, eta = (96, 200, 0.25) if run.quick else (384, 400, 0.15)
    x = np.random.default_rng(run.seed).standard_normal((networks, n, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    network = RandomNetwork(weights("product", d=3), 300.0, eta)
    times = (0.5, 1.0)
    depths = [round(t / eta**2) for t in times]
    found = mean(run_layers(network, x, depths, observe=_square_overlap, seed=run.seed).values)
    check = Check(parameters={"d": 3, "n": n, "beta": 300, "eta": eta, "networks": networks})
    known = diffuse_squares([0.5, 0.75, 1.0, 1.5])
    check.series(
        [f"tau={t:g}" for t in times],
        predicted=known[[0, 2]],
        measured=found.value,
        error=found.error,
        repeats=networks,
        tolerance=1 / n,
        because="the error bar over networks; the nearest of n tokens is not the key itself, 1/n",
    )
    check.rival("tokens that stand still, as with flat attention", 1 / 3)
    check.rival("the clock tau/(d - 1)", known[[1, 3]])
    return check


@PAPER.claim(
    "aligned-up-to-sign",
    says="Two single tokens under one network in dimension 6 align up to sign: from overlap 1/2 the plus sign has "
    "the arcsine probability 2/3 at $\\tau=30$, and the share with $|r|>0.99$ is that of the limit equation at three "
    "times.",
    basis=basis.Derived("the overlap equation of two single tokens, exact in every dimension (a = 1)"),
    formula=r"P(r\to+1)=\tfrac12+\tfrac1\pi\arcsin r_0",
)
def aligned(run: Run) -> Check:
    d, pairs, eta = 6, 3000 if run.quick else 20_000, 0.2
    every = round(10 / layer_time(d, eta))
    paths = cold_pairs(d, 0, 0.5, eta, 3 * every, pairs, every=every, seed=run.seed)
    check = Check(parameters={"d": d, "r0": 0.5, "eta": eta, "pairs": pairs})
    because = "the error bar over pairs; the step"
    plus, met = fraction(paths.cosine[:, -1] > 0), fraction(np.abs(paths.cosine[:, 1:]) > 0.99)
    row = "P(r > 0), tau=30"
    exact = 0.5 + np.arcsin(0.5) / np.pi
    check.row(
        row, predicted=exact, measured=plus.value, error=plus.error, repeats=pairs, tolerance=0.01, because=because
    )
    names = [f"P(|r| > .99), tau={t:g}" for t in (10, 20, 30)]
    shares = independent.diffusion_averages(
        np.tanh,
        lambda x: 2.0 + 0 * x,
        [lambda x: (np.abs(np.tanh(x)) > 0.99) * 1.0],
        float(np.arctanh(0.5)),
        [t / d for t in paths.times[1:]],
        low=-24.0,
        high=24.0,
    )[0]
    check.series(
        names, predicted=shares, measured=met.value, error=met.error, repeats=pairs, tolerance=0.015, because=because
    )
    check.rival("a probability linear in the overlap", {row: 0.75})
    check.rival("no memory of the start", {row: 0.5})
    check.rival("synchronisation with one sign", {row: 1.0})
    check.rival("half the rate", dict(zip(names[1:], shares[:2], strict=True)))
    return check
