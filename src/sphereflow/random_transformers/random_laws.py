"""What the stochastic Fokker-Planck equations of the circle and of the sphere share.

A random law is known by its coefficients (Fourier modes, harmonics); explicit steps move those of many paths at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from sphereflow.errors import SphereflowError, enough_memory, whole_number
from sphereflow.estimates import Estimate
from sphereflow.progress import Progress, reporting
from sphereflow.reading import real_array
from sphereflow.results import Result
from sphereflow.seeds import Seed, rng_from

_PER_TIME = 50  # steps in a unit of tau unless given
_BROKEN = 10.0  # coefficients of a probability are at most 1: beyond this the explicit steps have lost the path


@dataclass(frozen=True, eq=False, repr=False)
class RandomLaws(Result):
    """Random laws at `times` (S,).

    `largest` is the largest coefficient in modulus on the way, at most 1 for a probability: above it the steps are too
    long. `tail` is the root mean square of the last ones: what the truncation leaves out is of this size.
    """

    times: Float[np.ndarray, " S"]
    largest: float
    tail: float

    def _end(self, squares: Sequence[Estimate]) -> str:
        first, second = (Estimate(*(column[-1] for column in each)) for each in squares)
        return f"{first}, {second} at tau = {self.times[-1]:g}"

    def _resolved(self, last: str, name: str) -> list[str]:
        """How well the coefficients are resolved, and a warning if they are not."""
        resolved = f"last {last} {self.tail:.2g} (root mean square), largest {self.largest:.3g}"
        return [resolved] if self.largest <= 1.01 else [resolved, f"{name} above 1: take more steps"]


def follow(
    move: Callable[[np.random.Generator, np.ndarray, float], np.ndarray],
    start: Shaped[np.ndarray, " K"],
    times: Float[np.ndarray, " S"],
    t1: float,
    steps: int | None,
    *,
    repeats: int,
    chunk: int,
    remedy: str,
    seed: Seed,
    progress: Progress,
) -> tuple[Shaped[np.ndarray, "R S K"], float]:
    """The coefficients of all paths at the saved times, and the largest on the way; a chunk of paths moves together."""
    count = max(20, math.ceil(_PER_TIME * t1)) if steps is None else whole_number("steps", steps, most=10**7)
    enough_memory(
        start.itemsize * repeats * len(start) * (len(times) + 8.0), f"{repeats} paths of {len(start)} numbers"
    )
    rng = rng_from(seed)
    c = np.broadcast_to(start, (repeats, len(start))).copy()
    saved, largest, now = [], 1.0, 0.0
    with reporting("density", progress) as report:
        for time in times:
            number = math.ceil(round(count * (time - now) / t1, 9))
            for _ in range(number):
                for low in range(0, repeats, chunk):
                    part = slice(low, low + chunk)
                    c[part] = move(rng, c[part], (time - now) / number)
                largest = max(largest, float(np.abs(c).max()))
                if not largest < _BROKEN:
                    raise SphereflowError(
                        f"a coefficient of the density has grown to {largest:.2g}, which no law has: "
                        f"take more steps than {count}, {remedy}."
                    )
            now = time
            saved.append(c.copy())
            report(time / t1, f"tau = {time:.3g} of {t1:.3g}")
    return np.stack(saved, axis=1), largest


def save_times(t1: float, saveat: int | Sequence[float] | np.ndarray) -> np.ndarray:
    """The times of so many frames from 0 to t1, or those given, if they increase up to t1."""
    if isinstance(saveat, (int, np.integer)):
        return np.linspace(0.0, t1, whole_number("saveat", saveat, least=2))
    times = real_array("saveat", saveat)
    inside = times.ndim == 1 and len(times) and times[0] >= 0 and times[-1] <= t1
    if not inside or not (np.diff(times) > 0).all():
        raise SphereflowError(f"saveat must be a number of frames, or increasing times from 0 to t1 = {t1:g}.")
    return times
