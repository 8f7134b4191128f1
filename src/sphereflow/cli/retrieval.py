"""`sphereflow retrieval`: how well a decoder retrieves a token, by its position."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sphereflow.cli.output import answer, say, written
from sphereflow.saving import csv_bytes

if TYPE_CHECKING:
    from sphereflow.retrieval import MeasuredProfile, Profile

_FILES = ("profile.csv", "measured.csv", "summary.json", "profile.png")
_CURVE_POINTS = 400


def command(
    beta: Annotated[float, typer.Option(help="Inverse temperature.")] = 1.0,
    slope: Annotated[float, typer.Option(help="Slope of ALiBi over the whole sequence.")] = 1.0,
    t: Annotated[float, typer.Option("--t", help="Time at which the last token is read.")] = 1.0,
    vocab: Annotated[int, typer.Option(help="Number of codewords.")] = 8,
    n: Annotated[
        int | None, typer.Option("--n", metavar="N", help="Also simulate sequences of N tokens, with error bars.")
    ] = None,
    heads: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Several heads instead of one: rows weight, beta, slope (.csv or .json)."),
    ] = None,
    hard: Annotated[bool, typer.Option("--hard", help="Nearest codeword instead of a soft readout.")] = False,
    repeats: Annotated[int, typer.Option(help="Simulated environments per position.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for profile.csv, summary.json and profile.png.")
    ] = None,
) -> None:
    """The retrieval profile in closed form, its minimum and its thresholds, and particles if asked for.

    Example: sphereflow retrieval --beta 1 --slope 1 --t 1 --n 200 --out profile
    """
    from sphereflow.errors import SphereflowError, whole_number
    from sphereflow.retrieval.closed_form import profile, several_heads
    from sphereflow.saving import writable_folder, write_into

    if out is not None:
        writable_folder(out, _FILES)
    readout: Any = "hard" if hard else "soft"
    rows = None if heads is None else _read_heads(heads)
    curve = (
        profile(beta, slope, t, vocab, readout=readout)
        if rows is None
        else several_heads(rows, t, vocab, readout=readout)
    )
    measured = None
    if n is not None:
        if rows is not None:
            raise SphereflowError("--n simulates one head: leave out --heads, or --n.")
        whole_number("--n", n, least=8, most=100_000)
        measured = _simulate(curve, n, whole_number("--repeats", repeats, least=2), seed)
    summary = _summary(curve, measured, repeats, seed)
    _print(curve, summary)
    if out is not None:
        write_into(out, _files(curve, measured, summary))
    written(out)
    answer(summary | {"written": out})


def _read_heads(path: Path) -> list[list[float]]:
    """Rows of three numbers from a JSON list of lists, or from a CSV file with or without a header."""
    from sphereflow.errors import SphereflowError
    from sphereflow.reading import file_text, plain_data

    text = file_text(path)
    try:
        if path.suffix.lower() == ".json":
            table = plain_data(text)
            rows = [[float(x) for x in row] for row in table]
        else:
            lines = [line for line in csv.reader(io.StringIO(text)) if line and not line[0].lstrip().startswith("#")]
            if lines and lines[0][0].strip().lower() == "weight":
                lines = lines[1:]
            rows = [[float(x) for x in line] for line in lines]
    except (ValueError, TypeError, OverflowError, csv.Error):
        raise SphereflowError(f"the heads in {path} must be rows of three numbers: weight, beta, slope.") from None
    if not rows:
        raise SphereflowError(f"there are no heads in {path}: give rows of three numbers, weight, beta, slope.")
    return rows


def _simulate(curve: Profile, n: int, repeats: int, seed: int) -> MeasuredProfile:
    from sphereflow.retrieval import measure_profile

    head = curve.heads[0]
    sources = sorted({max(1, min(n - 1, round(f * n))) for f in (0.03, 0.08, 0.15, 0.3, 0.45, 0.6, 0.8, 0.95)})
    return measure_profile(
        n,
        curve.t,
        beta=head.beta,
        weights=head.slope,
        vocab=curve.vocab,
        sources=tuple(sources),
        repeats=repeats,
        seed=seed,
    )


def _summary(curve: Profile, measured: MeasuredProfile | None, repeats: int, seed: int) -> dict[str, Any]:
    from sphereflow.provenance import versions
    from sphereflow.retrieval import critical_time, theorem_time

    turns = curve.turns()
    summary: dict[str, Any] = {
        "heads": [{"weight": h.weight, "beta": h.beta, "slope": h.slope} for h in curve.heads],
        "t": curve.t,
        "vocab": curve.vocab,
        "readout": curve.readout,
        "shape": curve.shape,
        "baseline": curve.baseline,
        "turns": [
            {"kind": turn.kind, "sigma0": turn.sigma0, "excess": float(curve.excess(turn.sigma0))} for turn in turns
        ],
        "end_slope": float(curve.steepness(1.0)),
        "versions": versions(),
    }
    if len(curve.heads) == 1:
        head = curve.heads[0]
        summary["critical_time"] = critical_time(head.beta, head.slope, curve.vocab, curve.readout)
        summary["theorem_time"] = theorem_time(head.beta, head.slope) if head.slope > 0 else None
    if measured is not None:
        summary["simulation"] = {"tokens": measured.n, "repeats": repeats, "seed": seed}
    return summary


def _print(curve: Profile, summary: dict[str, Any]) -> None:
    say(f"shape: {summary['shape']}, chance: {summary['baseline']:.6g}")
    for turn in summary["turns"]:
        say(f"{turn['kind']} at sigma0 = {turn['sigma0']:.6g}: N (accuracy - chance) = {turn['excess']:.6g}")
    if "critical_time" in summary:
        critical, proved = summary["critical_time"], summary["theorem_time"]
        if critical > 0 and proved is not None:
            say(f"recency until t = {critical:.6g}; U-shape proved until t = {proved:.6g}; here t = {curve.t:g}")
        else:
            say("no recency at any time: the slope is not positive")


def _files(curve: Profile, measured: MeasuredProfile | None, summary: dict[str, Any]) -> dict[str, bytes]:
    import numpy as np

    from sphereflow.pictures import rendered

    sigma0 = np.concatenate([np.geomspace(1e-3, 0.1, _CURVE_POINTS // 2), np.linspace(0.1, 1, _CURVE_POINTS // 2)[1:]])
    columns = [sigma0, curve.score(sigma0), curve.excess(sigma0)]
    files = {
        "profile.csv": _table(("sigma0", "score", "excess"), columns),
        "summary.json": (json.dumps(summary, indent=2) + "\n").encode(),
        "profile.png": rendered(curve.plot(measured), "png"),
    }
    if measured is not None:
        value, error = measured.excess(curve.readout)
        names = ("source", "sigma0", "hard", "hard_error", "soft", "soft_error", "excess", "excess_error")
        files["measured.csv"] = _table(
            names,
            [
                np.asarray(measured.sources),
                measured.sigma0,
                *measured.hard,
                *measured.soft,
                value,
                error,
            ],
        )
    return files


def _table(names: tuple[str, ...], columns: list[Any]) -> bytes:
    return csv_bytes(names, ([f"{x:.12g}" for x in row] for row in zip(*columns, strict=True)))
