"""The command line: every verb of the library as a command that parses, calls and prints.

Nothing heavy is imported here; a command imports what it needs when it runs.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sphereflow.cli import (
    collapse,
    drift,
    explore,
    figures,
    gallery,
    info,
    landscape,
    measure,
    memory,
    papers,
    plot,
    reproduce,
    retrieval,
    simulate,
    staircase,
    sweep,
    transport,
)
from sphereflow.cli.exit_codes import exit_code
from sphereflow.cli.output import with_output_options
from sphereflow.provenance import version

app = typer.Typer(
    name="sphereflow",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("reproduce")(with_output_options(reproduce.command))
app.command("papers")(with_output_options(papers.command))
app.command("simulate")(with_output_options(simulate.command))
app.command("staircase")(with_output_options(staircase.command))
app.add_typer(memory.app, name="memory")
app.add_typer(transport.app, name="transport")
app.add_typer(drift.app, name="drift")
app.command("retrieval")(with_output_options(retrieval.command))
app.command("sweep")(with_output_options(sweep.command))
app.command("figures")(with_output_options(figures.command))
app.command("gallery")(with_output_options(gallery.command))
app.command("plot")(with_output_options(plot.command))
app.command("measure")(with_output_options(measure.command))
app.command("landscape")(with_output_options(landscape.command))
app.command("collapse")(with_output_options(collapse.command))
app.command("explore")(with_output_options(explore.command))
app.command("info")(with_output_options(info.command))


def main() -> None:
    """What the console script calls; without arguments it shows the help."""
    sys.exit(exit_code(app, sys.argv[1:] or ["--help"]))


def _show_version(wanted: bool | None) -> None:
    if wanted:
        print(f"sphereflow {version('sphereflow')}")
        raise typer.Exit


@app.callback()
def _front(
    show_version: Annotated[
        bool | None,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave."),
    ] = None,
) -> None:
    """Transformers seen as interacting particle systems: simulate them, and check what the papers claim."""
