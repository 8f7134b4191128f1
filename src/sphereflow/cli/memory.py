"""`sphereflow memory`: phase diagrams of dense associative memories, and recall from stored patterns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sphereflow.cli.exit_codes import Stopped
from sphereflow.cli.output import answer, say, with_output_options, written

app = typer.Typer(help="Dense associative memories: phase diagrams, and recall from stored patterns.")


@app.command("phases")
@with_output_options
def phases(
    kernel: Annotated[str, typer.Option(metavar="lse|lsr", help="Gaussian or compact kernel.")] = "lse",
    beta: Annotated[
        float | None, typer.Option(help="Sharpness: beta of lse (1), or the number b > 1 of lsr (2 + sqrt 2).")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for phases.png, phases.svg, grid.csv, lines.csv, diagram.json.")
    ] = Path("phases"),
    sizes: Annotated[
        str, typer.Option(metavar="N,N,...", help="Sizes N of escape times and crossovers.")
    ] = "50,100,300",
    duration: Annotated[float, typer.Option(help="Length of a run, in Langevin time, for the crossovers.")] = 1e5,
    monte_carlo: Annotated[
        bool, typer.Option("--monte-carlo", help="Sample beside the theory; a sweep cut short continues.")
    ] = False,
    patterns: Annotated[int, typer.Option(help="Stored patterns of the Monte Carlo sweep.")] = 300,
    repeats: Annotated[int, typer.Option(help="Independent sets of patterns per cell.")] = 8,
    steps: Annotated[int, typer.Option(help="Moves of each chain.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the Monte Carlo sweep.")] = 0,
) -> None:
    """Regions, every named line, escape times and finite-size crossovers in the plane of load and temperature.

    Example: sphereflow memory phases --kernel lse --beta 1 --out phases
    """
    from sphereflow.errors import whole_number
    from sphereflow.memory.monte_carlo import planned, sweep
    from sphereflow.memory.phases import CAUTION, phase_diagram
    from sphereflow.memory.state import REFERENCE_B
    from sphereflow.pictures import rendered
    from sphereflow.saving import writable_folder, write_into

    names = ("phases.png", "phases.svg", "grid.csv", "lines.csv", "diagram.json", "monte-carlo.json")
    folder = writable_folder(out, names)
    for name, value, least in (
        ("patterns", patterns, 2),
        ("repeats", repeats, 2),
        ("steps", steps, 10),
        ("seed", seed, 0),
    ):
        whole_number(f"--{name}", value, least=least)
    sharpness = (REFERENCE_B if kernel == "lsr" else 1.0) if beta is None else beta
    numbers: dict[str, Any] = {"patterns": patterns, "repeats": repeats, "steps": steps, "seed": seed}
    place = folder / "monte-carlo.json"
    if monte_carlo:  # before anything is written: a sweep of another plane may lie there
        planned(kernel, sharpness, **numbers, keep=place)
    diagram = phase_diagram(kernel, sharpness, sizes=_sizes(sizes), duration=duration)
    figure, table = diagram.plot(), diagram.to_xarray()
    tables = {
        "grid.csv": table[["region", "published", "log_escape"]].to_dataframe().to_csv().encode(),
        "lines.csv": table[["line_load", "crossover"]].to_dataframe().to_csv().encode(),
        "diagram.json": (json.dumps(diagram.record(), indent=1) + "\n").encode(),
    }
    write_into(folder, tables | {f"phases.{kind}": rendered(figure, kind) for kind in ("png", "svg")})
    if monte_carlo:
        try:
            simulated = sweep(kernel, sharpness, **numbers, keep=place)
        except KeyboardInterrupt:
            raise Stopped("stopped by Ctrl-C; the same command continues the Monte Carlo sweep.") from None
        figure = diagram.plot(simulated)
        write_into(folder, {f"phases.{kind}": rendered(figure, kind) for kind in ("png", "svg")})
    _print_lines(diagram)
    say(CAUTION)
    written(folder)
    answer(diagram.record() | {"written": folder})


@app.command("recall")
@with_output_options
def recall(
    patterns: Annotated[Path, typer.Argument(metavar="PATTERNS.npy", help="Stored patterns, one per row.")],
    queries: Annotated[Path, typer.Argument(metavar="QUERIES.npy", help="Queries, one per row.")],
    kernel: Annotated[str, typer.Option(metavar="lse|lsr|polynomial")] = "lse",
    beta: Annotated[float | None, typer.Option(help="Sharpness of the kernel.")] = None,
    space: Annotated[str, typer.Option(metavar="sphere|euclidean")] = "sphere",
    steps: Annotated[int, typer.Option(help="Updates, or Metropolis moves at a temperature above 0.")] = 1,
    temperature: Annotated[float, typer.Option(help="Temperature of the bath.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the bath.")] = 0,
) -> None:
    """Find the stored pattern each query comes to rest at: one line per query, as CSV.

    Example: sphereflow memory recall patterns.npy queries.npy --beta 20 > found.csv
    """
    from sphereflow.memory.recall import DenseMemory

    memory = DenseMemory(_array(patterns), kernel, beta, space=space)
    recalled = memory.recall(_array(queries), steps, temperature, seed=seed)
    say("query,pattern,confidence,overlap,energy")
    values = (recalled.index, recalled.confidence, recalled.overlap, recalled.energy)
    columns = dict(zip(("pattern", "confidence", "overlap", "energy"), values, strict=True))
    rows = list(zip(*(column.reshape(-1) for column in columns.values()), strict=True))
    answer({"queries": [dict(zip(columns, row, strict=True)) for row in rows]})
    for number, (index, sure, overlap, energy) in enumerate(rows):
        say(f"{number},{index},{sure:.6g},{overlap:.6g},{energy:.6g}")


def _sizes(text: str) -> tuple[int, ...]:
    from sphereflow.errors import SphereflowError

    try:
        sizes = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        sizes = ()
    if not sizes:
        raise SphereflowError(f"--sizes must be whole numbers with commas between them, as in 50,100; got {text!r}.")
    return sizes


def _array(path: Path) -> Any:
    from sphereflow.errors import SphereflowError
    from sphereflow.reading import file_array

    try:
        return file_array(path)
    except SphereflowError:
        raise
    except ValueError:
        raise SphereflowError(f"cannot read {path}: it is not an array saved by numpy.save.") from None


def _print_lines(diagram: Any) -> None:
    """Each line at three temperatures, with the layer it belongs to."""
    import numpy as np

    shown = (0.1, 0.3, 1.0)
    say(f"{'load at T =':<36}{'layer':<11}" + "".join(f"{t:>9g}" for t in shown))
    for line in diagram.lines:
        loads = [np.interp(t, line.temperatures, line.loads) for t in shown]
        columns = "".join("        -" if np.isnan(a) else f"{a:9.4f}" for a in loads)
        say(f"{line.name:<36}{line.layer:<11}{columns}")
