"""Run the claims and figures of papers: in this process, or several papers at once in processes of their own."""

from __future__ import annotations

import datetime
import difflib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sphereflow import papers as registry
from sphereflow.claims import PRESETS, Paper, Run
from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.progress import Bar, progress_bar
from sphereflow.provenance import versions
from sphereflow.report.entry import entries_of, result_of
from sphereflow.report.finished import Finished
from sphereflow.report.processes import run_in_processes
from sphereflow.report.results import PAGE, RECORD, ClaimResult, PaperResult, PictureResult, Report
from sphereflow.runtime import cores, devices
from sphereflow.saving import writable_folder


def reproduce(
    papers: str | Paper | Iterable[str | Paper] | None = None,
    preset: str = "quick",
    out: str | Path | None = None,
    *,
    seed: int = 0,
    only: str | Sequence[str] | None = None,
    jobs: int | None = 1,
    fresh: bool = False,
    progress: bool | None = None,
    finished: Callable[[PaperResult], None] | None = None,
) -> Report:
    """Measure the claims of papers and draw their figures.

    **Arguments:**

    - `papers`: one or several slugs, paths of files or packages that define a `PAPER`, or `Paper` objects; by default
      all papers of this library.
    - `preset`: "quick" (minutes on a laptop) or "paper" (the sizes of the papers).
    - `out`: a folder for the pages (index.html), the numbers (results.json) and what is finished: a run that was cut
      short goes on there, and what the same code measured before under the same preset and seed is taken as it is.
    - `fresh`: measure everything again all the same.
    - `only`: one or several names of claims or figures; the others are left out.
    - `jobs`: papers at a time, each in a process of its own (registered papers only); None: one per processor core.
    - `progress`: show a bar; by default on terminals. `finished`: called with each paper's results when it is done.

    **Returns:** a `Report`. After Ctrl-C the papers that were finished are still written to `out`; the next call
    goes on from there.

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
        finished_ones = {result.paper.slug for result in done}
        missing = tuple(paper.slug for paper in chosen if paper.slug not in finished_ones)
        seconds = time.perf_counter() - began
        return Report(tuple(done), preset, seed, seconds, date, versions(), tuple(devices()), missing, names)

    total = sum(len(entries_of(paper)) for paper in chosen)
    try:
        with progress_bar("starting", progress, total=total, patience=0.0) as bar:
            for result in _results(chosen, conditions, _processes(jobs, chosen), bar, out, fresh):
                done.append(result)
                if finished is not None:
                    with bar.aside():
                        finished(result)
    except KeyboardInterrupt:
        if out is not None and done:
            report().save(out)
        raise
    done.sort(key=lambda result: [paper.slug for paper in chosen].index(result.paper.slug))
    whole = report()
    if out is not None:
        whole.save(out)
    return whole


def _papers(papers: str | Paper | Iterable[str | Paper] | None) -> list[Paper]:
    if papers is None:
        return registry.load_all()
    wanted = [papers] if isinstance(papers, (str, Paper)) else list(papers)
    if not wanted:
        raise SphereflowError(f"no paper was asked for; the papers are {', '.join(registry.slugs())}.")
    loaded = [registry.load(paper) if isinstance(paper, str) else paper for paper in wanted]
    chosen = {paper.slug: paper for paper in loaded}
    for paper in loaded:  # the same one twice is one, as its claims are the same list
        if paper.claims is not chosen[paper.slug].claims:
            raise SphereflowError(f"two of the papers have the slug {paper.slug}: give one of them another.")
    return list(chosen.values())


def _narrowed(papers: list[Paper], only: tuple[str, ...], preset: str) -> list[Paper]:
    """The papers with the figures of this preset, or with the entries asked for by name."""
    if not only:
        return [
            replace(paper, figures=[figure for figure in paper.figures if preset in figure.presets]) for paper in papers
        ]
    known = {entry.id for paper in papers for entry in entries_of(paper)}
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


def _listed(papers: list[Paper]) -> str:
    return f"the paper {papers[0].slug}" if len(papers) == 1 else f"these {len(papers)} papers"


def _processes(jobs: int | None, chosen: list[Paper]) -> int:
    wanted = len(cores()) if jobs is None else whole_number("jobs", jobs, most=256)
    # A paper made on the spot cannot be sent away.
    here = any(paper.slug not in registry.slugs() and not paper.origin for paper in chosen)
    return 1 if here else min(wanted, sum(len(entries_of(paper)) for paper in chosen))


def _results(
    chosen: list[Paper], conditions: Run, processes: int, bar: Bar, out: str | Path | None, fresh: bool
) -> Iterator[PaperResult]:
    """Papers as they are done; the bar counts entries, parts of those under way included."""
    if processes > 1:
        parts: dict[tuple[str, str], float] = {}

        def listener(paper: Paper, id: str, fraction: float, text: str) -> None:
            parts[paper.slug, id] = min(max(0.0, fraction), 1.0)
            title = f"{id} ({paper.slug})"
            bar.move_to(sum(parts.values()), f"{title}, {text}" if text else title)

        yield from run_in_processes(chosen, conditions, processes, listener, out, fresh)
        return
    before = 0
    for paper in chosen:
        yield _run_paper(paper, conditions, bar, before, Finished(out, conditions, fresh=fresh))
        before += len(entries_of(paper))


def _run_paper(paper: Paper, conditions: Run, bar: Bar, before: int, finished: Finished) -> PaperResult:
    began = time.perf_counter()
    claims: list[ClaimResult] = []
    pictures: list[PictureResult] = []
    for index, entry in enumerate(entries_of(paper)):
        title = f"{entry.id} ({paper.slug})"

        def notify(fraction: float, text: str, at: int = before + index, title: str = title) -> None:
            bar.move_to(at + min(max(0.0, fraction), 1.0), f"{title}, {text}" if text else title)

        notify(0.0, "")
        run = Run(conditions.preset, conditions.seed, notify)
        result = result_of(paper, entry, run, finished)
        if isinstance(result, ClaimResult):
            claims.append(result)
        else:
            pictures.append(result)
    return PaperResult(
        paper=paper,
        preset=conditions.preset,
        seed=conditions.seed,
        seconds=time.perf_counter() - began,
        claims=tuple(claims),
        pictures=tuple(pictures),
        versions=versions(),
    )
