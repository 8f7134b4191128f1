r"""Many tokens given the noise, with attention: the stochastic equation of their law, and propagation of chaos.

$$c_k^n\to c_k,\qquad dc_k=-\tfrac{k^2}2\kappa(1)c_k\,dt-ik\langle\mu,e^{-ik\theta}v\langle t,b[\mu]\rangle\rangle dt
  -ik\langle\mu,e^{-ik\theta}\langle t,\xi(dt,\cdot)\rangle\rangle .$$

Under noise of its own for every token the law is not random and $|c_1^n|^2$ tends to the square of its mode.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.synchronization_by_noise import PAPER
from sphereflow.papers.synchronization_by_noise.depth import mode_squares
from sphereflow.papers.synchronization_by_noise.error_equation import relu_modes
from sphereflow.synchronisation.circle_spde import CircleLaw, circle_law
from sphereflow.synchronisation.pathwise import StrongErrors, strong_errors

ANGLE = 2 * np.pi * np.arange(64) / 64
DENSITY = 1 + 0.6 * np.cos(ANGLE) - 0.3 * np.sin(2 * ANGLE)
FIRST = np.array([1.0, 0.3, 0.15])  # |c_k| of this density
MODES, BETA, STRENGTH = 8, 2.0, 2.0
SIZES = (16, 64, 256)


@cache
def laws(v: float, quick: bool, seed: int) -> CircleLaw:
    """The law of the tokens on many paths of the noise, and networks of 16, 64 and 256 tokens on the same paths."""
    repeats, steps = (200, 32) if quick else (2000, 64)
    return circle_law(
        "relu", DENSITY, strength=v, beta=BETA, steps=steps, sizes=SIZES, modes=MODES, repeats=repeats, seed=seed
    )


@cache
def crowds(quick: bool, seed: int) -> StrongErrors:
    """Tokens in networks of 16 layers with attention against tokens in the field of their law."""
    sizes, repeats = ((32, 128), 160) if quick else ((128, 512), 400)
    return strong_errors(
        "relu",
        depths=(),
        sizes=sizes,
        layers=16,
        strength=1.0,
        beta=BETA,
        density=DENSITY,
        modes=MODES,
        repeats=repeats,
        seed=seed,
    )


def law_without_common_noise(v: float, time: float, count: int = 10) -> float:
    r"""$|c_1(t)|^2$ of the law of tokens with noise of their own: $\dot c_k=-\frac{k^2}2\kappa(1)c_k-ik(\mu u)_k$."""
    k = np.arange(-count, count + 1)
    grid = 2 * np.pi * np.arange(64) / 64
    wave = np.exp(1j * np.outer(grid, k))
    apart = grid[:, None] - grid[None, :]
    weight, side = np.exp(BETA * (np.cos(apart) - 1)), -np.sin(apart)
    one = relu_modes(MODES).weights.sum()

    def rate(_: float, c: np.ndarray) -> np.ndarray:
        density = np.real(wave @ c)
        pull = v * ((weight * side) @ density) / (weight @ density)
        return np.asarray(-(k**2) * one / 2 * c - 1j * k * (np.conj(wave).T @ (density * pull)) / len(grid))

    start = np.zeros(2 * count + 1, dtype=complex)
    for order, value in {0: 1.0, 1: 0.3, -1: 0.3, 2: 0.15j, -2: -0.15j}.items():
        start[count + order] = value
    found = solve_ivp(rate, (0, time), start, rtol=1e-5, atol=1e-7)
    return float(abs(found.y[count + 1, -1]) ** 2)


@PAPER.claim(
    "law-given-the-noise",
    says="On the circle, with ReLU layers: the spectral solution of the stochastic equation for the law of the tokens "
    "has the mean squares of the closed equation of its moments without attention; networks of 16 and 64 tokens "
    "on the same paths are away from it by $1-E|c_1|^2$ over their number, and with attention the distance "
    "extrapolated to infinitely many tokens is that of their depth.",
    basis=basis.Abstract("the distribution of the tokens solves a stochastic partial differential equation"),
    formula=r"nE|c_1^n-c_1|^2=1-E|c_1|^2\ (v=0),\qquad \lim_nE|c_1^n-c_1|^2=O(1/L)",
)
def law_given_the_noise(run: Run) -> Check:
    plain, pulled = (laws(v, run.quick, run.seed) for v in (0.0, STRENGTH))
    repeats, steps = plain.modes.shape[1], 32 if run.quick else 64
    check = Check(parameters={"paths": repeats, "steps": steps, "beta": BETA})
    exact = mode_squares(FIRST**2, 1.0, kernel=relu_modes(MODES))
    for k in (1, 2):
        found = plain.square(k)
        check.row(
            f"E|c_{k}|^2, no attention",
            predicted=exact[k],
            measured=found.value[-1],
            error=found.error[-1],
            repeats=repeats,
            tolerance=0.5 / steps,
            because="the error bar over paths; the step",
        )
    few, found = np.array(SIZES[:2]), plain.distance()
    check.series(
        [f"n E|c_1^n - c_1|^2, no attention, n={n}" for n in few],
        predicted=1 - exact[1],
        measured=found.value[:2] * few,
        error=found.error[:2] * few,
        repeats=repeats,
        tolerance=0.1 * few / steps,
        because="the error bar over paths; the distance of the depth, relatively growing with n",
    )
    row = "distance with attention, extrapolated in 1/n"
    level = intercept(pulled.squares())
    check.row(
        row,
        predicted=0.0,
        measured=level.value,
        error=level.error,
        repeats=repeats,
        tolerance=0.2 / steps,
        because="the error bar over paths; half the mean square distance of single tokens for their depth, 0.43/L",
    )
    # The same networks against the law of the same noise without attention.
    apart = np.abs(pulled.networks[:, :, 1] - plain.modes[-1, :, 1]) ** 2
    check.null("the equation without its attention", {row: float(intercept(apart).value)})
    wide = np.abs(pulled.networks[:, :, 1] - np.roll(pulled.modes[-1, :, 1], 1)) ** 2
    check.null("the law of another path of the noise", {row: float(intercept(wide).value)})
    check.rival("noise of its own for every token", {"E|c_1|^2, no attention": 0.09 * np.exp(-0.5)})
    return check


def intercept(squares: np.ndarray) -> Estimate:
    """The mean square at 1/n = 0 by a straight line in 1/n, errors taken proportional to 1/n; its error over paths."""
    n = np.array(SIZES, dtype=float)
    weight = np.linalg.pinv(np.stack([n, np.ones_like(n)], axis=1))[0] * n
    return mean(weight @ squares)


@PAPER.claim(
    "chaos-with-attention",
    says="With attention tokens of networks on the circle (ReLU) are away from tokens in the field of their law given "
    "the noise by $n^{-1/2}$, and so is their first mode. It does not tend to a number: $E|c_1^n|^2$ of 256 tokens is "
    "that of the stochastic equation.",
    basis=basis.Abstract("propagation of chaos when tokens are many"),
    formula=r"E|x_i-\bar x_i|^2\le C/n,\qquad E|c_1^n-c_1|^2\le C/n,\qquad E|c_1^n|^2\to E|c_1|^2>|Ec_1|^2",
)
def chaos_with_attention(run: Run) -> Check:
    found = crowds(run.quick, run.seed)
    repeats = found.law.shape[1]
    check = Check(parameters={"sizes": tuple(map(int, found.sizes)), "layers": 16, "beta": BETA, "paths": repeats})
    slopes = {}
    for kind, name in (("tokens", "distance of tokens"), ("law", "distance of the first mode")):
        order, row = found.order(kind), f"power of n in the {name}"
        check.row(
            row,
            predicted=-0.5,
            measured=order.value,
            error=order.error,
            repeats=repeats,
            tolerance=0.06,
            because="the error bar of the slope over paths; the product with n still rises, by a sixth at these sizes",
        )
        slopes[row] = -1.0
    pulled = laws(STRENGTH, run.quick, run.seed)
    measured, theory = np.abs(pulled.networks[-1, :, 1]) ** 2, np.abs(pulled.modes[-1, :, 1]) ** 2
    apart, row = mean(measured - theory), "E|c_1|^2 of 256 tokens"
    check.row(
        row,
        predicted=theory.mean(),
        measured=measured.mean(),
        error=apart.error,
        repeats=len(measured),
        tolerance=1 / SIZES[-1] + 0.5 / (32 if run.quick else 64),
        because="the error bar of the difference on the same paths; 1/n of the rest, and the step",
    )
    check.rival("distances of order 1/n", slopes)
    check.rival("distances that do not shrink", dict.fromkeys(slopes, 0.0))
    # It passes for every rate: given noises of their own the tokens are independent too.
    check.rival("noise of its own for every token", {row: law_without_common_noise(STRENGTH, 1.0)})
    check.rival("no attention", {row: mode_squares(FIRST**2, 1.0, kernel=relu_modes(MODES))[1]})
    return check
