"""Smaller statements around the theorem: caps that keep their tokens, mixtures of Gaussians, caps filled with a law."""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate, stats

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import fraction
from sphereflow.metastability import certify, first_exit, slow_manifold
from sphereflow.papers.dynamic_metastability.caps import PROMISE, nearest, on_circle
from sphereflow.papers.dynamic_metastability.paper import PAPER
from sphereflow.papers.dynamic_metastability.reference_solver import closing_time, field
from sphereflow.papers.dynamic_metastability.slow_motion import UNEQUAL, frames
from sphereflow.papers.dynamic_metastability.sources import LEAN, RANDOM_STARTS

CENTRES = np.array([0.0, 2.0, 4.1])


@PAPER.claim(
    "caps-shrink",
    says=r"Where $\frac1n\delta(1-\delta)e^{-\delta\beta}>ne^{-(1-\alpha)\beta}$, caps with pairwise inner products at "
    r"least $1-\delta$ keep them: the smallest inner product of a cap never falls. Without the condition it may.",
    basis=basis.Theorem("lemma on the propagation of closeness in a cap", via=LEAN),
    formula=r"\tfrac1n\delta(1-\delta)e^{-\delta\beta}>n\,e^{-(1-\alpha)\beta}\ \Rightarrow\ \rho_q(t)\ge1-\delta",
)
def caps_shrink(run: Run) -> Check:
    check = Check(parameters={"n": 7, "beta": 100}, note="The condition with the smallest mass in place of 1/n.")
    name = "least change of a smallest inner product"
    for kind in ("sa", "usa"):
        seen = [UNEQUAL.constants(100.0, kind, x) for x in frames("unequal masses", 100.0, kind, _times(kind))]
        check.same(f"the condition holds, {kind.upper()}", predicted=1, measured=float(seen[0].shrinking))
        products = np.stack([m.smallest_product for m in seen])
        because = "a theorem: rounding"
        least = float(np.min(products - products[0]))
        check.at_least(f"{name}, {kind.upper()}", bound=0.0, measured=least, tolerance=1e-12, because=because)
    # A wide cap close to a heavy one: its near end leaves it.
    torn = torn_cap()
    loose = slow_manifold(torn, 9.0, "usa", labels=TORN)
    x = torn + 0.01 * field(torn, 9.0, "usa")
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    change = slow_manifold(x, 9.0, "usa", labels=TORN).smallest_product - loose.smallest_product
    check.same("the condition fails for a cap beside a heavy one", predicted=0, measured=float(loose.shrinking))
    check.null("a cap beside a heavy one, where the condition fails", {f"{name}, USA": float(change.min())})
    return check


TORN = np.array([0, 0, 1, 1, 1, 1, 1, 1])


def torn_cap() -> np.ndarray:
    """Two tokens 0.8 apart, and six at one point 0.5 from the second."""
    return on_circle(np.array([0.0, 0.8, *[1.3] * 6]))


def _times(kind: str) -> tuple[float, ...]:
    return tuple(np.linspace(0, 8, 5)) if kind == "sa" else tuple(np.linspace(0, 24, 5))


@PAPER.claim(
    "variance-form",
    says="The smallest height of a cap's tokens over its centre grows at least as fast as the paper's inequality with "
    "the variance says; with tokens of equal heights nothing is lost.",
    basis=basis.Equation("of the smallest height in a cap, variance form", via=LEAN),
    formula=r"\dot\eta\ge\eta\sum_{j\in\mathrm{cap}}a_{ij}\frac{|x_j-x_i|^2}2-ne^{-(1-\alpha)\beta}",
)
def variance_form(run: Run) -> Check:
    beta, offsets = 60.0, np.array([-0.08, 0.08])
    labels, centres = np.repeat(np.arange(3), 2), on_circle(CENTRES)
    check = Check(parameters={"n": 6, "beta": beta, "offsets": "0.08 and less"})
    doubled: dict[str, float] = {}
    for kind in ("sa", "usa"):
        slacks = {1.0: math.inf, 2.0: math.inf}
        for shrink in (1.0, 0.7, 0.4, 0.1):  # wide caps and narrow ones
            x = on_circle((CENTRES[:, None] + shrink * offsets).ravel())
            weights = np.exp(beta * (x @ x.T - 1))
            weights = weights / (weights.sum(axis=1, keepdims=True) if kind == "sa" else len(x))
            inside = labels[:, None] == labels[None, :]
            alpha = float((x @ x.T)[~inside].max())
            squares = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
            growth = np.sum(field(x, beta, kind) * centres[labels], axis=1)
            height = np.sum(x * centres[labels], axis=1)
            spread = height * np.sum(np.where(inside, weights * squares / 2, 0), axis=1)
            loss = len(x) * math.exp(-(1 - alpha) * beta)
            for factor in slacks:
                slacks[factor] = min(slacks[factor], float(np.min((growth - factor * spread + loss) / spread)))
        name = f"smallest slack over the spread, {kind.upper()}"
        check.at_least(name, bound=0.0, measured=slacks[1.0], tolerance=1e-9, because="rounding of the vector field")
        doubled[name] = slacks[2.0]
    check.null("the variance without its factor 1/2", doubled)
    return check


