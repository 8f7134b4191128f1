r"""On the line: exact maps, the error constant known beforehand, and the table that reaches it.

Base N(0, 1), target half N(-2, 1/4) and half N(2, 1/4), knots of density $\propto(\rho_B g'^2)^{1/3}$.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.transport_relative_entropy import PAPER
from sphereflow.transport.euclidean.laws import Histogram, gaussian
from sphereflow.transport.euclidean.line import LineDivergences, cells, gauss_legendre, kinks, line_divergences
from sphereflow.transport.euclidean.monotone import Rearrangement, piecewise_linear
from sphereflow.transport.euclidean.named_laws import two_modes
from sphereflow.transport.euclidean.schedule import Schedule

KNOTS = (4, 8, 16, 32, 64, 128, 256, 512)
RATE = basis.Derived("interpolation at the best knots; the paper's own bound on switches was not available")


@cache
def problem() -> Rearrangement:
    return Rearrangement(gaussian(1), two_modes())


@cache
def row(knots: int) -> tuple[Schedule, LineDivergences]:
    schedule = problem().schedule(knots)
    return schedule, line_divergences(schedule, gaussian(1), two_modes())


@PAPER.claim(
    "piecewise-linear",
    says="Every increasing piecewise-linear map of the line with $K$ knots is the flow of at most $K+2$ pieces, which "
    "is reached.",
    basis=basis.Derived("one piece changes the slope to the right of one knot"),
    formula=r"K\ \text{knots}\ \Rightarrow\ \text{at most}\ K+2\ \text{pieces}",
)
def piecewise_linear_map(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    worst, most, frozen = 0.0, 0, 0.0
    probe = np.linspace(-5, 5, 2001)
    for _ in range(20 if run.quick else 500):
        x, y = np.sort(rng.normal(size=7)), np.sort(rng.normal(size=7))
        if min(np.diff(x).min(), np.diff(y).min()) < 1e-2:
            continue
        left, right = rng.uniform(0.4, 2.5, 2)
        schedule = piecewise_linear(x, y, left, right)
        wanted = np.interp(probe, x, y) + np.where(
            probe < x[0], left * (probe - x[0]), np.maximum(probe - x[-1], 0) * right
        )
        worst = max(worst, float(np.abs(schedule.apply(probe[:, None])[:, 0] - wanted).max()))
        most = max(most, schedule.n_pieces)
        at_source = np.array(schedule.b)
        at_source[1 : 1 + len(x)] = -x[: len(at_source[1 : 1 + len(x)])]
        moved = Schedule(schedule.w, schedule.a, at_source, schedule.tau).apply(probe[:, None])[:, 0]
        frozen = max(frozen, float(np.abs(moved - wanted).max()))
    check = Check(parameters={"knots": 7})
    because = "rounding, amplified by very unequal slopes"
    check.row("largest error", predicted=0.0, measured=worst, tolerance=1e-11, because=because)
    check.at_most("pieces", bound=9, measured=most, because="a count")
    check.rival("$K+1$ pieces", {"pieces": 8})
    check.null("knots met where they start", {"largest error": frozen})
    return check


@PAPER.claim(
    "exact-laws",
    says="Gaussian to Gaussian takes 3 pieces, uniform to a histogram of 8 bins at most 11, without error.",
    basis=basis.Derived("piecewise-linear maps are exact"),
    formula=r"\log\rho_\theta=\log\rho_*",
)
def exact_laws(run: Run) -> Check:
    y = np.linspace(-9, 12, 4001)[:, None]
    bell = gaussian(1, 1.3, 2.1)
    to_bell = Rearrangement(gaussian(1), bell).schedule(5)
    bell_error = np.abs(to_bell.density(gaussian(1)).log_density(y) - bell.log_density(y)).max()
    masses = np.random.default_rng(run.seed).dirichlet(np.full(8, 3.0))
    bars, flat = Histogram(np.linspace(0, 1, 9), masses), Histogram([0.0, 1.0])
    to_bars = Rearrangement(flat, bars).schedule(1)
    centres = (bars.edges[:-1, None] + np.diff(bars.edges)[:, None] * np.linspace(0.01, 0.99, 50)).reshape(-1, 1)
    bar_error = np.abs(to_bars.density(flat).log_density(centres) - bars.log_density(centres)).max()
    check = Check()
    check.at_most("log-density, Gaussian", bound=0.0, measured=bell_error, tolerance=1e-13, because="rounding")
    check.at_most("log-density, histogram", bound=0.0, measured=bar_error, tolerance=1e-13, because="rounding")
    check.at_most("pieces, Gaussian", bound=3, measured=to_bell.n_pieces, because="a count")
    check.at_most("pieces, histogram", bound=11, measured=to_bars.n_pieces, because="a count")
    near = Rearrangement(gaussian(1), two_modes()).schedule(5)
    check.null(
        "a law that is not reached exactly, with five knots",
        {
            "log-density, Gaussian": float(
                np.abs(near.density(gaussian(1)).log_density(y / 3) - two_modes().log_density(y / 3)).max()
            )
        },
    )
    check.rival("two pieces for a Gaussian", {"pieces, Gaussian": 2})
    return check


def target_side(knots: int) -> tuple[float, float]:
    """(mass, KL(image||target)) by quadrature of the image's density in the target variable, cell by cell."""
    schedule = row(knots)[0]
    edges = schedule.apply(cells(schedule, gaussian(1), two_modes())[:, None])[:, 0]
    y, weight = gauss_legendre(np.unique(edges))
    log_image = schedule.density(gaussian(1)).log_density(y[:, None])
    image = np.exp(log_image)
    return float(weight @ image), float(weight @ (image * (log_image - two_modes().log_density(y[:, None]))))


