r"""The shape of the profile: primacy, recency and a single minimum, and where each of them comes from.

$$\text{U-shape if}\quad t\,\sup_na_n\le\min\{3-\sqrt3,\ 2(1-e^{-\lambda})\};\qquad
  \mathcal S_t'(1)>0\iff t<t_{crit}.$$
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Measurement, Run, agreement, at_least
from sphereflow.papers.lost_in_the_middle import PAPER
from sphereflow.retrieval.bessel import growth_rates, log_psi, separation
from sphereflow.retrieval.closed_form import critical_time, profile, readout_weights, theorem_time
from sphereflow.retrieval.linear import two_time_row, weight_matrix


@PAPER.claim(
    "u-shape-theorem",
    statement="Within the condition of the theorem the profile rises towards both ends and has exactly one minimum.",
    source="U-shape theorem",
    formula=r"t\,\sup_{n\ge1}a_n\le\min\{3-\sqrt3,\;2(1-e^{-\lambda})\}",
    falsifier="A profile with two minima, or with none, inside the condition.",
)
def u_shape_theorem(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    count = 25 if run.quick else 400
    minima, ends, primacy = [], [], []
    for i in range(count):
        beta, slope, vocab = _draw(rng)
        curve = profile(beta, slope, rng.uniform(0.02, 1.0) * theorem_time(beta, slope), vocab)
        minima.append(_minima(curve))
        ends.append(float(curve.steepness(1.0)) > 0)
        logs = curve.log_score([1e-300, 1e-200, 1e-100, 1e-50])
        primacy.append(bool(np.all(np.diff(logs) < 0)))
        run.notify((i + 1) / count, f"{i + 1} of {count} profiles")
    return agreement(
        [1, 1, count, count],
        [min(minima), max(minima), sum(ends), sum(primacy)],
        absolute=0.0,
        because="counts",
        labels=("fewest minima", "most minima", "profiles with recency", "profiles with primacy"),
        parameters={"profiles": count, "beta": "0.05 to 6", "slope": "0.05 to 20", "vocab": "2 to 32"},
    )


@PAPER.claim(
    "critical-time",
    statement="Recency ends at the critical time: one minimum before, none after, none without a positive slope.",
    source="Slope of the profile at the end",
    formula=r"\mathcal S_t'(1)=\frac{\lambda}{1-e^{-\lambda}}\Big[\lambda t\sum\omega_na_n"
    r"-\frac{\lambda}{1-e^{-\lambda}}\frac{t^2}2\sum\omega_na_n^2\Big]",
    falsifier="A minimum that survives t_crit, or one for a slope of zero or below.",
)
def critical(run: Run) -> Measurement:
    t_crit = critical_time(1.0, 1.0, 8)
    fractions = (0.02, 0.3, 0.7, 0.999)
    before = [_minima(profile(1.0, 1.0, f * t_crit)) for f in fractions]
    after = [_minima(profile(1.0, 1.0, f * t_crit)) for f in (1.001, 1.3, 3.0)]
    flat = [_minima(profile(1.0, slope, 1.0)) for slope in (0.0, -0.5, -3.0)]
    ends = [float(profile(1.0, 1.0, f * t_crit).steepness(1.0)) for f in (0.999, 1.001)]
    return agreement(
        [*[1] * len(before), *[0] * len(after), *[0] * len(flat), 0.0040, -0.0040],
        [*before, *after, *flat, *ends],
        absolute=[*[0] * (len(before) + len(after) + len(flat)), 5e-5, 5e-5],
        because="counts, and slopes printed to four decimals",
        labels=(
            *(f"minima at {f:g} t_crit" for f in fractions),
            *(f"minima at {f:g} t_crit" for f in (1.001, 1.3, 3.0)),
            *(f"minima, slope {s:g}" for s in (0.0, -0.5, -3.0)),
            "end slope at 0.999 t_crit",
            "end slope at 1.001 t_crit",
        ),
    )


@PAPER.claim(
    "minimum-outlives-recency",
    statement="With a steep slope the minimum survives the critical time: the profile then falls again at the end.",
    source="Second derivative of the profile at its end",
    formula=r"\mathcal S''_{yy}(0)\big|_{t_{crit}}\propto1-\tfrac23c,\quad c=2(1-e^{-\lambda}):\qquad"
    r"\sigma_*\to1\ \text{at}\ t_{crit}\iff\lambda<\log4\ \text{(one mode)}",
    falsifier="No turn after the critical time at slope 3, or one at slope 1.",
)
def outlives(run: Run) -> Measurement:
    slope, sizes = 3.0, (400, 800)
    t = 1.05 * critical_time(1.0, slope, 8)
    rates = growth_rates(1.0, 12)
    finite = []
    for n in sizes:
        weights = weight_matrix(n, slope)
        rows = [w * two_time_row(weights, a * t) for w, a in zip(readout_weights(8, 12), rates, strict=True)]
        rising = np.sign(np.diff(np.sum(rows, axis=0)[:-1]))
        finite.append((np.flatnonzero(rising[1:] != rising[:-1]) + 1.5) / n)
    found = [turn.sigma0 for turn in profile(1.0, slope, t).turns()]
    gentle = len(profile(1.0, 1.0, 1.05 * critical_time(1.0, 1.0, 8)).turns())
    return agreement(
        [2, *(2 * finite[1] - finite[0]), 0],
        [len(found), *found, gentle],
        absolute=[0, 2 / sizes[1], 2 / sizes[1], 0],
        because="counts; positions by linear theory of 400 and 800 tokens, extrapolated, to the width of their cells",
        labels=("turns at slope 3", "minimum", "maximum", "turns at slope 1"),
        parameters={"beta": 1, "vocab": 8, "t / t_crit": 1.05},
    )


@PAPER.claim(
    "uniqueness-scan",
    statement="Up to the critical time, beyond the condition of the theorem, the minimum was unique in all cases.",
    source="Numerical evidence, not a theorem",
    formula=r"0<t<t_{crit}\ \Longrightarrow\ \text{one minimum}",
    falsifier="One profile with no or two minima before its critical time.",
)
def uniqueness(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 1)
    count = 25 if run.quick else 400
    minima = []
    for i in range(count):
        beta, slope, vocab = _draw(rng)
        minima.append(
            _minima(profile(beta, slope, rng.uniform(0.02, 0.995) * critical_time(beta, slope, vocab), vocab))
        )
        run.notify((i + 1) / count, f"{i + 1} of {count} profiles")
    return agreement(
        [1, 1],
        [min(minima), max(minima)],
        absolute=0.0,
        because="counts",
        labels=("fewest minima", "most minima"),
        parameters={"profiles": count},
    )


@PAPER.claim(
    "convexity-threshold",
    statement="The number 3 - sqrt(3) of the theorem is where the profile stops being convex in y.",
    source="Proof of the U-shape theorem",
    formula=r"e^y\big(e^{-y}\psi_c\big)''=\sum_k\frac{c^{k+1}y^k}{k!(k+1)!}\Big[1-\frac{2c}{k+2}+\frac{c^2}{(k+2)(k+3)}\Big]"
    r"\ge0\iff c\le3-\sqrt3",
)
def convexity(run: Run) -> Measurement:
    y = np.concatenate([[0.0], np.geomspace(1e-6, 50, 400)])

    def least(c: float) -> float:
        psi, first, second = (np.exp(log_psi(c, y, order=m)) for m in (1, 2, 3))
        return float(np.min((psi - 2 * first + second) / psi))

    edge = 3 - np.sqrt(3)
    inside, outside = least(edge * (1 - 1e-6)), least(edge * (1 + 1e-6))
    return at_least(
        [0.0, 0.0],
        [inside, -outside],
        because="signs on either side of the threshold, at a relative distance of 1e-6",
        labels=("just inside: smallest curvature", "just outside: minus the smallest curvature"),
    )


@PAPER.claim(
    "early-minimum",
    statement="At slope 1 the minimum runs from the first token to the last, and a simple formula has both limits.",
    source="Small-time expansion of the closed form",
    formula=r"\sigma_*\approx\frac1\lambda\log\frac2{2-\bar c},\;\bar c=t\,\frac{\sum\omega_na_n^2}{\sum\omega_na_n}",
)
def early_minimum(run: Run) -> Measurement:
    a = growth_rates(1.0)
    weights = readout_weights(8, len(a))

    def simple(t: float) -> float:
        bar = t * np.sum(weights * a**2) / np.sum(weights * a)
        return float(np.log(2 / (2 - bar)))

    early = [profile(1.0, 1.0, t).minimiser or np.nan for t in (1e-4, 1e-6)]
    end = critical_time(1.0, 1.0, 8) * (1 - 1e-5)
    late = profile(1.0, 1.0, end).minimiser or np.nan
    return agreement(
        [0.066, 0.138, 1.0, 1.0, 1.0],
        [simple(0.25), simple(0.5), early[0] / simple(1e-4), early[1] / simple(1e-6), late / simple(end)],
        absolute=[5e-4, 5e-4, 1e-3, 1e-5, 1e-4],
        because="three printed digits; corrections of order t log(1/t) at the start and 1 - t/t_crit at the end",
        labels=("formula at t=0.25", "formula at t=0.5", "ratio at t=1e-4", "ratio at t=1e-6", "ratio near t_crit"),
    )


@PAPER.claim(
    "primacy",
    statement="Towards the first token the profile grows without bound, but slower than any power of the position.",
    source="Asymptotics of the Bessel function",
    formula=r"\psi_c(Y)\sim\frac{c\,e^{2\sqrt{cY}}}{2\sqrt\pi\,(cY)^{3/4}}",
    falsifier="A series that is cut off, or an overflow at sigma0 = 1e-300.",
)
def primacy(run: Run) -> Measurement:
    c = growth_rates(1.0)[0]
    y = np.array([50.0, 500.0, 5000.0])
    leading = np.log(c) + 2 * np.sqrt(c * y) - np.log(2 * np.sqrt(np.pi)) - 0.75 * np.log(c * y)
    ratios = np.exp(log_psi(c, y) - leading)
    far = profile(1.0, 1.0, 1.0).log_score([1e-300, 1e-150])
    exponent = (far[0] - far[1]) / (150 * np.log(10))
    bound = np.sqrt(c / separation(1.0, 1e-150, 1.0))
    return agreement(
        [0.96359, 0.98874, 0.99646, 0.0],
        [*ratios, exponent],
        absolute=[5e-6, 5e-6, 5e-6, bound],
        because="five printed digits; the last is the power of 1/sigma0 between 1e-150 and 1e-300, below sqrt(a t / Y)",
        labels=("ratio at Y=50", "ratio at Y=500", "ratio at Y=5000", "local power of 1/sigma0"),
    )


def _minima(curve: object) -> int:
    return sum(turn.kind == "minimum" for turn in curve.turns())  # type: ignore[attr-defined]


def _draw(rng: np.random.Generator) -> tuple[float, float, int]:
    """beta in [0.05, 6], slope in [0.05, 20], vocabulary in 2..32."""
    return float(rng.uniform(0.05, 6)), float(rng.uniform(0.05, 20)), int(rng.integers(2, 33))
