"""One claim measured, one figure drawn; what goes wrong inside of it is its result, not a crash."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphereflow.claims import Check, Claim, Figure, Paper, Run, Verdict
from sphereflow.errors import SphereflowError
from sphereflow.pictures import compact, look
from sphereflow.report.finished import Finished
from sphereflow.report.results import ClaimResult, PictureResult

_LONGEST_ERROR = 400


def entries_of(paper: Paper) -> list[Claim | Figure]:
    """Claims, then figures."""
    return [*paper.claims, *paper.figures]


def result_of(paper: Paper, entry: Claim | Figure, run: Run, finished: Finished) -> ClaimResult | PictureResult:
    """The result of an entry: the kept one, or a new one, which is then kept."""
    result = finished.take(paper, entry)
    if result is None:
        result = measured(entry, run) if isinstance(entry, Claim) else drawn(entry, run)
        finished.keep(paper, result)
    return result


def measured(claim: Claim, run: Run) -> ClaimResult:
    """The claim with its check and verdict."""
    began = time.perf_counter()
    try:
        returned = claim.measure(run)
        check, verdict = judged(claim, returned)
    except Exception as error:  # whatever goes wrong in one claim is that claim's result
        return ClaimResult(claim, "fails", time.perf_counter() - began, error=_sentence(error, claim.measure))
    return ClaimResult(claim, verdict, time.perf_counter() - began, check)


def judged(claim: Claim, returned: object) -> tuple[Check, Verdict]:
    """The check that a claim's function gave, and its verdict."""
    if not isinstance(returned, Check):
        raise SphereflowError(f"the claim gave a {type(returned).__name__} where a Check was due.")
    if not returned.rows:
        raise SphereflowError("the claim's check has no rows.")
    if any(rival.as_printed for rival in returned.rivals) != bool(claim.prints):
        raise SphereflowError("a claim that refutes has both a printed sentence and a printed value, or neither.")
    return returned, returned.verdict


def drawn(figure: Figure, run: Run) -> PictureResult:
    """The figure as bytes."""
    began = time.perf_counter()
    try:
        with look():
            picture = figure.draw(run)
            media_type, content = compact(picture)
    except Exception as error:  # the page then says why the figure is missing
        return PictureResult(figure, time.perf_counter() - began, error=_sentence(error, figure.draw))
    return PictureResult(figure, time.perf_counter() - began, media_type, content, picture.get_figwidth())


def _sentence(error: Exception, function: Callable[..., Any]) -> str:
    """The error in one line; for a mistake in the program, with its kind and the line of the claim it came from."""
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST_ERROR else text[:_LONGEST_ERROR] + "..."
    if isinstance(error, SphereflowError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    home = getattr(getattr(function, "__code__", None), "co_filename", None)
    place = next((frame for frame in reversed(frames) if frame.filename == home), frames[-1])
    return f"{type(error).__name__}: {text} ({Path(place.filename).name}, line {place.lineno})"
