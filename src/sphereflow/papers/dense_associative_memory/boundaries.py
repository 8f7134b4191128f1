r"""Phase boundaries by simulation, with error bars: both kernels at N = 50 to 400, and tempered stored patterns.

$$\tfrac12E_x\Big|\frac{S^p}{Z}-1\Big|=\tfrac12\ \text{ at }\alpha_{1/2}(N,T),\qquad
  \alpha_{1/2}\to\alpha_u(T)\text{ (LSE)},\quad \alpha_{th}\text{ (LSR, every }T).$$
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp, ndtri

from sphereflow.claims import Check, Run, basis
from sphereflow.memory import compact, gaussian, spherical
from sphereflow.memory.boundaries import RetrievalBoundary, boundary
from sphereflow.memory.landscapes import random_patterns
from sphereflow.memory.state import REFERENCE_B, support_edge
from sphereflow.memory.tempering import temper
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.hot_bath import log_moment
from sphereflow.papers.dense_associative_memory.sources import HOT, SOURCE

B = REFERENCE_B
SIZES = (50, 100, 200, 400)
REPEATS = 10
LARGE = (200, 400)  # where the closed forms at finite N are sharp
BELOW = basis.Equation("of the threshold of the Epanechnikov kernel, below which no other pattern acts", via=SOURCE)


def simulated(run: Run, kernel: str, sharpness: float, temperature: float) -> RetrievalBoundary:
    states = 100 if run.quick else 2000
    return boundary(
        kernel, sharpness, temperature=temperature, sizes=SIZES, states=states, repeats=REPEATS, seed=run.seed
    )


def finite_static(n: int, moment: float) -> float:
    r"""$\frac{\ln A(pN)-p\ln A(N)}{(p-1)N}$ at $\beta=1$: single patterns carry half of the mean of Z."""
    alone, noise = (float(log_moment(n, k * n)) for k in (moment, 1.0))
    return (alone - moment * noise) / ((moment - 1) * n)


@PAPER.claim(
    "boundary-of-the-gaussian-kernel",
    says=r"For $\beta=1$ the simulated loads at which retrieval ends at $N=50$, 100, 200 and 400 tend to the static "
    "line, in a cold bath ($T=0.5$) and in hot ones ($T=2$ and 4, at loads of 0.094 and 0.029); at $T=0.5$ they are "
    "those of the closed form at finite $N$.",
    basis=HOT,
    formula=r"\alpha_{1/2}(N)\to\alpha_u(T),\qquad "
    r"\alpha_u=-\tfrac12\ln(1-\phi_{eq}^2)\simeq\tfrac1{2T^2}\ (T\ge\tfrac1\beta)",
)
def lse_boundary(run: Run) -> Check:
    check = Check(parameters={"beta": 1, "N": SIZES})
    rivals: dict[str, dict[str, float]] = {"depth": {}, "spinodal": {}, "published": {}}
    for t in (0.5, 2.0, 4.0) if run.quick else (0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0):
        found = simulated(run, "lse", 1.0, t)
        name = f"limit, $T={t:g}$"
        check.row(
            name,
            predicted=spherical.static(t, 1.0),
            measured=found.limit.value,
            error=found.limit.error,
            tolerance=2e-4,
            because="error of the limit, which includes the distance between two fits; higher terms in 1/N",
        )
        rivals["depth"][name] = float(spherical.equal_depth(t, 1.0))
        rivals["published"][name] = float(gaussian.lse_line(t, 1.0))
        if t < 1:
            rivals["spinodal"][name] = float(spherical.spinodal(t, 1.0))
        if t == 0.5:
            for place, n in enumerate(SIZES):
                if n in LARGE:
                    check.row(
                        f"$N={n}$, $T=0.5$",
                        predicted=finite_static(n, 2.0),
                        measured=found.load.value[place],
                        error=found.load.error[place],
                        repeats=REPEATS,
                        tolerance=2e-5 * (200 / n) ** 2,
                        because="error over repeats; states between the two kinds, which die out exponentially",
                    )
    limit = {f"$N={n}$, $T=0.5$": float(spherical.static(0.5, 1.0)) for n in LARGE}
    check.rival("the limit of large N at every N", limit)
    check.rival("one basin as deep as the noise", rivals["depth"])
    check.rival("the spinodal", rivals["spinodal"])
    check.rival("the published line, Gaussian overlaps", rivals["published"])
    return check


def log_moments(n: int) -> tuple[float, float]:
    r"""$\ln E[1-b(1-\phi)]_+$ and $\ln E[1-b(1-\phi)]_+^2$ for one overlap, by scipy's quadrature."""
    constant = gammaln(n / 2) - gammaln((n - 1) / 2) - np.log(np.pi) / 2
    edge, values = support_edge(B), []
    for power in (1, 2):
        scale = (n - 3) / 2 * np.log1p(-(edge**2))
        area = quad(
            lambda phi, m=power, s=scale: (1 - B * (1 - phi)) ** m * np.exp((n - 3) / 2 * np.log1p(-(phi**2)) - s),
            edge,
            min(1.0, edge + 40 / n),
            epsabs=0,
            epsrel=1e-9,
        )[0]
        values.append(float(constant + scale + np.log(area)))
    return values[0], values[1]


