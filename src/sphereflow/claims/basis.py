"""Where a claim's statement comes from, so that nobody takes our own derivation for a paper's sentence.

| basis | the statement is |
|---|---|
| `Abstract` | in the paper's abstract |
| `Theorem`, `Equation`, `Figure` | a labelled result, read in the source that `via` names |
| `AuthorCode` | what a file of the authors' repository computes |
| `Summary` | known from a text about the paper; the paper's own words were not seen |
| `Derived` | a consequence worked out here |
| `Extension` | ours: beyond what the paper says |

Only what was read first-hand or in a named transcription can be refuted: `Basis.printed` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True)
class Basis:
    """What all bases share: a one-word `kind` to count by, a sentence, and whether words of the paper were read."""

    kind: ClassVar[str] = ""
    printed: ClassVar[bool] = False

    @property
    def sentence(self) -> str:
        raise NotImplementedError

    def record(self) -> dict[str, Any]:
        """The basis as plain strings."""
        return {"kind": self.kind, **{each.name: getattr(self, each.name) for each in fields(self)}}


@dataclass(frozen=True)
class Abstract(Basis):
    """In the abstract; `part` says which assertion, in our words."""

    part: str = ""
    kind: ClassVar[str] = "abstract"
    printed: ClassVar[bool] = True

    @property
    def sentence(self) -> str:
        return f"abstract: {self.part}" if self.part else "abstract"


@dataclass(frozen=True)
class _Labelled(Basis):
    label: str
    via: str
    printed: ClassVar[bool] = True

    @property
    def sentence(self) -> str:
        return f"{self.kind} {self.label}, as transcribed in {self.via}"


@dataclass(frozen=True)
class Theorem(_Labelled):
    """A theorem, lemma, proposition or conjecture with the paper's label, read in the source `via`."""

    kind: ClassVar[str] = "theorem"


@dataclass(frozen=True)
class Equation(_Labelled):
    """A displayed equation or definition, read in the source `via`."""

    kind: ClassVar[str] = "equation"


@dataclass(frozen=True)
class Figure(_Labelled):
    """A figure or table of the paper, read in the source `via`."""

    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class AuthorCode(Basis):
    """What a file of the authors' repository computes; `commit` may be a date where the hash is not known."""

    repository: str
    commit: str
    file: str
    kind: ClassVar[str] = "author code"
    printed: ClassVar[bool] = True

    @property
    def sentence(self) -> str:
        return f"authors' code: {self.file} in {self.repository} at {self.commit}"


@dataclass(frozen=True)
class Summary(Basis):
    """Known from a text about the paper, `where`; its own words were not seen."""

    where: str
    kind: ClassVar[str] = "summary"

    @property
    def sentence(self) -> str:
        return f"known from {self.where}; the paper's own words were not seen"


@dataclass(frozen=True)
class Derived(Basis):
    """A consequence of the paper's model worked out here; `why` says from what."""

    why: str
    kind: ClassVar[str] = "derived"

    @property
    def sentence(self) -> str:
        return f"derived here: {self.why}"


@dataclass(frozen=True)
class Extension(Basis):
    """Beyond the paper: `why` it belongs beside it."""

    why: str
    kind: ClassVar[str] = "extension"

    @property
    def sentence(self) -> str:
        return f"an extension of ours: {self.why}"


KINDS: tuple[str, ...] = (
    "abstract", "theorem", "equation", "figure", "author code", "summary", "derived", "extension",
)  # fmt: skip
