r"""How long memories last: escape times by quadrature against Langevin walkers, and the kinetic boundary.

$$\tau=\int_{\phi_b}^{\phi_0}\frac{dy}{D(y)p(y)}\int_y^1p(z)\,dz,\qquad \ln\tau\sim N\,\Delta f/T.$$
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.memory import escape, gaussian, spherical
from sphereflow.memory.chains import Escapes, bulk_escapes, bulk_metropolis
from sphereflow.memory.landscapes import Bulk, random_patterns, state_at
from sphereflow.memory.sampling import first_passage
from sphereflow.memory.state import lse_overlap
from sphereflow.papers.dense_associative_memory import PAPER
from sphereflow.papers.dense_associative_memory.sources import DRAFT

LOAD, TEMPERATURE, STOP = 0.35, 0.35, 0.3
ESCAPES = {"quick": 120, "paper": 1000}  # escapes to wait for at each size
ONE_COORDINATE = basis.Derived("the overlap alone is a diffusion when the noise enters by its floor")


def plain_escape_time(n: int, temperature: float, noise: float, start: float, entropy: float) -> float:
    """The double integral by two cumulative trapezoidal sums on an even grid; `entropy` is the exponent of the law."""
    phi = np.linspace(STOP, 1, 400_001)[:-1]
    energy = 1 - np.logaddexp(n * phi, n * noise) / n
    log_p = entropy * np.log1p(-phi * phi) - n * energy / temperature
    p = np.exp(log_p - log_p.max())
    step = phi[1] - phi[0]
    beyond = np.cumsum(p[::-1])[::-1] - p / 2
    rate = beyond * step / (temperature * (1 - phi * phi) / n * p)
    return float(np.sum(rate[phi <= start]) * step)


@PAPER.claim(
    "escape-time",
    says="The mean escape time from the retrieval basin is a double integral over the overlap alone; Langevin "
    "walkers in 30 dimensions agree.",
    basis=ONE_COORDINATE,
    formula=r"\tau=\int_{\phi_b}^{\phi_0}\frac{dy}{D\,p}\int_y^1p\,dz,\quad D=\tfrac{T(1-\phi^2)}N",
)
def escape_time(run: Run) -> Check:
    n, walkers, dt = 30, 150 if run.quick else 2400, 0.01
    start = float(lse_overlap(TEMPERATURE))
    noise = float(spherical.noise_overlap(LOAD, 1.0))
    target = random_patterns(n, 1, run.seed)[0]
    x0 = jnp.asarray(state_at(target, np.full(walkers, start), run.seed), jnp.float32)
    bulk = Bulk(1.0, jnp.asarray(target, jnp.float32), noise)
    times = mean(first_passage(bulk, x0, TEMPERATURE, dt, jax.random.key(run.seed), STOP, 40_000))
    check = Check(
        parameters={"N": n, "beta": 1, "alpha": LOAD, "T": TEMPERATURE, "phi_b": STOP, "walkers": walkers, "dt": dt}
    )
    plain = plain_escape_time(n, TEMPERATURE, noise, start, (n - 3) / 2)
    check.row(
        "walkers",
        predicted=plain,
        measured=times.value,
        error=times.error,
        repeats=walkers,
        relative=0.04,
        because="standard error, and 4 % for the excursions that a step of 0.01 misses",
    )
    check.row(
        "quadrature on a graded grid",
        predicted=plain,
        measured=escape.escape_time(n, LOAD, TEMPERATURE, stop=STOP),
        relative=1e-3,
        because="the even grid of the comparison",
    )
    published = float(1 - gaussian.lse_noise_floor(LOAD, 1.0))
    check.rival(
        "the noise floor of Gaussian overlaps", plain_escape_time(n, TEMPERATURE, published, start, (n - 3) / 2)
    )
    check.rival("the exponent N/2 in the stationary law", plain_escape_time(n, TEMPERATURE, noise, start, n / 2))
    check.rival(r"a diffusion $T(1-\phi^2)$ that does not fall with $N$", plain / n)
    check.rival(
        "a start at overlap 1",
        {"quadrature on a graded grid": plain_escape_time(n, TEMPERATURE, noise, 1.0, (n - 3) / 2)},
    )
    return check


def points(run: Run) -> tuple[tuple[int, float], ...]:
    """(N, T) at load 0.35 whose escape times span the decades of a preset."""
    quick = ((20, 0.9), (20, 0.5), (20, 0.35), (20, 0.27), (20, 0.22), (45, 0.35))
    return quick if run.quick else (*quick, (20, 0.2), (75, 0.35), (95, 0.35))


@lru_cache(maxsize=4)
def observed(cells: tuple[tuple[int, float], ...], wanted: int, seed: int) -> tuple[list[float], list[Escapes]]:
    """Escape times by quadrature, and what walkers on the overlap show, at load 0.35."""
    noise, walkers = float(spherical.noise_overlap(LOAD, 1.0)), 1000
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
    says="The quadrature gives the escape times that walkers on the overlap show, from 1 to several hundred "
    "(three thousand with the paper's sizes).",
    basis=ONE_COORDINATE,
    formula=r"\tau\propto e^{N\Delta f/T}",
)
def escape_decades(run: Run) -> Check:
    cells, wanted = points(run), ESCAPES[run.preset]
    exact, seen = observed(cells, wanted, run.seed)
    noise = float(spherical.noise_overlap(LOAD, 1.0))
    check = Check(
        parameters={"beta": 1, "alpha": LOAD, "phi_b": STOP},
        note="Escapes counted: " + ", ".join(str(s.number) for s in seen) + ".",
    )
    entropy = {}
    for (n, t), tau, escapes in zip(cells, exact, seen, strict=True):
        name = f"$\\ln\\tau$, $N={n}$, $T={t:g}$"
        check.row(
            name,
            predicted=np.log(tau),
            measured=np.log(escapes.mean),
            error=1 / np.sqrt(max(escapes.number, 1)),
            tolerance=0.03,
            because="standard error of the number of escapes, and 3 % for the time step, whose error is linear",
        )
        start = max(float(lse_overlap(t)), noise)
        entropy[name] = float(np.log(plain_escape_time(n, t, noise, start, n / 2)))
    names = list(entropy)
    first, temperature = check.rows[0].predicted, cells[0][1]
    arrhenius = [first * temperature / t for _, t in cells]
    check.rival("the exponent N/2 in the stationary law", entropy)
    check.rival("a barrier that does not depend on temperature", dict(zip(names, arrhenius, strict=True)))
    return check


def boundary_temperature(n: int, alpha: float, duration: float) -> float:
    """The temperature at which the escape time equals `duration`: what a run of that length takes for a boundary."""
    noise = float(spherical.noise_overlap(alpha, 1.0))
    top = float(spherical.spinodal_temperature(alpha, 1.0))

    def excess(t: float) -> float:
        return float(escape.log_escape_time(n, 1.0, t, noise, cells=600)) - np.log(duration)

    return float(brentq(excess, 0.02 * top, top, xtol=1e-6)) if excess(top) < 0 else top


@PAPER.claim(
    "kinetic-boundary",
    says="The temperature at which runs of a fixed length lose a pattern approaches the spinodal as $N$ grows, with "
    "a gap like $N^{-1/2}$: what such runs show is kinetic.",
    basis=basis.Figure("of the boundary of the bulk scheme at several N", via=DRAFT),
    formula=r"T_N\uparrow T_{sp}(\alpha)=\frac{\beta^2-(\alpha+g_{max})^2}{\beta(\alpha+g_{max})},\qquad "
    r"T_{sp}-T_N\sim N^{-1/2}",
)
def kinetic_boundary(run: Run) -> Check:
    sizes = np.array([10_000, 100_000, 1_000_000])
    temperatures = np.array([boundary_temperature(int(n), 0.5, 1e5) for n in sizes])
    # Three unknowns, T + a N^-1/2 + c/N, through three points.
    limit = np.linalg.solve(np.stack([np.ones(3), sizes**-0.5, 1.0 / sizes], axis=1), temperatures)[0]
    spinodal = float(spherical.spinodal_temperature(0.5, 1.0))
    gaps = spinodal - temperatures
    check = Check(
        parameters={"alpha": 0.5, "beta": 1, "duration": 1e5, "criterion": "escape time equal to the duration"},
        note="Boundaries: " + ", ".join(f"{t:.4f} at N = {n}" for n, t in zip(sizes, temperatures, strict=True)) + ".",
    )
    limit_name, exponent = "limit of the boundary", "exponent of the gap"
    because = "logarithms of N in the prefactor of the escape time"
    check.row(limit_name, predicted=spinodal, measured=limit, tolerance=0.003, because=because)
    last = np.log(gaps[2] / gaps[1]) / np.log(sizes[2] / sizes[1])
    check.row(exponent, predicted=-0.5, measured=last, tolerance=0.05, because=because)

    def temperature_of(line: object) -> float:
        return float(brentq(lambda t: float(line(t, 1.0)) - 0.5, 1e-4, 1.0))  # type: ignore[operator]

    check.rival("the line of equal depth", {limit_name: temperature_of(spherical.equal_depth)})
    check.rival("the static line", {limit_name: temperature_of(spherical.static)})
    check.rival("a smooth spinodal, barrier of power 3/2", {exponent: -2 / 3})
    return check


@PAPER.claim(
    "step-size",
    says=r"With the curvature-matched step divided by $\sqrt N$ the acceptance of Metropolis moves does not depend "
    "on $N$ and has a closed form.",
    basis=basis.Derived("the energy of a small move is a normal variable whose mean is half its variance"),
    formula=r"\sigma^2=\frac{2T}{\gamma N}:\qquad "
    r"\text{acceptance}=2\Phi\Big(-\tfrac12\sqrt{\tfrac{2T\phi_{eq}^3}{1+\phi_{eq}^2}}\Big)",
)
def step_size(run: Run) -> Check:
    t, chains = np.array([0.1, 0.3]), 64
    phi = lse_overlap(t)
    spread = np.sqrt(2 * t * phi**3 / (1 + phi**2))
    check = Check(parameters={"steps": 600, "chains": chains})
    frozen: dict[str, float] = {}
    published: dict[str, float] = {}
    for n in (100, 1000):
        seen = mean(bulk_metropolis(n, 1.0, t, np.full(2, -2.0), chains, 600, 100, run.seed).acceptance.T)
        names = [f"$N={n}$, $T={v:g}$" for v in t]
        check.series(
            names,
            predicted=2 * ndtr(-spread / 2),
            measured=seen.value,
            error=seen.error,
            repeats=chains,
            tolerance=0.5 / n,
            because="standard error over chains, and the correction of order 1/N",
        )
        frozen |= dict(zip(names, 2 * ndtr(-spread * np.sqrt(n) / 2), strict=True))
        published |= dict(zip(names, 2 * ndtr(-2.4 * np.sqrt(t * phi) / 2), strict=True))
    check.rival(r"the step of the draft, $\sigma^2=2T/\gamma$ at every $N$", frozen)
    check.rival(r"the published step, $\sigma=2.4T/\sqrt N$", published)
    return check
