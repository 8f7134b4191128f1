r"""The score card of a schedule that should be a map: the map itself, its push-forward and its conditionals, together.

For $\mu=N(0,I)$ and a rotation Q the maps $\varphi$ and $\varphi\circ Q$ have one push-forward and different
conditionals: a score of the push-forward alone takes one for the other. Hence three kinds of error,

$$e_2=\|\varphi_\theta-\varphi\|_{L^2(\mu)},\qquad \mathrm{TV},\ \mathrm{KL}\ \text{of the push-forwards},\qquad
E_x W_2^2(\text{conditional}_\theta(x),\text{conditional}(x)),$$

and the last is at most $e_2^2$ where the first block is frozen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from sphereflow.errors import whole_number
from sphereflow.observables import wasserstein
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, number_from
from sphereflow.transport.euclidean.divergences import Divergences, divergences
from sphereflow.transport.euclidean.laws import Law
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.maps.smooth_map import ImageLaw, SmoothMap


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class ScoreCard(Result):
    """`conditional` is the root of the mean over x of W2^2, nothing if no block was named."""

    map_error: float
    push_forward: Divergences
    conditional: float | None
    switches: int
    sup_norm: float

    @property
    def trapped(self) -> bool:
        """Right push-forward, wrong map: total variation within four errors of zero, map error far above it."""
        tv = self.push_forward.tv
        return bool(tv.value <= 4 * tv.error + 0.01) and self.map_error > 0.1

    derived = ("trapped",)

    def variables(self) -> Variables:
        return self.push_forward.variables()

    def facts(self) -> list[str]:
        told = [f"{self.switches} switches, weights up to {self.sup_norm:.3g}", f"map error {self.map_error:.4g}"]
        told += self.push_forward.facts()
        told += [] if self.conditional is None else [f"conditional W2, root mean square: {self.conditional:.4g}"]
        if self.trapped:
            told.append("the push-forward is right and the map is not: conditional samples will be wrong")
        return told


@recorded_call
def score_card(
    schedule: Schedule,
    phi: SmoothMap | Callable[[Any], Any],
    base: Law,
    *,
    dx: int | None = None,
    samples: int = 4000,
    seed: Seed = 0,
) -> ScoreCard:
    """Errors against the map phi for points of the law `base`; `dx` coordinates are conditioned on, if given."""
    goal = phi if isinstance(phi, SmoothMap) else SmoothMap(phi)
    number = number_from(seed, most=2**62 - 2)
    x = base.sample(whole_number("samples", samples, least=100), number)
    gap = np.asarray(schedule.apply(x)) - goal(x)
    block = None if dx is None else whole_number("dx", dx, least=1, most=base.d - 1)
    return ScoreCard(
        float(np.sqrt((gap**2).sum(axis=1).mean())),
        divergences(schedule, base, ImageLaw(base, goal), samples=samples, seed=number + 1),
        None if block is None else _conditional(schedule, goal, x, block, number),
        schedule.n_switches,
        schedule.sup_norm(),
    )


def _conditional(schedule: Schedule, phi: SmoothMap, x: np.ndarray, dx: int, seed: int) -> float:
    """Both maps are fed the same (x0, z) at 32 places x0: what the last blocks look like there."""
    places, count = x[:32, :dx], 500
    z = np.random.default_rng(seed + 2).standard_normal((count, x.shape[1] - dx))
    fed = np.concatenate([np.column_stack([np.broadcast_to(p, (count, dx)), z]) for p in places])
    made, wanted = (np.asarray(m)[:, dx:].reshape(len(places), count, -1) for m in (schedule.apply(fed), phi(fed)))
    return float(
        np.sqrt(np.mean([wasserstein(a, b, metric="euclidean") ** 2 for a, b in zip(made, wanted, strict=True)]))
    )
