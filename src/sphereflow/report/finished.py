"""Results of finished claims and figures, kept in the report's folder so that an interrupted run goes on there.

Each entry is one small JSON file under `finished/`. It is taken again only if everything that decides it is the same:
the preset, the seed, the claim's function with whatever it reaches (`fingerprints`), the packages, the kind of device.
What cannot be identified for certain, such as a function that holds a random generator, is measured every time. Files
that a claim reads are not covered.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sphereflow.claims import Claim, Figure, Paper, Run
from sphereflow.fingerprints import Unidentified, fingerprint
from sphereflow.provenance import circumstances
from sphereflow.report.record import read_result, result_record
from sphereflow.report.results import ClaimResult, PictureResult
from sphereflow.saving import write_into

FOLDER = "finished"


class Finished:
    """The kept entries of a report folder; without a folder nothing is kept."""

    def __init__(self, folder: str | Path | None, run: Run, *, fresh: bool = False) -> None:
        self._folder = None if folder is None else Path(folder) / FOLDER
        self._run, self._fresh = run, fresh

    def take(self, paper: Paper, entry: Claim | Figure) -> ClaimResult | PictureResult | None:
        """The kept result of an entry, if it was made by the same code under the same conditions."""
        if self._folder is None or self._fresh:
            return None
        try:
            record = json.loads((self._folder / _name(paper, entry)).read_text("utf-8"))
            return read_result(entry, record["result"]) if record["identity"] == self._identity(entry) else None
        except (OSError, ValueError, KeyError, TypeError, Unidentified):  # none yet, damaged, or not identified
            return None

    def keep(self, paper: Paper, result: ClaimResult | PictureResult) -> None:
        """Keep a result; one that ended in an error is measured again next time."""
        if self._folder is None or result.error:
            return
        entry = result.claim if isinstance(result, ClaimResult) else result.figure
        try:
            identity = self._identity(entry)
        except Unidentified:
            return
        text = json.dumps({"identity": identity, "result": result_record(result)}, allow_nan=False)
        write_into(self._folder, {_name(paper, entry): text.encode()})

    def _identity(self, entry: Claim | Figure) -> dict[str, Any]:
        function = entry.measure if isinstance(entry, Claim) else entry.draw
        conditions = {"preset": self._run.preset, "seed": self._run.seed, "function": fingerprint(function, entry.id)}
        return conditions | circumstances()


def _name(paper: Paper, entry: Claim | Figure) -> str:
    return f"{paper.slug}--{entry.id}.json"
