r"""Simulated decoders against the closed form, at the order 1/N where retrieval lives.

$$N\,E\cos n(\theta_N(t)-\theta_k(0))=g_{a_n}(t,1;\sigma_0)+\frac rN+\cdots,\qquad\sigma_0=\frac{k-1/2}N .$$

The rest r is not known, but the centre of a cell of N tokens is the centre of a cell of 3N tokens, so that
$\tfrac12(3x_{3N}-x_N)$ is free of it. A quarter of what the extrapolation changes is allowed for the orders after it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.sources import EXPANSION
from sphereflow.papers.lost_in_the_middle.volterra import MODES
from sphereflow.retrieval.bessel import sphere_growth_rates
from sphereflow.retrieval.influence import sphere_influence, wave_influence

WAVES = (1, 2)
COPIES = 5  # of the source: enough to tell waves up to 2 apart
SMALL, LARGE = 21, 63  # cell k of 21 has the centre of cell 3k - 1 of 63
EXTRAPOLATED = "standard error, and a quarter of what the extrapolation from N to 3N changes"


def padded_length(n: int) -> int:
    """Two programs serve all sizes up to LARGE."""
    return SMALL if n <= SMALL else max(n, LARGE)


@cache
def measured(n: int, source: int, beta: float, t: float, repeats: int, seed: int) -> Estimate:
    """N E cos m(theta_N(t) - theta_k(0)) for waves 1 and 2, slope 1; `source` is k, from one."""
    return wave_influence(
        n,
        source - 1,
        t,
        beta=beta,
        weights=1.0,
        waves=WAVES,
        repeats=repeats,
        copies=COPIES,
        modes=MODES,
        padded_length=padded_length(n),
        seed=np.random.SeedSequence([seed, n, source]).generate_state(1)[0].item(),
    )


def extrapolated(small: Estimate, large: Estimate) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(value, standard error, allowance for later orders) of (3 x_{3N} - x_N)/2."""
    value = np.asarray((3 * large.value - small.value) / 2)
    error = np.asarray(np.hypot(1.5 * large.error, 0.5 * small.error))
    return value, error, np.asarray(np.abs(value - large.value) / 4)


def compare(run: Run, cells: tuple[int, ...], beta: float, t: float, repeats: int, small: int = SMALL) -> Check:
    """Cells k of `small` tokens and 3k - 1 of three times as many."""
    check = Check(parameters={"beta": beta, "slope": 1, "t": t, "N": f"{small} and {3 * small}"})
    for i, k in enumerate(cells):
        pair = [measured(n, source, beta, t, repeats, run.seed) for n, source in ((small, k), (3 * small, 3 * k - 1))]
        sigma0 = (k - 0.5) / small
        for n, *numbers in zip(WAVES, *extrapolated(*pair), strict=True):
            value, error, later = numbers
            check.row(
                row_name(sigma0, n),
                predicted=reference.influence(reference.rates(beta)[n - 1], t, 1.0, sigma0, 1.0),
                measured=value,
                error=error,
                repeats=repeats,
                tolerance=later,
                because=EXTRAPOLATED,
            )
        run.notify((i + 1) / len(cells), f"source at {sigma0:.2f}")
    return check


def row_name(sigma0: float, wave: int) -> str:
    return f"$\\sigma_0={sigma0:.3f}$, wave {wave}"


def by_row(cells: tuple[int, ...], small: int, value: Callable[[int, float], float]) -> dict[str, float]:
    """What a rival says, value(wave, sigma0), for the rows of `compare`."""
    places = [(k - 0.5) / small for k in cells]
    return {row_name(sigma0, n): float(value(n, sigma0)) for sigma0 in places for n in WAVES}


@PAPER.claim(
    "particles",
    says="In simulated decoders $N$ times the covariance between the start of a source and the end of the last token "
    "tends to the closed form, for sources early, in the middle and late, and two waves.",
    basis=EXPANSION,
    formula=r"N\,E\cos n(\theta_N(t)-\theta_k(0))\to g_{a_n}(t,1;\sigma_0)",
)
def particles(run: Run) -> Check:
    cells: tuple[int, ...] = (2, 6, 19)
    small = SMALL if run.quick else 3 * SMALL
    cells = cells if run.quick else tuple(3 * k - 1 for k in cells)
    check = compare(run, cells, 1.0, 1.0, 408 if run.quick else 3000, small)
    a = reference.rates(1.0)

    def rival(name: str, value: Callable[[int, float], float]) -> None:
        check.rival(name, by_row(cells, small, value))

    rival("at most two steps of attention", lambda n, s: float(reference.influence(a[n - 1], 1.0, 1.0, s, 1.0, 2)))
    rival("no slope", lambda n, s: float(reference.influence(a[n - 1], 1.0, 1.0, s, 0.0)))
    rival("both read at the same time", lambda n, s: reference.equal_times(a[n - 1], 1.0, 1.0, s, 1.0))
    rival("the exponential growth of a wave", lambda n, s: np.expm1(a[n - 1]) * float(reference.kernel(1.0, s, 1.0)))
    return check


@PAPER.claim(
    "particles-other-temperature",
    says="The same at inverse temperature 1.5 and time 0.5, where a force without its factor beta would show.",
    basis=EXPANSION,
    formula=r"w_\beta'(\theta)=-\beta\sin\theta\,e^{\beta\cos\theta}",
)
def particles_other_temperature(run: Run) -> Check:
    cells = (6, 19)
    check = compare(run, cells, 1.5, 0.5, 204 if run.quick else 3000)
    a = reference.rates(1.5)
    scales = {
        r"a force without its factor $\beta$": 1 / 1.5,
        r"$e^{\beta(\cos\theta-1)}$ in the force": np.exp(-1.5),
    }
    for name, scale in scales.items():
        values = by_row(
            cells,
            SMALL,
            lambda n, s, scale=scale: float(reference.influence(scale * a[n - 1], 0.5, 1.0, s, 1.0)),  # type: ignore[misc]
        )
        check.rival(name, values)
    return check


@PAPER.claim(
    "sphere",
    says="On the sphere $S^2$ simulated decoders have the same closed form, with the growth rates of spherical "
    "harmonics, for degrees 1 and 2.",
    basis=basis.Extension("the paper treats the circle"),
    formula=r"a_l=l(l+d-2)\Lambda_l,\qquad N\,E\,P_l(\langle x_N(t),x_k(0)\rangle)\to g_{a_l}(t,1;\sigma_0)",
)
def sphere(run: Run) -> Check:
    n, k = (32, 23) if run.quick else (64, 45)
    repeats = 252 if run.quick else 2000
    found = sphere_influence(
        n, k - 1, 1.0, beta=1.0, slope=1.0, d=3, repeats=repeats, seed=run.seed, tol=1e-4, progress=run.notify
    )
    sigma0 = (k - 0.5) / n
    check = Check(parameters={"N": n, "repeats": repeats})
    check.series(
        ("degree 1", "degree 2"),
        predicted=reference.influence(sphere_growth_rates(1.0, 3, 2), 1.0, 1.0, sigma0, 1.0),
        measured=found.value,
        error=found.error,
        repeats=repeats,
        relative=3 / n,
        because="standard error, and the next order in 1/N",
    )
    check.rival("the rates of the circle", reference.influence(reference.rates(1.0)[:2], 1.0, 1.0, sigma0, 1.0))
    check.rival(
        "one step of attention only",
        reference.influence(sphere_growth_rates(1.0, 3, 2), 1.0, 1.0, sigma0, 1.0, 1),
    )
    return check
