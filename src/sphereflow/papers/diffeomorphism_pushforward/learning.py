r"""Three ways to one map: permuted cells, neurons played, and pieces trained; error against switches.

The map is the swirl of the general construction. For playing and training the quarter turn comes first, exactly, and
the rest, close to the identity, is fitted. The loss of training is $E|\varphi_\theta(X)-\varphi(X)|^2$, whose gradient
has no boundary term: the flow is continuous in its weights.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import jackknife
from sphereflow.papers.diffeomorphism_pushforward import PAPER, pipeline
from sphereflow.transport.conditional.maurey import fit_velocities, sample_schedule
from sphereflow.transport.euclidean.affine import affine_schedule
from sphereflow.transport.euclidean.schedule import Schedule
from sphereflow.transport.learned.maps import train_map

TURN = affine_schedule([[0.0, -1.0], [1.0, 0.0]], [1.0, 0.0])


def points(seed: int, count: int = 2000) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=(count, 2))


def l2(schedule: Schedule, seed: int = 5) -> float:
    return float(np.sqrt(squares(schedule, seed).mean()))


def squares(schedule: Schedule, seed: int = 5) -> np.ndarray:
    x = points(seed)
    return np.asarray(((schedule.apply(x) - pipeline.swirl(x)) ** 2).sum(axis=1))


def _ratio(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(a.mean() / b.mean()))


@cache
def playable(neurons: int, seed: int) -> Schedule:
    """The turn, then all neurons of eight fields, swept."""
    x = points(seed)
    turned = np.asarray(TURN.apply(x))
    velocity = fit_velocities(turned, pipeline.swirl(x), neurons=neurons, times=8, ridge=1e-4, reach=2.0, seed=seed)
    return TURN + sample_schedule(velocity.fields, 8 * (neurons + 5), sampling="swept", seed=seed)


@cache
def trained(pieces: int, steps: int, seed: int) -> Schedule:
    """The turn, and pieces after it that start small and are trained with it."""
    return train_map(pipeline.swirl, points(seed), pieces, steps=steps, batch=256, start=TURN, seed=seed).schedule


def steps(run: Run) -> int:
    return 500 if run.quick else 5000


@PAPER.claim(
    "learned-map",
    says="Trained on the error of the map, two dozen pieces leave less than half of what the quarter turn alone "
    "leaves; neurons fitted and played leave less than permuted cells with ten times as many switches.",
    basis=basis.Extension("the same flows learned instead of constructed"),
    formula=r"\min_\theta\,E|\varphi_\theta(X)-\varphi(X)|^2",
)
def learned_map(run: Run) -> Check:
    alone, found = l2(TURN), trained(24, steps(run), run.seed)
    played, cells = playable(100, run.seed), pipeline.built(8, 4).schedule
    check = Check(parameters={"steps": steps(run), "switches": [found.n_switches, played.n_switches, cells.n_switches]})
    # The swirl moves each coordinate by 0.12 sin(2 pi x): root mean square 0.12.
    because = "standard error over 2000 points"
    check.row("error of the turn alone", predicted=0.12, measured=alone, error=0.0007, because=because)
    because = "jackknife over 2000 points"
    for name, bound, one, other in (
        ("trained over the turn alone", 0.5, found, TURN),
        ("played over permuted cells", 1.0, played, cells),
    ):
        ratio = jackknife(_ratio, squares(one), squares(other))
        check.at_most(name, bound=bound, measured=ratio.value, error=ratio.error, because=because)
    check.at_most("ten times its switches", bound=cells.n_switches, measured=10 * played.n_switches, because="a count")
    check.null("training that does not move", {"trained over the turn alone": 1.0})
    check.null("the turn in the place of played neurons", {"played over permuted cells": alone / l2(cells)})
    check.rival("the swirl along one axis only", {"error of the turn alone": 0.12 / 2**0.5})
    return check
