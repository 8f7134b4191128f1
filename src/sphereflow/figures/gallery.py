"""A gallery: the figures that people of the field draw for their papers, each by its name, at a size of seconds.

They are also examples: the source of each is a few lines to copy and change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from sphereflow import retrieval
from sphereflow.drifting import Generator, Recipe, TwoSidedField, beginning, from_rows, train
from sphereflow.dynamics import SA, USA, Perceptron
from sphereflow.errors import ending_in, one_of, writable_target
from sphereflow.evolution import Trajectory, evolve, phase_diagram
from sphereflow.figures.angles import angle_paths
from sphereflow.figures.histograms import histogram, sphere_histogram
from sphereflow.figures.landscapes import landscape_movie, neurons_on_sphere
from sphereflow.figures.overlays import counts_against_beta, profiles
from sphereflow.figures.samples import samples_movie
from sphereflow.figures.views import movie, snapshots
from sphereflow.landscape import Problem, flow
from sphereflow.pictures import KINDS, check_movie, rendered
from sphereflow.saving import write_bytes
from sphereflow.seeds import rng_from
from sphereflow.sphere import draw, from_angles
from sphereflow.transport import Mixture, gaussian, gaussianise

_NEURONS = "perceptrons-localization"
_MOVIES = (".mp4", ".gif")


@dataclass(frozen=True)
class Entry:
    """A figure of the gallery: of which paper, what it shows, and what draws it; a movie takes the file's name."""

    paper: str
    shows: str
    still: Callable[[], Figure] | None = None
    moving: Callable[[Path], Path] | None = None

    @property
    def suffixes(self) -> tuple[str, ...]:
        return _MOVIES if self.still is None else tuple(f".{kind}" for kind in KINDS)


def draw_named(name: str, path: str | Path, *, overwrite: bool = False) -> Path:
    """Draw a figure of the gallery into a file: .png, .svg or .pdf; .mp4 or .gif for a movie.

    ```python
    sf.figures.draw_named("profiles", "profiles.pdf")
    ```
    """
    entry = GALLERY[one_of("name", name, tuple(GALLERY))]
    target = writable_target(ending_in(f"the figure '{name}'", path, entry.suffixes), overwrite=overwrite)
    if entry.moving is not None:
        check_movie(target.suffix.lower())
        return entry.moving(target)
    assert entry.still is not None
    write_bytes(target, rendered(entry.still(), target.suffix.lower().removeprefix(".")))
    return target


def _hemisphere() -> Trajectory:
    return evolve(SA(9.0), draw("hemisphere", 64, 3, 1), 6.0, saveat=61, tol=1e-6)


def _neurons() -> Perceptron:
    return Perceptron([1.0, -0.8], [[1.0, 0.0], [0.3, 0.9]], [0.1, 0.2])


def _descent(n: int, t1: float, frames: int) -> Trajectory:
    return evolve(USA(6.0) + _neurons(), draw("uniform", n, 2, 2), t1, saveat=frames, tol=1e-6)


def _angles_log() -> Figure:
    model, times = USA(6.0) + _neurons(), np.append(0.0, np.geomspace(0.05, 200, 80))
    return angle_paths(evolve(model, draw("uniform", 60, 2, 2), saveat=times), potential=_neurons(), log_time=True)


