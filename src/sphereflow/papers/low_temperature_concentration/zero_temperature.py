r"""Zero temperature: a linear flow for every token, its limit, and the rate at which laws reach it.

$$W_2^2(t)=E\arctan^2(e^{-ct}\tan\phi)\sim e^{-c\min(2,k)t}\quad(\text{times }t\text{ for }k=2).$$
"""

from __future__ import annotations

import numpy as np
from scipy import special
from scipy.integrate import quad
from scipy.linalg import expm

from sphereflow.claims import Check, Run
from sphereflow.meanfield.zero_temperature import uniform_square_distance
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.particles import (
    FRAMES,
    SHARED_V,
    SPLIT_B,
    SPLIT_V,
    TOKENS,
    axis_distance,
    equispaced,
    follow_limit,
)
from sphereflow.papers.low_temperature_concentration.sources import LIMIT


@PAPER.claim(
    "linear-flow",
    says="At zero temperature each token follows a normalised matrix exponential, in a time of its own when $B$ is "
    "not the identity.",
    basis=LIMIT,
    formula=r"x(s)=\frac{e^{sM}x_0}{|e^{sM}x_0|},\quad t=\int_0^s|B^Tx|\,ds',\quad M=VB^T",
)
def linear_flow_claim(run: Run) -> Check:
    matrix = SPLIT_V @ SPLIT_B.T
    check = Check(parameters={"V": "diag(1, 0.5)", "B": "diag(0.2, 1)"})
    own, transposed = {}, {}
    for start in (0.3, 1.0, 2.5):
        x0 = np.array([np.cos(start), np.sin(start)])

        def place(s: float, x: np.ndarray = x0, m: np.ndarray = matrix) -> np.ndarray:
            moved = expm(s * m) @ x
            return np.asarray(moved / np.linalg.norm(moved))

        time = quad(lambda s, at=place: float(np.linalg.norm(SPLIT_B.T @ at(s))), 0, 6.0, epsabs=1e-12)[0]
        times = np.linspace(0, time, FRAMES)
        reached = follow_limit(SPLIT_V, SPLIT_B, np.full(TOKENS, start), times)[-1, 0]
        name = f"angle reached from {start:g}"
        check.row(
            name,
            predicted=np.arctan2(*place(6.0)[::-1]),
            measured=reached,
            tolerance=1e-9,
            because="an eighth-order method to 1e-10, and quadrature to 1e-12",
        )
        own[name] = float(np.arctan2(*place(time)[::-1]))
        value_only = place(time, m=SPLIT_V)
        transposed[name] = float(np.arctan2(*value_only[::-1]))
    check.rival(r"the flow of $M$ in the time $t$ itself, without $|B^Tx|$", own)
    check.rival("the flow of $V$ alone", transposed)
    return check


@PAPER.claim(
    "decay-from-uniform",
    says="On the circle, from the uniform law, the distance of the zero-temperature law to the two limit points is a "
    "one-dimensional integral, which falls at half the gap: tokens near the repelling axis arrive late.",
    basis=LIMIT,
    formula=r"W_2^2(t)=\frac2\pi\int_0^{\pi/2}\arctan^2(e^{-ct}\tan\phi)\,d\phi",
)
def decay_from_uniform(run: Run) -> Check:
    gap, times = 0.7, np.linspace(0, 6.6, FRAMES)
    angles = follow_limit(SHARED_V, np.eye(2), equispaced(TOKENS), times)
    found = axis_distance(angles, 0.0)
    check = Check(parameters={"n": TOKENS, "V": "diag(1, 0.3)", "B": 1})
    fast, leading = {}, {}
    for t in (1, 2, 4, 6):
        decay = np.exp(-gap * t)
        square = quad(lambda p, e=decay: np.arctan(e * np.tan(p)) ** 2, 0, np.pi / 2, points=[np.pi / 2 - decay])[0]
        exact = np.sqrt(2 / np.pi * square)
        name = f"$W_2$, $t={t}$"
        # The squared angle has a cusp of slope 2 pi e^(ct) at the divides: by Euler and Maclaurin, n tokens miss
        # h^2 e^(ct) / 12 of its mean, h = 2 pi / n.
        missed = (2 * np.pi / TOKENS) ** 2 / decay / 12 / (2 * exact)
        check.row(
            name,
            predicted=exact,
            measured=found[10 * t],
            tolerance=1e-6 + 1.5 * missed,
            because="n tokens miss (2 pi/n)^2 e^(ct)/12 of the square at the divide",
        )
        fast[name] = np.pi / np.sqrt(12) * decay
        leading[name] = np.sqrt(2 * np.log(2) * decay)
    check.rival("decay at the whole gap", fast)
    check.rival(r"the leading term $2\ln2\,e^{-ct}$ alone", leading)
    return check


@PAPER.claim(
    "decay-exponents",
    says="From the uniform law the distance to the limit decays at the rate $c$ for eigenspaces of dimension two or "
    "more, with a factor $t$ for two, and at half of it for a line, with known constants.",
    basis=LIMIT,
    formula=r"W_2^2\sim2\pi\ln2\,p_0e^{-ct}\ (k=1),\quad(d-2)ct\,e^{-2ct}\ (k=2),\quad\frac{d-k}{k-2}e^{-2ct}\ (k\ge3)",
)
def decay_exponents(run: Run) -> Check:
    t = 20.0
    check = Check(parameters={"ct": t})
    same, plain = {}, {}
    for d, k in ((2, 1), (5, 1), (4, 2), (6, 3), (6, 4)):
        p0 = special.gamma(d / 2) / (np.sqrt(np.pi) * special.gamma((d - 1) / 2))
        exponent = -t if k == 1 else -2 * t
        constant = 2 * np.pi * np.log(2) * p0 if k == 1 else (d - 2) * t if k == 2 else (d - k) / (k - 2)
        name = rf"$\ln W_2^2$, $d={d}$, $k={k}$"
        check.row(
            name,
            predicted=np.log(constant) + exponent,
            measured=np.log(uniform_square_distance(d, k, t)),
            tolerance=1.0 / t if k == 2 else 1e-6,
            because="corrections of order 1/t for k = 2, of order t e^(-t) otherwise",
        )
        if k == 1:
            same[name] = np.log(constant) - 2 * t
        if k == 2:
            plain[name] = np.log(d - 2) + exponent
    check.rival("the same exponent for all k", same)
    check.rival("k = 2 without its factor t", plain)
    return check
