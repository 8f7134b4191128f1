r"""Position: is a fact in the middle of a prompt found less often, and does the theory's curve describe it?

Rules: U-shaped as `retrieval.u_shape` says; if monotone profiles are not excluded although the valley
lies inside, undecided. The theory's curve agrees if it is the best of all by AICc, inside its box.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sphereflow.errors import SphereflowError
from sphereflow.llm import InfluenceProfile, KeyValueProfile, influence_profile, retrieval_profile
from sphereflow.llm.measurement.sections import (
    AGREES,
    DISAGREES,
    UNDECIDED,
    Picture,
    Section,
    asked,
    percent,
)
from sphereflow.model_theories.subject import Answer, Subject
from sphereflow.pictures import PALETTE, rendered, styled_figure
from sphereflow.retrieval import FittedProfile, ShapeTest, fit_profile, u_shape

# Pairs in a list of the key-value task, so as many rotations of each set of words; a test of shape needs three sets.
_PAIRS, _LEAST_SETS = 8, 3
_TOKENS, _PROMPTS, _BINS = 64, 8, 12

Profile = tuple[np.ndarray, np.ndarray, ShapeTest, FittedProfile]


def section(subject: Subject) -> Section:
    """The section of the page."""
    subject.decoder("no token is its last word")
    shapes: dict[str, Profile] = {}
    lists = asked("retrieval by place is U-shaped", lambda: _lists(subject, shapes))
    sources = asked("influence by place is U-shaped", lambda: _influence(subject, shapes))
    statements = [lists]
    if "retrieval" in shapes:
        statements.append(asked("the theory's curve fits retrieval", lambda: _curve(shapes["retrieval"][3])))
    statements.append(sources)
    if "influence" in shapes:
        statements.append(asked("the theory's curve fits influence", lambda: _curve(shapes["influence"][3])))
    picture = None
    if shapes:
        caption = "Dots: means with standard errors; line: the closed form of the theory, fitted."
        picture = Picture("Retrieval and influence by position", caption, rendered(_drawn(shapes), "png"))
    return Section("position", "Position in the prompt", tuple(statements), picture)


def _lists(subject: Subject, shapes: dict[str, Profile]) -> Answer:
    if not subject.prompts:
        raise SphereflowError("the key-value task was left out by --prompts 0.")
    sets = max(_LEAST_SETS, -(-subject.prompts // _PAIRS))
    profile = retrieval_profile(subject.loaded, pairs=_PAIRS, sets=sets, seed=subject.seed, progress=subject.report)
    test, _ = _shaped(shapes, "retrieval", profile.places, profile.rows(), subject)
    return _sentence(
        f"The right value of {_PAIRS} has probability",
        f", chance {profile.chance:.2f}",
        test,
        {"hit": _listed(profile)},
    )


def _listed(profile: KeyValueProfile) -> list[float]:
    return [float(each) for each in profile.profile("hit")]


def _influence(subject: Subject, shapes: dict[str, Profile]) -> Answer:
    profile: InfluenceProfile = influence_profile(
        subject.loaded, n=_TOKENS, prompts=_PROMPTS, seed=subject.seed, progress=subject.report
    )
    rows = profile.rows(bins=_BINS)
    test, _ = _shaped(shapes, "influence", profile.places(_BINS), rows, subject)
    share = float(profile.first_share("gradient")[:, -1].mean())
    return _sentence(
        f"Of {_TOKENS} random tokens (bins of {_TOKENS // _BINS}, relative to the mean) the influence on the last is",
        f", without the first token's {percent(share)} of all",
        test,
        {"first_token": share},
    )


def _shaped(
    shapes: dict[str, Profile], name: str, places: np.ndarray, rows: np.ndarray, subject: Subject
) -> tuple[ShapeTest, FittedProfile]:
    test, fit = u_shape(rows, seed=subject.seed), fit_profile(rows, places, seed=subject.seed)
    shapes[name] = (places, rows, test, fit)
    return test, fit


def _sentence(what: str, beside: str, test: ShapeTest, more: dict[str, Any]) -> Answer:
    low = int(np.mean(test.valley_at))
    said = ", ".join(
        f"{test.mean[k]:.2f} ± {2 * test.error[k]:.2f} {where}"
        for k, where in (
            (0, "at the first place"),
            (low, f"at the lowest, {low + 1} of {len(test.mean)}"),
            (-1, "at the last"),
        )
    )
    verdict = AGREES if test.u_shaped else UNDECIDED if test.interior else DISAGREES
    numbers = {"mean": test.mean.tolist(), "error": test.error.tolist(), "shape": test.shape}
    numbers |= {"p_decreasing": test.p_decreasing, "p_increasing": test.p_increasing}
    return (
        f"{what} {said} (two standard errors over {test.units} units){beside}: {test.shape} (p = "
        f"{test.p_decreasing:.2g} for a falling, {test.p_increasing:.2g} for a rising profile).",
        verdict,
        numbers | more,
    )


def _curve(fit: FittedProfile) -> Answer:
    (c_low, c_high), (s_low, s_high) = fit.c_interval, fit.slope_interval
    best = fit.aicc["theory"] == min(fit.aicc.values())
    return (
        f"With c = {fit.c:.2g} ({c_low:.2g} to {c_high:.2g}) and slope {fit.slope:.2g} ({s_low:.2g} to {s_high:.2g}; "
        f"16 to 84 %), {fit.facts()[0]}.",
        AGREES if best and not fit.at_edge else DISAGREES,
        {"c": fit.c, "slope": fit.slope, "aicc": {k: v if np.isfinite(v) else None for k, v in fit.aicc.items()}},
    )


def _drawn(shapes: dict[str, Profile]) -> Figure:
    with styled_figure(4.2 * len(shapes), 3.2) as figure:
        axes: np.ndarray = figure.subplots(1, len(shapes), squeeze=False)[0]
        names = {"retrieval": "probability of the right value", "influence": "influence on the last token"}
        for ax, (name, (places, _, test, fit)) in zip(axes, shapes.items(), strict=True):
            _panel(ax, places, test, fit)
            ax.set(xlabel="place in the prompt", ylabel=names[name], xlim=(0, 1))
    return figure


def _panel(ax: Axes, places: np.ndarray, test: ShapeTest, fit: FittedProfile) -> None:
    ax.errorbar(places, test.mean, test.error, fmt="o", ms=4, capsize=2, color=PALETTE[0], label="measured")
    ax.plot(places, fit.curves["theory"], color=PALETTE[1], label=f"theory, c = {fit.c:.2g}, slope {fit.slope:.2g}")
    ax.legend()
