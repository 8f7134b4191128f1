"""What is shown: a few lines of Python, and how what they leave behind becomes tokens of the player."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sphereflow.evolution import Trajectory
from sphereflow.evolution.density import circle_density
from sphereflow.evolution.webpage import Shown, energy_or_order, shown_of

COLOURS = 12  # slots of the player's palette that have a colour


@dataclass(frozen=True)
class Exhibit:
    """A run with a title and plain words; `code` is run as it stands, so it is the program of what is seen.

    `shown` takes the names that the code defines and gives the tokens, or those of two runs by name. `arxiv` is the
    paper to read. The picture on the index is taken at the share `moment` of the frames, with trails over `trail`.
    """

    title: str
    says: str
    arxiv: str
    code: str
    shown: Callable[[dict[str, Any]], Shown | dict[str, Shown]]
    moment: float = 1.0
    trail: float = 0.4

    @cached_property
    def players(self) -> dict[str, Shown]:
        """What the players show, by name; the code is run once."""
        names: dict[str, Any] = {}
        exec(compile(self.code, "<the lines of an exhibit>", "exec"), names)
        shown = self.shown(names)
        return {"": shown} if isinstance(shown, Shown) else shown


# --- how results become tokens of the player --------------------------------------------------------------------------


def of_run(names: dict[str, Any]) -> Shown:
    """Clusters have colours."""
    return shown_of(names["run"])


def of_runs(names: dict[str, Any]) -> dict[str, Shown]:
    """Two runs side by side."""
    return {name: shown_of(run) for name, run in names["runs"].items()}


def coloured(colour: Callable[[Shown], np.ndarray], *, bare: bool = False) -> Callable[[dict[str, Any]], Shown]:
    """A run, or the array `xs` of times `ts`, whose tokens keep the colours that a function gives them."""

    def shown(names: dict[str, Any]) -> Shown:
        plain = shown_of(names["run"]) if "run" in names else _of_array(names["ts"], names["xs"])
        curve, values = ("", None) if bare else (plain.curve, plain.values)
        return dataclasses.replace(plain, values=values, curve=curve, colours=colour(plain), bare=bare)

    return shown


def _of_array(ts: Any, given: Any) -> Shown:
    xs = np.asarray(given, dtype=float)
    spherical = bool(np.allclose(np.linalg.norm(xs, axis=-1), 1))
    what = "tokens" if spherical else "points"
    words = f"{xs.shape[1]} {what} in dimension {xs.shape[2]}"
    order = np.linalg.norm(xs.mean(axis=1), axis=-1)
    return Shown(np.asarray(ts, dtype=float), xs, words, order, "Length of the mean of the tokens", spherical)


def as_density(names: dict[str, Any]) -> Shown:
    r"""Very many tokens on the circle as a curve around it, at radius $1+\log(1+\rho)/3$ for the density $\rho$."""
    run: Trajectory = names["run"]
    ring = []
    for k in range(len(run)):
        angles, density = circle_density(run.frame(k))
        ring.append((1 + np.log1p(density) / 3)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    values, curve = energy_or_order(run)
    words = f"The density of {run.n:,} tokens on the circle, in {len(angles)} bins"
    slots = 1 + np.arange(len(angles)) * COLOURS // len(angles)
    note = "farther out where there are more tokens: radius 1 + log(1 + density)/3"
    return Shown(run.ts, np.stack(ring), words, values, curve, False, slots, bare=True, note=note)


# --- colours that tokens keep -----------------------------------------------------------------------------------------


def by_start(shown: Shown) -> np.ndarray:
    """The direction in which a token began."""
    return _sectors(shown.xs[0], COLOURS)


def by_three_ends(shown: Shown) -> np.ndarray:
    """In which third of the plane a point ends."""
    turn = np.pi / 3  # the targets lie in the middle of their thirds
    rotated = shown.xs[-1] @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    return _sectors(rotated, 3)


def by_number(shown: Shown) -> np.ndarray:
    """The place of a token in the prompt."""
    n = shown.xs.shape[1]
    return 1 + np.arange(n) * COLOURS // n


def _sectors(x: np.ndarray, count: int) -> np.ndarray:
    share = (np.arctan2(x[:, 1], x[:, 0]) / (2 * np.pi)) % 1
    return 1 + np.minimum((count * share).astype(int), count - 1)