@PAPER.claim(
    "mass",
    says="The image of a density has mass one, and its relative entropy is the same integrated in the base variable "
    "and in the target variable.",
    basis=basis.Equation("the continuity equation", via="the opening of the introduction, in an index"),
    formula=r"\int\rho_\theta\,dy=1,\quad"
    r"\int\rho_B\,(\log\rho_B-L-\log\rho_*\circ\phi)\,dx=\int\rho_\theta\log\frac{\rho_\theta}{\rho_*}\,dy",
)
def mass(run: Run) -> Check:
    check = Check()
    flipped = {}
    because = "Gauss-Legendre with 8 nodes on cells whose edges include every kink"
    for k in (4, 16, 64):
        whole, entropy = target_side(k)
        check.row(f"mass, $K={k}$", predicted=1.0, measured=whole, tolerance=1e-12, because=because)
        name = f"relative entropy, $K={k}$"
        check.row(name, predicted=row(k)[1].reverse, measured=entropy, tolerance=1e-12, because=because)
        schedule = row(k)[0]
        x, weight = gauss_legendre(cells(schedule, gaussian(1), two_modes()))
        log_det = np.asarray(schedule.carry(x[:, None])[1])
        flipped[name] = row(k)[1].reverse + float(2 * weight @ (np.exp(gaussian(1).log_density(x[:, None])) * log_det))
    check.rival("the log-determinant with the other sign", flipped)
    return check


def plain_constants() -> tuple[float, float]:
    """C_KL and C_TV by adaptive quadrature in the target variable, from the two densities written out here."""

    def modes(y: float) -> tuple[float, float, float]:
        """Density, distribution function and derivative of the log-density of the two modes."""
        parts = [math.exp(-2 * (y - c) ** 2) / math.sqrt(math.pi / 2) / 2 for c in (-2, 2)]
        slope = sum(-4 * (y - c) * part for c, part in zip((-2, 2), parts, strict=True)) / sum(parts)
        return sum(parts), 0.5 * (ndtr(2 * (y + 2)) + ndtr(2 * (y - 2))), slope

    def integrand(y: float, base_power: float, slope_power: float) -> float:
        density, below, slope = modes(y)
        x = float(ndtri(below))
        bell = math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        stretch = bell / density
        # dx = dy / stretch.
        return bell**base_power * abs(-x - slope * stretch) ** slope_power / stretch

    ends = (-4.5, -2.0, -0.5, 0.0)  # symmetric: twice the left half

    def total(*powers: float) -> float:
        return 2 * sum(quad(integrand, a, b, args=powers, limit=400, epsabs=1e-10)[0] for a, b in pairwise(ends))

    z = total(1 / 3, 2 / 3)
    return z**3 / 24, z / 8 * total(2 / 3, 1 / 3)


@PAPER.claim(
    "rate-constant",
    says="The constants of the rate, computed beforehand from the two densities alone, are those of adaptive "
    "quadrature.",
    basis=RATE,
    formula=r"C_{KL}=\frac1{24}\left(\int(\rho_B g'^2)^{1/3}dx\right)^3,\qquad "
    r"C_{TV}=\frac Z8\int\rho_B^{2/3}|g'|^{1/3}dx",
)
def rate_constant(run: Run) -> Check:
    line = problem()
    kl, tv = plain_constants()
    because = "quadrature from -4.5 to 4.5, where all but 1e-6 of the target lies"
    check = Check()
    check.row("$C_{KL}$", predicted=kl, measured=line.kl_constant, relative=1e-3, because=because)
    check.row("$C_{TV}$", predicted=tv, measured=line.tv_constant, relative=1e-3, because=because)
    x = np.linspace(-9, 9, 2001)
    slope = np.gradient(gaussian(1).log_density(x[:, None]) - two_modes().log_density(line.forward(x)[:, None]), x)
    coarse = np.trapezoid(np.exp(gaussian(1).log_density(x[:, None]) / 3) * np.abs(slope) ** (2 / 3), x)
    check.rival("a grid in the base variable that misses the peak", {"$C_{KL}$": float(coarse**3 / 24)})
    check.rival("the midpoint instead of the ends of a cell, 1/96", {"$C_{KL}$": kl / 4})
    return check