def _alibi() -> Figure:
    """Tokens in four clusters that look back only, with the attention of nearer tokens favoured."""
    angles = np.pi * np.linspace(0.1, 1.9, 4)[np.arange(24) * 4 // 24] + 0.2 * rng_from(17).normal(size=24)
    run = evolve(retrieval.decoder(4.0, 1.0, 24, 2), from_angles(angles), 8.0, saveat=81, tol=1e-6)
    return snapshots(run, [0.0, 2.0, 5.0, 8.0], colour="start", trails=2.0, labels=True)


def _with_and_without(path: Path) -> Path:
    x0, times = draw("uniform", 60, 2, 3), np.linspace(0.0, 12.0, 61)
    runs = {
        "attention": evolve(USA(6.0), x0, saveat=times, tol=1e-6),
        "with two neurons": evolve(USA(6.0) + _neurons(), x0, saveat=times, tol=1e-6),
    }
    return movie(runs, path, colour="start", trails=1.0)


def _landscape(path: Path) -> Path:
    problem = Problem(beta=6.0, outer=[1.0, -0.8], inner=[[1.0, 0.0], [0.3, 0.9]], bias=[0.1, 0.2])
    run = flow(problem, draw("uniform", 40, 2, 2), 8.0, sign="ascent", saveat=61, tol=1e-6)
    return landscape_movie(problem, run, path)


def _counts() -> Figure:
    x0 = np.stack([draw("uniform", 80, 2, seed) for seed in range(6)])
    return counts_against_beta({b: evolve(USA(b), x0, 80.0, saveat=2, tol=1e-5) for b in (4.0, 9.0, 16.0, 25.0, 36.0)})


def _overlaid() -> Figure:
    run = evolve(SA(25.0), draw("uniform", 3000, 2, 4), 6.0, saveat=3, tol=1e-5)
    return histogram({f"t = {t:g}": run.frame(i) for i, t in enumerate(run.ts)})


def _circular() -> Figure:
    run = evolve(SA(25.0), draw("uniform", 3000, 2, 4), 3.0, saveat=2, tol=1e-5)
    return histogram({"t = 0": run.frame(0), "t = 3": run.final}, kind="circular")


def _on_sphere() -> Figure:
    run = evolve(SA(16.0), draw("uniform", 3000, 3, 5), 4.0, saveat=2, tol=1e-5)
    return sphere_histogram(run.final)


def _boundaries() -> Figure:
    neurons = Perceptron([1.0, -1.0, 0.7], [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [-0.4, 0.3, 0.8]], [0.2, 0.0, -0.3])
    run = evolve(USA(4.0) + neurons, draw("uniform", 80, 3, 6), 6.0, saveat=2, tol=1e-6)
    return neurons_on_sphere(neurons, run.final)


def _random_matrices() -> Figure:
    times, betas = np.linspace(0.0, 20.0, 21), np.geomspace(0.1, 20.0, 12)
    return phase_diagram(times, betas, n=16, d=3, matrices="gaussian", repeats=6, tol=1e-4).plot()


def _retrieval() -> Figure:
    return profiles({f"t = {t:g}": retrieval.profile(1.0, 1.0, t) for t in (0.5, 1.0, 1.5, 2.0)})


def _transport(path: Path) -> Path:
    target = Mixture([[1.5, 0.0], [-0.75, 1.3], [-0.75, -1.3]], 0.25).sample(3000)
    schedule = gaussianise(target, frames=12).schedule
    samples = gaussian(2).sample(800, seed=1)
    return samples_movie(lambda x: schedule.frames(x, 48), samples, path, target=target[:800], grid=9)


def _eight() -> Mixture:
    turn = 2 * np.pi * np.arange(8) / 8
    return Mixture(2 * np.stack([np.cos(turn), np.sin(turn)], axis=1), 0.2)


def _training(path: Path) -> Path:
    """The generator as it is after every twentieth step, on the same noise."""
    generators: list[Generator] = [Generator(2, 2, width=64, depth=3, residual=True, key=jax.random.key(1))]
    recipe = Recipe(steps=1200, batch=256, rate=3e-3, decay=0.9)
    data, noise = from_rows(_eight().sample(4000)), from_rows(gaussian(2).sample(4000))
    train(
        beginning(generators[0], recipe), recipe, TwoSidedField(width=0.3), noise, data, every=20,
        keep=lambda state: generators.append(state.average), progress=False,
    )  # fmt: skip
    return samples_movie(
        lambda x: np.stack([np.asarray(network(jnp.asarray(x)), dtype=float) for network in generators]),
        gaussian(2).sample(800, seed=1),
        path,
        target=_eight().sample(800, seed=1),
        titles=[f"step {20 * k}" for k in range(len(generators))],
    )


GALLERY: dict[str, Entry] = {
    "sphere-movie": Entry(
        "mathematical-perspective",
        "tokens from half of the sphere, with trails, seen by a turning camera",
        moving=lambda path: movie(_hemisphere(), path, colour="start", trails=0.8, turn=120.0),
    ),
    "sphere-snapshots": Entry(
        "mathematical-perspective",
        "the same run at four times",
        still=lambda: snapshots(_hemisphere(), [0.0, 1.0, 3.0, 6.0], trails=1.0),
    ),
    "random-matrices": Entry(
        "mathematical-perspective", "phase diagram for random matrices, each replica its own", still=_random_matrices
    ),
    "circle-movie": Entry(
        "dynamic-metastability",
        "tokens on the circle with trails, coloured by where they began",
        moving=lambda path: movie(
            evolve(SA(36.0), draw("uniform", 60, 2, 7), 30.0, saveat=91, tol=1e-6), path, colour="start", trails=4.0
        ),
    ),
    "profiles": Entry("lost-in-the-middle", "retrieval profiles at four depths on one axis", still=_retrieval),
    "alibi-snapshots": Entry(
        "lost-in-the-middle", "a causal decoder with positional weights at four times, numbered", still=_alibi
    ),
    "angle-paths": Entry(
        _NEURONS,
        "angles against time over the potential of two neurons",
        still=lambda: angle_paths(_descent(60, 20.0, 121), potential=_neurons()),
    ),
    "angle-paths-log": Entry(_NEURONS, "the same on logarithmic time", still=_angles_log),
    "histogram-circular": Entry(_NEURONS, "densities around the circle", still=_circular),
    "histogram-overlaid": Entry(_NEURONS, "densities at three times, one over another", still=_overlaid),
    "histogram-potential": Entry(
        _NEURONS,
        "where 2,000 tokens end, with the potential",
        still=lambda: histogram(_descent(2000, 10.0, 2).final, potential=_neurons()),
    ),
    "histogram-sphere": Entry(_NEURONS, "a density on the sphere in cells of equal area", still=_on_sphere),
    "neurons-on-sphere": Entry(
        _NEURONS,
        "where neurons change sign, the potential, and the tokens at the end",
        still=_boundaries,
    ),
    "landscape-movie": Entry(_NEURONS, "the first variation along the circle while tokens climb it", moving=_landscape),
    "with-and-without": Entry(
        _NEURONS,
        "the same tokens with and without a perceptron, side by side",
        moving=_with_and_without,
    ),
    "transport-movie": Entry(
        "transport-relative-entropy",
        "samples and a grid carried by a schedule from a Gaussian to three",
        moving=_transport,
    ),
    "drifting-movie": Entry(
        "drifting-with-friction", "samples of a generator while it is trained by drifting", moving=_training
    ),
    "counts-against-beta": Entry(
        _NEURONS,
        "clusters and the largest mass where flows end, against the root of beta",
        still=_counts,
    ),
}
