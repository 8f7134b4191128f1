"""Results of finished claims and figures, kept in the report's folder so that an interrupted run goes on there.

Each entry is one small JSON file under `finished/`. It is taken again only if everything that decides it is the same:
the preset, the seed, the source of the library and of the paper, the packages, the kind of device.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

from sphereflow.claims import Claim, Figure, Paper, Run
from sphereflow.provenance import HOME, circumstances
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
            kept = json.loads((self._folder / _name(paper, entry)).read_text("utf-8"))
            if kept["identity"] != self._identity(entry):
                return None
            return read_result(entry, kept["result"])
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or damaged: it is measured again
            return None

    def keep(self, paper: Paper, result: ClaimResult | PictureResult) -> None:
        """Keep a result; one that ended in an error is measured again next time."""
        if self._folder is None or result.error:
            return
        entry = result.claim if isinstance(result, ClaimResult) else result.figure
        text = json.dumps({"identity": self._identity(entry), "result": result_record(result)}, allow_nan=False)
        write_into(self._folder, {_name(paper, entry): text.encode()})

    def _identity(self, entry: Claim | Figure) -> dict[str, Any]:
        function = entry.measure if isinstance(entry, Claim) else entry.draw
        file = inspect.getsourcefile(inspect.unwrap(function))
        own = "" if file is None or HOME in Path(file).parents else _tree(Path(file).parent, Path(file).suffix)
        return {
            "preset": self._run.preset,
            "seed": self._run.seed,
            "library": _tree(HOME, ".py"),
            "paper": own,
            **circumstances(),
        }


def _name(paper: Paper, entry: Claim | Figure) -> str:
    return f"{paper.slug}--{entry.id}.json"


@functools.cache
def _tree(folder: Path, suffix: str) -> str:
    """A digest of all source files below a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob(f"*{suffix}")):
        found.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:32]