@PAPER.claim(
    "rate",
    says="Relative entropy falls as $C/K^2$ and total variation as $C/K$ with the predicted constants, in both "
    "directions.",
    basis=RATE,
    formula=r"K^2\,\mathrm{KL}\to C_{KL},\qquad K\,\mathrm{TV}\to C_{TV}",
)
def rate(run: Run) -> Check:
    kl, tv = plain_constants()
    check = Check(parameters={"switches": [row(k)[0].n_switches for k in KNOTS]})
    even, slower = {}, {}
    for k in (64, 128, 256, 512):
        found = row(k)[1]
        name = f"$K^2$ KL(image||target), $K={k}$"
        because = "the next order, 1/K of the constant, and 1e-3 for the constant itself"
        check.row(name, predicted=kl, measured=k**2 * found.reverse, relative=1 / k + 1e-3, because=because)
        check.row(
            f"$K^2$ KL(target||image), $K={k}$",
            predicted=kl,
            measured=k**2 * found.forward,
            relative=1 / k + 1e-3,
            because=because,
        )
        check.row(f"$K$ TV, $K={k}$", predicted=tv, measured=k * found.tv, relative=1 / k + 1e-3, because=because)
        slower[name] = kl * (k / 64) ** 0.1
        x = np.linspace(-4, 4, k)
        even[name] = k**2 * line_divergences(problem().schedule(k, x=x), gaussian(1), two_modes()).reverse
    check.rival("knots spread evenly on $[-4,4]$", even)
    check.rival("falls like $K^{-1.9}$ from $K=64$", slower)
    return check


@PAPER.claim(
    "end-slopes",
    says="End slopes of one half, the limit of the map's slope at infinity, cost little; end slopes of one cost more "
    "than ten times.",
    basis=RATE,
    formula=r"T'(\pm\infty)=\tfrac12",
)
def end_slopes(run: Run) -> Check:
    line = problem()
    check = Check()
    for k in (128, 512):
        half, near, one = (
            line_divergences(line.schedule(k, end_slopes=(m, m)), gaussian(1), two_modes()).reverse / row(k)[1].reverse
            for m in (0.5, 0.6, 1.0)
        )
        little, much, because = (
            f"slopes 1/2 against the best, $K={k}$",
            f"slopes 1 against the best, $K={k}$",
            "quadrature",
        )
        check.at_most(little, bound=1.1, measured=half, relative=1e-3, because=because)
        check.at_least(much, bound=10.0, measured=one, relative=1e-3, because=because)
        check.null(f"end slopes of 0.6 for both, $K={k}$", {little: near, much: near})
        check.null(
            f"end slopes exchanged, $K={k}$",
            {little: one, much: half},
        )
    return check


def corners(schedule: Schedule) -> tuple[int, float]:
    """How often the logarithm of the slope jumps at the kinks, and its largest change between two of them."""
    at = kinks(schedule)
    places = np.concatenate([[at[0] - 1], (at[1:] + at[:-1]) / 2, [at[-1] + 1]])
    slopes = schedule.carry(places[:, None])[1]
    grid = np.linspace(at[0] - 5, at[-1] + 5, 2000)
    between = schedule.carry(grid[:, None])[1] - slopes[np.searchsorted(at, grid)]
    return int(np.sum(np.abs(np.diff(slopes)) > 1e-9)), float(np.abs(between).max())


@PAPER.claim(
    "switches-needed",
    says="A piece makes at most one kink, so $S$ switches make at most $S+1$, and random pieces make as many; the "
    "construction with $K$ kinks leaves what is the least to leading order, $C/K^2$.",
    basis=RATE,
    formula=r"\mathrm{KL}\ge\frac{C_{KL}}{(S+1)^2}(1+o(1))",
)
def switches_needed(run: Run) -> Check:
    check = Check()
    rng, fewer, elsewhere = np.random.default_rng(run.seed), {}, 0.0
    for pieces in (1, 2, 4, 8):
        counts = []
        for _ in range(20):
            w, a = rng.uniform(-0.5, 0.5, (pieces, 1)), rng.choice([-1.0, 1.0], (pieces, 1))
            count, change = corners(Schedule(w, a, rng.uniform(-1, 1, pieces)))
            counts.append(count)
            elsewhere = max(elsewhere, change)
        name = f"kinks of random schedules, $S={pieces - 1}$"
        check.same(name, predicted=pieces, measured=float(np.mean(counts)))
        fewer[name] = pieces - 1
    between = "change of the slope between kinks"
    check.row(between, predicted=0.0, measured=elsewhere, tolerance=1e-9, because="rounding")
    more = {}
    for k in (8, 64, 512):
        schedule, found = row(k)
        m = len(kinks(schedule))
        check.at_most(f"kinks, $K={k}$", bound=schedule.n_pieces, measured=m, because="a count")
        name = f"KL times the square of the kinks over the constant, $K={k}$"
        ratio = found.reverse * m**2 / plain_constants()[0]
        check.row(name, predicted=1.0, measured=ratio, tolerance=1 / k, because="corrections of relative order 1/K")
        more[name] = 1.01
    check.rival("one kink a switch", fewer)
    check.rival("a least error one percent larger", more)
    return check
