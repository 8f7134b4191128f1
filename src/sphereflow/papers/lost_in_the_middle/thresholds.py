r"""The profile as numbers: where it is lowest, when recency ends, and what slope, vocabulary and heads do to it.

$$t_{crit}=2(1-e^{-\lambda})\frac{\sum_n\omega_na_n}{\sum_n\omega_na_n^2},\qquad
  a_n=n^2I_n(\beta),\quad \omega_n=e^{-\pi^2n^2/2M^2}.$$

Predictions come from `reference`: Fourier integrals and power series, with nothing of the package.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.sources import CLOSED_FORM, CODE
from sphereflow.retrieval.closed_form import profile, several_heads

# Heads (weight, beta, slope) whose profile has two wells at t = 1.5 with 8 codewords.
DOUBLE_WELL = (
    (1.0, 0.2, 3.0),
    (-27.519314453632965, 0.2, 0.25),
    (-1.5515192155322617, 0.5, 0.25),
    (3.9262326774050965e-06, 3.0, 2.0),
)
DOUBLE_WELL_TIME = 1.5


def end_of_recency(beta: float, slope: float, vocab: int) -> float:
    """The time at which the slope of the package's profile at its end changes sign."""
    guess = reference.critical_time(beta, slope, vocab)

    def end(t: float) -> float:
        return float(profile(beta, slope, t, vocab).steepness(1.0))

    return float(optimize.brentq(end, 0.2 * guess, 5 * guess, xtol=1e-14 * guess, rtol=1e-12))


@PAPER.claim(
    "recency-ends",
    says=r"The slope of the profile at its end changes sign at $t_{crit}$, for inverse temperatures from 1/2 to 4.8 at "
    "slope 1 with 8 codewords; the time up to which the theorem proves a U-shape is shorter.",
    basis=CODE,
    formula=r"t_{crit}=2(1-e^{-\lambda})\frac{\sum_n\omega_na_n}{\sum_n\omega_na_n^2}"
    r"\ \ge\ \frac{\min\{3-\sqrt3,\,2(1-e^{-\lambda})\}}{\sup_na_n}",
)
def recency_ends(run: Run) -> Check:
    check = Check(parameters={"slope": 1, "vocab": 8})
    loudest, power = {}, {}
    for beta in (0.5, 1.0, 2.0, 3.0, 4.8):
        name = f"end of recency, $\\beta={beta:g}$"
        found = end_of_recency(beta, 1.0, 8)
        predicted = reference.critical_time(beta, 1.0, 8)
        check.row(name, predicted=predicted, measured=found, relative=1e-9, because="rounding, and a root to 1e-12")
        a = reference.rates(beta)
        loudest[name] = 2 * (1 - np.exp(-1)) / a.max()
        power[name] = predicted * beta
        proved = min(3 - np.sqrt(3), 2 * (1 - np.exp(-1))) / a.max()
        row, because = f"over the proved time, $\\beta={beta:g}$", "as above"
        check.at_least(row, bound=1.0, measured=found / proved, relative=1e-9, because=because)
    check.rival("only the wave that grows fastest", loudest)
    check.rival(r"a force without its factor $\beta$", power)
    check.rival(r"$\lambda$ in place of $1-e^{-\lambda}$", check.times(1 / (1 - np.exp(-1)), list(loudest)))
    return check


@PAPER.claim(
    "vocabulary",
    says="With a larger vocabulary recency lasts longer, at inverse temperature 1 and slope 1 by 17 percent from one "
    "codeword to 64.",
    basis=CODE,
    formula=r"\omega_n=e^{-\pi^2n^2/(2M^2)}",
)
def vocabulary(run: Run) -> Check:
    check = Check(parameters={"beta": 1, "slope": 1})
    sizes = (1, 2, 4, 8, 16, 64)
    for m in sizes:
        predicted, found = reference.critical_time(1.0, 1.0, m), end_of_recency(1.0, 1.0, m)
        check.row(f"$M={m}$", predicted=predicted, measured=found, relative=1e-9, because="rounding, a root to 1e-12")
    a = reference.rates(1.0)
    wider = [np.exp(-((np.pi * np.arange(1, len(a) + 1) / m) ** 2)) for m in sizes]
    check.rival("independent of the vocabulary", check.rows[0].predicted)
    check.rival(
        r"a readout of variance $2\pi^2/M^2$",
        [2 * (1 - np.exp(-1)) * np.sum(w * a) / np.sum(w * a**2) for w in wider],
    )
    return check


@PAPER.claim(
    "profiles",
    says="At inverse temperature 1, slope 1 and 8 codewords the profile has one minimum, whose position and value are "
    "those of the power series, at times up to 2; at time 5 it falls.",
    basis=CODE,
    formula=r"\mathcal S_t(\sigma_0)=\sum_n\omega_n\,k_\lambda(1,\sigma_0)\,\psi_{a_nt}(Y),"
    r"\quad Y=\log\frac{e^\lambda-1}{e^{\lambda\sigma_0}-1}",
)
def profiles(run: Run) -> Check:
    check = Check()
    rivals: dict[int, dict[str, float]] = {2: {}, 3: {}}
    for t in (0.25, 0.5, 1.0, 1.5, 2.0):
        found = profile(1.0, 1.0, t).turns()
        (at,) = reference.turns(lambda s, t=t: reference.tilt(1.0, 1.0, t, 8, s))  # type: ignore[misc]
        check.same(f"turns, $t={t:g}$", predicted=1, measured=len(found))
        because = "both to rounding; the position by a root to 1e-12"
        check.row(f"minimum at, $t={t:g}$", predicted=at, measured=found[0].sigma0, relative=1e-8, because=because)
        names = [f"minimum, $t={t:g}$", f"S(0.02), $t={t:g}$"]
        values_there = (found[0].score, float(profile(1.0, 1.0, t).score(0.02)))
        for name, place, value in zip(names, (at, 0.02), values_there, strict=True):
            predicted = reference.score(1.0, 1.0, t, 8, place)
            check.row(name, predicted=predicted, measured=value, relative=1e-9, because="rounding")
            for hops, values in rivals.items():
                values[name] = float(reference.score(1.0, 1.0, t, 8, place, hops))
    check.same("turns, $t=5$", predicted=0, measured=len(profile(1.0, 1.0, 5.0).turns()))
    for hops, values in rivals.items():
        check.rival(f"at most {hops} steps of attention", values)
    return check