def finite_compact(n: int, temperature: float) -> float:
    r"""The load with $p\sigma=2\Phi^{-1}(3/4)$, $\sigma^2=E\,k^2/(M(E\,k)^2)$: a tilted normal law half apart."""
    first, second = log_moments(n)
    return float((2 * np.log(n / (B * temperature) / (2 * ndtri(0.75))) + second - 2 * first) / n)


@PAPER.claim(
    "boundary-of-the-compact-kernel",
    says="For the compact kernel the simulated loads at which the equilibrium becomes that of a uniform state tend, at "
    "$T=1$ and $T=4$ alike, to the threshold 0.3466 of the sphere, from above and like $\\frac52\\ln N/N$.",
    basis=BELOW,
    formula=r"\alpha_{1/2}(N,T)=\frac1N\Big[2\ln\frac{N}{1.349\,bT}+\ln\frac{E\,k^2}{(E\,k)^2}\Big]\to\alpha_{th}",
)
def lsr_boundary(run: Run) -> Check:
    check = Check(parameters={"b": B, "N": SIZES})
    flat, printed, seen = {}, {}, {}
    for t in (1.0, 4.0) if run.quick else (0.2, 0.5, 1.0, 2.0, 4.0):
        found = simulated(run, "lsr", B, t)
        name = f"limit, $T={t:g}$"
        check.row(
            name,
            predicted=compact.threshold(B),
            measured=found.limit.value,
            error=found.limit.error,
            tolerance=5e-4,
            because="error of the limit, which includes the distance between two fits; higher terms in 1/N",
        )
        printed[name] = float(gaussian.lsr_line(t, B))
        for n, value, error in zip(SIZES, found.load.value, found.load.error, strict=True):
            if n in LARGE:
                row = f"$N={n}$, $T={t:g}$"
                check.row(
                    row,
                    predicted=finite_compact(n, t),
                    measured=value,
                    error=error,
                    repeats=REPEATS,
                    tolerance=0.15 / n,
                    because="error over repeats; the sum of hundreds of terms is not quite normal",
                )
                flat[row] = finite_compact(n, 2.0)
                seen[row] = compact.finite_threshold(n, B)
    check.rival("a boundary that does not depend on temperature at finite N", flat)
    check.rival("the load with one pattern in the support of a random state", seen)
    check.rival("the line of Gaussian overlaps from the printed noise floor", printed)
    check.rival("the threshold of Gaussian overlaps", dict.fromkeys(printed, gaussian.lsr_threshold(B)))
    return check


def share_of_single_patterns(patterns: np.ndarray) -> tuple[float, float]:
    r"""(exact, with every pair counted once): the part of Z of single patterns at $T=1/2$, $\beta=1$."""
    count, n = patterns.shape
    rho = (patterns @ patterns.T / n)[np.triu_indices(count, 1)]
    alone = np.log(count) + float(log_moment(n, 2.0 * n))
    pairs = float(logsumexp(log_moment(n, n * np.sqrt(2 + 2 * rho)))) - alone
    return float(1 / (1 + 2 * np.exp(pairs))), float(1 / (1 + np.exp(pairs)))


@PAPER.claim(
    "tempered-gaussian-kernel",
    says="Parallel tempering of stored patterns finds the part of the partition function that single patterns carry at "
    r"$\beta=1$, $T=1/2$: it equals the sum over all pairs of the same patterns, below, near and above the boundary.",
    basis=basis.Derived("at T = 1/(2 beta) the partition function is a sum over pairs of patterns"),
    formula=r"\langle\sum_\mu w_\mu^2\rangle=\frac{M\,A(2N)}{\sum_{\mu\nu}A(N|\xi^\mu+\xi^\nu|/\sqrt N)}",
)
def tempered_lse(run: Run) -> Check:
    n = 14
    repeats, steps = (32, 200) if run.quick else (256, 2000)
    check = Check(parameters={"N": n, "ladders": repeats, "steps": steps})
    once = {}
    for count in (40, 110, 220):
        patterns = random_patterns(n, count, [run.seed, count])
        found = temper(patterns, temperature=0.5, repeats=repeats, steps=steps, seed=run.seed)
        share, single = share_of_single_patterns(patterns)
        name = f"$M={count}$, load {np.log(count) / n:.3f}"
        check.row(
            name,
            predicted=share,
            measured=found.alone.value,
            error=found.alone.error,
            repeats=repeats,
            because="standard error over independent ladders",
        )
        once[name] = single
    check.rival("every pair of patterns counted once", once)
    check.rival("a share that does not fall with the load", share_of_single_patterns(random_patterns(n, 110, 0))[0])
    return check


