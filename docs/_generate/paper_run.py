"""The page on a whole run of the paper preset: `python docs/_generate/paper_run.py MACHINE DATE FOLDER...`.

Each FOLDER is what `sphereflow reproduce --preset paper --out FOLDER` wrote; of an entry that is in several the last
counts. The page says which verdicts were reached, how severe each was, and what it cost.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import fill
from typing import Any

from sphereflow.papers import load
from sphereflow.report.record import read_claim
from sphereflow.report.rows import severity

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _generate.places import ROOT

PAGE = ROOT / "docs/paper-run.md"


def kept(folders: list[Path]) -> dict[str, dict[str, Any]]:
    """Results by paper and identifier, from the files that `reproduce` keeps."""
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        for path in sorted((folder / "finished").glob("*.json")):
            content = json.loads(path.read_text("utf-8"))
            if content["identity"]["preset"] == "paper":
                slug, entry = path.stem.split("--", 1)
                found.setdefault(slug, {})[entry] = content["result"]
    return found


def page(machine: str, date: str, found: dict[str, dict[str, Any]]) -> str:
    """The whole text; it fails if an entry of a paper was not run, or its verdict is none that may stand."""
    lines = [
        "# A whole run of the paper preset",
        "",
        fill(
            f"`sphereflow reproduce --preset paper`, {date}: {machine}. Seconds are those of one entry, beside others.",
            120,
        ),
        "",
        "| paper | claims | verdicts | figures | seconds | longest entry |",
        "| --- | ---: | --- | ---: | ---: | --- |",
    ]
    tables = []
    for slug in sorted(found):
        paper, results = load(slug), found[slug]
        figures = [figure.id for figure in paper.figures if "paper" in figure.presets]
        claims = [claim.id for claim in paper.claims]
        if missing := [each for each in (*claims, *figures) if each not in results]:
            raise ValueError(f"{slug}: not run: {', '.join(missing)}")
        verdicts = [results[claim]["verdict"] for claim in claims]
        if wrong := {"fails", "inconclusive"} & set(verdicts):
            raise ValueError(f"{slug}: {wrong}")
        counts = ", ".join(
            f"{verdicts.count(each)} {each}" for each in ("holds", "obeyed", "refuted") if each in verdicts
        )
        seconds = {each: float(results[each]["seconds"]) for each in (*claims, *figures)}
        longest = max(seconds, key=seconds.__getitem__)
        lines.append(
            f"| {paper.title} | {len(claims)} | {counts} | {len(figures)} | {sum(seconds.values()):.0f} "
            f"| {longest}, {seconds[longest]:.0f} |"
        )
        tables += [
            "",
            f"## {paper.title}",
            "",
            "| claim | verdict | severity | seconds |",
            "| --- | --- | ---: | ---: |",
        ]
        tables += [
            f"| {claim.id} | {results[claim.id]['verdict']} | {severity(read_claim(claim, results[claim.id]).check)} "
            f"| {seconds[claim.id]:.1f} |"
            for claim in paper.claims
        ]
    return "\n".join([*lines, *tables, ""])


def main() -> None:
    machine, date, *folders = sys.argv[1:]
    PAGE.write_text(page(machine, date, kept([Path(each) for each in folders])), "utf-8")


if __name__ == "__main__":
    main()
