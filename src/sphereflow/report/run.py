"""Run claims and figures one after the other; what goes wrong inside one of them is a result, not a crash."""

from __future__ import annotations

import datetime
import difflib
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sphereflow import papers as registry
from sphereflow.claims import PRESETS, Claim, Figure, Measurement, Paper, Run
from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.pictures import compact, look
from sphereflow.progress import Bar, progress_bar
from sphereflow.provenance import versions
from sphereflow.report.results import PAGE, RECORD, ClaimResult, PaperResult, PictureResult, Report
from sphereflow.runtime import devices
from sphereflow.saving import writable_folder

_LONGEST_ERROR = 400


def reproduce(
    papers: str | Paper | Iterable[str | Paper] | None = None,
    preset: str = "quick",
    out: str | Path | None = None,
    *,
    seed: int = 0,
    only: str | Sequence[str] | None = None,
    progress: bool | None = None,
    finished: Callable[[PaperResult], None] | None = None,
) -> Report:
    """Measure the claims of papers and draw their figures.

    **Arguments:**

    - `papers`: one or several slugs (or `Paper` objects); all papers by default.
    - `preset`: "quick" (minutes on a laptop) or "paper" (the sizes of the papers).
    - `out`: a folder for the page (index.html) and the numbers (results.json).
    - `only`: one or several names of claims or figures; the others are left out.
    - `progress`: show a bar; by default on terminals. `finished`: called with each paper's results when it is done.

    **Returns:** a `Report`. After Ctrl-C the papers that were finished are still written to `out`.

    ```python
    import sphereflow as sf
    sf.reproduce("mathematical-perspective", out="report")
    ```
    """
    one_of("preset", preset, PRESETS)
    conditions = Run(preset=preset, seed=whole_number("seed", seed, least=0))  # type: ignore[arg-type]
    names = (only,) if isinstance(only, str) else tuple(only or ())
    chosen = _narrowed(_papers(papers), names, preset)
    if out is not None:
        writable_folder(out, (PAGE, RECORD))

    began, date = time.perf_counter(), datetime.datetime.now(datetime.UTC).date().isoformat()
    done: list[PaperResult] = []

    def report() -> Report:
        missing = tuple(paper.slug for paper in chosen[len(done) :])
        seconds = time.perf_counter() - began
        return Report(tuple(done), preset, seed, seconds, date, versions(), tuple(devices()), missing, names)

    total = sum(len(_entries(paper)) for paper in chosen)
    try:
        with progress_bar("starting", progress, total=total, patience=0.0) as bar:
            count = 0
            for paper in chosen:
                done.append(_run_paper(paper, conditions, bar, count))
                count += len(_entries(paper))
                if finished is not None:
                    with bar.aside():
                        finished(done[-1])
    except KeyboardInterrupt:
        if out is not None and done:
            report().save(out)
        raise
    result = report()
    if out is not None:
        result.save(out)
    return result


def _papers(papers: str | Paper | Iterable[str | Paper] | None) -> list[Paper]:
    if papers is None:
        return registry.load_all()
    wanted = [papers] if isinstance(papers, (str, Paper)) else list(papers)
    if not wanted:
        raise SphereflowError(f"no paper was asked for; the papers are {', '.join(registry.slugs())}.")
    found = [registry.load(paper) if isinstance(paper, str) else paper for paper in wanted]
    return list({paper.slug: paper for paper in found}.values())


def _narrowed(papers: list[Paper], only: tuple[str, ...], preset: str) -> list[Paper]:
    """The papers with the figures of this preset, or with the entries asked for by name."""
    if not only:
        return [
            replace(paper, figures=[figure for figure in paper.figures if preset in figure.presets])
            for paper in papers
        ]  # fmt: skip
    known = {entry.id for paper in papers for entry in _entries(paper)}
    for id in only:
        if id not in known:
            near = difflib.get_close_matches(id, known, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise SphereflowError(f"no claim or figure is named '{id}' in {_listed(papers)}.{hint}")
    narrowed = [
        replace(
            paper,
            claims=[claim for claim in paper.claims if claim.id in only],
            figures=[figure for figure in paper.figures if figure.id in only],
        )
        for paper in papers
    ]
    return [paper for paper in narrowed if paper.claims or paper.figures]


def _entries(paper: Paper) -> list[Claim | Figure]:
    return [*paper.claims, *paper.figures]


def _listed(papers: list[Paper]) -> str:
    return f"the paper {papers[0].slug}" if len(papers) == 1 else f"these {len(papers)} papers"


def _run_paper(paper: Paper, conditions: Run, bar: Bar, before: int) -> PaperResult:
    began = time.perf_counter()
    measured: list[ClaimResult] = []
    drawn: list[PictureResult] = []
    for index, entry in enumerate(_entries(paper)):
        title = f"{entry.id} ({paper.slug})"

        def notify(fraction: float, text: str, at: int = before + index, title: str = title) -> None:
            bar.move_to(at + min(max(0.0, fraction), 1.0), f"{title}, {text}" if text else title)

        notify(0.0, "")
        run = Run(conditions.preset, conditions.seed, notify)
        if isinstance(entry, Claim):
            measured.append(_measured(entry, run))
        else:
            drawn.append(_drawn(entry, run))
    return PaperResult(
        paper=paper, preset=conditions.preset, seed=conditions.seed, seconds=time.perf_counter() - began,
        claims=tuple(measured), pictures=tuple(drawn), versions=versions(),
    )  # fmt: skip


def _measured(claim: Claim, run: Run) -> ClaimResult:
    began = time.perf_counter()
    try:
        measurement = claim.measure(run)
        if not isinstance(measurement, Measurement):
            raise SphereflowError(f"the claim gave a {type(measurement).__name__} where a Measurement was due.")
        verdict = measurement.verdict
    except Exception as error:  # whatever goes wrong in one claim is that claim's result
        return ClaimResult(claim, "fails", time.perf_counter() - began, error=_sentence(error, claim.measure))
    return ClaimResult(claim, verdict, time.perf_counter() - began, measurement)


def _drawn(figure: Figure, run: Run) -> PictureResult:
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
