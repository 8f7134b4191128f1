r"""Zero temperature: a linear flow for every token, its limit, and the rate at which laws reach it.

$$W_2^2(t)=E\arctan^2(e^{-ct}\tan\phi)\sim e^{-c\min(2,k)t}\quad(\text{times }t\text{ for }k=2).$$
"""

from __future__ import annotations

import numpy as np
from scipy import special

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.meanfield.zero_temperature import linear_flow, uniform_square_distance
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    SHARED_V,
    SPLIT_B,
    SPLIT_V,
    TOKENS,
    equispaced,
    follow,
    follow_limit,
)

# W_2^2 at c t = 2, 4, 6, 8 from the uniform law, by (d, k): ten-digit quadrature elsewhere.
TABLE = {
    (2, 1): (0.1710703, 0.02506022, 0.003430148, 4.649374e-4),
    (4, 2): (0.06644612, 0.002528079, 7.085933e-5, 1.747964e-6),
    (6, 3): (0.04199326, 9.683869e-4, 1.833610e-5, 3.373654e-7),
    (6, 4): (0.01699003, 3.344390e-4, 6.143668e-6, 1.125349e-7),
}


@PAPER.claim(
    "linear-flow",
    statement="At zero temperature tokens decouple: each follows a normalised matrix exponential, in a time of its own "
    "when B is not the identity.",
    source="Zero-temperature equation",
    formula=r"x(s)=\frac{e^{sM}x_0}{|e^{sM}x_0|},\quad t=\int_0^s|B^Tx|\,ds',\quad M=VB^T",
    falsifier="The flow without the division by |B^T x|, right for B = 1 only.",
)
def linear_flow_claim(run: Run) -> Measurement:
    start = equispaced(TOKENS)
    plain_times = np.linspace(0, 3.0, FRAMES)
    plain = follow_limit(SHARED_V, np.eye(2), start, plain_times, plain_times[1])[-1]
    exact = np.arctan2(np.exp(-0.7 * 3.0) * np.sin(start), np.cos(start))
    worst = np.abs(np.exp(1j * plain) - np.exp(1j * exact)).max()
    place, time = linear_flow(SPLIT_V, SPLIT_B, np.array([np.cos(0.3), np.sin(0.3)]), 6.0)
    times = np.linspace(0, time, FRAMES)
    general = follow_limit(SPLIT_V, SPLIT_B, np.full(TOKENS, 0.3), times, times[1])[-1, 0]
    return agreement(
        [0.0, 3.7439025358, np.arctan2(place[1], place[0])],
        [worst, time, general],
        absolute=[1e-10, 6e-11, 1e-10],
        because="66 steps of an eighth-order method; the time is a reference value with ten decimals",
        labels=("tan law, B = 1, all angles", "time at s = 6", "angle there, B = diag(0.2, 1)"),
    )


@PAPER.claim(
    "decay-from-uniform",
    statement="From the uniform law the squared distance to the limit is a one-dimensional integral; quantile tokens "
    "on the circle have the same average.",
    source="Convergence at zero temperature; table by independent quadrature",
    formula=r"W_2^2(t)=E\arctan^2(e^{-ct}\tan\phi),\quad \phi\propto\cos^{k-1}\phi\,\sin^{d-k-1}\phi",
    falsifier="A plain Monte Carlo average: at late times it misses the rare tokens that carry the mean.",
)
def decay_from_uniform(run: Run) -> Measurement:
    table = [uniform_square_distance(*pair, t) for pair in TABLE for t in (2.0, 4.0, 6.0, 8.0)]
    predicted = np.ravel(list(TABLE.values()))
    angle = np.abs(np.arctan(np.tan(equispaced(20_000))))
    averages = [np.mean(np.arctan(np.exp(-t) * np.tan(angle)) ** 2) for t in (2.0, 4.0)]
    return agreement(
        [*predicted, *TABLE[2, 1][:2]],
        [*table, *averages],
        absolute=[*1e-6 * predicted, 5e-5, 5e-5],
        because="quadrature to 1e-6 of seven printed digits; the average over quantile points is good to 1/n",
        labels=(*(f"d={d} k={k} ct={t}" for d, k in TABLE for t in (2, 4, 6, 8)), "tokens, ct=2", "tokens, ct=4"),
    )


@PAPER.claim(
    "decay-exponents",
    statement="The distance to the limit decays at the rate c for eigenspaces of dimension two or more, and at half of "
    "it for a line: tokens near the repelling set arrive late.",
    source="Convergence at zero temperature",
    formula=r"W_2^2\sim2\pi\ln2\,p_0e^{-ct}\ (k=1),\quad(d-2)ct\,e^{-2ct}\ (k=2),\quad\frac{d-k}{k-2}e^{-2ct}\ (k\ge3)",
    falsifier="The same exponent for all k.",
)
def decay_exponents(run: Run) -> Measurement:
    rates = [
        np.log(uniform_square_distance(*pair, 8.0) / uniform_square_distance(*pair, 9.0))
        for pair in ((2, 1), (4, 2), (6, 3))
    ]
    p0 = {d: special.gamma(d / 2) / (np.sqrt(np.pi) * special.gamma((d - 1) / 2)) for d in (2, 5)}
    t = 20.0
    leading = [
        uniform_square_distance(2, 1, t) * np.exp(t) / (2 * np.pi * np.log(2) * p0[2]),
        uniform_square_distance(5, 1, t) * np.exp(t) / (2 * np.pi * np.log(2) * p0[5]),
        uniform_square_distance(4, 2, t) * np.exp(2 * t) / (2 * t),
        uniform_square_distance(6, 3, t) * np.exp(2 * t) / 3,
        uniform_square_distance(6, 4, t) * np.exp(2 * t),
    ]
    return agreement(
        [0.99985, 1.8789, 1.99955, 1.0, 1.0, 1.0, 1.0, 1.0],
        [*rates, *leading],
        absolute=[6e-6, 6e-5, 6e-6, 1e-7, 1e-7, 1.0 / t, 1e-7, 1e-7],
        because="printed digits; corrections are of order t e^(-t), and 1/t for k = 2",
        labels=(
            "exponent (2,1)",
            "exponent (4,2)",
            "exponent (6,3)",
            "constant (2,1)",
            "constant (5,1)",
            "constant (4,2)",
            "constant (6,3)",
            "constant (6,4)",
        ),
        parameters={"ct": t},
    )


@PAPER.claim(
    "identity-is-frozen",
    statement="With V = B = 1 equally spaced tokens do not move, at any temperature.",
    source="Trivial case: E is the whole space",
    formula=r"V=B=1,\ \mu=\mathrm{uniform}\ \Rightarrow\ P_xm_\beta(x)=0",
    falsifier="A missing projection P_x.",
)
def identity_is_frozen(run: Run) -> Measurement:
    betas = (1.0, 30.0, 1000.0)
    start, times = equispaced(TOKENS), np.arange(FRAMES) / 1000
    ends = [follow(b, np.eye(2), np.eye(2), start, times, times[-1] / 6)[-1] for b in betas]
    speeds = [np.abs(end - start).max() / times[-1] for end in ends]
    return at_most(
        0.0,
        speeds,
        slack=1e-12,
        because="rounding of the angles over the time of the run",
        labels=tuple(f"beta={b:g}" for b in betas),
        parameters={"n": TOKENS},
    )
