r"""How long memories last: escape times by quadrature against Langevin walkers, and the kinetic boundary.

$$\tau=\int_{\phi_b}^{\phi_0}\frac{dy}{D(y)p(y)}\int_y^1p(z)\,dz,\qquad \ln\tau\sim N\,\Delta f/T.$$
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from sphereflow.claims import Measurement, Run, agreement, at_most
from sphereflow.memory import escape, spherical
from sphereflow.memory.chains import Escapes, bulk_escapes, bulk_metropolis
from sphereflow.memory.landscapes import Bulk, random_patterns, state_at
from sphereflow.memory.sampling import first_passage
from sphereflow.memory.state import lse_overlap
from sphereflow.papers.dense_associative_memory import PAPER

LOAD, TEMPERATURE, STOP = 0.35, 0.35, 0.3
ESCAPES = {"quick": 300, "paper": 1000}  # escapes to wait for at each size


@PAPER.claim(
    "escape-time",
    statement="The mean escape time from the retrieval basin is a double integral; walkers in 30 dimensions agree.",
    source="Escape time in the bulk potential",
    formula=r"\tau=\int_{\phi_b}^{\phi_0}\frac{dy}{D\,p}\int_y^1p\,dz,\quad D=\tfrac{T(1-\phi^2)}N",
    falsifier="a missing Ito drift (stationary law off), or a start at overlap 1 (14.97)",
)
def escape_time(run: Run) -> Measurement:
    n, walkers, dt = 30, 300 if run.quick else 2400, 0.01
    start = float(lse_overlap(TEMPERATURE))
    noise = float(spherical.noise_overlap(LOAD, 1.0))
    target = random_patterns(n, 1, run.seed)[0]
    x0 = jnp.asarray(state_at(target, np.full(walkers, start), run.seed), jnp.float32)
    times = np.asarray(
        first_passage(
            Bulk(1.0, jnp.asarray(target, jnp.float32), noise),
            x0,
            TEMPERATURE,
            dt,
            jax.random.key(run.seed),
            STOP,
            40_000,
        )
    )
    error = times.std() / np.sqrt(walkers)
    return agreement(
        [0.727428, 13.8609, 14.5145, 13.8609],
        [
            noise,
            escape.escape_time(n, LOAD, TEMPERATURE, stop=STOP),
            escape.escape_time(n, LOAD, TEMPERATURE, start=0.9, stop=STOP),
            times.mean(),
        ],
        absolute=[5.1e-7, 5.1e-5, 5.1e-5, 4 * error],
        because="reference values with their digits; four standard errors of the walkers",
        labels=("noise floor", "quadrature from phi_eq", "quadrature from 0.9", f"{walkers} Langevin walkers"),
        parameters={"N": n, "beta": 1, "alpha": LOAD, "T": TEMPERATURE, "phi_b": STOP, "dt": dt},
    )


def points(run: Run) -> tuple[tuple[int, float], ...]:
    """(N, T) at load 0.35 whose escape times span the decades of a preset."""
    quick = ((20, 0.9), (20, 0.5), (20, 0.35), (20, 0.27), (20, 0.22), (45, 0.35))
    return quick if run.quick else (*quick, (20, 0.2), (20, 0.18), (75, 0.35), (95, 0.35))


@lru_cache(maxsize=4)
def observed(cells: tuple[tuple[int, float], ...], wanted: int, seed: int) -> tuple[list[float], list[Escapes]]:
    """Escape times by quadrature, and what walkers on the overlap show, at load 0.35."""
    noise, walkers = float(spherical.noise_overlap(LOAD, 1.0)), 1500
    exact, seen = [], []
    for n, temperature in cells:
        start = max(float(lse_overlap(temperature)), noise)
        tau = escape.escape_time(n, LOAD, temperature, start=start, stop=STOP)
        settle = min(3 * tau, 20.0)
        exact.append(tau)
        seen.append(
            bulk_escapes(
                n,
                1.0,
                temperature,
                noise,
                start=start,
                stop=STOP,
                walkers=walkers,
                settle=settle,
                duration=max(wanted * tau / walkers, settle),
                dt=min(0.5 * temperature / n, tau / 400),
                seed=seed,
            )
        )
    return exact, seen


@PAPER.claim(
    "escape-decades",
    statement="The quadrature gives the escape times that walkers show, over several decades.",
    source="Escape time in the bulk potential",
    formula=r"\tau\propto e^{N\Delta f/T}",
    falsifier="a ratio that drifts with N",
)
def escape_decades(run: Run) -> Measurement:
    cells, wanted = points(run), ESCAPES[run.preset]
    exact, seen = observed(cells, wanted, run.seed)
    return agreement(
        np.ones(len(cells)),
        [s.mean / t for s, t in zip(seen, exact, strict=True)],
        absolute=[4 / np.sqrt(max(s.number, 1)) + 0.02 for s in seen],
        because="four standard errors of the number of escapes, and 2 per cent for the time step, whose error is "
        "linear: 4 per cent were seen at twice the step",
        labels=tuple(f"N={n}, T={t:g}: tau = {tau:.4g}" for (n, t), tau in zip(cells, exact, strict=True)),
        note="Escapes counted: " + ", ".join(str(s.number) for s in seen) + ".",
        parameters={"beta": 1, "alpha": LOAD, "phi_b": STOP},
    )


def boundary_temperature(n: int, alpha: float, duration: float) -> float:
    """The temperature at which the escape time equals `duration`: what a run of that length takes for a boundary."""
    noise = float(spherical.noise_overlap(alpha, 1.0))
    top = float(spherical.spinodal_temperature(alpha, 1.0))

    def excess(t: float) -> float:
        return float(escape.log_escape_time(n, 1.0, t, noise, cells=600)) - np.log(duration)

    return float(brentq(excess, 0.02 * top, top, xtol=1e-6)) if excess(top) < 0 else top


@PAPER.claim(
    "kinetic-boundary",
    statement="The boundary that runs of a fixed length show approaches the spinodal as N grows, with a gap that falls "
    "like a power of N: it is kinetic.",
    source="Heat maps of the bulk scheme; boundary against N",
    formula=r"T_N\uparrow T_{sp}(\alpha)=0.26227\ (\alpha=\tfrac12,\ \beta=1)",
    falsifier="a boundary at fixed length of run that does not approach the spinodal",
)
def kinetic_boundary(run: Run) -> Measurement:
    sizes = (100, 1000, 10_000, 100_000, 1_000_000)
    limit = float(spherical.spinodal_temperature(0.5, 1.0))
    gaps = np.array([limit - boundary_temperature(n, 0.5, 1e5) for n in sizes])
    slopes = np.diff(np.log(gaps)) / np.diff(np.log(sizes))
    return at_most(
        [0.0] * 4 + [0.02 * limit, 0.05],
        [*np.diff(gaps), gaps[-1], abs(slopes[-1] + 0.5)],
        because="near the spinodal the barrier is quadratic in the gap, N gap^2 = constant: exponent -1/2",
        labels=(
            *[f"gap({b}) - gap({a})" for a, b in pairwise(sizes)],
            "gap at the largest N",
            "distance of the last exponent from -1/2",
        ),
        note="Gaps: "
        + ", ".join(f"{g:.4f}" for g in gaps)
        + "; exponents: "
        + ", ".join(f"{s:.3f}" for s in slopes)
        + ".",
        parameters={"alpha": 0.5, "beta": 1, "duration": 1e5, "criterion": "escape time equal to the duration"},
    )


@PAPER.claim(
    "finite-tip",
    statement="Near capacity and T = 0.005 a small system settles at the minimum of its finite-N potential.",
    source="Tip of the retrieval region at finite N (measured there: 0.995, 0.991, 0.975)",
    formula=r"\frac{V_N}N=1-\frac1{\beta N}\ln\Big[e^{\beta N\phi}+\frac{e^{\beta N\phi_c}}{\sqrt{1-\phi^{*4}}}\Big]"
    r"-\frac{T(N-3)}{2N}\ln(1-\phi^2)",
    falsifier="the noise floor without its prefactor",
)
def finite_tip(run: Run) -> Measurement:
    cells = ((25, 0.62), (24, 0.65), (22, 0.70))
    prefactor = -np.log1p(-(float(spherical.saddle(1.0)) ** 4)) / 2
    measured = [escape.finite_overlap(n, 1.0, 0.005, a + float(spherical.g_max(1.0)) + prefactor / n) for n, a in cells]
    return agreement(
        [0.9953, 0.9923, 0.9767],
        measured,
        absolute=6e-5,
        because="reference with 4 decimals",
        labels=tuple(f"N={n}, load {a:g}" for n, a in cells),
        parameters={"beta": 1, "T": 0.005},
    )


@PAPER.claim(
    "step-size",
    statement="The curvature-matched Metropolis step must shrink like one over the square root of N; then acceptance "
    "is the same at every N.",
    source="Bulk scheme; the step printed there does not depend on N and freezes the chain",
    formula=r"\sigma^2=\frac{2T}{\gamma N},\qquad \gamma=T\frac{1+\phi_{eq}^2}{(1-\phi_{eq}^2)^2}",
    falsifier="an acceptance outside (0.1, 0.95)",
)
def step_size(run: Run) -> Measurement:
    t = np.array([0.1, 0.3])
    measured = [
        bulk_metropolis(n, 1.0, t, np.full(2, -2.0), 64, 600, 100, run.seed).acceptance.mean(axis=1)
        for n in (100, 1000)
    ]
    return agreement(
        [0.88, 0.82, 0.88, 0.82],
        np.concatenate(measured),
        absolute=0.015,
        because="reference with 2 decimals, and the error of 64 chains",
        labels=tuple(f"N={n}, T={v:g}" for n in (100, 1000) for v in t),
        parameters={"steps": 600, "chains": 64},
    )
