"""`sphereflow transport`: schedules of constant weights that carry one law to another, and their use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sphereflow.cli.output import answer, say, with_output_options, written

app = typer.Typer(help="Transport by explicit schedules: find one that carries source to target, and apply it.")


@app.command("fit")
@with_output_options
def fit(
    source: Annotated[str, typer.Option(metavar="FILE|NAME", help="Points (.npy, .csv), or the name of a law.")],
    target: Annotated[
        str,
        typer.Option(
            metavar="FILE|NAME",
            help="The same; names are gaussian, two-modes, three-modes, eight-modes, student-t, uniform.",
        ),
    ],
    pieces: Annotated[
        int | None, typer.Option(metavar="K", help="Pieces the schedule may have: 64 unless --kl is given.")
    ] = None,
    kl: Annotated[
        float | None, typer.Option(metavar="EPSILON", help="Relative entropy to reach, with as few pieces as it takes.")
    ] = None,
    method: Annotated[str, typer.Option(metavar="construct|train")] = "construct",
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Schedule to write, .json or .npz; a picture goes beside it.")
    ] = Path("schedule.json"),
    steps: Annotated[int, typer.Option(help="Steps of gradient descent, for --method train.")] = 1500,
    seed: Annotated[int, typer.Option(help="Seed of samples and of training.")] = 0,
) -> None:
    """Find a schedule of ReLU pieces, write it, and say how close it comes, in relative entropy, with error bars.

    Example: sphereflow transport fit --source gaussian --target two-modes --kl 0.001
    """
    from sphereflow.pictures import rendered
    from sphereflow.saving import writable_folder, write_into
    from sphereflow.transport.euclidean.fitting import fit as fit_schedule
    from sphereflow.transport.euclidean.laws import Law
    from sphereflow.transport.euclidean.named_laws import read
    from sphereflow.transport.files import check_suffix, content

    pieces = 64 if pieces is None and kl is None else pieces
    check_suffix(out)
    folder = writable_folder(out.parent, (out.name, f"{out.stem}.png"))
    first, second = read(source, target)
    fitted = fit_schedule(first, second, pieces, method, kl=kl, seed=seed, steps=steps)
    laws = {name: law for name, law in (("source", first), ("target", second)) if isinstance(law, Law)}
    picture = rendered(fitted.plot(**laws), "png")
    write_into(folder, {f"{out.stem}.png": picture, out.name: content(fitted.schedule, out.suffix)})
    say("\n".join(fitted.facts()))
    made = (out, out.with_suffix(".png"))
    written(*made)
    answer(fitted.record() | {"written": made})


@app.command("apply")
@with_output_options
def apply(
    schedule: Annotated[Path, typer.Argument(metavar="SCHEDULE", help="A schedule or a fit that was saved.")],
    points: Annotated[Path, typer.Argument(metavar="POINTS", help="Points, one per row: .npy or .csv.")],
    out: Annotated[Path, typer.Option(metavar="FILE.npy", help="Where the moved points go.")] = Path("moved.npy"),
    inverse: Annotated[bool, typer.Option("--inverse", help="Bring the points back instead.")] = False,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the grid being carried.")] = None,
    movie: Annotated[Path | None, typer.Option(metavar="FILE.mp4|gif", help="Show the points on their way.")] = None,
) -> None:
    """Carry points by a schedule, exactly.

    Example: sphereflow transport apply schedule.json points.npy --out moved.npy
    """
    import io

    import numpy as np

    from sphereflow.errors import SphereflowError, ending_in, writable_target
    from sphereflow.loading import load
    from sphereflow.pictures import check_movie, rendered
    from sphereflow.saving import write_bytes
    from sphereflow.transport import Schedule
    from sphereflow.transport.abstract import AbstractSchedule
    from sphereflow.transport.euclidean.named_laws import read_points
    from sphereflow.transport.pictures import draw

    kinds = ((".npy",), (".png",), (".mp4", ".gif"))
    for name, place, endings in zip(("--out", "--picture", "--movie"), (out, picture, movie), kinds, strict=True):
        if place is not None:
            writable_target(ending_in(name, place, endings), overwrite=True)
    if movie is not None:
        check_movie(movie.suffix.lower())
    loaded = load(schedule)
    loaded = getattr(loaded, "schedule", loaded)  # of a fit that was saved
    if not isinstance(loaded, AbstractSchedule):
        raise SphereflowError(f"{schedule} holds no schedule: {loaded!r}.")
    chosen = loaded.inverse() if inverse else loaded
    start = read_points(points)
    start = start[:, None] if start.ndim == 1 else start
    if start.ndim != 2 or len(start) == 0 or start.shape[1] != chosen.d or not np.isfinite(start).all():
        raise SphereflowError(
            f"{points} must hold finite points of {chosen.d} coordinates each, one per row; its shape is {start.shape}."
        )
    if picture is not None and not isinstance(chosen, Schedule):
        raise SphereflowError("only schedules in R^d carry a flat grid; use --movie for this one.")
    moved = np.asarray(chosen.apply(start))
    buffer = io.BytesIO()
    np.save(buffer, moved)
    write_bytes(out, buffer.getvalue())
    if picture is not None and isinstance(chosen, Schedule):
        write_bytes(picture, rendered(draw(chosen, start), "png"))
    if movie is not None:
        chosen.animate(start[:2000], movie)
    say(f"{len(moved)} points through {chosen.n_pieces} pieces")
    made = [place for place in (out, picture, movie) if place is not None]
    written(*made)
    answer({"points": len(moved), "d": chosen.d, "pieces": chosen.n_pieces, "written": made})


@app.command("conditional")
@with_output_options
def conditional(
    x: Annotated[Path, typer.Argument(metavar="X", help="What is given: one row per pair, .npy or .csv.")],
    y: Annotated[Path, typer.Argument(metavar="Y", help="What is to be sampled, in the same order.")],
    pieces: Annotated[int, typer.Option(metavar="K", help="Pieces the schedule may have.")] = 1200,
    at: Annotated[
        str, typer.Option(metavar="X0", help="Sample y given this x: numbers with commas, one per coordinate.")
    ] = "",
    count: Annotated[int, typer.Option(help="How many samples to draw there.")] = 1000,
    out: Annotated[Path, typer.Option(metavar="FILE.npz", help="Sampler to write.")] = Path("sampler.npz"),
    samples: Annotated[Path, typer.Option(metavar="FILE.npy", help="Where samples go.")] = Path("samples.npy"),
    seed: Annotated[int, typer.Option(help="Seed of the fit and of the samples.")] = 0,
) -> None:
    """Learn to sample y given x from pairs, with x frozen exactly; write the sampler, and samples if asked.

    Example: sphereflow transport conditional x.npy y.npy --at 0.5 --count 1000
    """
    import io

    import numpy as np

    from sphereflow.errors import SphereflowError, ending_in, whole_number, writable_target
    from sphereflow.saving import write_bytes
    from sphereflow.transport.conditional.sampler import fit_conditional
    from sphereflow.transport.euclidean.named_laws import read_points

    ending_in("--out", out, (".npz",))
    whole_number("count", count)
    for place in (out, *([samples] if at else [])):
        writable_target(place, overwrite=True)
    try:
        place_x = np.array([float(number) for number in at.split(",")]) if at else None
    except ValueError:
        raise SphereflowError(f"--at must be numbers with commas, got '{at}'.") from None
    fitted = fit_conditional(read_points(x), read_points(y), pieces, seed=seed)
    buffer = io.BytesIO()
    if place_x is not None:
        np.save(buffer, fitted.sample(place_x[None], count, seed))
    fitted.save(out, overwrite=True)
    say("\n".join(fitted.facts()))
    if place_x is not None:
        write_bytes(samples, buffer.getvalue())
        say(f"{count} samples of y given x = {at}")
    made = [out, samples] if place_x is not None else [out]
    written(*made)
    answer(fitted.record() | {"written": made})
