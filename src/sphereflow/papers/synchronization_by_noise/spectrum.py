r"""All Lyapunov exponents of random layers: equally spaced, with a sum that is always negative.

$$\lambda_i=\tfrac12\big[(d-1-2i)\kappa'(1)-(d-1)\kappa(1)\big]-ib,\qquad i=1,\dots,d-1 .$$

A layer takes an orthonormal frame $(x,u_1,\dots,u_i)$ to $F=E+\sqrt hA$; by Bartlett's argument the i-th factor of its
QR decomposition is the length of one Gaussian vector in the complement of the others, which is how the first
correction of a finite step is known for Gaussian layers.
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER, sources
from sphereflow.papers.synchronization_by_noise.independent import ends
from sphereflow.synchronisation.all_exponents import lyapunov_spectrum
from sphereflow.synchronisation.random_fields import AffineField, QuadraticForm, RandomField, RandomPerceptron


def exponents(d: int, one: float, slope: float, b: float = 0.0) -> np.ndarray:
    r"""$\tfrac12[(d-1-2i)\kappa'(1)-(d-1)\kappa(1)]-ib$."""
    i = np.arange(1, d)
    return np.asarray(((d - 1 - 2 * i) * slope - (d - 1) * one) / 2 - i * b)


def gaussian_layers(d: int, one: float, slope: float, h: float) -> np.ndarray:
    r"""The exponents of Gaussian layers to the first order in the step.

    The i-th length is $|e+\sqrt{t}g|$ with g normal in $m=d-i$ dimensions, $t=h\kappa'(1)/s^2$, where s is the share of
    $u_i$ outside the images of x and of the directions before:
    $E\log s^2=-hV+h^2(-\tfrac12V^2+(m-2)V_2)$, $V=\kappa(1)+(i-1)\kappa'(1)$ and $V_2$ the same with squares, and
    $E\log|e+\sqrt tg|^2=(m-2)t-\tfrac12(m-2)(m-4)t^2$. The image of x itself gives the last terms.
    """
    i = np.arange(1, d)
    m, total, squares = d - i, one + (i - 1) * slope, one**2 + (i - 1) * slope**2
    first = -total + (m - 2) * slope - (d - 2) * one
    outside = -(total**2) / 2 + (m - 2) * squares
    length = (m - 2) * slope * total - (m - 2) * (m - 4) * slope**2 / 2
    return np.asarray((first + h * (outside + length + (d - 2) * (d - 4) * one**2 / 2)) / 2)


def to_zero_step(
    field: RandomField, d: int, h: float, duration: float, repeats: int, seed: int, count: int
) -> Estimate:
    """Exponents measured at the steps h and h/2, from different noise, and followed to h = 0 by a straight line."""
    coarse, fine = (
        lyapunov_spectrum(
            field, d, count=count, step=each, layers=round(duration / each), repeats=repeats, seed=seed + k
        ).samples
        for k, each in enumerate((h, h / 2))
    )
    return mean(2 * fine - coarse)  # no repeat shares its noise with another: the error bar is that of both


@PAPER.claim(
    "lyapunov-spectrum",
    says="All Lyapunov exponents of random layers, from the derivatives of simulated layers on an orthonormal frame: "
    "those of Gaussian layers in dimension 5 are equally spaced by $\\kappa'(1)$, those of narrow ReLU layers in "
    "dimension 4 too, and those of symmetric matrices by twice as much, since their noise has the term $yx^\\top$.",
    basis=basis.Derived(f"the derivative flow of {sources.MODEL}"),
    formula=r"\lambda_i=\tfrac12[(d-1-2i)\kappa'(1)-(d-1)\kappa(1)]-ib",
)
def spectrum_of_layers(run: Run) -> Check:
    repeats, duration = (100, 10.0) if run.quick else (800, 20.0)
    d, h, affine = 5, 0.01, (0.8**2 + 1.0, 1.0)
    check = Check(parameters={"repeats": repeats, "time": duration})
    flat: dict[str, float] = {}
    alike: dict[str, float] = {}
    half: dict[str, float] = {}
    plain: dict[str, float] = {}
    gaussian = lyapunov_spectrum(
        AffineField(0.8, 1.0), d, step=h, layers=round(duration / h), repeats=repeats, seed=run.seed
    )
    names = [f"Gaussian layers, d=5, exponent {i}" for i in range(1, d)]
    check.series(
        names,
        predicted=gaussian_layers(d, *affine, h),
        measured=gaussian.measured.value,
        error=gaussian.measured.error,
        repeats=repeats,
        tolerance=(d * sum(affine) * h) ** 2,
        because="the error bar over repeats; the second order in the step, the mean square change of a layer squared",
    )
    limit = exponents(d, *affine)
    alike |= dict.fromkeys(names, limit[0])
    flat |= dict(zip(names, limit + (d - 1) * affine[0] / 2, strict=True))
    half |= dict(zip(names, limit + np.arange(d - 1) * affine[1] / 2, strict=True))
    volume = "Gaussian layers, d=5, sum of all exponents"
    found = mean(gaussian.samples.sum(axis=1))
    check.row(
        volume,
        predicted=gaussian_layers(d, *affine, h).sum(),
        measured=found.value,
        error=found.error,
        repeats=repeats,
        tolerance=(d - 1) * (d * sum(affine) * h) ** 2,
        because="the error bar over repeats; the second order in the step, once per exponent",
    )
    cases: list[tuple[str, RandomField, int, tuple[float, float, float], int, float]]
    cases = [("ReLU layers of width 4, d=4", RandomPerceptron("relu", 4), 4, (*ends("relu"), 0.0), 3, 0.02)]
    cases += [("symmetric matrices, d=5", QuadraticForm(0.0), 5, (1.0, 1.0, 1.0), 4, 0.01)]
    if not run.quick:
        cases += [("tanh layers of width 8, d=24", RandomPerceptron("tanh", 8), 24, (*ends("tanh"), 0.0), 4, 0.002)]
    for k, (name, field, dim, (one, slope, b), count, step) in enumerate(cases):
        run.notify((k + 1) / (len(cases) + 1), name)
        measured = to_zero_step(field, dim, step, duration, repeats, run.seed + 2 * k + 1, count)
        theory = exponents(dim, one, slope, b)[:count]
        rows = [f"{name}, exponent {i + 1}" for i in range(count)]
        change = dim * (one + slope + 2 * b) * step
        check.series(
            rows,
            predicted=theory,
            measured=measured.value,
            error=measured.error,
            repeats=repeats,
            tolerance=np.abs(theory[-1]) * change**2,
            because="the error bar over repeats, at two steps; their second order, relatively the mean square change "
            "of a layer squared",
        )
        if b:
            plain |= dict(zip(rows, exponents(dim, one, slope) - b, strict=True))
        if dim == 24:
            dimension = 2 + theory[:2].sum() / -theory[2]
            gained = measured.value[0] + measured.value[1]
            check.row(
                "tanh, d=24, dimension of what many tokens gather on",
                predicted=dimension,
                measured=2 + gained / -measured.value[2],
                tolerance=float(3 * measured.error[:3].sum() / -theory[2]),
                because="three times the error bars of the three exponents, over the third",
            )
    check.rival("every direction shrinks as the first", alike)
    check.rival("the flat space: nothing from the return to the sphere", flat)
    check.rival("half the spacing", half)
    check.rival("symmetric matrices spaced by kappa'(1) too", plain)
    return check
