r"""Friction over a finite horizon: $|a_t|\le a_0\prod_{s<t}(1+\eta(1-\lambda_s))$ as a gain or a restoring force."""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.drifting import Friction, friction_scale, surrogate_field, surrogate_repulsion
from sphereflow.drifting.friction import gain_bound, gain_movement_bound, restoring_bound
from sphereflow.papers.drifting_with_friction import PAPER
from sphereflow.papers.drifting_with_friction.sources import BOUND


def product(step: float, end: float, horizon: int, *, first: int = 0) -> np.ndarray:
    """prod over s < t of 1 + step (1 - end (s + first) / T), for t = 0 .. T, in a plain loop."""
    found = [1.0]
    for s in range(horizon):
        found.append(found[-1] * (1 + step * (1 - end * (s + first) / horizon)))
    return np.array(found)


@PAPER.claim(
    "finite-horizon-bound",
    says="With friction that grows along a line, as a gain of at most one or as a restoring force of at most one per "
    "step, the distance of the two particles stays below a product that contains the friction; without friction it "
    "does not. The self-masked pair attains it. With a restoring force of six per step the product is no bound.",
    basis=BOUND,
    formula=r"|a_t|\le a_0\prod_{s<t}\big(1+\eta(1-\lambda_s)\big),\quad\lambda_s=\lambda_1s/T,\quad"
    r"\lambda_1\le1\ \text{(gain)},\ \eta\lambda_1\le1\ \text{(restoring)}",
)
def finite_horizon_bound(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    check = Check(note="Which update the paper means was not available; both readings have this bound.")
    off, late, constant, free = {}, {}, {}, {}
    for mode, most in (("gain", 1.0), ("restoring", 3.0)):
        worst, without = 0.0, 0.0
        for _ in range(40 if run.quick else 400):
            horizon, end = int(rng.integers(2, 301)), float(rng.uniform(0.2, 1) * most)
            step = float(rng.uniform(0.02, 1) * (min(8.0, 1 / end) if mode == "restoring" else 1.0))
            a0 = 10 ** rng.uniform(-6, 0.8, 20)
            bound = np.outer(product(step, end, horizon), a0)
            moved = Friction(mode, 0.0, end, horizon).follow(a0, surrogate_field, step)
            worst = max(worst, float(np.max(np.abs(moved) / bound)))
            bare = Friction("none", horizon=horizon).follow(a0, surrogate_field, step)
            without = max(without, float(np.max(np.abs(bare) / bound)))
        name = f"{mode}: distance over the product"
        check.at_most(name, bound=1.0, measured=worst, tolerance=1e-9, because="rounding")
        off[name] = without
        # V = +a, the normalised self-masked pair.
        step, end, horizon = 0.1, most, 100
        pair = Friction(mode, 0.0, end, horizon).follow(np.array([0.05]), lambda a: a, step)[-1, 0]
        name = f"{mode}: self-masked pair after {horizon} steps"
        right = 0.05 * product(step, end, horizon)[-1]
        check.row(name, predicted=right, measured=pair, relative=1e-12, because="rounding")
        late[name] = 0.05 * product(step, end, horizon, first=1)[-1]
        constant[name] = 0.05 * (1 + step * (1 - end / 2)) ** horizon
        free[name] = 0.05 * (1 + step) ** horizon
    # Beyond, factors change sign: far particles, which are hardly repelled, overshoot more than the product says.
    moved = Friction("restoring", 0.0, 4.0, 4).follow(np.array([3.0]), surrogate_field, 1.5)[:, 0]
    beyond = float(np.max(np.abs(moved) / np.abs(3.0 * product(1.5, 4.0, 4))))
    check.null("friction off", off)
    check.null("a restoring force of six per step", {"restoring: distance over the product": beyond})
    check.rival("friction off, the pair", free)
    check.rival(r"$\lambda_t=\lambda_1(t+1)/T$", late)
    check.rival("constant friction of the same mean", constant)
    return check


@PAPER.claim(
    "certain-decay",
    says=r"As long as its factors are positive the product decays over the horizon as soon as $\lambda_1>2T/(T-1)$; "
    r"$\lambda_1>2$ is not enough, and with factors of both signs nor is that.",
    basis=basis.Derived(r"the bound by $1+x\le e^x$"),
    formula=r"\prod_{t<T}(1+\eta(1-\lambda_1t/T))\le e^{\eta(T-\lambda_1(T-1)/2)}",
)
def certain_decay(run: Run) -> Check:
    check = Check()
    two, long = {}, {}
    for horizon, step in ((2, 0.2), (20, 0.05), (100, 0.02)):
        end = 2 * horizon / (horizon - 1)
        name = f"factor at the end, $T={horizon}$"
        factor = restoring_bound(1.0, step, Friction("restoring", 0.0, end, horizon))[-1]
        plain = product(step, end, horizon)[-1]
        check.row(f"{name}, plain loop", predicted=plain, measured=factor, relative=1e-12, because="rounding")
        check.at_most(name, bound=1.0, measured=factor, relative=1e-12, because="rounding")
        two[name] = float(restoring_bound(1.0, step, Friction("restoring", 0.0, 2.001, horizon))[-1])
        long[name] = float(np.abs(product(2.0, end, horizon)[-1]))
    check.null(r"$\lambda_1=2.001$", two)
    check.null("steps of two", long)
    return check


@PAPER.claim(
    "gain-bound",
    says=r"As a gain, friction halves the bound on the total movement; the distance itself does not exceed the larger "
    r"of its start and $\tau\ln2$ plus one outward step, for steps up to 8, which is true without friction too. At "
    r"steps of 40 particles pass the target and go farther.",
    basis=basis.Derived("the range of the growth factor"),
    formula=r"\sum_t|a_{t+1}-a_t|\le0.1995\,\eta\tau\,\tfrac{T+1}2,\quad a_t\le\max(a_0,\tau\ln2+0.1087\,\eta\tau)",
)
def finite_gain(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    movement, bare, highest, no_step, alone = 0.0, 0.0, 0.0, 0.0, 0.0
    for _ in range(60 if run.quick else 600):
        horizon, step = int(rng.integers(2, 60)), float(8 * rng.uniform() ** 3)
        a0 = rng.uniform(0, 6, 40)
        path = Friction("gain", 0.0, 1.0, horizon).follow(a0, surrogate_field, step)
        free = Friction("none", horizon=horizon).follow(a0, surrogate_field, step)
        most = gain_movement_bound(step, horizon)
        movement = max(movement, float(np.max(np.abs(np.diff(path, axis=0)).sum(axis=0) / most)))
        bare = max(bare, float(np.max(np.abs(np.diff(free, axis=0)).sum(axis=0) / most)))
        highest = max(highest, float(np.max(np.abs(path) / gain_bound(a0, step))))
        alone = max(alone, float(np.max(np.abs(free) / gain_bound(a0, step))))
        no_step = max(no_step, float(np.max(path / np.maximum(a0, np.log(2)))))
    wide = np.linspace(0, 6, 40)
    huge = Friction("gain", 0.0, 1.0, 60).follow(wide, surrogate_field, 40.0)
    check = Check(parameters={"paths": 40 * (60 if run.quick else 600)})
    check.at_most("movement over its bound", bound=1.0, measured=movement, tolerance=1e-9, because="rounding")
    check.at_most("distance over its bound", bound=1.0, measured=highest, tolerance=1e-9, because="rounding")
    check.at_most(
        "distance over its bound, friction off", bound=1.0, measured=alone, tolerance=1e-9, because="rounding"
    )
    check.null("friction off", {"movement over its bound": bare})
    check.null("steps of 40", {"distance over its bound": float(np.max(np.abs(huge) / gain_bound(wide, 40.0)))})
    check.null("no outward step allowed for", {"distance over its bound": no_step})
    return check


@PAPER.claim(
    "readings-of-friction",
    says="Five readings of friction leave the pair of the Laplace surrogate at different distances: friction that acts "
    r"on the motion alone (gain, viscous, opposing) at $\tau\ln2$, a restoring force closer, weaker repulsion closer "
    r"still, and on the target from $\lambda=\frac12$ on.",
    basis=basis.Derived("the fixed points of the five updates"),
    formula=r"a^*=\tau\ln2,\quad\tau\ln\tfrac4{1+\sqrt{1+8\lambda}},\quad\tau\ln2(1-\lambda)",
)
def readings_of_friction(run: Run) -> Check:
    step, horizon, width = 0.5, 800 if run.quick else 8000, 1.5
    levels = (0.2, 0.4)
    check = Check(parameters={"step": step, "horizon": horizon, "width": width})
    motion, other = {}, {}
    for mode in ("gain", "viscous", "opposing", "restoring", "repulsion"):
        for level in (*levels, 0.6) if mode == "repulsion" else levels:
            path = Friction(mode, level, level, horizon).follow(
                np.array([0.05, 2.0]),
                lambda a: surrogate_field(a, width=width),
                step,
                repulsion=lambda a: surrogate_repulsion(a, width=width),
            )
            name = f"{mode}, friction {level:g}"
            # Friction .6 multiplies small distances by 1 + .5 (1 - 1.2) = .9 per step: nothing is left of them.
            check.row(
                name,
                predicted=friction_scale(mode, level, width),
                measured=float(np.abs(path[-1]).max()),
                tolerance=1e-9,
                because="the slowest approach, by a factor below .97 per step, ends in rounding",
            )
            if mode in ("restoring", "repulsion"):
                motion[name] = friction_scale("gain", level, width)
                other[name] = friction_scale({"restoring": "repulsion", "repulsion": "restoring"}[mode], level, width)
    check.rival("friction never moves the point of rest", motion)
    check.rival("restoring and weaker repulsion are one thing", other)
    return check


@PAPER.claim(
    "schedule",
    says="Friction as a gain is a learning-rate schedule under plain gradient descent: the same path.",
    basis=basis.Derived("the update of friction read as a gain"),
    formula=r"x_{t+1}=x_t+\eta(1-\lambda_t)V(x_t)",
)
def schedule(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    x0 = rng.normal(size=12)
    path = Friction("gain", 0.0, 1.0, horizon=50).follow(x0, surrogate_field, 0.7)

    def scheduled(rates: np.ndarray) -> float:
        x = x0.copy()
        for rate in rates:
            x = x + rate * x * (2 * np.exp(-2 * np.abs(x)) - np.exp(-np.abs(x)))
        return float(np.max(np.abs(path[-1] - x)))

    check = Check()
    falling = 0.7 * (1 - np.arange(50) / 50)
    name = "distance of the two paths at the end"
    check.row(name, predicted=0.0, measured=scheduled(falling), tolerance=1e-13, because="rounding")
    check.same("positions", predicted=51, measured=len(path))
    check.null("the schedule one step ahead", {name: scheduled(0.7 * (1 - np.arange(1, 51) / 50))})
    check.null("a constant rate of the same mean", {name: scheduled(np.full(50, falling.mean()))})
    return check
