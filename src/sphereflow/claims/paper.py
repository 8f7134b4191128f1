r"""A paper: its claims, each a statement with the function that checks it, and its pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from sphereflow.claims.basis import Basis
from sphereflow.claims.check import Check
from sphereflow.errors import SphereflowError, one_of

Preset = Literal["quick", "paper"]
PRESETS: tuple[str, ...] = ("quick", "paper")


@dataclass(frozen=True)
class Run:
    """The conditions under which claims are measured.

    `quick` keeps the whole set in minutes on two processor cores; `paper` uses the sizes of the papers or beyond.
    `notify(fraction, text)` is called by long measurements to report progress.
    """

    preset: Preset = "quick"
    seed: int = 0
    notify: Callable[[float, str], None] = lambda fraction, text: None

    def __post_init__(self) -> None:
        one_of("preset", self.preset, PRESETS)

    @property
    def quick(self) -> bool:
        return self.preset == "quick"


def _slug(what: str, given: str) -> None:
    """Names become names of files and anchors of pages: letters, digits, dashes, underscores and dots."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", given):
        raise SphereflowError(f"{what} must be letters and digits, joined by dashes; got '{given}'.")


@dataclass(frozen=True)
class Claim:
    """One checkable statement.

    **Fields:** `id` a short slug; `says` the statement in plain words, no more than is measured; `basis` where it
    comes from; `measure` the function that checks it; `formula` LaTeX (may be empty); `prints` the paper's own
    sentence where the mathematics contradicts it (`says` is then the corrected one).
    """

    id: str
    says: str
    basis: Basis
    measure: Callable[[Run], Check]
    formula: str = ""
    prints: str = ""

    def __post_init__(self) -> None:
        _slug("the name of a claim", self.id)
        if self.prints and not self.basis.printed:
            raise SphereflowError(
                f"the claim {self.id} contradicts a printed sentence, but its basis is {self.basis.sentence}: only an "
                "abstract, a labelled result read in a named source, or the authors' code can be refuted."
            )


@dataclass(frozen=True)
class Figure:
    """A picture of a paper: `draw(run)` returns a matplotlib figure; `shows` names the claims that it illustrates."""

    id: str
    caption: str
    draw: Callable[[Run], Any]
    presets: tuple[str, ...] = PRESETS
    shows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _slug("the name of a figure", self.id)


@dataclass(frozen=True)
class Paper:
    """A paper, its claims and its pictures. The module that makes it is found by the registry, nothing to edit.

    `texts` says which texts of the paper were available to whoever wrote the claims; `origin` is the path or entry
    point that a paper from outside the library was loaded from.
    """

    slug: str
    title: str
    authors: tuple[str, ...]
    year: int
    summary: str
    bibtex: str
    arxiv: str = ""
    texts: str = ""
    origin: str = ""
    claims: list[Claim] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    def __post_init__(self) -> None:
        _slug("the slug of a paper", self.slug)

    def claim(
        self, id: str, *, says: str, basis: Basis, formula: str = "", prints: str = ""
    ) -> Callable[[Callable[[Run], Check]], Callable[[Run], Check]]:
        """Decorator: register a function of a `Run` as the check of a claim."""

        def register(measure: Callable[[Run], Check]) -> Callable[[Run], Check]:
            self._refuse_repeated(id)
            self.claims.append(Claim(id, says, basis, measure, formula, prints))
            return measure

        return register

    def figure(
        self, id: str, *, caption: str, presets: tuple[str, ...] = PRESETS, shows: tuple[str, ...] = ()
    ) -> Callable[[Callable[[Run], Any]], Callable[[Run], Any]]:
        """Decorator: register a function of a `Run` that draws a picture; `shows` are the claims it illustrates."""

        def register(draw: Callable[[Run], Any]) -> Callable[[Run], Any]:
            self._refuse_repeated(id)
            self.figures.append(Figure(id, caption, draw, presets, shows))
            return draw

        return register

    def _refuse_repeated(self, id: str) -> None:
        known: list[Claim | Figure] = [*self.claims, *self.figures]
        if any(id == entry.id for entry in known):
            raise SphereflowError(f"the paper {self.slug} has two entries named '{id}'.")