def pair_integrals(n: int, power: float, rho: np.ndarray, cells: int = 160) -> tuple[float, np.ndarray, np.ndarray]:
    r"""Over the sphere: $E\,t^p$ of one cap, and for pairs $E(t_1+t_2)^p$ and $E\,t_1^p$ where both caps see x."""
    edge = support_edge(B)
    middle = (np.arange(cells) + 0.5) / cells
    phi = edge + (1 - edge) * middle
    own = 1 - B + B * phi
    fine = edge + (1 - edge) * (np.arange(20_000) + 0.5) / 20_000
    one = np.exp(gammaln(n / 2) - gammaln((n - 1) / 2)) / np.sqrt(np.pi)
    single = one * np.mean((1 - B + B * fine) ** power * (1 - fine**2) ** ((n - 3) / 2)) * (1 - edge)
    two = np.exp(gammaln(n / 2) - gammaln((n - 2) / 2)) / np.pi
    together, first = np.zeros(len(rho)), np.zeros(len(rho))
    for place, r in enumerate(rho):
        aside = np.sqrt(1 - r * r)
        low, high = (edge - r * phi) / aside, np.sqrt(1 - phi**2)
        width = np.maximum(high - low, 0)
        v = low[:, None] + width[:, None] * middle
        law = two * np.maximum(1 - phi[:, None] ** 2 - v**2, 0) ** ((n - 4) / 2) * width[:, None]
        law *= (1 - edge) / cells**2
        neighbour = 1 - B + B * (r * phi[:, None] + aside * v)
        together[place] = np.sum(law * (own[:, None] + neighbour) ** power)
        first[place] = np.sum(law * own[:, None] ** power)
    return float(single), together, first


def share_seen_by_one(patterns: np.ndarray, temperature: float) -> tuple[float, float]:
    """(share of the equilibrium that one pattern sees, the same if a pair weighed no more than its two caps)."""
    count, n = patterns.shape
    rho = (patterns @ patterns.T / n)[np.triu_indices(count, 1)]
    grid = np.linspace(0.0, 0.96, 49)
    single, together, first = pair_integrals(n, n / (B * temperature), grid)
    near = rho[rho > 0]
    both, apart = (float(np.exp(np.interp(near, grid, np.log(each + 1e-300))).sum()) for each in (together, first))
    alone = count * single - 2 * apart
    return alone / (alone + both), alone / (alone + 2 * apart)


@PAPER.claim(
    "pairs-below-the-threshold",
    says="Below its threshold the compact kernel has no spurious typical states, but close pairs of patterns share the "
    "equilibrium: at load 0.256, $N=16$, the share that a single pattern sees is that of the sum over pairs of the "
    "drawn patterns, well below 1, and it grows with temperature.",
    basis=basis.Derived("the partition function by the number of patterns in support, up to pairs"),
    formula=r"P_1=\frac{M\,E\,t^p-2\sum E[t_1^p;\text{both}]}{M\,E\,t^p-2\sum E[t_1^p;\text{both}]"
    r"+\sum E[(t_1+t_2)^p;\text{both}]},\quad p=\tfrac N{bT}",
)
def pairs_below(run: Run) -> Check:
    n, count = 16, 60
    repeats, steps = (48, 300) if run.quick else (128, 4000)
    check = Check(parameters={"b": B, "N": n, "M": count, "ladders": repeats, "steps": steps})
    caps = {}
    for t in (0.5, 1.0):
        patterns = random_patterns(n, count, [run.seed, 5])
        found = temper(patterns, "lsr", B, temperature=t, repeats=repeats, steps=steps, seed=run.seed)
        share, equal = share_seen_by_one(patterns, t)
        name = f"share seen by one pattern, $T={t:g}$"
        check.row(
            name,
            predicted=share,
            measured=found.single.value,
            error=found.single.error,
            repeats=repeats,
            tolerance=0.01,
            because="standard error over ladders; triples of patterns, which are left out of the sum",
        )
        caps[name] = equal
    check.rival("perfect retrieval below the threshold", 1.0)
    check.rival("a pair weighs no more than its two caps", caps)
    return check
