"""The tables of the README that come from data: `python docs/_generate/readme.py` (`--check` only compares).

The state of the papers' claims comes from docs/claims.json, the speed beside peers from the tables in benchmarks/.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from sphereflow.claims import VERDICTS, Verdict
from sphereflow.claims.basis import KINDS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _generate.places import CLAIMS, ROOT
from _generate.speed import speed_table

README = ROOT / "README.md"


def papers_table() -> str:
    """Each paper, and each basis, with the number of its claims of each verdict that occurs."""
    papers = json.loads(CLAIMS.read_text("utf-8"))["papers"]
    occurring = [each for each in VERDICTS if any(each in paper["claims"].values() for paper in papers)]
    lines = [f"| paper | {' | '.join(occurring)} |", f"| --- |{' ---: |' * len(occurring)}"]
    for paper in papers:
        title = f"[{paper['title']}](https://arxiv.org/abs/{paper['arxiv']})" if paper["arxiv"] else paper["title"]
        lines.append(f"| {title} ({paper['year']}) | {_counts(list(paper['claims'].values()), occurring)} |")
    by_basis: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for paper in papers:
        for claim, kind in paper["bases"].items():
            by_basis[kind].append(paper["claims"][claim])
    lines += ["", f"| basis of the statement | {' | '.join(occurring)} |", f"| --- |{' ---: |' * len(occurring)}"]
    lines += [f"| {kind} | {_counts(verdicts, occurring)} |" for kind, verdicts in by_basis.items() if verdicts]
    return "\n".join(lines)


def _counts(verdicts: list[str], occurring: list[Verdict]) -> str:
    return " | ".join(str(verdicts.count(verdict)) for verdict in occurring)


TABLES: dict[str, Callable[[], str]] = {"papers": papers_table, "speed": speed_table}


def updated(text: str) -> str:
    """The text with what stands between the markers made new; every pair of markers must be there once."""
    for name, table in TABLES.items():
        between = re.compile(rf"(<!-- {name}:start -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        if len(between.findall(text)) != 1:
            raise ValueError(f"the text needs one <!-- {name}:start --> ... <!-- {name}:end -->")
        new = f"\n{table()}\n\n"
        text = between.sub(lambda found, new=new: found[1] + new + found[2], text)
    return text


def main() -> None:
    before = README.read_text("utf-8")
    after = updated(before)
    if "--check" in sys.argv[1:]:
        sys.exit(0 if before == after else "README.md is not current: run python docs/_generate/readme.py")
    README.write_text(after, "utf-8")


if __name__ == "__main__":
    main()
