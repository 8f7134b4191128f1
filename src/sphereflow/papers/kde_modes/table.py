r"""The table of mean numbers of modes: Monte Carlo, the Gaussian Kac-Rice formula, and the uniform predictor."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.modes import (
    ModeSample,
    belt_fraction,
    edge,
    expected_modes,
    find_modes,
    gaussian_modes,
    sample_modes,
)
from sphereflow.papers.kde_modes import PAPER

# n, beta, runs of the paper preset; then reference values: Gaussian formula on [-T0, T0], Monte Carlo on the whole line
# and on [-T0, T0] with standard errors, uniform predictor on both, fraction of modes in the belt (Monte Carlo).
ROWS = (
    (1000, 30.0, 11000, 1.710305, 2.273, 0.009, 1.693, 0.007, 2.235, 1.705, 0.158),
    (1000, 100.0, 3000, 7.326781, 8.730, 0.032, 7.274, 0.028, 8.726, 7.303, 0.833),
    (1000, 300.0, 3000, 17.287983, 20.108, 0.039, 17.244, 0.033, 20.050, 17.224, 0.858),
    (1000, 1000.0, 1500, 31.818147, 37.319, 0.073, 31.564, 0.058, 37.323, 31.673, 0.846),
    (10000, 100.0, 3100, 3.016876, 4.149, 0.023, 2.954, 0.019, 4.136, 3.005, 0.339),
    (10000, 300.0, 2100, 11.708894, 13.917, 0.051, 11.629, 0.044, 13.967, 11.668, 0.505),
    (10000, 1000.0, 1000, 35.796725, 39.97, 0.20, 35.59, 0.18, 40.251, 35.694, 0.890),
    (10000, 10000.0, 1000, 117.658806, 133.6, 0.6, 118.0, 0.5, 133.293, 117.256, 0.883),
    (3000, 54772.0, 1000, 206.05457, 251.1, 0.7, 204.3, 0.5, 252.119, 204.732, 0.814),
)
_QUICK_RUNS = 1000


@lru_cache(maxsize=32)
def sampled(n: int, beta: float, runs: int, seed: int) -> ModeSample:
    """Monte Carlo of one row; several claims and pictures look at the same one."""
    return sample_modes(n, beta, runs, seed=seed)


def rows(run: Run) -> list[tuple[tuple, ModeSample]]:
    """The rows of this preset with their Monte Carlo: n = 1000 only when quick."""
    chosen = [row for row in ROWS if row[0] == 1000] if run.quick else list(ROWS)
    result = []
    for k, row in enumerate(chosen):
        runs = _QUICK_RUNS if run.quick else row[2]
        result.append((row, sampled(row[0], row[1], runs, run.seed + 1)))
        run.notify((k + 1) / len(chosen), f"n={row[0]}, beta={row[1]:g}")
    return result


def _labels(chosen: list) -> tuple[str, ...]:
    return tuple(f"n={row[0]}, beta={row[1]:g}" for row in chosen)


@PAPER.claim(
    "gaussian-values",
    statement="The Gaussian Kac-Rice integral has the reference values, at nine pairs of n and beta.",
    source="Kac-Rice formula with a Gaussian law",
    formula=r"\int_{-T_0}^{T_0}\rho_G\,dt,\qquad T_0=\sqrt{2\log n-\log\beta}",
    falsifier="a forgotten factor n in a and v, or S12 left out",
)
def gaussian_values(run: Run) -> Measurement:
    return agreement(
        [row[3] for row in ROWS],
        [gaussian_modes(row[0], row[1]) for row in ROWS],
        absolute=[1e-6] * 8 + [1e-5],
        because="reference values with six decimals (the last with five)",
        labels=_labels(list(ROWS)),
    )


@PAPER.claim(
    "uniform-values",
    statement="The uniform predictor has the reference values, on the line and on [-T0, T0].",
    source="Beyond the paper: Kac-Rice with a Poisson tail",
    formula=r"\int\sqrt\beta\,f\big(n\varphi(t)/\sqrt\beta\big)D(t)\,dt",
    falsifier="linear interpolation of f, which shifts the values by 0.2 to 0.5 %",
)
def uniform_values(run: Run) -> Measurement:
    line = [expected_modes(row[0], row[1]) for row in ROWS]
    inside = [expected_modes(row[0], row[1], -edge(row[0], row[1]), edge(row[0], row[1])) for row in ROWS]
    reference = np.array([row[8] for row in ROWS] + [row[9] for row in ROWS])
    return agreement(
        reference,
        [*line, *inside],
        absolute=6e-4 + 5e-5 * reference,
        because="reference values with three decimals, from a rule with a kink at 0.02 samples per bandwidth",
        labels=(*_labels(list(ROWS)), *(f"{label}, inside" for label in _labels(list(ROWS)))),
    )


@PAPER.claim(
    "kac-rice",
    statement="The mean number of modes in [-T0, T0] is what the Gaussian Kac-Rice formula says, up to its known bias.",
    source="Theorem (Kac-Rice) with the Edgeworth comparison",
    formula=r"\mathbb E\#[-T_0,T_0]\approx2\int_0^{T_0}\rho_G\,dt",
    falsifier="down-crossings counted, or no truncation",
)
def kac_rice(run: Run) -> Measurement:
    chosen = rows(run)
    predicted = np.array([gaussian_modes(row[0], row[1]) for row, _ in chosen])
    found = [sample.inside for _, sample in chosen]
    return agreement(
        predicted,
        [e.value for e in found],
        absolute=[3 * e.error for e in found] + 0.025 * predicted,
        because="three standard errors, and 2.5 % since the law is not Gaussian near T0",
        labels=_labels([row for row, _ in chosen]),
        parameters={"runs": [s.modes.runs for _, s in chosen]},
    )


@PAPER.claim(
    "uniform-predictor",
    statement="The mean number of modes on the whole line is what the uniform predictor says; all counts are certain.",
    source="Beyond the paper: Kac-Rice with a Poisson tail",
    formula=r"\mathbb E\#\approx\int\sqrt\beta\,f\big(n\varphi(t)/\sqrt\beta\big)D(t)\,dt",
    falsifier="the sparse tail, 10 to 25 % of all modes, left out",
)
def uniform_predictor(run: Run) -> Measurement:
    chosen = rows(run)
    line = np.array([expected_modes(row[0], row[1]) for row, _ in chosen])
    inside = np.array([expected_modes(s.n, s.beta, -edge(s.n, s.beta), edge(s.n, s.beta)) for _, s in chosen])
    found = [s.everywhere for _, s in chosen] + [s.inside for _, s in chosen]
    predicted = np.concatenate([line, inside])
    names = _labels([row for row, _ in chosen])
    return agreement(
        [*predicted, 0],
        [*(float(e.value) for e in found), sum(s.modes.undecided for _, s in chosen)],
        absolute=[*([3 * e.error for e in found] + 0.02 * predicted), 0],
        because="three standard errors, and 2 % for the predictor",
        labels=(*names, *(f"{name}, in [-T0, T0]" for name in names), "counts not certain"),
        parameters={"runs": [s.modes.runs for _, s in chosen]},
    )


@PAPER.claim(
    "monte-carlo-table",
    statement="Independent Monte Carlo with another counter gave the same means.",
    source="Reference table of mean numbers of modes",
    falsifier="a counter that loses or invents half a percent of the modes",
)
def monte_carlo_table(run: Run) -> Measurement:
    chosen = rows(run)
    found = [s.everywhere for _, s in chosen] + [s.inside for _, s in chosen]
    reference = [(row[4], row[5]) for row, _ in chosen] + [(row[6], row[7]) for row, _ in chosen]
    names = _labels([row for row, _ in chosen])
    return agreement(
        [v for v, _ in reference],
        [e.value for e in found],
        absolute=[4 * np.hypot(e.error, r) for e, (_, r) in zip(found, reference, strict=True)],
        because="four combined standard errors",
        labels=(*names, *(f"{name}, in [-T0, T0]" for name in names)),
    )


@PAPER.claim(
    "million",
    statement="One sample of a million points has the predicted number of modes, from one mode to 1,580 of them.",
    source="Beyond the paper: sizes its grid search cannot reach",
    formula=r"n=10^6,\quad \beta=10^2,\,10^4,\,10^6",
    falsifier="a count that loses modes as the bandwidth shrinks",
)
def million(run: Run) -> Measurement:
    betas = (1e2, 1e4, 1e6)
    sample = np.random.default_rng(run.seed + 6).standard_normal(1_000_000)
    found = [find_modes(sample, beta) for beta in betas]
    predicted = np.array([expected_modes(1e6, beta) for beta in betas])
    return agreement(
        [*predicted, 0],
        [*(len(modes) for modes in found), sum(modes.undecided for modes in found)],
        absolute=[*(3 * np.sqrt(predicted) + 0.02 * predicted), 0],
        because="modes repel each other, so a count spreads less than a Poisson number: 3 sqrt(N), and 2 %",
        labels=(*(f"beta={beta:g}" for beta in betas), "counts not certain"),
        parameters={"n": 1_000_000},
    )


@PAPER.claim(
    "belt",
    statement="The share of modes in the two belts is as predicted, and grows with n along beta = n^a; at feasible n "
    "it need not be a majority.",
    source="Location of modes",
    formula=r"t^2\in[2\log n-3\log\beta,\ 2\log n-\log\beta]",
    falsifier="modes that sit elsewhere",
)
def belts(run: Run) -> Measurement:
    if run.quick:
        samples = [
            (ROWS[2], sampled(1000, 300.0, _QUICK_RUNS, run.seed + 1)),
            (ROWS[6], sampled(10000, 1000.0, 100, run.seed + 1)),
        ]
    else:
        samples = rows(run)
    shares = [float(s.belt_fraction.value) for _, s in samples]
    theory = [belt_fraction(row[0], row[1]) for row, _ in samples]
    sizes = (1e3, 1e4, 1e5, 1e6)
    growth = [belt_fraction(n, n**a) for a in (0.5, 0.75) for n in sizes]
    names = _labels([row for row, _ in samples])
    return agreement(
        [*(row[10] for row, _ in samples), *theory, 0.184, 0.354, 0.515, 0.634, 0.855, 0.887, 0.909, 0.925],
        [*shares, *shares, *growth],
        absolute=[0.03] * (2 * len(shares)) + [1e-3] * 8,
        because="0.03 for Monte Carlo and predictor together; reference values of the predictor with three decimals",
        labels=(
            *names,
            *(f"{name}, predictor" for name in names),
            *(f"a={a:g}, n={n:g}" for a in (0.5, 0.75) for n in sizes),
        ),
    )
