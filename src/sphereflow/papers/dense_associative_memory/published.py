r"""The published layer: Gaussian overlaps, closed lines, and the printed line that contradicts the printed noise floor.

$$f_{ret}(T)\le u_{noise}(\alpha),\qquad \text{LSE: }\alpha_c=\tfrac12[1-f_{ret}]^2,\qquad
  \text{LSR: }\alpha_c=\tfrac12\Big[1-\frac{1-e^{-bf_{ret}}}b\Big]^2.$$
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.memory import gaussian, state
from sphereflow.papers.dense_associative_memory import PAPER

B = state.REFERENCE_B


def lse_energy(phi: float) -> float:
    return 1 - phi


def lsr_energy(phi: float) -> float:
    return -float(np.log(1 - B * (1 - phi))) / B


def minimised(energy: Callable[[float], float], temperature: float, lowest: float) -> tuple[float, float]:
    """(overlap, free energy) by direct minimisation of u(phi) - (T/2) ln(1 - phi^2) over (lowest, 1)."""
    found = minimize_scalar(
        lambda phi: energy(phi) - temperature / 2 * np.log(1 - phi * phi),
        bounds=(lowest + 1e-12, 1 - 1e-12),
        method="bounded",
        options={"xatol": 1e-13},
    )
    return float(found.x), float(found.fun)


def critical_temperature(alpha: float, energy: Callable[[float], float], lowest: float, printed: bool = False) -> float:
    """The T at which the minimised f meets the noise floor u(sqrt(2 alpha)); `printed`: 1 - sqrt(2 alpha)."""
    extreme = np.sqrt(2 * alpha)
    floor = 1 - extreme if printed else energy(extreme)
    return float(brentq(lambda t: minimised(energy, t, lowest)[1] - floor, 1e-6, 20.0, xtol=1e-10))


@PAPER.claim(
    "retrieval-state",
    statement="The retrieval overlap and its free energy have closed forms for both kernels.",
    source="Retrieval state, Gaussian (LSE) and Epanechnikov (LSR) kernels",
    formula=r"\phi_{eq}=\frac{\sqrt{T^2+4}-T}{2},\qquad (bT+1)y^2-(2+T+bT)y+T=0,\ y=1-\phi",
    falsifier="the larger root of the quadratic, or an entropy other than (1/2) ln(1 - phi^2)",
)
def retrieval_state(run: Run) -> Measurement:
    temperatures = (0.1, 0.3, 1.0, 2.0)
    lse = [minimised(lse_energy, t, 0.0) for t in temperatures]
    lsr = [minimised(lsr_energy, t, state.wall(B)) for t in temperatures]
    t = np.array(temperatures)
    closed = np.stack(
        [state.lse_overlap(t), state.lse_free_energy(t), state.lsr_overlap(t, B), state.lsr_free_energy(t, B)]
    )
    return agreement(
        np.concatenate([np.array(lse).T, np.array(lsr).T]).ravel(),
        closed.ravel(),
        absolute=np.repeat([2e-7, 1e-12, 2e-7, 1e-12], len(t)),
        because="the minimum of a smooth function is found to the square root of rounding, its value to rounding",
        labels=tuple(f"{k} {w}, T={v:g}" for k in ("LSE", "LSR") for w in ("overlap", "f") for v in t),
        parameters={"b": B},
    )


@PAPER.claim(
    "published-lse-line",
    statement="Published layer: the critical temperature of LSE at six loads, from the closed line.",
    source="Critical line of the Gaussian kernel",
    formula=r"\alpha_c(T)=\tfrac12[1-f_{ret}(T)]^2",
    falsifier="the exact layer used in its place (T_c = 1.03 instead of 0.751 at load 0.1)",
)
def published_lse_line(run: Run) -> Measurement:
    loads = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4)
    return agreement(
        [3.39768, 1.29828, 0.75118, 0.33957, 0.15543, 0.05359],
        [gaussian.lse_critical_temperature(a) for a in loads],
        absolute=6e-6,
        because="reference values by direct minimisation, with 5 decimals",
        labels=tuple(f"load {a:g}" for a in loads),
        parameters={"beta": 1, "layer": "gaussian"},
    )


@PAPER.claim(
    "printed-lsr-end",
    statement="Published layer: the LSR line as printed meets its threshold 0.25 at T = 0.2132, its smallest root.",
    source="Critical line of the Epanechnikov kernel, as printed (the text says about 0.22)",
    formula=r"\tfrac12[1-f_{ret}^{LSR}(T_{max})]^2=\alpha_{th}=\tfrac12(1-1/b)^2",
    falsifier="2.80, where the same square rises through the threshold again",
)
def printed_lsr_end(run: Run) -> Measurement:
    return agreement(
        [0.213155, 0.25],
        [gaussian.lsr_published_end(B), gaussian.lsr_threshold(B)],
        absolute=[5.1e-7, 1e-12],
        because="reference value with 6 decimals; the threshold is exact",
        labels=("T_max", "threshold"),
        parameters={"b": B, "layer": "gaussian"},
    )


@PAPER.claim(
    "printed-lsr-line",
    statement="The critical line printed for the compact kernel follows from the noise floor printed for it. It does "
    "not: with that noise floor the line runs to arbitrarily high temperature instead of ending at T = 0.213.",
    source="Critical line of the Epanechnikov kernel, as printed",
    formula=r"\alpha_c(T)=\tfrac12\Big[1-\frac{1-e^{-bf_{ret}(T)}}{b}\Big]^2\neq\tfrac12[1-f_{ret}(T)]^2",
    falsifier="a critical temperature of the printed noise floor that lies on the printed line",
)
def printed_lsr_line(run: Run) -> Measurement:
    loads = (0.26, 0.3, 0.35, 0.4)
    measured = [critical_temperature(a, lsr_energy, state.wall(B)) for a in loads]
    printed = [critical_temperature(a, lsr_energy, state.wall(B), printed=True) for a in loads]
    return agreement(
        [gaussian.lsr_critical_temperature(a, B) for a in loads],
        measured,
        absolute=1e-7,
        printed=printed,
        because="a root of a minimised free energy; the closed line is compared with direct minimisation",
        labels=tuple(f"T_c at load {a:g}" for a in loads),
        note="f_ret(T_c) = -(1/b) ln(1 - b(1 - sqrt(2 alpha))), the printed noise floor, gives T_c = "
        + ", ".join(f"{t:.4g}" for t in measured)
        + " at loads 0.26, 0.3, 0.35, 0.4; the printed line has "
        + ", ".join(f"{t:.4g}" for t in printed)
        + ". It uses the noise floor of the other kernel, 1 - sqrt(2 alpha).",
        parameters={"b": B, "layer": "gaussian"},
    )
