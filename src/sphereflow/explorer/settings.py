"""What a visitor can choose, its limits, and the address that holds it.

Limits are enforced here, for the sliders of the page and for addresses alike: whatever cannot be used is replaced by
the default, and one sentence says so.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np

from sphereflow.sphere import STARTS

MODELS: dict[str, str] = {
    "sa": "Softmax attention (SA)",
    "usa": "Unnormalised attention (USA)",
    "causal": "Causal attention (decoder)",
    "perceptron": "Attention + perceptron",
    "common": "Attention + shared noise",
    "own": "Attention + independent noise",
    "euclid": "Attention without normalisation",
}
NOISY = ("common", "own")
CLOCKS: dict[str, str] = {"log": "logarithmic", "linear": "linear"}
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
MOST_COORDINATES = 20_000
INTERVALS = 120  # of time, between the frames of a run
_MOST_NOISY_TIME = 100.0
_MOST_EUCLIDEAN_TIME = 20.0


@dataclass(frozen=True)
class Settings:
    """The parameters of a run, and the speed at which it is shown."""

    model: str = "sa"
    n: int = 300
    d: int = 3
    beta: float = 9.0
    start: str = "uniform"
    t1: float = 100.0
    clock: str = "log"
    seed: int = 0
    push: float = 1.0
    noise: float = 1.0
    pull: float = 1.0
    speed: float = 1.0

    def query(self) -> str:
        """All parameters as the query string of an address."""
        return urlencode({name: plain(value) for name, value in dataclasses.asdict(self).items()})

    def same_run(self, other: Settings) -> bool:
        """Whether only the speed differs."""
        return dataclasses.replace(self, speed=other.speed) == other

    @property
    def noisy(self) -> bool:
        return self.model in NOISY

    @property
    def logarithmic(self) -> bool:
        return self.clock == "log" and not self.noisy

    @property
    def first_time(self) -> float:
        """The first saved time after zero on the logarithmic clock."""
        return min(0.1, self.t1 / 100)

    @property
    def times(self) -> np.ndarray:
        """The saved times: 0, and then equal steps or equal ratios up to t1."""
        if self.logarithmic:
            return np.append(0, np.geomspace(self.first_time, self.t1, INTERVALS))
        return np.linspace(0, self.t1, INTERVALS + 1)

    def caption(self) -> str:
        """One line about the run."""
        return f"{MODELS[self.model]}, {self.n} tokens, d = {self.d}, β = {self.beta:g}, seed {self.seed}"


NAMES = tuple(field.name for field in dataclasses.fields(Settings))


@dataclass(frozen=True)
class Limit:
    """The range of a number."""

    least: float
    most: float
    whole: bool = False

    def words(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.least:g} to {self.most:,.0f}" if self.most >= 1 else f"{kind} up to {self.most}"


LIMITS: dict[str, Limit] = {
    "n": Limit(2, 5000, whole=True),
    "d": Limit(2, 64, whole=True),
    "beta": Limit(0, 10_000),
    "t1": Limit(0.1, 100_000),
    "seed": Limit(0, 999_999_999, whole=True),
    "push": Limit(-20, 20),
    "noise": Limit(0, 3),
    "pull": Limit(0, 5),
}
WORDS: dict[str, tuple[str, ...]] = {"model": tuple(MODELS), "start": STARTS, "clock": tuple(CLOCKS)}


def parse(query: Mapping[str, Any], base: Settings | None = None) -> tuple[Settings, list[str]]:
    """Settings from the values of an address or of the controls; what is unusable keeps its value in `base`.

    **Returns:** settings within all limits, and one sentence for each value that was replaced.
    """
    base = base or Settings()
    values: dict[str, Any] = {}
    said: list[str] = []
    for name, given in query.items():
        value: Any = None
        if name in LIMITS:
            value = _number(given, LIMITS[name])
            allowed = LIMITS[name].words()
        elif name in WORDS:
            value = given if given in WORDS[name] else None
            allowed = "one of " + ", ".join(WORDS[name])
        elif name == "speed":
            value = _number(given, Limit(SPEEDS[0], SPEEDS[-1]))
            value = value if value in SPEEDS else None
            allowed = "one of " + ", ".join(f"{speed:g}" for speed in SPEEDS)
        else:
            continue
        if value is None:
            said.append(f"{name} must be {allowed}; {_quoted(given)} was replaced by {plain(getattr(base, name))}.")
        else:
            values[name] = value
    settings, more = _compatible(dataclasses.replace(base, **values))
    return settings, said + more


def _compatible(s: Settings) -> tuple[Settings, list[str]]:
    """Settings whose parts go together."""
    said = []
    if s.n * s.d > MOST_COORDINATES:
        most = MOST_COORDINATES // s.d
        said.append(f"In dimension {s.d} at most {most} tokens can be shown live; n was set to {most}.")
        s = dataclasses.replace(s, n=most)
    if s.model == "own" and s.n * s.d**2 > 20 * MOST_COORDINATES:
        most = max(2, 20 * MOST_COORDINATES // s.d**2)
        said.append(f"Noise for every token costs more: in dimension {s.d} at most {most}; n was set to {most}.")
        s = dataclasses.replace(s, n=most)
    needs = {"orthogonal": s.n <= s.d, "fibonacci": s.d == 3, "grid": s.d == 2}
    if not needs.get(s.start, True):
        reason = {"orthogonal": "as many dimensions as tokens", "fibonacci": "d = 3", "grid": "d = 2"}[s.start]
        said.append(f"The start '{s.start}' needs {reason}; tokens start uniformly instead.")
        s = dataclasses.replace(s, start="uniform")
    longest = _MOST_NOISY_TIME if s.noisy else _MOST_EUCLIDEAN_TIME if s.model == "euclid" else math.inf
    if s.t1 > longest:
        said.append(f"This model is shown until t = {longest:g} at most; t1 was set to {longest:g}.")
        s = dataclasses.replace(s, t1=longest)
    return s, said


def _number(given: Any, limit: Limit) -> float | int | None:
    """The number within its limit, or None."""
    try:
        value = float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(value) or not limit.least <= value <= limit.most:
        return None
    if limit.whole:
        return int(value) if value == int(value) else None
    return value


def plain(value: Any) -> str:
    """A value as it stands in an address and in a field: no digit is lost."""
    if isinstance(value, float):
        return repr(int(value)) if value == int(value) else repr(value)
    return str(value)


def _quoted(given: Any) -> str:
    text = str(given)[:25].encode("utf-8", "replace").decode("utf-8")  # half of a character cannot be shown
    return f"'{text[:24]}{'…' if len(text) > 24 else ''}'"
