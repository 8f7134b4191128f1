r"""Where the layer normalisation sits regulates the speed of clustering.

For equiangular directions with common inner product $\rho$ and radii r, with $e=e^{\beta(1-\rho)}$, $w_2=1/(e+n-1)$,
$w_1=ew_2$, $a=w_1+(n-1)w_2\rho$ and $A^2=w_1^2+2w_1w_2(n-1)\rho+w_2^2(n-1)(1+(n-2)\rho)$,

$$\dot\rho=\frac{2w_2}{s}(1-\rho)((n-1)\rho+1),$$

| scheme | s | $\dot r$ | in the end $1-\rho$ |
|---|---|---|---|
| post | 1 | 0 | $e^{-2t}$ |
| pre | r | a | $Ct^{-2}$ |
| peri | rA | a/A | $Ct^{-2}$ |
| ngpt | $A/\alpha_t$ | 0 | $e^{-2\int\alpha}$ |
| sqrt | $\sqrt{t+1}$ | 0 | $e^{-4\sqrt{t+1}}$ |
| ln-scaling | $r\sqrt{t+1}$ | $a/\sqrt{t+1}$ | $C/t$ |
| mix | 1, from $\tau$ on r | 0, from $\tau$ on a | $Ct^{-2}$ |
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import Dynamics, LayerNormAttention
from sphereflow.dynamics.traits import Traits
from sphereflow.evolution import evolve
from sphereflow.interaction import Engine
from sphereflow.papers.mathematical_perspective import sources
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import gaps, velocity

SCHEMES = ("post", "pre", "peri", "ngpt", "sqrt", "ln-scaling", "ngpt-slow", "mix")
N, BETA = 10, 2.0
# When Mix-LN goes over from Post- to Pre-LN.
SWITCH = 2.0
# Early times, then times in the windows where the terminal laws are read.
TIMES = np.unique(np.concatenate([np.linspace(0, 16, 33), np.linspace(16, 64, 13), np.geomspace(100, 1000, 13)]))


def slow_step(t: Array) -> Array:
    r"""$\alpha_t=1/\sqrt{1+t}$ for nGPT, so that $\int_0^t\alpha=2(\sqrt{1+t}-1)$."""
    return 1 / jnp.sqrt(1 + t)


def scheme_dynamics(scheme: str, beta: float, switch: float = SWITCH) -> LayerNormAttention:
    """The particles under a scheme; "ngpt-slow" is nGPT with the step above, "mix" goes over at `switch`."""
    if scheme == "ngpt-slow":
        return LayerNormAttention(beta, "ngpt", alpha=slow_step)
    return LayerNormAttention(beta, scheme, tau=switch)


class SideBySide(Dynamics):
    """Several dynamics of the same tokens solved as one system, each in its own block of columns.

    None of them jumps while it is solved.
    """

    blocks: tuple[Dynamics, ...]

    @property
    def traits(self) -> Traits:
        return self.blocks[0].traits.but(jump_times=None)

    def check(self, n: int, d: int) -> None:
        for block in self.blocks:
            block.check(n, d // len(self.blocks))

    def tuned(self, n: int, d: int, tol: float, dtype: str = "float64", method: str | Engine = "auto") -> SideBySide:
        return SideBySide(tuple(b.tuned(n, d // len(self.blocks), tol, dtype, method) for b in self.blocks))

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        columns = jnp.split(x, len(self.blocks), axis=1)
        moved = [block.field(t, column) for block, column in zip(self.blocks, columns, strict=True)]
        return jnp.concatenate(moved, axis=1)


def reduction(scheme: str, n: int, beta: float, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""$(-\log(1-\rho), r)$ at increasing times from $\rho=0$, $r=1$, by the scalar equations above."""

    def field(t: float, state: np.ndarray) -> list[float]:
        u, r = state
        gap = np.exp(-u)
        rho = 1 - gap
        other = 1 / (np.exp(beta * gap) + n - 1)
        own = 1 - (n - 1) * other
        along = own + (n - 1) * other * rho
        size = np.sqrt(own**2 + 2 * own * other * (n - 1) * rho + other**2 * (n - 1) * (1 + (n - 2) * rho))
        slowness, growth = {
            "post": (1.0, 0.0),
            "pre": (r, along),
            "peri": (r * size, along / size),
            "ngpt": (size, 0.0),
            "ngpt-slow": (size * np.sqrt(t + 1), 0.0),
            "sqrt": (np.sqrt(t + 1), 0.0),
            "ln-scaling": (r * np.sqrt(t + 1), along / np.sqrt(t + 1)),
            "mix": (1.0, 0.0) if t < SWITCH else (r, along),
        }[scheme]
        return [2 * other / slowness * (n - (n - 1) * gap), growth]

    options: Any = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12}
    switch = SWITCH if scheme == "mix" and times[-1] > SWITCH else 0.0
    begin, early = np.array([0.0, 1.0]), np.zeros((2, 0))
    if switch:
        end = np.nextafter(switch, 0)
        before = solve_ivp(field, (0.0, end), begin, t_eval=[*times[times < end], end], **options)
        begin, early = before.y[:, -1], before.y[:, :-1]
    late = solve_ivp(field, (switch, float(times[-1])), begin, t_eval=times[times >= switch], **options)
    u, r = np.concatenate([early, late.y], axis=1)
    return u, r


