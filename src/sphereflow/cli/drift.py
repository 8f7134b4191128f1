"""`sphereflow drift`: train one-step generators by drifting, sample them, translate between two domains."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sphereflow.cli.leaving import Stopped

app = typer.Typer(help="Drifting generators: train, sample, and translate between two domains.")

_NOISE = 32


@app.command("train")
def train(
    target: Annotated[str, typer.Argument(metavar="LAW|FILE", help="swiss-roll, checkerboard, or a .npy of rows.")],
    out: Annotated[Path, typer.Option(metavar="MODEL.npz", help="The generator; the same command continues it.")],
    steps: Annotated[int, typer.Option(help="Training steps.")] = 2000,
    batch: Annotated[int, typer.Option(help="Generated samples and data per step.")] = 512,
    width: Annotated[float, typer.Option(help="Width tau of the Laplace kernel.")] = 0.05,
    rate: Annotated[float, typer.Option(help="Learning rate of Adam.")] = 1e-3,
    friction: Annotated[str, typer.Option(metavar="none|gain", help="Friction, growing from 0 to 1.")] = "none",
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
) -> None:
    """Train a one-step generator; prints distances to the data, because the loss says little.

    Example: sphereflow drift train swiss-roll --out roll.npz
    """
    from sphereflow.drifting import TwoSidedField
    from sphereflow.drifting.checkpoints import read, restore, save
    from sphereflow.drifting.training import beginning
    from sphereflow.drifting.training import train as run
    from sphereflow.errors import SphereflowError, writable_target

    writable_target(out, overwrite=True)
    asked = {"target": target, "steps": steps, "batch": batch, "width": width, "rate": rate, "friction": friction,
             "seed": seed}  # fmt: skip
    sampler, dimension = _sampler(target)
    model, recipe = _fresh(asked, dimension)
    asked["dimension"] = dimension
    state = beginning(model, recipe)
    if out.exists():
        stored, _ = read(out)
        if stored != asked:
            changed = next(name for name in asked if stored.get(name) != asked[name])
            raise SphereflowError(
                f"{out} was trained with {changed} = {stored.get(changed)}, now {asked[changed]}; choose another name."
            )
        state = restore(out, model, recipe)
    print(f"{'step':>6} {'energy distance':>16} {'sliced W2':>10} {'Frechet':>9}")

    def measure(generator: Any) -> dict[str, float]:
        told = _distances(generator, sampler, seed)
        print(f"{int(measure.step):>6} {told['energy']:16.5f} {told['sliced']:10.4f} {told['frechet']:9.5f}")  # type: ignore[attr-defined]
        return told

    def keep(current: Any) -> None:
        save(out, current, asked)

    try:
        every = max(steps // 4, 1)
        while int(state.step) < steps:
            measure.step = min((int(state.step) // every + 1) * every, steps)  # type: ignore[attr-defined]
            part = _until(recipe, int(measure.step))  # type: ignore[attr-defined]
            state, _ = run(state, part, TwoSidedField(width), _noise, sampler, measure=measure, every=every, keep=keep)
    except KeyboardInterrupt:
        raise Stopped("stopped by Ctrl-C; the same command goes on from the last line printed.") from None
    print(f"written: {out}")


@app.command("sample")
def sample(
    model: Annotated[Path, typer.Argument(metavar="MODEL.npz", help="What drift train wrote.")],
    n: Annotated[int, typer.Option("-n", help="How many samples.")] = 1000,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Samples as .npy, or a picture of them as .png.")] = Path(
        "samples.npy"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
) -> None:
    """Draw samples from a trained generator, in one pass."""
    import io

    import jax
    import numpy as np

    from sphereflow.drifting.checkpoints import read, restore
    from sphereflow.errors import SphereflowError, whole_number, writable_target
    from sphereflow.saving import write_bytes

    whole_number("n", n, most=10**8)
    writable_target(out, overwrite=True)
    if out.suffix not in (".npy", ".png"):
        raise SphereflowError(f"--out must end in .npy or .png; got {str(out)!r}.")
    asked, _ = read(model)
    network, recipe = _fresh(asked, int(asked["dimension"]))
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
    print(f"written: {out}")


@app.command("translate")
def translate(
    source: Annotated[Path, typer.Option(metavar="FILE", help="Rows of the first domain: .npy, .npz or idx images.")],
    target: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows of the second; without it --source holds ages.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for table.csv and quality.png.")] = Path(
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
            help="drift, drift-friction, drift-schedule, ofm, lightsb; also drift-felt and affine.",
            show_default=False,
        ),
    ] = ("drift,drift-friction,drift-schedule,ofm,lightsb"),
    batch: Annotated[int, typer.Option(help="Samples per step.")] = 256,
) -> None:
    """Translate one domain into another by drifting and by two baselines: quality against compute, with seeds."""
    import numpy as np

    from sphereflow.drifting.latents import principal_components, read_ages, read_rows
    from sphereflow.drifting.pictures import quality
    from sphereflow.drifting.translation import quality_against_compute
    from sphereflow.errors import SphereflowError
    from sphereflow.pictures import rendered
    from sphereflow.saving import writable_folder, write_into

    folder = writable_folder(out, ("table.csv", "quality.png"))
    first, second = read_ages(source) if target is None else (read_rows(source), read_rows(target))
    if first.shape[1] != second.shape[1]:
        raise SphereflowError(
            f"the domains have {first.shape[1]} and {second.shape[1]} numbers a row; they must agree."
        )
    if components:
        projection = principal_components(np.concatenate([first, second]), min(components, first.shape[1]))
        first, second = projection.encode(first), projection.encode(second)
    try:
        steps = tuple(int(part) for part in budgets.split(","))
    except ValueError:
        raise SphereflowError(f"--budgets must be whole numbers with commas between; got {budgets!r}.") from None
    points = quality_against_compute(
        first, second, methods=tuple(methods.split(",")), budgets=steps, seeds=range(seeds), batch=batch
    )
    names = list(points[0].row())
    lines = [",".join(names), *(",".join(str(point.row()[name]) for name in names) for point in points)]
    write_into(
        folder, {"table.csv": ("\n".join(lines) + "\n").encode(), "quality.png": rendered(quality(points), "png")}
    )
    print(f"{'method':<15} {'steps':>6} {'passes':>10} {'seconds':>8} {'Frechet':>18} {'cost':>8}")
    for method in dict.fromkeys(point.method for point in points):
        for budget in steps:
            mine = [point for point in points if (point.method, point.steps) == (method, budget)]
            values = np.array([point.frechet for point in mine])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            print(
                f"{method:<15} {budget:>6} {mine[0].passes:10.3g} {np.mean([p.seconds for p in mine]):8.1f} "
                f"{values.mean():9.4f} ± {error:6.4f} {np.mean([p.cost for p in mine]):8.3f}"
            )
    print(f"written to {folder.absolute()}")


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
        steps=asked["steps"], batch=asked["batch"], rate=asked["rate"], seed=asked["seed"],
        friction=Friction(mode, 0.0, 1.0, max(asked["steps"], 1)),
    )  # fmt: skip
    return Generator(_NOISE, dimension, key=jax.random.key(asked["seed"] + 1)), recipe


def _until(recipe: Any, steps: int) -> Any:
    import dataclasses

    return dataclasses.replace(recipe, steps=steps)


def _sampler(target: str) -> tuple[Any, int]:
    from sphereflow.drifting.latents import read_rows
    from sphereflow.drifting.samplers import LAWS, from_rows
    from sphereflow.errors import SphereflowError

    if target in LAWS:
        return LAWS[target], 2
    if not Path(target).exists():
        raise SphereflowError(f"there is no law or file {target}; the laws are {', '.join(LAWS)}.")
    rows = read_rows(target)
    return from_rows(rows), rows.shape[1]


def _distances(generator: Any, sampler: Any, seed: int) -> dict[str, float]:
    import jax
    import numpy as np

    from sphereflow.drifting.metrics import energy_distance, frechet, sliced_wasserstein

    made = np.asarray(generator(_noise(jax.random.key(seed + 2), 2000)), float)
    fresh = np.asarray(sampler(jax.random.key(seed + 3), 2000), float)
    return {
        "energy": energy_distance(made, fresh),
        "sliced": sliced_wasserstein(made, fresh),
        "frechet": frechet(made, fresh),
    }
