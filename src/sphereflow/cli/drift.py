"""`sphereflow drift`: train one-step generators by drifting, sample them, translate between two domains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sphereflow.cli.exit_codes import Stopped
from sphereflow.cli.output import answer, say, with_output_options, written

app = typer.Typer(help="Drifting generators: train, sample, and translate between two domains.")

_NOISE = 32
_TESTED = 4000  # samples compared with as many of the data
_SHOWN = 10  # images before and after translation


@app.command("train")
@with_output_options
def train(
    target: Annotated[str, typer.Argument(metavar="LAW|FILE", help="swiss-roll, checkerboard, or a .npy of rows.")],
    out: Annotated[Path, typer.Option(metavar="MODEL.npz", help="The generator; the same command continues it.")],
    steps: Annotated[int, typer.Option(help="Training steps.")] = 2000,
    batch: Annotated[int, typer.Option(help="Generated samples and data per step.")] = 512,
    width: Annotated[float, typer.Option(help="Width tau of the Laplace kernel.")] = 0.05,
    rate: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 8e-3,
    schedule: Annotated[
        str,
        typer.Option(metavar="linear|constant|effective", help="How the rate falls: to zero, not, as friction acts."),
    ] = "linear",
    friction: Annotated[str, typer.Option(metavar="none|gain", help="Friction, growing from 0 to 1.")] = "none",
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
) -> None:
    """Train a one-step generator; prints distances to held-out data, because the loss says little.

    An energy distance is to be read beside two others, printed first: what chance makes of two samples of the data,
    and a Gaussian with the moments of the data, which has learned no shape.

    Example: sphereflow drift train swiss-roll --out roll.npz
    """
    from sphereflow.drifting import TwoSidedField
    from sphereflow.drifting.checkpoints import read, restore, save
    from sphereflow.drifting.training import MOST_SEED, beginning
    from sphereflow.drifting.training import train as run
    from sphereflow.errors import whole_number, writable_target
    from sphereflow.observables import energy_distance, gaussian_like, sampling_floor
    from sphereflow.provenance import circumstances, same_request

    writable_target(out, overwrite=True)
    given = {"target": target, "steps": steps, "batch": batch, "width": width, "rate": rate, "schedule": schedule}
    given |= {"friction": friction, "seed": seed}
    whole_number("--seed", seed, least=0, most=MOST_SEED)
    sampler, fresh, again, content = _data(target, seed)
    model, recipe = _fresh(given, fresh.shape[1])
    field = TwoSidedField(width=width)
    asked = given | {"data": content, "dimension": fresh.shape[1], "noise": _NOISE} | circumstances()
    state = beginning(model, recipe)
    if out.exists():
        same_request(out, read(out)[0], asked)
        state = restore(out, model, recipe)
    chance = sampling_floor(fresh, again, 4)
    blob = energy_distance(gaussian_like(again, len(fresh)), fresh)
    say(f"energy distance of two samples of the data: 0 ± {chance:.5f}; of a Gaussian: {blob:.5f}")
    say(f"{'step':>6} {'energy distance':>16} {'sliced W2':>10} {'Frechet':>9}")
    distances: dict[str, float] = {}

    def measure(generator: Any) -> dict[str, float]:
        distances.update(_distances(generator, fresh, seed))
        return distances

    def keep(current: Any) -> None:
        columns = zip(("energy", "sliced", "frechet"), ("16.5f", "10.4f", "9.5f"), strict=True)
        say(" ".join([f"{int(current.step):>6}", *(f"{distances[name]:{width}}" for name, width in columns)]))
        save(out, current, asked)

    try:
        run(state, recipe, field, _noise, sampler, measure=measure, every=max(steps // 4, 1), keep=keep)
    except KeyboardInterrupt:
        raise Stopped("stopped by Ctrl-C; the same command goes on from the last line printed.") from None
    written(out)
    answer({"asked": asked, "distances": distances, "chance": chance, "gaussian": blob, "written": out})


@app.command("sample")
@with_output_options
def sample(
    model: Annotated[Path, typer.Argument(metavar="MODEL.npz", help="What drift train wrote.")],
    n: Annotated[int, typer.Option("-n", help="How many samples.")] = 1000,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Samples as .npy, or a picture of them as .png.")] = Path(
        "samples.npy"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
) -> None:
    """Draw samples from a trained generator, in one pass.

    Example: sphereflow drift sample roll.npz -n 5000 --out roll.png
    """
    import io

    import jax
    import numpy as np

    from sphereflow.drifting.checkpoints import read, restore
    from sphereflow.drifting.training import MOST_SEED
    from sphereflow.errors import SphereflowError, whole_number, writable_target
    from sphereflow.saving import write_bytes

    whole_number("-n", n, most=10**8)
    whole_number("--seed", seed, least=0, most=MOST_SEED)
    writable_target(out, overwrite=True)
    if out.suffix not in (".npy", ".png"):
        raise SphereflowError(f"--out must end in .npy or .png; got {str(out)!r}.")
    asked, _ = read(model)
    try:
        network, recipe = _fresh(asked, int(asked["dimension"]))
    except (KeyError, TypeError, ValueError):
        raise SphereflowError(f"{model} is damaged or not a drifting generator.") from None
    generator = restore(model, network, recipe).average
    samples = np.asarray(generator(_noise(jax.random.key(seed), n)))
    if out.suffix == ".png":
        from sphereflow.drifting.pictures import scatter
        from sphereflow.pictures import rendered

        write_bytes(out, rendered(scatter(samples, str(asked["target"])), "png"))
    else:
        content = io.BytesIO()
        np.save(content, samples)
        write_bytes(out, content.getvalue())
    written(out)
    answer({"samples": n, "dimension": samples.shape[1], "target": asked["target"], "written": out})


@app.command("translate")
@with_output_options
def translate(
    source: Annotated[Path, typer.Option(metavar="FILE", help="Rows of the first domain: .npy, .npz or idx images.")],
    target: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows of the second; without it --source holds ages.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for table.csv, quality.png and images.png.")] = Path(
        "translation"
    ),
    components: Annotated[int, typer.Option(help="Principal components to work in; 0 for the rows themselves.")] = 32,
    budgets: Annotated[
        str, typer.Option(metavar="N,N,...", help="Training steps at which quality is measured.")
    ] = "50,150,500",
    seeds: Annotated[int, typer.Option(help="Independent runs of every method.")] = 3,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="drift, drift-friction, drift-restoring, drift-schedule, drift-effective, ofm, lightsb, affine.",
            show_default=False,
        ),
    ] = "drift,drift-friction,drift-schedule,drift-effective,ofm,lightsb,affine",
    batch: Annotated[int, typer.Option(help="Samples per step.")] = 256,
) -> None:
    """Translate one domain into another by drifting and by two baselines: quality against compute, with seeds.

    Rows that are square images are also shown, held-out ones before and after every method (images.png).

    Example: sphereflow drift translate --source young.npy --target old.npy --out translation
    """
    import numpy as np

    from sphereflow.drifting.latents import principal_components, read_ages, read_rows
    from sphereflow.drifting.pictures import NAMES, before_and_after, can_be_shown
    from sphereflow.drifting.training import MOST_BATCH
    from sphereflow.drifting.translation import Point, quality_against_compute, split
    from sphereflow.errors import SphereflowError, whole_number
    from sphereflow.pictures import rendered
    from sphereflow.saving import writable_folder, write_into

    whole_number("--seeds", seeds)
    whole_number("--batch", batch, least=2, most=MOST_BATCH)
    folder = writable_folder(out, ("table.csv", "quality.png", "images.png"))
    first, second = read_ages(source) if target is None else (read_rows(source), read_rows(target))
    if first.shape[1] != second.shape[1]:
        raise SphereflowError(
            f"the domains have {first.shape[1]} and {second.shape[1]} numbers a row; they must agree."
        )
    rows = first
    if components:
        projection = principal_components(np.concatenate([first, second]), min(components, first.shape[1]))
        first, second = projection.encode(first), projection.encode(second)
    try:
        steps = tuple(int(part) for part in budgets.split(","))
    except ValueError:
        raise SphereflowError(f"--budgets must be whole numbers with commas between; got {budgets!r}.") from None
    images = {"before": split(rows)[1][:_SHOWN]}

    def show(point: Point, moved: Any) -> None:
        if point.steps == max(steps) and point.seed == 0:
            images[NAMES[point.method]] = projection.decode(moved[:_SHOWN]) if components else moved[:_SHOWN]

    quality = quality_against_compute(
        first, second, methods=tuple(methods.split(",")), budgets=steps, seeds=range(seeds), batch=batch, show=show
    )
    points, table = quality.points, quality.to_xarray().to_dataframe().to_csv(index=False)
    files = {"table.csv": table.encode(), "quality.png": rendered(quality.plot(), "png")}
    if can_be_shown(rows):
        files["images.png"] = rendered(before_and_after(images), "png")
    write_into(folder, files)
    say(f"{'method':<15} {'steps':>6} {'passes':>10} {'seconds':>8} {'Frechet':>18} {'cost':>8}")
    for method in quality.methods:
        for budget in steps:
            mine = [point for point in points if (point.method, point.steps) == (method, budget)]
            values = np.array([point.frechet for point in mine])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            say(
                f"{method:<15} {budget:>6} {mine[0].passes:10.3g} {np.mean([p.seconds for p in mine]):8.1f} "
                f"{values.mean():9.4f} ± {error:6.4f} {np.mean([p.cost for p in mine]):8.3f}"
            )
    written(folder)
    answer(quality.record() | {"written": folder})


def _noise(key: Any, n: int) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.random.normal(key, (n, _NOISE), dtype=jnp.float32)


def _fresh(asked: dict[str, Any], dimension: int) -> tuple[Any, Any]:
    import jax

    from sphereflow.drifting import Friction
    from sphereflow.drifting.generators import Generator
    from sphereflow.drifting.training import Recipe
    from sphereflow.errors import one_of

    mode = one_of("friction", asked["friction"], ("none", "gain"))
    recipe = Recipe(
        steps=asked["steps"],
        batch=asked["batch"],
        rate=asked["rate"],
        schedule=asked["schedule"],
        seed=asked["seed"],
        friction=Friction(mode, 0.0, 1.0, max(asked["steps"], 1)),
    )
    return Generator(_NOISE, dimension, key=jax.random.key(asked["seed"] + 1)), recipe


def _data(target: str, seed: int) -> tuple[Any, Any, Any, str]:
    """What draws the data to learn from, a sample held out of it, another of the same law and size, and its digest."""
    import jax
    import numpy as np

    from sphereflow.drifting.latents import read_rows
    from sphereflow.drifting.samplers import LAWS, from_rows
    from sphereflow.drifting.translation import split
    from sphereflow.errors import SphereflowError
    from sphereflow.provenance import digest

    if target in LAWS:
        fresh, again = (np.asarray(LAWS[target](jax.random.key(seed + k), _TESTED), float) for k in (3, 4))
        return LAWS[target], fresh, again, target
    if not Path(target).exists():
        raise SphereflowError(f"there is no law or file {target}; the laws are {', '.join(LAWS)}.")
    rows = read_rows(target)
    if len(rows) < 10:
        raise SphereflowError(f"{target} has {len(rows)} rows; a fifth is held out, so at least 10 are needed.")
    learn, held = split(rows)
    return from_rows(learn), held, learn[: len(held)], digest(rows)


def _distances(generator: Any, fresh: Any, seed: int) -> dict[str, float]:
    import jax
    import numpy as np

    from sphereflow.observables import energy_distance, frechet, sliced_wasserstein

    made = np.asarray(generator(_noise(jax.random.key(seed + 2), len(fresh))), float)
    return {
        "energy": energy_distance(made, fresh),
        "sliced": sliced_wasserstein(made, fresh),
        "frechet": frechet(made, fresh),
    }
