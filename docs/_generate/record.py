"""What `sphereflow reproduce` found, for the pages: numbers from its results.json, and its pictures.

A report is taken as it is if it is of the quick preset, whole, of the claims that are there now, and not older than the
code. Otherwise the quick preset is run, which takes some minutes. `SPHEREFLOW_REPORT=FOLDER` names a report to take
whatever its age. `python docs/_generate/record.py` makes sure that there is one, and writes docs/claims.json.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sphereflow import papers as registry
from sphereflow.claims import VERDICTS, Paper
from sphereflow.report import ClaimResult
from sphereflow.report.record import read_claim
from sphereflow.report.site import FIGURES

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _generate.places import CLAIMS, KEPT, ROOT, SOURCE


@dataclass(frozen=True)
class Picture:
    """A figure of a paper as a file."""

    name: str
    caption: str
    content: bytes


@dataclass(frozen=True)
class CheckedPaper:
    """A paper with the results of its claims and its pictures."""

    paper: Paper
    claims: tuple[ClaimResult, ...]
    pictures: tuple[Picture, ...]

    def count(self, verdict: str) -> int:
        return sum(each.verdict == verdict for each in self.claims)


@dataclass(frozen=True)
class Record:
    """All papers in order, and where the numbers come from."""

    papers: tuple[CheckedPaper, ...]
    date: str
    versions: dict[str, str]

    def count(self, verdict: str) -> int:
        return sum(paper.count(verdict) for paper in self.papers)


def record() -> Record:
    """The record of a report that is current, made if there is none."""
    return _read(_folder())


def _folder() -> Path:
    named = os.environ.get("SPHEREFLOW_REPORT")
    if named:
        return Path(named)
    for folder in (ROOT / "report", KEPT / "report"):
        if _current(folder):
            return folder
    from sphereflow.report import reproduce

    print("docs: no current report; checking the claims of all papers, which takes some minutes.", flush=True)
    reproduce(out=KEPT / "report", jobs=None)
    return KEPT / "report"


def _current(folder: Path) -> bool:
    try:
        told = json.loads((folder / "results.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    newest = max(path.stat().st_mtime for path in SOURCE.rglob("*.py"))
    known = [(paper.slug, [claim.id for claim in paper.claims]) for paper in registry.load_all()]
    found = [(paper["paper"], [claim["id"] for claim in paper["claims"]]) for paper in told["papers"]]
    return told["preset"] == "quick" and found == known and (folder / "results.json").stat().st_mtime >= newest


def _read(folder: Path) -> Record:
    told = json.loads((folder / "results.json").read_text("utf-8"))
    read = tuple(_paper(registry.load(paper["paper"]), paper, folder / FIGURES) for paper in told["papers"])
    return Record(read, told["date"], told["versions"])


def _paper(paper: Paper, told: dict[str, Any], figures: Path) -> CheckedPaper:
    claims = {claim.id: claim for claim in paper.claims}
    pictures = []
    for figure in told["figures"]:
        (file,) = figures.glob(f"{paper.slug}-{figure['id']}.*")
        pictures.append(Picture(file.name, figure["caption"], file.read_bytes()))
    checked = tuple(read_claim(claims[each["id"]], each) for each in told["claims"])
    return CheckedPaper(paper, checked, tuple(pictures))


def summary(found: Record) -> str:
    """The verdicts alone as JSON, small enough to be kept with the code; the same verdicts give the same text."""
    listed = [
        {
            "slug": each.paper.slug,
            "title": each.paper.title,
            "year": each.paper.year,
            "arxiv": each.paper.arxiv,
            "claims": {claim.claim.id: claim.verdict for claim in each.claims},
            "bases": {claim.claim.id: claim.claim.basis.kind for claim in each.claims},
        }
        for each in found.papers
    ]
    return json.dumps({"preset": "quick", "papers": listed}, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    found = record()
    CLAIMS.write_text(summary(found), "utf-8")
    counted = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in VERDICTS)
    print(f"{CLAIMS.relative_to(ROOT)}: {len(found.papers)} papers, {counted}")


if __name__ == "__main__":
    main()
