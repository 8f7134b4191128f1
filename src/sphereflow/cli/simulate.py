"""`sphereflow simulate`: let tokens move, and keep, draw or film them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sphereflow.cli.exit_codes import Stopped
from sphereflow.cli.output import answer, say, written

_PICTURES = (".png", ".svg", ".pdf")
_MOVIES = (".mp4", ".gif")

# Runs with more tokens go to the disk frame by frame; smaller ones take seconds and are written at the end.
_STREAM_ABOVE = 500


def command(
    n: Annotated[int, typer.Option("--n", help="Number of tokens.")] = 64,
    d: Annotated[int, typer.Option("--d", help="Dimension; tokens are unit vectors in R^d.")] = 3,
    beta: Annotated[float, typer.Option(help="Inverse temperature.")] = 1.0,
    t1: Annotated[
        str, typer.Option(metavar="TIME|inf", help="Final time; inf runs on until all tokens are one cluster.")
    ] = "10",
    model: Annotated[str, typer.Option(metavar="sa|usa", help="Softmax or unnormalised attention.")] = "sa",
    causal: Annotated[bool, typer.Option("--causal", help="Tokens look back only.")] = False,
    start: Annotated[
        str, typer.Option(help="First tokens: uniform, hemisphere, vmf, orthogonal, mixture, fibonacci or grid.")
    ] = "uniform",
    seed: Annotated[int, typer.Option(help="Seed of the first tokens.")] = 0,
    saves: Annotated[int, typer.Option(help="Number of saved times.")] = 101,
    tol: Annotated[float, typer.Option(help="Error aimed at, for every token.")] = 1e-8,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN.zarr", help="Keep the trajectory; a run cut short continues from there.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FIG.png", help="Draw it (.png, .svg, .pdf).")] = None,
    movie: Annotated[Path | None, typer.Option(metavar="OUT.mp4|gif", help="Film it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist already.")] = False,
) -> None:
    """Draw tokens on the sphere and let attention move them.

    The exit code is 1 if the run stops before the final time.

    Example: sphereflow simulate --n 64 --d 3 --beta 9 --t1 30 --movie sphere.gif
    """
    _refuse_before_work(out, plot, movie, overwrite)
    if t1 == "inf":
        _to_the_end(n, d, beta, model, causal, start, seed, saves, tol, out, plot, movie)
        return

    from sphereflow.evolution.status import Status
    from sphereflow.laboratory import simulate
    from sphereflow.pictures import rendered
    from sphereflow.saving import write_bytes

    options: dict[str, Any] = {"model": model, "causal": causal, "start": start, "seed": seed, "saves": saves}
    place = _workplace(out, n)
    final = _time(t1)
    run = simulate(n, d, beta, final, **options, tol=tol, out=place)
    if run.status is Status.INTERRUPTED:
        advice = "" if place is None else "; the same command continues from there"
        raise Stopped(f"stopped by Ctrl-C at t = {run.ts[-1]:g} of {final:g}{advice}.")
    if out is not None and run.status.complete:
        run = _under_its_name(run, place, out)
    say(run.summary())
    if plot is not None:
        write_bytes(plot, rendered(run.plot(), plot.suffix[1:].lower()))
    if movie is not None:
        run.movie(movie, overwrite=True)
    made = [target for target in (out, plot, movie) if target is not None and target.exists()]
    written(*made)
    answer(run.record() | {"written": made})
    if not run.status.complete:
        raise typer.Exit(1)


def _time(t1: str) -> float:
    from sphereflow.errors import SphereflowError

    try:
        return float(t1)
    except ValueError:
        raise SphereflowError(f"--t1 must be a number or inf, got {t1!r}.") from None


def _to_the_end(
    n: int,
    d: int,
    beta: float,
    model: str,
    causal: bool,
    start: str,
    seed: int,
    saves: int,
    tol: float,
    out: Path | None,
    plot: Path | None,
    movie: Path | None,
) -> None:
    """Run until all tokens are one cluster, and print who merged with whom and when."""
    from sphereflow.errors import SphereflowError, ending_in
    from sphereflow.laboratory import simulate
    from sphereflow.pictures import rendered
    from sphereflow.saving import write_bytes

    if movie is not None:
        raise SphereflowError("--movie needs a finite --t1: frames of a run to t = e^1000 would show nothing move.")
    if out is not None:
        ending_in("--out of a run to the single cluster", out, (".npz",))
    checkpoint = None if out is None else out.with_name(out.name + ".checkpoint")
    options: dict[str, Any] = {"model": model, "causal": causal, "start": start, "seed": seed, "saves": saves}
    history = simulate(n, d, beta, t1="inf", **options, tol=tol, out=checkpoint)
    if not history.outcome.complete:
        advice = "" if checkpoint is None else "; the same command continues from there"
        raise Stopped(f"stopped after {len(history)} mergers{advice}.")
    say(history.summary())
    if out is not None:
        history.save(out, overwrite=True)
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
    if plot is not None:
        write_bytes(plot, rendered(history.plot(), plot.suffix[1:].lower()))
    written(out, plot)
    answer(history.record() | {"written": [target for target in (out, plot) if target is not None]})


def _refuse_before_work(out: Path | None, plot: Path | None, movie: Path | None, overwrite: bool) -> None:
    """All outputs are checked first: a run of an hour must not end at a folder that does not exist."""
    from sphereflow.errors import ending_in, writable_target
    from sphereflow.pictures import check_movie

    for name, target, kinds in (("--plot", plot, _PICTURES), ("--movie", movie, _MOVIES)):
        if target is not None:
            ending_in(name, target, kinds)
    for target in (out, plot, movie):
        if target is not None:
            writable_target(target, overwrite=overwrite)
    if movie is not None:
        check_movie(movie.suffix.lower())


def _workplace(out: Path | None, n: int) -> Path | None:
    """Where a long run is written as it goes: beside an older one, which stays until the new one is whole."""
    if out is None or n <= _STREAM_ABOVE:
        return None
    return out.with_name(f"{out.name}.new") if out.exists() else out


def _under_its_name(run: Any, place: Path | None, out: Path) -> Any:
    """The run under the name that was asked for."""
    from sphereflow.loading import load
    from sphereflow.saving import promote_folder

    if place is None:
        run.save(out, overwrite=True)
    elif place != out:
        promote_folder(place, out)
        return load(out)
    return run
