"""`sphereflow reproduce`: check what the papers claim, and make the report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sphereflow.cli.leaving import Stopped

if TYPE_CHECKING:
    from sphereflow.report import ClaimResult, PaperResult

_COLOURS = {"holds": "green", "refuted": "magenta", "fails": "bold red"}


def command(
    papers: Annotated[
        list[str] | None, typer.Argument(metavar="PAPER", help="Papers by name; all of them by default.")
    ] = None,
    preset: Annotated[
        str, typer.Option(metavar="quick|paper", help="quick: minutes on a laptop; paper: the sizes of the papers.")
    ] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for index.html and results.json.")] = Path("report"),
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only the claim or figure of this name; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per paper, one per line.")] = False,
) -> None:
    """Check what papers claim: predicted, measured, tolerance, verdict, with figures and one HTML report.

    The exit code is 1 if a claim fails or a figure cannot be drawn.
    """
    from sphereflow.report import reproduce
    from sphereflow.report.page import seconds
    from sphereflow.report.record import paper_line
    from sphereflow.report.results import PAGE, tally

    count = 0

    def show(result: Any) -> None:
        nonlocal count
        count += 1
        if as_json:
            print(paper_line(result), flush=True)
        else:
            _print_paper(Console(), result)

    try:
        report = reproduce(papers or None, preset, out, seed=seed, only=only or None, finished=show)
    except KeyboardInterrupt:
        left = f"the report of {count} finished paper(s) is {out / PAGE}" if count else "no paper was finished"
        raise Stopped(f"stopped by Ctrl-C; {left}.") from None
    told = sys.stderr if as_json else sys.stdout
    if not as_json:
        print("(1 of n): of n comparisons, the one that comes closest to its tolerance.")
    print(f"{tally(report.claims)} in {seconds(report.seconds)}", file=told)
    print(f"report: {(out / PAGE).absolute()}", file=told)
    if not report.ok:
        raise typer.Exit(1)


def _print_paper(console: Console, result: PaperResult) -> None:
    from sphereflow.report.page import seconds
    from sphereflow.report.results import tally

    console.print(f"[bold]{escape(result.paper.title)}[/]", highlight=False)
    console.print(f"{result.paper.slug}: {tally(result.claims)} in {seconds(result.seconds)}", highlight=False)
    if result.claims:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        table.add_column("verdict", no_wrap=True)
        table.add_column("claim", overflow="fold", ratio=1)
        for name in ("predicted", "measured", "tolerance", "s"):
            table.add_column(name, justify="right", no_wrap=True)
        for each in result.claims:
            table.add_row(*_row(each))
        console.print()
        console.print(table)
        console.print()
    for each in result.claims:
        note = each.error or (each.measurement.note if each.measurement is not None else "")
        if each.verdict != "holds" and note:
            console.print(
                f"[{_COLOURS[each.verdict]}]{each.verdict}[/] {each.claim.id}: {escape(note)}", highlight=False
            )
    for picture in result.pictures:
        if picture.error:
            text = f"{picture.figure.id} could not be drawn: {escape(picture.error)}"
            console.print(f"[bold red]figure[/] {text}", highlight=False)
    console.print()


def _row(each: ClaimResult) -> tuple[str, ...]:
    """A line of the table; of several comparisons, the one that comes closest to its tolerance."""
    from sphereflow.report.entries import entries, worst

    verdict = f"[{_COLOURS[each.verdict]}]{each.verdict}[/]"
    if each.measurement is None:
        return verdict, each.claim.id, "", "", "", f"{each.seconds:.1f}"
    rows = entries(each.measurement)
    nearest = worst(rows)
    name = each.claim.id if len(rows) == 1 else f"{each.claim.id} [dim](1 of {len(rows)})[/]"
    return verdict, name, nearest.predicted, nearest.measured, nearest.tolerance, f"{each.seconds:.1f}"
