r"""Particles on the landscape: monotone energies, where the ascent ends, and the normalised flow.

$$\dot{\mathsf E}=\pm\int|\mathcal V[\mu]|^2d\mu,\qquad
  \max\mathsf E=\frac1{2\beta}+\frac12\max v\quad\text{at }\delta_x,\ x\in\arg\max v\ \text{(peak)}.$$
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from sphereflow import landscape, sphere
from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.landscape import Problem, WeightedFlow
from sphereflow.papers.perceptrons_localization import PAPER

N = 60
FRAMES = 51
# A fifth-order method at this tolerance: the ends of the runs are attracting, so that their errors are far smaller.
SOLVER: dict[str, Any] = {"solver": "tsit5", "tol": 1e-9, "saveat": FRAMES}
# Two neurons always, the second one silent where one is enough: all runs share one compiled program.
WEIGHTS = {"one neuron": (1.0, 0.0), "two neurons": (1.0, -0.5), "two sides": (1.0, 0.7)}
SECOND_ANGLE = {"one neuron": 2.0, "two neurons": 2.0, "two sides": 2.8}


def problem(beta: float, name: str) -> Problem:
    angle = SECOND_ANGLE[name]
    return Problem(beta, WEIGHTS[name], [[1.0, 0.0], [np.cos(angle), np.sin(angle)]])


@cache
def scanned_maximum(name: str) -> tuple[float, float]:
    """(angle, value) of the largest v, by a scan of half a million angles, independent of the solver."""
    here = problem(1.0, name)
    theta = np.linspace(0, 2 * np.pi, 500_001)
    s = np.stack([np.cos(theta), np.sin(theta)], axis=1) @ here.inner.T
    v = np.maximum(s, 0) ** 2 @ here.outer
    return float(theta[np.argmax(v)]), float(v.max())


@cache
def run_flow(
    beta: float, name: str, sign: str, t1: float, seed: int, rate: float = 0.0, normalised: bool = False
) -> WeightedFlow:
    start = np.asarray(sphere.draw("uniform", N, 2, seed))
    here = problem(beta, name)
    return landscape.weighted_flow(here, start, t1, sign=sign, rate=rate, normalised=normalised, **SOLVER)


@PAPER.claim(
    "monotone-energy",
    statement="The energy never falls along the ascent and never rises along the descent, with equal and with "
    "changing masses.",
    source="Gradient flow structure, section 2",
    formula=r"\dot{\mathsf E}=\pm\int|\mathcal V|^2d\mu",
    falsifier="a wrong sign or factor in one of the two forces",
)
def monotone_energy(run: Run) -> Measurement:
    worst, labels = [], []
    for beta in (1.0, 5.0):
        for sign, step in (("ascent", 1.0), ("descent", -1.0)):
            for rate in (0.0, 1.0):
                energy = run_flow(beta, "two neurons", sign, 80.0, run.seed, rate).energy
                worst.append(float(np.min(step * np.diff(energy)) / np.ptp(energy)))
                labels.append(f"{sign}, beta={beta:g}, {'changing' if rate else 'equal'} masses")
    return at_most(
        np.zeros(len(worst)),
        -np.minimum(worst, 0.0),
        slack=1e-10,
        because="the equation is solved to 1e-9, and the energy is stationary to second order where motion ends",
        labels=tuple(labels),
        parameters={"particles": N, "t": 80},
    )


@PAPER.claim(
    "global-maximiser",
    statement="The largest energy is that of the Dirac at the highest point of v.",
    source="Proposition on maximisers and minimisers, part i",
    formula=r"\max\mathsf E=\frac1{2\beta}+\frac12\max v",
    falsifier="another measure above it",
)
def global_maximiser(run: Run) -> Measurement:
    here = {name: problem(5.0, name) for name in WEIGHTS}
    found = {name: landscape.maximise(p) for name, p in here.items()}
    scans = {name: scanned_maximum(name) for name in here}
    return agreement(
        [x for name in here for x in (0.1 + scans[name][1] / 2, np.cos(scans[name][0]), 0.0)],
        [x for f in found.values() for x in (f.energy, f.points[0, 0], f.gap)],
        absolute=[1e-9, 2e-5, 1e-10] * len(here),
        because="a scan with step 1.3e-5 misses the maximum by its square in value; the gap is proved",
        labels=tuple(f"{what}, {name}" for name in here for what in ("energy", "position", "gap")),
        parameters={"beta": 5},
    )


@PAPER.claim(
    "ascent",
    statement="The ascent never exceeds the energy of the global maximiser; from one cluster, and at beta = 1 from "
    "a uniform start, it ends there. At larger beta it stops at several clusters well below.",
    source="Proposition on maximisers and minimisers, part i; ascent flow",
    formula=r"\mathsf E[\mu_t]\le\frac1{2\beta}+\frac12\max v",
    falsifier="an energy above the bound, or an end elsewhere at beta = 1",
)
def ascent(run: Run) -> Measurement:
    above, ends, labels, end_labels, tolerance = [], [], [], [], []
    for name in ("one neuron", "two neurons"):
        angle, top = scanned_maximum(name)
        for beta in (1.0, 5.0, 20.0):
            bound = 1 / (2 * beta) + top / 2
            energy = run_flow(beta, name, "ascent", 80.0, run.seed).energy
            above.append(energy.max() - bound)
            labels.append(f"uniform start above the bound, {name}, beta={beta:g}")
            if beta == 1.0:
                ends.append(bound - energy[-1])
                tolerance.append(1e-8)
                end_labels.append(f"uniform start short of it, {name}, beta=1")
            if name == "two neurons":
                start = np.tile([np.cos(angle + 0.3), np.sin(angle + 0.3)], (N, 1))
                here = problem(beta, name)
                energy = landscape.weighted_flow(here, start, 80.0, sign="ascent", rate=0.0, **SOLVER).energy
                above.append(energy.max() - bound)
                labels.append(f"single start above the bound, {name}, beta={beta:g}")
                ends.append(bound - energy[-1])
                tolerance.append(1e-9)
                end_labels.append(f"single start short of it, {name}, beta={beta:g}")
    return agreement(
        [0.0] * (len(above) + len(ends)),
        [*np.maximum(above, 0.0), *ends],
        absolute=[1e-9] * len(above) + tolerance,
        because="the flow is solved to 1e-9 and its end is a maximum, where errors enter squared; the scan of v misses "
        "its maximum by 1e-10",
        labels=(*labels, *end_labels),
        parameters={"particles": N, "t": 80},
    )


@PAPER.claim(
    "normalised-flow",
    statement="The normalised flow (softmax attention plus perceptron) comes to rest at finitely many atoms, where the "
    "perceptron leaves no silent arc on which only the exponentially weak attraction of far clusters acts.",
    source="Proposition on normalised attention",
    formula=r"\mathrm{Proj}_x\nabla\tfrac1\beta\log\int e^{\beta x\cdot y}d\mu(y)+u(x)=0\ \text{on supp}\,\mu",
    falsifier="a velocity that does not vanish",
)
def normalised_flow(run: Run) -> Measurement:
    betas = (1.0, 5.0, 20.0)
    speeds = []
    for beta in betas:
        final = run_flow(beta, "two sides", "ascent", 200.0, run.seed, 0.0, True).positions[-1]
        weights = np.exp(beta * (final @ final.T - 1))
        pull = weights @ final / weights.sum(axis=1, keepdims=True)
        here = problem(beta, "two sides")
        pull += (np.maximum(final @ here.inner.T, 0) * here.outer) @ here.inner
        speeds.append(float(np.linalg.norm(pull - np.sum(pull * final, axis=1, keepdims=True) * final, axis=1).max()))
    return at_most(
        np.full(len(betas), 1e-8),
        speeds,
        because="the flow contracts to its end exponentially; its solver is accurate to 1e-9",
        labels=tuple(f"largest speed at t = 200, beta={b:g}" for b in betas),
        parameters={"particles": N},
    )


@PAPER.claim(
    "exact-below-flow",
    statement="No descent run gets below the certified minimum; changing masses get closer to it than equal ones.",
    source="Proposition on minimisers, part ii, beside the descent flow",
    formula=r"\mathsf E[\mu_t]\ge\min\mathsf E",
    falsifier="a run below the minimum by more than the gap",
)
def exact_below_flow(run: Run) -> Measurement:
    below, order = [], []
    for beta in (1.0, 5.0):
        exact = landscape.minimise(problem(beta, "two neurons"))
        equal = run_flow(beta, "two neurons", "descent", 80.0, run.seed).energy[-1]
        changing = run_flow(beta, "two neurons", "descent", 80.0, run.seed, 1.0).energy[-1]
        below += [exact.energy - equal, exact.energy - changing]
        order.append(changing - equal)
    return at_most(
        np.zeros(6),
        [*below, *order],
        slack=1e-10,
        because="the gap of the minimiser is proved to 1e-12",
        labels=(
            *(f"{kind} masses below the minimum, beta={b:g}" for b in (1, 5) for kind in ("equal", "changing")),
            *(f"changing masses above equal ones, beta={b:g}" for b in (1, 5)),
        ),
    )
