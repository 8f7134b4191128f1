r"""The shape of the profile: primacy, recency and a single minimum, and where each of them comes from.

$$\text{U-shape if}\quad t\,\sup_na_n\le\min\{3-\sqrt3,\ 2(1-e^{-\lambda})\};\qquad
  \mathcal S_t'(1)>0\iff t<t_{crit}.$$
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.sources import U_SHAPE
from sphereflow.retrieval.bessel import log_psi
from sphereflow.retrieval.closed_form import Profile, critical_time, profile, theorem_time


def minima(curve: Profile) -> int:
    return sum(turn.kind == "minimum" for turn in curve.turns())


def draw(rng: np.random.Generator) -> tuple[float, float, int]:
    """beta in [0.05, 6], slope in [0.05, 20], vocabulary in 2..32."""
    return float(rng.uniform(0.05, 6)), float(rng.uniform(0.05, 20)), int(rng.integers(2, 33))


@PAPER.claim(
    "u-shape-theorem",
    says="Within the condition of the theorem the profile grows towards the first token, rises at the end, and turns "
    "exactly once, in all profiles drawn at random.",
    basis=U_SHAPE,
    formula=r"t\,\sup_{n\ge1}a_n\le\min\{3-\sqrt3,\;2(1-e^{-\lambda})\}",
)
def u_shape_theorem(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    count = 25 if run.quick else 400
    turning, rising, growing, late, direct = 0, 0, 0, 0, 0
    for i in range(count):
        beta, slope, vocab = draw(rng)
        t = rng.uniform(0.02, 1.0) * theorem_time(beta, slope)
        curve = profile(beta, slope, t, vocab)
        turning += [turn.kind for turn in curve.turns()] == ["minimum"]
        rising += float(curve.steepness(1.0)) > 0
        growing += bool(np.all(np.diff(curve.log_score([1e-300, 1e-200, 1e-100, 1e-50])) < 0))
        after = profile(beta, slope, 1.01 * critical_time(beta, slope, vocab), vocab)
        late += float(after.steepness(1.0)) > 0
        direct += bool(np.diff(reference.score(beta, slope, t, vocab, [1e-8, 1e-6], 1))[0] < 0)
        run.notify((i + 1) / count, f"{i + 1} of {count} profiles")
    check = Check(parameters={"profiles": count, "beta": "0.05 to 6", "slope": "0.05 to 20", "vocab": "2 to 32"})
    check.same("profiles with one minimum and no other turn", predicted=count, measured=turning)
    check.same("profiles with recency", predicted=count, measured=rising)
    check.same("profiles with primacy", predicted=count, measured=growing)
    check.null("just after the critical time", {"profiles with recency": late})
    check.null("one step of attention only", {"profiles with primacy": direct})
    return check


@PAPER.claim(
    "unique-minimum",
    says="Between the end of the theorem's condition and the critical time the profile still turns exactly once, in "
    "all profiles drawn at random: evidence, not a theorem.",
    basis=basis.Extension("the condition of the theorem is sufficient; this is where it is not met"),
    formula=r"0<t<t_{crit}\ \Longrightarrow\ \text{one minimum}",
)
def unique_minimum(run: Run) -> Check:
    rng = np.random.default_rng(run.seed + 1)
    count = 25 if run.quick else 400
    turning, rising, late = 0, 0, 0
    for i in range(count):
        beta, slope, vocab = draw(rng)
        ends = theorem_time(beta, slope), critical_time(beta, slope, vocab)
        t = ends[0] + rng.uniform(0.005, 0.995) * (ends[1] - ends[0])
        curve = profile(beta, slope, t, vocab)
        turning += [turn.kind for turn in curve.turns()] == ["minimum"]
        rising += float(curve.steepness(1.0)) > 0
        late += float(profile(beta, slope, 1.01 * ends[1], vocab).steepness(1.0)) > 0
        run.notify((i + 1) / count, f"{i + 1} of {count} profiles")
    check = Check(parameters={"profiles": count})
    check.same("profiles with one minimum and no other turn", predicted=count, measured=turning)
    check.same("profiles with recency", predicted=count, measured=rising)
    check.rival("the U-shape ends with the theorem's condition", 0.0)
    check.null("just after the critical time", {"profiles with recency": late})
    return check


@PAPER.claim(
    "end-slope",
    says="The slope of the profile at its end is a quadratic in time with the root of the authors' script, so recency "
    "is lost once and for all.",
    basis=basis.Derived("the profile of the authors' script, differentiated at its end"),
    formula=r"\mathcal S_t'(1)=\frac{\lambda}{1-e^{-\lambda}}\Big[\lambda t\sum\omega_na_n"
    r"-\frac{\lambda}{1-e^{-\lambda}}\frac{t^2}2\sum\omega_na_n^2\Big]",
)
def end_slope(run: Run) -> Check:
    check = Check(parameters={"beta": 1, "vocab": 8})
    whole, positive = {}, {}
    first, second, _ = reference.moments(1.0, 8)
    for slope in (1.0, 3.0, -0.5):
        q = 1 - np.exp(-slope)
        for t in (0.5, 2.45, 8.0):
            name = f"slope {slope:g}, $t={t:g}$"
            found = float(profile(1.0, slope, t).steepness(1.0))
            rise, fall = slope / q * slope * t * first, (slope / q) ** 2 * t**2 / 2 * second
            # Near the critical time the two terms cancel, so rounding is relative to each of them.
            tolerance = 1e-12 * (abs(rise) + fall)
            check.row(name, predicted=rise - fall, measured=found, tolerance=tolerance, because="rounding of two terms")
            whole[name] = rise - 2 * fall
            positive[name] = rise - slope / q * slope * t**2 / 2 * second
    check.rival("$t^2$ in place of $t^2/2$", whole)
    check.rival(r"$\lambda$ in place of $\lambda/(1-e^{-\lambda})$ in the second term", positive)
    return check


@PAPER.claim(
    "minimum-outlives-recency",
    says="Just after the critical time the minimum is gone for slopes below a threshold, 1.472 at inverse "
    "temperature 1 with 8 codewords; for steeper weights it stays inside, beside one maximum, until a later fold.",
    basis=basis.Derived("second derivative of the profile at its end, and the double root of its first"),
    formula=r"\text{stays inside at }t_{crit}\iff1-e^{-\lambda}>\frac3{6-2\rho},\qquad"
    r"\rho=\frac{\sum\omega a\,\sum\omega a^3}{(\sum\omega a^2)^2}",
)
def minimum_outlives_recency(run: Run) -> Check:
    check = Check(parameters={"beta": 1, "vocab": 8})

    def after(slope: float, factor: float = 1.0) -> int:
        return minima(profile(1.0, slope, factor * reference.critical_time(1.0, slope, 8)))

    slopes = (1.0, 1.3, 1.6, 2.0, 3.0, 10.0)
    threshold = reference.folding_slope(1.0, 8)
    for slope in slopes:
        name = f"minima just after $t_{{crit}}$, slope {slope:g}"
        check.same(name, predicted=float(slope > threshold), measured=after(slope, 1 + 1e-4))
    named = [row.name for row in check.rows]
    for slope in (2.0, 3.0, 10.0):
        fold = reference.fold_time(1.0, slope, 8) / reference.critical_time(1.0, slope, 8)
        for name, factor, left in (("before", 1 - 1e-3, 1.0), ("after", 1 + 1e-3, 0.0)):
            check.same(
                f"minima just {name} the fold, slope {slope:g}", predicted=left, measured=after(slope, fold * factor)
            )
    low, high = 1.3, 1.7
    while high - low > 0.02:
        middle = (low + high) / 2
        low, high = (low, middle) if after(middle, 1 + 1e-5) else (middle, high)
    check.row(
        "threshold of the slope",
        predicted=threshold,
        measured=(low + high) / 2,
        tolerance=0.02,
        because="bisection to 0.02",
    )
    check.rival("the minimum disappears at the critical time", dict.fromkeys(named, 0.0))
    check.rival("the threshold of a single wave, $\\log4$", {"threshold of the slope": np.log(4)})
    return check


@PAPER.claim(
    "convexity",
    says=r"For one wave of growth $c=at$, the part $e^{-y}\psi_c$ of the profile stops being convex in $y$ at "
    r"$c=3-\sqrt3$, the number of the theorem. The profile itself stays convex for all $c\le8$ at slope 1, and for "
    r"slopes of 1.5 to 5 it stops at a larger $c$.",
    basis=basis.Derived("the second derivative in the proof of the U-shape theorem"),
    formula=r"c_{conv}=3\big(q-\sqrt{q^2-2q/3}\big),\quad q=1-e^{-\lambda},\ \lambda>\log3",
)
def convexity(run: Run) -> Check:
    y = np.concatenate([[0.0], np.geomspace(1e-6, 20, 200)])

    def least(c: float, slope: float | None) -> float:
        """Smallest second derivative of psi (1 + K e^{-y}) over psi, or of e^{-y} psi alone."""
        psi, first, second = (np.exp(log_psi(c, y, order=m)) for m in (1, 2, 3))
        part = psi - 2 * first + second
        whole = part if slope is None else second + np.expm1(slope) * np.exp(-y) * part
        return float(np.min(whole / psi))

    def stops(slope: float | None) -> float:
        return float(optimize.brentq(lambda c: least(c, slope), 0.5, 1.9, xtol=1e-12))

    check = Check(parameters={"y": "0 to 20"})
    because = "a root to 1e-12; the curvature is lowest at y = 0"
    check.row("part of the profile", predicted=3 - np.sqrt(3), measured=stops(None), tolerance=1e-9, because=because)
    steep = {}
    for slope in (1.5, 2.0, 3.0, 5.0):
        q = 1 - np.exp(-slope)
        name = f"profile, slope {slope:g}"
        predicted = 3 * (q - np.sqrt(q**2 - 2 * q / 3))
        check.row(name, predicted=predicted, measured=stops(slope), tolerance=1e-9, because=because)
        steep[name] = 3 - np.sqrt(3)
    flattest = min(least(c, 1.0) for c in np.linspace(0.1, 8, 80))
    because = "convex; the accuracy of the roots"
    check.at_least("smallest curvature, slope 1", bound=0.0, measured=flattest, tolerance=1e-9, because=because)
    check.rival(r"the profile stops being convex at $3-\sqrt3$", steep)
    less = min(least(c, 1.2) for c in np.linspace(0.1, 8, 80))
    check.null("slope 1.2", {"smallest curvature, slope 1": less})
    check.rival("only the term without $y$: $c\\le2$", {"part of the profile": 2.0})
    return check


@PAPER.claim(
    "early-minimum",
    says="The minimum starts at the first token, and at slope 1 it ends at the last one, as a simple formula says in "
    "both limits.",
    basis=basis.Derived("expansion of the closed form at short times and at the critical time"),
    formula=r"\sigma_*\approx\frac1\lambda\log\frac2{2-\bar c},\;\bar c=t\,\frac{\sum\omega_na_n^2}{\sum\omega_na_n}",
)
def early_minimum(run: Run) -> Check:
    check = Check(parameters={"beta": 1, "slope": 1, "vocab": 8})
    first, second, _ = reference.moments(1.0, 8)
    crit = reference.critical_time(1.0, 1.0, 8)

    def simple(t: float, scale: float) -> float:
        return float(np.log(2 / (2 - t * scale)))

    fastest, twice = {}, {}
    for t in (1e-4, 1e-6, (1 - 1e-5) * crit):
        late = t > 1
        name = "near the critical time" if late else f"$t={t:g}$"
        found = profile(1.0, 1.0, t).minimiser or np.nan
        relative = 1e-4 if late else 2 * t * np.log(1 / t)
        because = "10 (1 - t/t_crit)" if late else "the next order, t log(1/t)"
        check.row(name, predicted=simple(t, second / first), measured=found, relative=relative, because=because)
        fastest[name] = simple(t, reference.rates(1.0).max())
        twice[name] = simple(min(2 * t, 0.99 * crit), second / first)
    check.rival("the fastest growth rate in place of the mean one", fastest)
    check.rival(r"$\log\frac1{1-\bar c}$", twice)
    return check


@PAPER.claim(
    "primacy",
    says=r"Towards the first token the influence grows without bound, like $e^{2\sqrt{cY}}(cY)^{-3/4}$ and so slower "
    r"than any power of $1/\sigma_0$.",
    basis=basis.Derived("asymptotics of the Bessel function"),
    formula=r"\psi_c(Y)\sim\frac{c\,e^{2\sqrt{cY}}}{2\sqrt\pi\,(cY)^{3/4}}\Big(1-\frac3{16\sqrt{cY}}\Big)",
)
def primacy(run: Run) -> Check:
    c = float(reference.rates(1.0)[0])
    check = Check(parameters={"c": c})
    other, bare = {}, {}

    def leading(y: float, power: float) -> float:
        return float(np.log(c) + 2 * np.sqrt(c * y) - np.log(2 * np.sqrt(np.pi)) - power * np.log(c * y))

    for y in (50.0, 500.0, 5000.0):
        z = 2 * np.sqrt(c * y)
        name = f"$\\log\\psi$ at $Y={y:g}$"
        check.row(
            name,
            predicted=leading(y, 0.75) + np.log1p(-3 / (8 * z)),
            measured=float(log_psi(c, y)),
            tolerance=0.2 / z**2,
            because="the next term of the expansion, 15/(128 z^2) with z = 2 sqrt(cY), and a half more",
        )
        other[name] = leading(y, 0.25) + np.log1p(-3 / (8 * z))
        bare[name] = leading(y, 0.75)
    far = profile(1.0, 1.0, 1.0).log_score([1e-300, 1e-150])
    name = "power of $1/\\sigma_0$ from 1e-150 to 1e-300"
    ends = [np.log(np.expm1(1.0)) - np.log(s) for s in (1e-300, 1e-150)]
    w, a = reference.weights(8)[:4], reference.rates(1.0)[:4]

    def wave(y: float) -> float:
        z = 2 * np.sqrt(a * y)
        terms = np.log(w * a / (2 * np.sqrt(np.pi))) + z - 0.75 * np.log(a * y) + np.log1p(-3 / (8 * z))
        return float(np.logaddexp.reduce(terms))

    check.row(
        name,
        predicted=(wave(ends[0]) - wave(ends[1])) / (150 * np.log(10)),
        measured=float(far[0] - far[1]) / (150 * np.log(10)),
        tolerance=1e-5,
        because="the next term of the expansion at Y = 345",
    )
    check.rival("the prefactor $(cY)^{-1/4}$", other)
    check.rival("the leading term alone", bare)
    check.rival("a power law from 1e-150 on", {name: float(np.sqrt(c / ends[1]))})
    return check