@PAPER.claim(
    "end-value",
    says="At the very end the profile is exactly proportional to time: the last source is read by one step of "
    "attention.",
    basis=CLOSED_FORM,
    formula=r"\mathcal S_t(1)=\frac{\lambda}{1-e^{-\lambda}}\,t\sum_n\omega_na_n",
)
def end_value(run: Run) -> Check:
    check = Check(parameters={"beta": 1, "slope": 1, "vocab": 8})
    a, w = reference.rates(1.0), reference.weights(8)
    scale = 1 / (1 - np.exp(-1))
    grown = {}
    for t in (0.1, 1.0, 7.0):
        name = f"$t={t:g}$"
        found = float(profile(1.0, 1.0, t).score(1.0))
        check.row(name, predicted=scale * t * np.sum(w * a), measured=found, relative=1e-12, because="rounding")
        grown[name] = scale * np.sum(w * np.expm1(a * t))
    check.rival("the exponential growth of the waves, $e^{a_nt}-1$", grown)
    check.rival("weights that are not normalised", check.times(1 / scale))
    return check


@PAPER.claim(
    "slope-decides",
    says="At inverse temperature 1, time 1 and 8 codewords, steeper positional weights move the minimum forward; with "
    "a slope of 0.1, 0 or -1 the profile falls all the way.",
    basis=basis.Derived("the closed form; without slope it is plain causal masking"),
    formula=r"t_{crit}\le0\quad\text{for }\lambda\le0",
)
def slope_decides(run: Run) -> Check:
    check = Check(parameters={"beta": 1, "t": 1, "vocab": 8})
    simple = {}
    first, second, _ = reference.moments(1.0, 8)
    for slope in (1.0, 3.0, 10.0):
        (at,) = reference.turns(lambda s, slope=slope: reference.tilt(1.0, slope, 1.0, 8, s))  # type: ignore[misc]
        found = profile(1.0, slope, 1.0).minimiser or np.nan
        name = f"minimum, slope {slope:g}"
        check.row(name, predicted=at, measured=found, relative=1e-8, because="a root to 1e-12")
        simple[name] = np.log(2 / (2 - second / first)) / slope
    for slope in (0.1, 0.0, -1.0):
        rises = int(np.sum(np.diff(profile(1.0, slope, 1.0).score(np.geomspace(1e-8, 1, 2000))) >= 0))
        check.same(f"rises, slope {slope:g}", predicted=0, measured=rises)
    check.rival(r"$\sigma_*=\lambda^{-1}\log\frac2{2-\bar c}$ at all times", simple)
    check.rival("any positive slope makes a minimum", {"rises, slope 0.1": 1.0})
    return check


@PAPER.claim(
    "double-well",
    says="Four heads with weights of both signs make a profile with two wells of almost equal depth.",
    basis=CODE,
    formula=r"\mathcal S=\sum_hc_h\,\mathcal S_t^{(\beta_h,\lambda_h)}",
)
def double_well(run: Run) -> Check:
    def total(heads: tuple[tuple[float, float, float], ...], s: object) -> np.ndarray:
        parts = [c * reference.score(beta, slope, DOUBLE_WELL_TIME, 8, s) for c, beta, slope in heads]  # type: ignore[arg-type]
        return np.asarray(np.sum(parts, axis=0))

    def places(heads: tuple[tuple[float, float, float], ...]) -> list[float]:
        return reference.turns(lambda s: total(heads, np.asarray(s) + 1e-30j).imag, first=0.01)

    found = several_heads(DOUBLE_WELL, DOUBLE_WELL_TIME).turns()
    predicted = places(DOUBLE_WELL)
    check = Check(parameters={"t": DOUBLE_WELL_TIME, "vocab": 8})
    check.same("turns", predicted=3, measured=len(found))
    check.same("wells", predicted=2, measured=sum(turn.kind == "minimum" for turn in found))
    for name, at, turn in zip(("first well", "hill", "second well"), predicted, found, strict=True):
        check.row(f"{name} at", predicted=at, measured=turn.sigma0, tolerance=1e-8, because="a flat turn, to rounding")
        depth = float(total(DOUBLE_WELL, at))
        check.row(f"{name}: value", predicted=depth, measured=turn.score, tolerance=1e-11, because="rounding of 30")
    check.rival("without the fourth head, whose weight is 4e-6", {"turns": len(places(DOUBLE_WELL[:3]))})
    positive = tuple((abs(c), beta, slope) for c, beta, slope in DOUBLE_WELL)
    check.rival("the same weights without signs", {"turns": len(places(positive))})
    return check
