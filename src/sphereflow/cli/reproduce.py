"""`sphereflow reproduce`: check what the papers claim, and make the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from sphereflow.cli.exit_codes import Stopped
from sphereflow.cli.output import answer, say, show

if TYPE_CHECKING:
    from sphereflow.report import ClaimResult, PaperResult

_COLOURS = {
    "holds": "green",
    "obeyed": "cyan",
    "refuted": "magenta",
    "inconclusive": "yellow",
    "fails": "bold red",
}
_DIGITS = 7  # in the terminal; the report has more


def command(
    papers: Annotated[
        list[str] | None, typer.Argument(metavar="PAPER", help="Papers by name, or files of your own; all by default.")
    ] = None,
    preset: Annotated[
        str, typer.Option(metavar="quick|paper", help="quick: minutes on a laptop; paper: the sizes of the papers.")
    ] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for index.html and results.json.")] = Path("report"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only the claim or figure of this name; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Papers at a time; by default one per processor core.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what DIR has from the same code.")] = False,
    mutate: Annotated[
        bool, typer.Option("--mutate", help="Then perturb predictions and data: every claim must notice.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Then compare verdicts and numbers with this earlier report.")
    ] = None,
) -> None:
    """Check what papers claim: predicted, measured, tolerance, verdict, with figures and one HTML report.

    The exit code is 1 if a claim fails, a figure cannot be drawn or, with --against, a verdict changed. With --json
    each paper is one line. What DIR has from the same code, preset and seed is taken as it is: a run that was cut short
    goes on.

    Example: sphereflow reproduce dynamic-metastability kde-modes --out report
    """
    from sphereflow.report import reproduce
    from sphereflow.report.comparison import compare_records, earlier_report
    from sphereflow.report.mutation import survivors
    from sphereflow.report.record import paper_record, report_record
    from sphereflow.report.results import PAGE, tally
    from sphereflow.report.site import seconds

    earlier = None if against is None else earlier_report(against)
    count = 0

    def show(result: Any) -> None:
        nonlocal count
        count += 1
        answer(paper_record(result), line=True)
        _print_paper(result)

    try:
        report = reproduce(
            papers or None, preset, out, seed=seed, only=only or None, jobs=jobs, fresh=fresh, finished=show
        )
    except KeyboardInterrupt:
        left = f"the report of {count} finished paper(s) is {out / PAGE}" if count else "no paper was finished"
        raise Stopped(f"stopped by Ctrl-C; {left}.") from None
    say("Rows closest to their tolerance; rival: tolerances by which the nearest loses.")
    say(f"{tally(report.claims)} in {seconds(report.seconds)}", aside=True)
    say(f"report: {(out / PAGE).absolute()}", aside=True)
    unnoticed = survivors(report) if mutate else []
    if mutate:
        count = len(unnoticed)
        say(f"{count} perturbation{'' if count == 1 else 's'} went unnoticed{':' if count else '.'}", aside=True)
        for line in unnoticed:
            say(f"  {line}", aside=True)
    compared = None if earlier is None else compare_records(earlier, report_record(report))
    for line in compared.lines() if compared is not None else ():
        say(line, aside=True)
    if unnoticed or not report.ok or (compared is not None and compared.verdicts):
        raise typer.Exit(1)


def _print_paper(result: PaperResult) -> None:
    from sphereflow.report.results import tally
    from sphereflow.report.site import seconds

    show(f"[bold]{escape(result.paper.title)}[/]")
    show(f"{result.paper.slug}: {tally(result.claims)} in {seconds(result.seconds)}")
    if result.claims:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("verdict", no_wrap=True)
        table.add_column("claim", overflow="fold")
        for name in ("of", "predicted", "measured", "within", "rival", "s"):
            table.add_column(name, justify="right", no_wrap=True)
        for each in result.claims:
            table.add_row(*_row(each))
        show()
        show(table)
    notes = [(each.verdict, each.claim.id, _note(each)) for each in result.claims if each.verdict != "holds"]
    notes += [("fails", picture.figure.id, picture.error) for picture in result.pictures if picture.error]
    show()
    for verdict, name, note in notes:
        show(f"[{_COLOURS[verdict]}]{verdict}[/] {name}: {escape(note)}")
    if notes:
        show()


def _note(each: ClaimResult) -> str:
    """Why a claim does not simply hold."""
    from sphereflow.report.rows import miss

    if each.check is None:
        return each.error
    nearest = each.check.nearest
    if each.verdict == "inconclusive":
        return f"these data do not reject '{nearest.name}'." if nearest else "no rival hypothesis is named."
    if each.verdict == "obeyed":
        return "the bound is respected; nothing here is close enough to it to tell it from a weaker one."
    if each.verdict == "fails":
        return each.check.note or "the measurement misses the prediction by more than the tolerance."
    printed = next(rival for rival in each.check.rivals if rival.as_printed)
    return each.check.note or f"the printed value loses {miss(each.check.excess(printed))}."


def _row(each: ClaimResult) -> tuple[str, ...]:
    """A line of the table; of several rows, the one that comes closest to its tolerance."""
    from sphereflow.report.rows import rows_of, severity, worst

    verdict = f"[{_COLOURS[each.verdict]}]{each.verdict}[/]"
    if each.check is None:
        return verdict, each.claim.id, "", "", "", "", "", f"{each.seconds:.1f}"
    rows = rows_of(each.check, _DIGITS)
    shown = worst(rows)
    numbers = (str(len(rows)), shown.side + shown.predicted, shown.measured, shown.tolerance, severity(each.check))
    return verdict, each.claim.id, *numbers, f"{each.seconds:.1f}"