@PAPER.claim(
    "gaussian-mixtures",
    says=r"Tokens drawn from a mixture of Gaussians with three separated means and projected on the sphere are "
    r"separated with the probability that all of them fall into the caps around the means: one for small variances.",
    basis=RANDOM_STARTS,
    formula=r"P=p^n,\quad p=P\Big(\frac{1+\sigma g_1}{|e_1+\sigma g|}\ge1-\varepsilon\Big)",
)
def gaussian_mixtures(run: Run) -> Check:
    d, n, beta, epsilon, most = 8, 6, 60.0, 0.01, 900 if run.quick else 4000
    centres = np.eye(d)[:3]
    rng = np.random.default_rng([run.seed, 7])
    check = Check(parameters={"d": d, "n": n, "beta": beta, "epsilon": epsilon, "draws": most})
    single: dict[str, float] = {}
    whole: dict[str, float] = {}
    for sigma, draws in ((0.02, 60), (0.045, most)):
        labels = rng.integers(0, 3, size=(draws, n))
        x = centres[labels] + sigma * rng.normal(size=(draws, n, d))
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        hits = np.array([certify(each, beta, epsilon, centres=centres).separated for each in x])
        found = fraction(hits)
        name = rf"share of separated starts, $\sigma={sigma:g}$"
        inside = _inside_cap(sigma, epsilon, d - 1)
        check.row(
            name,
            predicted=inside**n,
            measured=found.value,
            tolerance=0.0,
            error=found.error,
            repeats=draws,
            because="the error bar of the draws",
        )
        single[name], whole[name] = inside, _inside_cap(sigma, epsilon, d) ** n
    check.rival("the probability of a single token", single)
    check.rival("the radial direction counted among those that turn a token", whole)
    return check


def _inside_cap(sigma: float, epsilon: float, degrees: int) -> float:
    r"""$P(\sigma^2\chi^2_m\le(1+\sigma g)^2\tan^2\arccos(1-\varepsilon))$, by quadrature over the radial part g."""
    slope = math.tan(math.acos(1 - epsilon)) ** 2

    def share(g: float) -> float:
        return float(stats.norm.pdf(g) * stats.chi2.cdf((1 + sigma * g) ** 2 * slope / sigma**2, degrees))

    return float(integrate.quad(share, -8, 8)[0])


@PAPER.claim(
    "mean-field-caps",
    says=r"With thirty tokens in three caps, tokens stay in the larger caps up to the time in which the number $k=3$ "
    r"of caps stands in place of that of tokens, and have collapsed by the time that the mean-field statement gives.",
    basis=basis.Theorem("mean-field version of thm: metastability, stated without a complete proof", via=LEAN),
    formula=r"T_1<\frac\varepsilon ke^{\beta(1-\alpha-8\varepsilon)}<T_2=\frac\varepsilon ke^{(1-\alpha)\beta}",
)
def mean_field_caps(run: Run) -> Check:
    beta, epsilon, k = 60.0, 0.004, 3
    offsets = 0.085 * np.linspace(-1, 1, 10)
    x, centres = on_circle((CENTRES[:, None] + offsets).ravel()), on_circle(CENTRES)
    found = certify(x, beta, epsilon, centres=centres)
    gamma = 1 - found.alpha - 8 * epsilon - math.log(2 * k**2 / epsilon) / beta
    rate = min(gamma, 0.3)
    check = Check(
        note="The bound on the collapse is e^59 too large: it is any time before T2, not an estimate.",
        parameters={"n": 30, "k": k, "beta": beta, "epsilon": epsilon, "lambda": rate},
    )
    thin, quick = {}, {}
    for kind in ("sa", "usa"):
        exit_time = first_exit(found, kind, on_circle(np.repeat(CENTRES, 10)))
        log_end = math.log(epsilon / k) + (1 - found.alpha) * beta
        left, collapse = f"log exit, {kind.upper()}", f"log collapse, {kind.upper()}"
        because = "as stated, and the promise of the integrator"
        check.at_least(left, bound=log_end, measured=exit_time, tolerance=PROMISE, because=because)
        bound = math.log(epsilon / k) + beta * (1 - found.alpha - 8 * epsilon)
        level = math.exp(-rate * beta)
        collapsed = closing_time(x, beta, kind, found.labels, level, 1e3)
        check.at_most(collapse, bound=bound, measured=math.log(collapsed), tolerance=PROMISE, because=because)
        thin[left], quick[collapse] = beta * (1 - nearest(centres)), 0.0
    check.rival("exit not before $e^{(1-\\cos D)\\beta}$, D the least angle of centres: caps without width", thin)
    check.rival("collapse within the time 1, whatever $\\beta$ and $\\varepsilon$", quick)
    return check