@lru_cache(maxsize=4)
def particle_schemes(start: str = "orthogonal") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each scheme, gaps of directions (mean over pairs) and radii (n of them) at TIMES; one system for all.

    Mix-LN goes over from one smooth field to another: up to then it is solved with the switch far ahead, afterwards
    with the switch far behind.
    """
    x0 = np.eye(N) if start == "orthogonal" else _cone(delta=1e-4)
    early, late = TIMES[TIMES < SWITCH], TIMES[TIMES >= SWITCH]
    # As many times in both parts, so that one program serves both.
    filled = np.append(early, np.linspace(early[-1], SWITCH, len(late) - len(early) + 1)[1:])
    before = _together(np.tile(x0, (1, len(SCHEMES))), filled, switch=1e6)
    after = _together(before[-1], late, switch=-1e6)
    blocks = np.split(np.concatenate([before[: len(early)], after]), len(SCHEMES), axis=-1)
    answer = {}
    for scheme, x in zip(SCHEMES, blocks, strict=True):
        radius = np.linalg.norm(x, axis=-1)
        answer[scheme] = (gaps(x / radius[..., None]).mean(axis=-1), radius)
    return answer


def _together(x0: np.ndarray, times: np.ndarray, switch: float) -> np.ndarray:
    model = SideBySide(tuple(scheme_dynamics(scheme, BETA, switch) for scheme in SCHEMES))
    return np.asarray(evolve(model, x0, t0=times[0], saveat=times, tol=1e-11, progress=False).xs)


def _cone(delta: float) -> np.ndarray:
    """Unit tokens whose inner products are all at least 1 - delta."""
    x = np.eye(N) * np.sqrt(delta / 4) + np.eye(N)[0]
    return x / np.linalg.norm(x, axis=1, keepdims=True)


TABLE = basis.Theorem("table of normalisation schemes", via=sources.SURVEY)


@PAPER.claim(
    "scheme-reduction",
    says="Under eight normalisation schemes ten equiangular particles at $\\beta=2$ have the inner product, and the "
    "radius where it grows, of a scalar equation at $t=8$.",
    basis=TABLE,
    formula=r"\dot\rho=\frac{2w_2}{s}(1-\rho)((n-1)\rho+1)",
)
def scheme_reduction(run: Run) -> Check:
    particles, at = particle_schemes(), int(np.searchsorted(TIMES, 8.0))
    exact = {scheme: [y[0] for y in reduction(scheme, N, BETA, np.array([8.0]))] for scheme in SCHEMES}
    swap = {"pre": "peri", "peri": "pre", "ngpt": "post", "mix": "pre"}
    check, exchanged = Check(parameters={"n": N, "beta": BETA, "t": 8}), {}
    for scheme in SCHEMES:
        row, because = f"{scheme}, inner product", "both sides are solved to 1e-10 or better"
        inner = 1 - particles[scheme][0][at]
        check.row(row, predicted=-np.expm1(-exact[scheme][0]), measured=inner, tolerance=1e-9, because=because)
        exchanged[row] = float(-np.expm1(-exact[swap.get(scheme, scheme)][0]))
        if scheme in ("pre", "peri", "ln-scaling", "mix"):
            row, radius = f"{scheme}, radius", particles[scheme][1][at].mean()
            check.row(row, predicted=exact[scheme][1], measured=radius, tolerance=1e-9, because=because)
            exchanged[row] = float(exact[swap.get(scheme, scheme)][1])
    frozen = float(-np.expm1(-exact["post"][0]))
    check.rival("radii that stay 1", {f"{name}, inner product": frozen for name in ("pre", "peri")})
    check.rival("Pre-LN and Peri-LN exchanged", {row: exchanged[row] for row in exchanged if row[:3] in ("pre", "per")})
    check.rival("Mix-LN as Pre-LN", {row: exchanged[row] for row in exchanged if row.startswith("mix")})
    check.rival("Mix-LN as Post-LN", {"mix, inner product": frozen})
    check.rival("nGPT with the speed of Post-LN", {"ngpt, inner product": exchanged["ngpt, inner product"]})
    return check


@PAPER.claim(
    "scheme-rates",
    says="In the end Post-LN and nGPT collapse like $e^{-2t}$ and $e^{-2\\int\\alpha}$, sqrt-scaling like "
    "$e^{-4\\sqrt{t+1}}$, Pre-, Peri- and Mix-LN only like $t^{-2}$, and LN-scaling like the inverse square of its "
    "radius, up to one per cent.",
    basis=TABLE,
    formula=r"1-\rho\sim e^{-2t},\ e^{-2\int\alpha},\ e^{-4\sqrt{t+1}},\ t^{-2}",
)
def scheme_rates(run: Run) -> Check:
    root = np.sqrt(TIMES + 1)
    with np.errstate(divide="ignore"):
        logarithm = np.log(TIMES)
    # scheme: (clock in which log(1-rho) is a line, window of times, slope)
    laws = {
        "post": (TIMES, (6, 12), -2.0),
        "ngpt": (TIMES, (6, 12), -2.0),
        "ngpt-slow": (2 * (root - 1), (20, 60), -2.0),
        "sqrt": (root, (20, 60), -4.0),
        "pre": (logarithm, (170, 1000), -2.0),
        "peri": (logarithm, (170, 1000), -2.0),
        "mix": (logarithm, (170, 1000), -2.0),
        "ln-scaling": (np.log(particle_schemes()["ln-scaling"][1].mean(axis=1)), (170, 1000), -2.0),
    }
    check = Check("Slopes of log(1-rho) in t, the integral of alpha, sqrt(t+1), log t, or log r.")
    for scheme, (clock, (first, last), slope) in laws.items():
        window = (first <= TIMES) & (last >= TIMES)
        check.row(
            scheme,
            predicted=slope,
            measured=np.polyfit(clock[window], np.log(particle_schemes()[scheme][0][window]), 1)[0],
            relative=0.01,
            because="corrections vanish in time; in these windows they are below one per cent",
        )
    check.rival("half the slopes, as for distances", check.times(0.5))
    check.rival("a decay like 1/t", {"pre": -1.0, "peri": -1.0, "mix": -1.0})
    check.rival("e^(-2 sqrt(t+1))", {"sqrt": -2.0})
    return check


@PAPER.claim(
    "scheme-initial-speed",
    says="From 64 orthogonal tokens at $\\beta=1$ Peri-LN and nGPT start at the speed $2/\\sqrt{e^{2\\beta}+n-1}$, "
    "Post-, Pre-LN, sqrt- and LN-scaling at $2/(e^\\beta+n-1)$.",
    basis=basis.Derived("the scalar equation of each scheme at orthogonality"),
    formula=r"\dot\rho(0)=\frac{2}{e^\beta+n-1}\ \mathrm{or}\ \frac{2}{\sqrt{e^{2\beta}+n-1}}",
)
def scheme_initial_speed(run: Run) -> Check:
    n, beta = 64, 1.0
    slow, fast = 2 / (np.exp(beta) + n - 1), 2 / np.sqrt(np.exp(2 * beta) + n - 1)
    expected = {"post": slow, "pre": slow, "sqrt": slow, "ln-scaling": slow, "peri": fast, "ngpt": fast}
    check = Check(parameters={"n": n, "beta": beta})
    together = SideBySide(tuple(scheme_dynamics(scheme, beta) for scheme in expected))
    blocks = np.split(np.asarray(velocity(together, np.tile(np.eye(n), (1, len(expected))))), len(expected), axis=1)
    for (scheme, speed), moved in zip(expected.items(), blocks, strict=True):
        found = float(moved[0, 1] + moved[1, 0])
        check.row(scheme, predicted=speed, measured=found, relative=1e-12, because="rounding of one evaluation")
    check.rival("one speed for all schemes", {"peri": slow, "ngpt": slow})
    check.rival("the leading orders 2/n and 2/sqrt(n)", [2 / n] * 4 + [2 / np.sqrt(n)] * 2)
    return check


@PAPER.claim(
    "pre-norm-radius",
    says="From a cone of inner products above $1-10^{-4}$, radii under Pre-LN are at least $1+(1-\\delta)t$ up to "
    "$t=1000$; under LN-scaling they are not.",
    basis=basis.Theorem("local cone theorem", via=sources.SURVEY),
    formula=r"r_k(t)\ge r_k(0)+(1-\delta)t",
)
def pre_norm_radius(run: Run) -> Check:
    bound = 1 + (1 - 1e-4) * TIMES
    check = Check(parameters={"n": N, "beta": BETA, "delta": 1e-4})
    radii = {name: particle_schemes("cone")[name][1] for name in ("pre", "ln-scaling")}
    row, because = "smallest excess over the bound", "the particles are solved to 1e-11 of the radius"
    check.at_least(row, bound=0.0, measured=np.min(radii["pre"].min(axis=1) - bound), tolerance=1e-8, because=because)
    check.at_most("radius at t=1000", bound=1001.0, measured=radii["pre"][-1].max(), relative=1e-10, because=because)
    check.null("LN-scaling", {row: float(np.min(radii["ln-scaling"].min(axis=1) - bound))})
    return check


@PAPER.claim(
    "variance-in-a-cone",
    says="From a cone of inner products above $1-10^{-4}$ the variance of directions falls like "
    "$\\exp(-2\\int dt/s)$, s being 1 under Post-LN and nGPT, $1+t$ under Pre- and Peri-LN, $\\sqrt{1+t}$ under "
    "sqrt-scaling and nGPT with the step $1/\\sqrt{1+t}$, from $t=1/2$ to $t=5$.",
    basis=basis.Theorem("local cone theorem", via=sources.SURVEY),
    formula=r"\frac{d}{dt}\mathrm{Var}=-\Theta(\mathrm{Var}/s(t))",
)
def variance_in_a_cone(run: Run) -> Check:
    first, last = 0.5, 5.0
    root = 4 * (np.sqrt(1 + last) - np.sqrt(1 + first))
    grown = 2 * np.log((1 + last) / (1 + first))
    falls = {"post": 2 * (last - first), "ngpt": 2 * (last - first), "pre": grown, "peri": grown, "sqrt": root}
    falls |= {"ngpt-slow": root}
    check = Check(parameters={"n": N, "beta": BETA, "delta": 1e-4})
    at = np.searchsorted(TIMES, [first, last])
    for scheme, fall in falls.items():
        before, after = particle_schemes("cone")[scheme][0][at]
        because = "tokens differ from their mean by 1e-2, and what is left out is of the square of that times n beta"
        check.row(scheme, predicted=fall, measured=np.log(before / after), relative=2e-3, because=because)
    check.rival("the rate of distances", check.times(0.5))
    check.rival("radii that stay 1", {"pre": falls["post"], "peri": falls["post"]})
    check.rival("an average over the others only", check.times(N / (N - 1)))
    return check
