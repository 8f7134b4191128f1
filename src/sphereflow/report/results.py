"""What a run of the papers' claims gives: frozen records, from the single claim up to the whole report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sphereflow.claims import Check, Claim, Figure, Paper, Verdict
from sphereflow.claims.basis import KINDS
from sphereflow.saving import write_into

PAGE = "index.html"
RECORD = "results.json"


@dataclass(frozen=True, eq=False)
class ClaimResult:
    """A claim with its check and verdict; `error` says why there is no check."""

    claim: Claim
    verdict: Verdict
    seconds: float
    check: Check | None = None
    error: str = ""

    def __repr__(self) -> str:
        return f"<{self.claim.id}: {self.verdict}, {self.seconds:.2f} s>"


@dataclass(frozen=True, eq=False, repr=False)
class PictureResult:
    """A figure as bytes of a media type, `width` inches wide; `error` says why there is none."""

    figure: Figure
    seconds: float
    media_type: str = ""
    content: bytes = b""
    width: float = 0.0
    error: str = ""

    def __repr__(self) -> str:
        return f"<{self.figure.id}: {self.error or self.media_type}>"


@dataclass(frozen=True, eq=False, repr=False)
class PaperResult:
    """The claims and pictures of one paper."""

    paper: Paper
    preset: str
    seed: int
    seconds: float
    claims: tuple[ClaimResult, ...] = ()
    pictures: tuple[PictureResult, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)

    def count(self, verdict: Verdict) -> int:
        return sum(result.verdict == verdict for result in self.claims)

    @property
    def ok(self) -> bool:
        """Whether no claim failed and every figure could be drawn."""
        return self.count("fails") == 0 and not any(picture.error for picture in self.pictures)

    def __repr__(self) -> str:
        return f"<{self.paper.slug}: {tally(self.claims)}, {self.seconds:.1f} s>"


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """Everything a run of `reproduce` found. `missing` names the papers that an interruption left out,
    `only` the entries that were asked for by name."""

    papers: tuple[PaperResult, ...]
    preset: str
    seed: int
    seconds: float
    date: str
    versions: dict[str, str]
    devices: tuple[str, ...]
    missing: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[ClaimResult, ...]:
        return tuple(result for paper in self.papers for result in paper.claims)

    def count(self, verdict: Verdict) -> int:
        return sum(paper.count(verdict) for paper in self.papers)

    @property
    def bases(self) -> dict[str, dict[str, int]]:
        """How many claims of each basis have each verdict."""
        counts: dict[str, Counter[str]] = {}
        for result in self.claims:
            counts.setdefault(result.claim.basis.kind, Counter())[result.verdict] += 1
        return {kind: dict(counts[kind]) for kind in KINDS if kind in counts}

    @property
    def false_alarm(self) -> float:
        """The probability, at most, that chance alone makes a claim fail: the sum over all rows with error bars."""
        return sum(result.check.false_alarm for result in self.claims if result.check is not None)

    @property
    def ok(self) -> bool:
        """Whether no claim failed and every figure could be drawn."""
        return all(paper.ok for paper in self.papers)

    def save(self, folder: str | Path) -> Path:
        """Write the pages, pictures and numbers into a folder; returns the path of the index."""
        from sphereflow.report.record import report_text
        from sphereflow.report.site import site

        write_into(folder, site(self) | {RECORD: report_text(self).encode()})
        return Path(folder) / PAGE

    def __repr__(self) -> str:
        lines = [f"  {paper!r}" for paper in self.papers]
        return "\n".join([f"<Report: {tally(self.claims)}, {self.seconds:.1f} s", *lines]) + ">"


def tally(claims: Iterable[ClaimResult]) -> str:
    """'12 hold, 2 refuted, 1 fails': the verdicts that occurred, in words."""
    counted: Counter[str] = Counter(result.verdict for result in claims)
    words = {
        "holds": ("holds", "hold"),
        "obeyed": ("obeyed", "obeyed"),
        "refuted": ("refuted", "refuted"),
        "inconclusive": ("inconclusive", "inconclusive"),
        "fails": ("fails", "fail"),
    }
    parts = [
        f"{counted[key]} {one if counted[key] == 1 else many}" for key, (one, many) in words.items() if counted[key]
    ]
    return ", ".join(parts) or "no claims"
