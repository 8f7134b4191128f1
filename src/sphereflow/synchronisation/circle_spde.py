r"""The law of infinitely many tokens on the circle, given the noise: a stochastic partial differential equation.

$$d\mu+\partial_\theta\big(\mu\,v\langle t,b[\mu]\rangle\big)dt
  +\partial_\theta\big(\mu\,\langle t,\xi(dt,\cdot)\rangle\big)
  =\tfrac{\kappa(1)}2\partial_\theta^2\mu\,dt,\qquad t=(-\sin\theta,\cos\theta).$$

Transport by the noise in the sense of Stratonovich is the same equation: on the circle the correction vanishes, as the
covariance of the tangential noise is even. So the solution over a step is transport by a velocity that is frozen there,
followed here in Fourier modes $c_k=\int e^{-ik\theta}d\mu$ by a method of Runge and Kutta: no token is involved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Complex, Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import whole_numbers
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.synchronisation.activations import Function
from sphereflow.synchronisation.circle_laws import draw_angles, on_circle
from sphereflow.synchronisation.covariance import of_activation
from sphereflow.synchronisation.noise_modes import NoiseModes, noise_modes, unit_powers
from sphereflow.synchronisation.shared_path import (
    attention_integrals,
    attention_modes,
    checked_times,
    increments,
    moves,
    noise_polynomials,
    require_room,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray

_STABLE = 2.5  # what a Runge-Kutta step of order four allows on the imaginary axis, with a margin


@dataclass(frozen=True, eq=False, repr=False)
class CircleLaw(Result):
    """Fourier modes c_k of the law at `times`, one law per path of the noise, and of networks on the same paths.

    `modes` has k = 0, ... on the last axis; `networks` the same modes of `sizes` independent tokens at the end.
    """

    times: Float[Array, " t"]
    modes: Complex[Array, "t repeats k"]
    sizes: Float[Array, " n"]
    networks: Complex[Array, "n repeats k"]
    strength: float

    def square(self, k: int = 1) -> Estimate:
        """E|c_k|^2 at each time: what the noise that all tokens share leaves of the mode k."""
        return mean(np.abs(self.modes[:, :, self._order(k)].T) ** 2)

    def distance(self, k: int = 1) -> Estimate:
        """E|c_k^n - c_k|^2 at the end for each size: mean squares over paths."""
        return mean(self.squares(k).T)

    def squares(self, k: int = 1) -> Float[Array, "n repeats"]:
        """|c_k^n - c_k|^2 at the end, for each size and path."""
        order = self._order(k)
        return np.asarray(np.abs(self.networks[:, :, order] - self.modes[-1, :, order]) ** 2)

    def density(self, points: int = 128) -> Float[Array, "t repeats points"]:
        """The densities over the angle, at equally spaced angles from 0."""
        padded = np.zeros((*self.modes.shape[:2], whole_number("points", points, least=8) // 2 + 1), dtype=complex)
        common = min(self.modes.shape[2], padded.shape[2])
        padded[..., :common] = self.modes[..., :common]
        return np.fft.irfft(padded, points, axis=-1) * points / (2 * np.pi)

    def _order(self, k: int) -> int:
        return whole_number("k", k, least=0, most=self.modes.shape[2] - 1)

    def facts(self) -> list[str]:
        facts = [f"E|c_1|^2 = {Estimate(*(part[-1] for part in self.square()))} at t = {self.times[-1]:g}"]
        if len(self.sizes):
            facts.append(f"networks of {', '.join(f'{n:g}' for n in self.sizes)} tokens: E|c_1^n - c_1|^2 = "
                        f"{self.distance()}")  # fmt: skip
        last = np.sqrt(np.mean(np.abs(self.modes[-1, :, -1]) ** 2))
        facts.append(f"the highest mode that is kept, k = {self.modes.shape[2] - 1}, is {last:.2g}")
        return [*facts, f"attention {self.strength:g}, {self.modes.shape[1]} paths"]

    def variables(self) -> Variables:
        return {
            "time": ("time", self.times),
            "modes": (("time", "repeat", "k"), self.modes),
            "size": ("size", self.sizes),
            "networks": (("size", "repeat", "k"), self.networks),
        }

    def plot(self) -> Figure:
        """The densities of four paths of the noise at the last time, and the mean square of the first mode."""
        from sphereflow.pictures import PALETTE, styled_figure

        angle = 2 * np.pi * np.arange(128) / 128
        with styled_figure(7.2, 3.2) as figure:
            left, right = figure.subplots(1, 2)
            left.plot(angle, self.density()[-1, :4].T, lw=1)
            left.set(xlabel="angle", ylabel="density", title=f"$t={self.times[-1]:g}$, four paths")
            value, error = self.square()
            right.errorbar(self.times, value, error, fmt="o-", color=PALETTE[0], capsize=3)
            right.set(xlabel="$t$", ylabel="$E|c_1|^2$", ylim=(0, 1.05))
        return figure


@recorded_call
def circle_law(
    activation: str | Function,
    density: ArrayLike,
    *,
    strength: float = 0.0,
    beta: float = 1.0,
    t1: float = 1.0,
    steps: int = 64,
    saveat: int = 2,
    sizes: Sequence[int] = (),
    modes: int = 8,
    resolution: int = 24,
    repeats: int = 200,
    seed: Seed = 0,
) -> CircleLaw:
    """The law of infinitely many tokens given the noise, on `repeats` paths of it, and networks on the same paths.

    **Arguments:**

    - `density`: of the start, values at equally spaced angles from 0.
    - `strength`, `beta`: attention of value matrix v I; 0 for none.
    - `steps`: of the noise, and layers of the networks; `saveat` of them are kept, at equal distances, with the start.
    - `sizes`: numbers of independent tokens of networks that meet the same noise.
    - `modes`: the highest cosine of the noise; `resolution`: the highest Fourier mode of the law.

    ```python
    synchronisation.circle_law("tanh", [1, 2, 1, 0.5], strength=1.0, sizes=(64, 256)).distance()
    ```
    """
    t1, v, beta = checked_times(t1, strength, beta)
    steps, parts = whole_number("steps", steps), whole_number("saveat", saveat, least=2) - 1
    repeats = whole_number("repeats", repeats, least=2)
    highest = whole_number("resolution", resolution, least=4, most=2048)
    counts = whole_numbers("sizes", sizes)
    if steps % parts:
        raise SphereflowError(f"steps must be a multiple of the times after the start, got {steps} and {parts}.")
    field = noise_modes(of_activation(activation), 2, modes=modes)
    if max(field.orders) + 1 > highest:
        raise SphereflowError(f"resolution must exceed the highest mode of the noise, {max(field.orders)}.")
    require_room(field, repeats, max([highest, *counts]), beta)
    start, rng = on_circle(density), rng_from(seed)
    c = np.zeros((repeats, highest + 1), dtype=complex)
    known = np.fft.rfft(start) / len(start)
    given = min(len(known) - (len(start) % 2 == 0), highest + 1)
    c[:] = np.concatenate([known[:given], np.zeros(highest + 1 - given)])
    tokens = [draw_angles(rng, start, (repeats, n)) for n in counts]
    table, frames = _Grid(field, highest, beta), [c]
    for count in range(steps):
        noise = increments(field, rng, repeats, t1 / steps)
        tokens = [unit(x + moves(field, x, noise, t1 / steps * v, beta)[0]) for x in tokens]
        c = table.transport(c, table.velocity(c, noise, t1 / steps * v))
        if (count + 1) % (steps // parts) == 0:
            frames.append(c)
    ends = [np.conj(unit_powers(x[..., 0] + 1j * x[..., 1], highest).mean(axis=1)) for x in tokens]
    networks = np.array(ends, dtype=complex).reshape(len(counts), repeats, highest + 1)
    return CircleLaw(np.linspace(0, t1, parts + 1), np.array(frames), np.array(counts, dtype=float), networks, v)


class _Grid:
    """Products on a grid of three times the highest mode, which makes no error in the modes that are kept."""

    def __init__(self, field: NoiseModes, highest: int, beta: float):
        self.points, self.highest = 3 * highest + 3, highest
        angle = 2 * np.pi * np.arange(self.points) / self.points
        self.cos, self.sin = np.cos(angle), np.sin(angle)
        self.field = field
        self.kernel = attention_modes(beta)[: highest + 1]

    def velocity(self, c: Array, noise: Array, drift: float) -> Array:
        """The displacement of a step at the points of the grid: tangential noise, and attention of the law."""
        first, second = self._values(noise_polynomials(self.field, noise))
        along = self.cos * second - self.sin * first
        if drift:
            # Concentrated densities without their high modes are negative here and there: attention sees them cut at 0.
            positive = np.fft.rfft(np.maximum(np.fft.irfft(c, self.points), 0.0))[:, : len(self.kernel)]
            _, beside, mass = self._values(attention_integrals(positive / positive[:, :1], self.kernel))
            along = along + drift * beside / mass
        return np.asarray(along)

    def _values(self, polynomials: Array) -> Array:
        """The real parts of polynomials in z (last axis) at the points of the grid, in front."""
        halved = polynomials / 2
        halved[:, 0] *= 2
        return np.moveaxis(np.fft.irfft(halved, self.points, axis=1, norm="forward"), -1, 0)

    def transport(self, c: Array, along: Array) -> Array:
        """The modes after transport by this velocity over a unit of time."""
        parts = max(1, int(np.ceil(self.highest * np.abs(along).max() / _STABLE)))
        factor = -1j * np.arange(self.highest + 1) / parts

        def rate(c: Array) -> Array:
            flux = along * np.fft.irfft(c, self.points)
            return np.asarray(factor * np.fft.rfft(flux)[:, : self.highest + 1])

        for _ in range(parts):
            one = rate(c)
            two = rate(c + one / 2)
            three = rate(c + two / 2)
            c = c + (one + 2 * two + 2 * three + rate(c + three)) / 6
        return c
