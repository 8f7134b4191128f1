"""`sphereflow sweep`: a quantity on a grid of parameters, that survives being killed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereflow.cli.exit_codes import Stopped
from sphereflow.cli.output import answer, say

if TYPE_CHECKING:
    from sphereflow.sweeps import Sweep


def command(
    specification: Annotated[
        str | None, typer.Argument(metavar="SPEC", help="A TOML file, or the name of a shipped sweep (see --list).")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="RESULTS.zarr", help="Where the dataset grows.")] = None,
    workers: Annotated[int | None, typer.Option(help="Local worker processes; by default this process works.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="tcp://HOST:PORT", help="A Dask cluster that is already running.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Cells per call; each quantity has its own default.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Say how much of --out is done, and leave.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List shipped sweeps and quantities, and leave.")] = False,
) -> None:
    """Measure a quantity in every cell of a grid and keep one dataset; the same command continues a sweep.

    Example: sphereflow sweep clustering --out clustering.zarr --workers 2
    """
    from sphereflow.errors import SphereflowError

    if listing:
        _list()
        return
    if out is None:
        raise SphereflowError("say where the dataset goes, as in --out results.zarr.")
    if status:
        _status(out)
        return
    if specification is None:
        raise SphereflowError("name a specification: a TOML file, or a shipped sweep (see sphereflow sweep --list).")
    if workers is not None and scheduler is not None:
        raise SphereflowError("give either --workers or --scheduler.")
    from sphereflow.sweeps import read_specification, run_specification

    try:
        result = run_specification(
            read_specification(specification), out=out, batch=batch, workers=workers, scheduler=scheduler
        )
    except KeyboardInterrupt:
        raise Stopped("stopped by Ctrl-C; the same command continues the sweep.") from None
    say(result)
    say(f"written: {out}; sphereflow plot {out} --out picture.png draws it.")
    answer(_progress(result) | {"written": out})


def _status(out: Path) -> None:
    from sphereflow.sweeps import open_sweep

    status = _progress(open_sweep(out))
    state = "complete" if status["complete"] else "not finished; the same command continues it"
    failed = f"{status['failed']} of them failed and have no values, " if status["failed"] else ""
    say(f"{status['quantity']}: {status['done']} of {status['cells']} cells computed, {failed}{state}.")
    answer(status)


def _progress(sweep: Sweep) -> dict[str, Any]:
    axes = sweep.specification["axes"]
    return {
        "quantity": sweep.specification["quantity"],
        "axes": {name: len(values) for name, values in axes.items()},
        "variables": list(map(str, sweep.dataset.data_vars)),
        "cells": math.prod(len(values) for values in axes.values()),
        "done": sweep.cells_done,
        "failed": sweep.cells_failed,
        "complete": sweep.complete,
    }


def _list() -> None:
    import textwrap

    from sphereflow.sweeps import QUANTITIES, shipped

    def entry(name: str, *lines: str) -> None:
        for number, line in enumerate(lines):
            lead = f"  {name if number == 0 else '':<12} "
            say(textwrap.fill(line, 80, initial_indent=lead, subsequent_indent=" " * 15))

    answer(
        {
            "sweeps": shipped(),
            "quantities": {
                name: {"about": each.about, "parameters": each.parameters} for name, each in QUANTITIES.items()
            },
        }
    )
    say("shipped sweeps")
    for name, title in shipped().items():
        entry(name, title)
    say("quantities, with their parameters; those without a value must be given")
    for name, each in QUANTITIES.items():
        given = ", ".join(f"{key}{'' if value is None else f'={value}'}" for key, value in each.parameters.items())
        entry(name, each.about, given)
