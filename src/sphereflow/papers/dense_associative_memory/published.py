r"""The published layer: Gaussian overlaps, closed lines, and the printed line that contradicts the printed noise floor.

$$f_{ret}(T)\le u_{noise}(\alpha),\qquad \text{LSE: }\alpha_c=\tfrac12[1-f_{ret}]^2,\qquad
  \text{LSR: }\alpha_c=\tfrac12\Big[1-\frac{1-e^{-bf_{ret}}}b\Big]^2.$$
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from sphereflow.claims import Check, Run
from sphereflow.memory import gaussian, spherical, state
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.sources import LSE_LINE, LSR_LINE, STATE

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
    says="The closed forms of the retrieval overlap and its free energy are the minimum of energy less entropy for "
    "both kernels.",
    basis=STATE,
    formula=r"\phi_{eq}=\frac{\sqrt{T^2+4}-T}{2},\qquad (bT+1)y^2-(2+T+bT)y+T=0,\ y=1-\phi",
)
def retrieval_state(run: Run) -> Check:
    check = Check(parameters={"b": B})
    doubled, larger = {}, {}
    kernels = (
        ("LSE", lse_energy, 0.0, state.lse_overlap, state.lse_free_energy),
        (
            "LSR",
            lsr_energy,
            state.support_edge(B),
            lambda t: state.lsr_overlap(t, B),
            lambda t: state.lsr_free_energy(t, B),
        ),
    )
    for kernel, energy, lowest, overlap, free_energy in kernels:
        for t in (0.1, 0.3, 1.0, 2.0):
            phi, f = minimised(energy, t, lowest)
            name = f"{kernel} overlap, $T={t:g}$"
            because = "the minimum of a smooth function is found to the square root of rounding"
            check.row(name, predicted=overlap(t), measured=phi, tolerance=2e-7, because=because)
            check.row(
                f"{kernel} free energy, $T={t:g}$",
                predicted=free_energy(t),
                measured=f,
                tolerance=1e-12,
                because="the value at a minimum is found to rounding",
            )
            doubled[name] = float(overlap(2 * t))
            if kernel == "LSR":
                # The two roots have the sum (2 + T + bT) / (bT + 1).
                larger[name] = 2 - (2 + t + B * t) / (B * t + 1) - float(overlap(t))
    check.rival(r"an entropy $\ln(1-\phi^2)$ without the factor 1/2", doubled)
    check.rival("the larger root of the quadratic", larger)
    return check


@PAPER.claim(
    "published-lse-line",
    says="With Gaussian overlaps the closed line of the Gaussian kernel is where the minimised free energy meets the "
    "noise floor.",
    basis=LSE_LINE,
    formula=r"\alpha_c(T)=\tfrac12[1-f_{ret}(T)]^2",
)
def published_lse_line(run: Run) -> Check:
    check = Check(parameters={"beta": 1, "overlaps": "Gaussian"})
    exact, kernel_limited = {}, {}
    for load in (0.05, 0.1, 0.2, 0.3, 0.4):
        name = f"$T_c$ at load {load:g}"
        check.row(
            name,
            predicted=gaussian.lse_critical_temperature(load),
            measured=critical_temperature(load, lse_energy, 0.0),
            tolerance=1e-8,
            because="a root to 1e-10 of a minimum known to rounding",
        )
        exact[name] = brentq(lambda t, a=load: float(spherical.equal_depth(t, 1.0)) - a, 1e-4, 20.0)
        kernel_limited[name] = brentq(lambda t, a=load: minimised(lse_energy, t, 0.0)[1] - (0.5 - a), 1e-6, 20.0)
    check.rival("the overlap law of the sphere", exact)
    check.rival(r"the kernel-limited floor $1-\alpha/\beta-\beta/2$", kernel_limited)
    return check


@PAPER.claim(
    "printed-lsr-line",
    says="With the noise floor printed for the compact kernel its critical line runs to arbitrarily high "
    r"temperature as the load falls to $\alpha_{th}=1/4$; it does not end at $T=0.213$.",
    prints=r"The critical line of the Epanechnikov kernel is $\alpha_c(T)=\frac12[1-f_{ret}(T)]^2$ above "
    r"$\alpha_{th}$.",
    basis=LSR_LINE,
    formula=r"\alpha_c(T)=\tfrac12\Big[1-\frac{1-e^{-bf_{ret}(T)}}{b}\Big]^2\neq\tfrac12[1-f_{ret}(T)]^2",
)
def printed_lsr_line(run: Run) -> Check:
    loads = (0.255, 0.26, 0.3, 0.35, 0.4)
    check = Check(
        parameters={"b": B, "overlaps": "Gaussian"},
        note="The printed line uses the noise floor of the other kernel, $1-\\sqrt{2\\alpha}$. The LaTeX source was "
        "read; whether the proceedings still print it is not known.",
    )
    check.series(
        [f"$T_c$ at load {a:g}" for a in loads],
        predicted=[gaussian.lsr_critical_temperature(a, B) for a in loads],
        measured=[critical_temperature(a, lsr_energy, state.support_edge(B)) for a in loads],
        tolerance=1e-7,
        because="a root of a minimised free energy; the closed line is compared with direct minimisation",
    )
    check.printed([critical_temperature(a, lsr_energy, state.support_edge(B), printed=True) for a in loads])
    check.rival("the line of the Gaussian kernel", [gaussian.lse_critical_temperature(a) for a in loads])
    return check
