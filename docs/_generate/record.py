"""What `sphereflow reproduce` found, for the pages: numbers from its results.json, pictures from its page.

A report is taken as it is if it is of the quick preset, whole, of the claims that are there now, and not older than the
code. Otherwise the quick preset is run, which takes some minutes. `SPHEREFLOW_REPORT=FOLDER` names a report to take
whatever its age. `python docs/_generate/record.py` makes sure that there is one, and writes docs/claims.json.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow import papers as registry
from sphereflow.claims import Claim, Measurement, Paper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _generate.places import CLAIMS, KEPT, ROOT, SOURCE

VERDICTS = ("holds", "refuted", "fails")
_PICTURE = re.compile(r'<figure id="([^"]+)"[^>]*>\s*<img src="data:([^;]+);base64,([^"]*)"')
_SUFFIX = {"image/svg+xml": "svg", "image/png": "png"}


@dataclass(frozen=True)
class Checked:
    """A claim with what was measured; `measurement` is missing where an error occurred, which `note` tells."""

    claim: Claim
    verdict: str
    measurement: Measurement | None
    note: str
    seconds: float


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
    claims: tuple[Checked, ...]
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
    page = (folder / "index.html").read_text("utf-8")
    images = {name: (kind, content) for name, kind, content in _PICTURE.findall(page)}
    read = tuple(_paper(registry.load(paper["paper"]), paper, images) for paper in told["papers"])
    return Record(read, told["date"], told["versions"])


def _paper(paper: Paper, told: dict[str, Any], images: dict[str, tuple[str, str]]) -> CheckedPaper:
    claims = {claim.id: claim for claim in paper.claims}
    pictures = []
    for figure in told["figures"]:
        kind, content = images[f"{paper.slug}-{figure['id']}"]
        name = f"{paper.slug}-{figure['id']}.{_SUFFIX[kind]}"
        pictures.append(Picture(name, figure["caption"], base64.b64decode(content)))
    checked = tuple(_checked(claims[each["id"]], each) for each in told["claims"])
    return CheckedPaper(paper, checked, tuple(pictures))


def _checked(claim: Claim, told: dict[str, Any]) -> Checked:
    claim = replace(claim, statement=told["statement"], source=told["source"])
    measurement = None
    if told["predicted"] is not None:
        numbers = {name: told.get(name) for name in ("predicted", "measured", "tolerance", "printed")}
        measurement = Measurement(
            **{name: None if value is None else np.asarray(value, dtype=float) for name, value in numbers.items()},
            because=told["because"],
            labels=tuple(told["labels"]),
            note=told["note"],
            parameters=told["parameters"],
        )
    return Checked(claim, told["verdict"], measurement, told["note"], told["seconds"])


def summary(found: Record) -> str:
    """The verdicts alone as JSON, small enough to be kept with the code; the same verdicts give the same text."""
    listed = [
        {
            "slug": each.paper.slug,
            "title": each.paper.title,
            "year": each.paper.year,
            "arxiv": each.paper.arxiv,
            "claims": {claim.claim.id: claim.verdict for claim in each.claims},
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
