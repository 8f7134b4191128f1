"""Figures: what is drawn is what was computed; every figure of the gallery is made; wrong requests get a sentence."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.collections import LineCollection

import sphereflow as sf
from sphereflow import figures
from sphereflow.errors import SphereflowError
from sphereflow.figures.angles import _pieces
from sphereflow.figures.histograms import sphere_cells
from sphereflow.figures.overlays import cluster_statistics
from sphereflow.pictures import AROUND

CIRCLE = sf.simulate(n=12, d=2, beta=4.0, t1=1.0, saves=6, tol=1e-4)
SPHERE = sf.simulate(n=12, d=3, beta=4.0, t1=1.0, saves=6, tol=1e-4, start="hemisphere")
NEURONS = sf.Perceptron([1.0], [[1.0, 0.5, 0.0]], [0.1])


def test_a_hemisphere_is_one():
    x = np.asarray(sf.draw("hemisphere", 4000, 3, 1))
    assert (x[:, 2] >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, atol=1e-14)
    # The mean height is 1/2, and its standard error sqrt(1/12/4000).
    assert abs(x[:, 2].mean() - 0.5) < 5 * np.sqrt(1 / 12 / 4000)
    assert abs(x[:, 0].mean()) < 5 * np.sqrt(1 / 3 / 4000)


def test_trails_are_the_paths_of_the_last_while():
    figure = figures.tokens(CIRCLE, 3, trails=0.5, labels=True)
    (axes,) = figure.axes
    (lines,) = (artist for artist in axes.collections if isinstance(artist, LineCollection))
    drawn = np.array(lines.get_segments())
    assert len(drawn) == 2 * 12  # two steps of 0.2 for twelve tokens
    np.testing.assert_allclose(drawn[:12, 0], CIRCLE.frame(1))
    np.testing.assert_allclose(drawn[12:, 1], CIRCLE.frame(3))
    assert [text.get_text() for text in axes.texts] == [str(k) for k in range(12)]


def test_colours_say_where_tokens_began():
    (axes,) = figures.tokens(CIRCLE, colour="start").axes
    seen = axes.collections[0].get_facecolors()
    first = CIRCLE.frame(0)
    np.testing.assert_allclose(seen, AROUND((np.arctan2(first[:, 1], first[:, 0]) / (2 * np.pi)) % 1))
    np.testing.assert_allclose(AROUND(0.0), AROUND(1.0))
    (axes,) = figures.tokens(CIRCLE, colour=np.arange(12)).axes
    assert len(np.unique(axes.collections[0].get_facecolors(), axis=0)) == 12


def test_a_camera_turns(tmp_path):
    seen = []

    class Spy(figures.views.TokenView):
        def show(self, index):
            super().show(index)
            seen.append(self._axes.azim)

    from sphereflow.evolution import plots

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "TokenView", Spy)
        made = SPHERE.movie(tmp_path / "turn.gif", turn=100.0, trails=0.5)
    assert made.stat().st_size > 1000
    np.testing.assert_allclose(np.diff(seen), 20.0)


def test_runs_side_by_side_have_the_same_times(tmp_path):
    other = sf.simulate(n=12, d=2, beta=4.0, t1=2.0, saves=6, tol=1e-4)
    with pytest.raises(SphereflowError, match="same times"):
        figures.movie({"a": CIRCLE, "b": other}, tmp_path / "two.gif")
    assert not list(tmp_path.iterdir())


def test_paths_are_cut_where_angles_begin_again():
    pieces = _pieces(np.arange(4.0), np.array([3.0, 3.1, -3.1, -3.0]))
    assert [piece.tolist() for piece in pieces] == [[[0, 3.0], [1, 3.1]], [[2, -3.1], [3, -3.0]]]
    (axes, _) = figures.angle_paths(CIRCLE, potential=lambda theta: np.cos(theta), log_time=True).axes
    assert axes.get_xscale() == "log"
    assert axes.get_xlim()[0] == pytest.approx(0.2)


def test_densities_are_over_the_uniform_law():
    x = np.asarray(sf.draw("uniform", 20_000, 3, 3))
    density = sphere_cells(x, 4)[2]
    assert density.mean() == pytest.approx(1)
    # Cells have equal area, so that counts are multinomial: 32 cells of 625 expected.
    assert np.sum((density - 1) ** 2) * 20_000 / 32 < 31 + 6 * np.sqrt(2 * 31)
    (axes,) = figures.histogram({"a": CIRCLE.final, "b": CIRCLE.frame(0)}, bins=8).axes
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(2, 8)
    np.testing.assert_allclose(heights.mean(axis=1), 1)


def test_a_map_carries_points_and_the_lines_of_its_grid(tmp_path, monkeypatch):
    """A shear in two steps: what is drawn of points and lines is what the formula gives, in every frame."""
    seen = []

    def shear(points):
        return np.stack([points + k * np.stack([points[:, 1], 0 * points[:, 1]], axis=1) for k in (0.0, 0.5, 1.0)])

    from matplotlib.animation import PillowWriter

    def look(writer, **options):
        (axes,) = writer.fig.axes
        (dots, lines) = axes.collections[-2:]
        seen.append((np.array(dots.get_offsets()), np.array(lines.get_segments()), axes.get_title()))
        return grab(writer, **options)

    grab = PillowWriter.grab_frame
    monkeypatch.setattr(PillowWriter, "grab_frame", look)
    x = np.array([[0.0, 0.0], [2.0, 1.0], [1.0, 3.0]])
    made = figures.samples_movie(shear, x, tmp_path / "map.gif", grid=3, target=x + 1)
    assert made.read_bytes()[:3] == b"GIF"
    assert [title for _, _, title in seen] == ["0 of 2", "1 of 2", "2 of 2"]
    for k, (dots, lines, _) in zip((0.0, 0.5, 1.0), seen, strict=True):
        np.testing.assert_allclose(dots, x @ [[1, 0], [k, 1]])
        assert len(lines) == 6
        back = lines @ [[1, 0], [-k, 1]]
        # Three lines along each axis over the box [0, 2] x [0, 3] of the points.
        np.testing.assert_allclose(back[:3, :, 0], np.repeat([[0], [1], [2]], 61, axis=1), atol=1e-14)
        np.testing.assert_allclose(back[3:, :, 1], np.repeat([[0], [1.5], [3]], 61, axis=1), atol=1e-14)


def test_clusters_are_of_two_tokens_or_more():
    angles = np.array([0.0, 1e-4, 2.0, 2.0001, 4.0])
    run = sf.evolve(sf.USA(1.0), np.stack([np.cos(angles), np.sin(angles)], axis=1), 1e-9, saveat=2)
    counts, largest = cluster_statistics(run)
    assert (counts.tolist(), largest.tolist()) == ([2], [0.4])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: figures.tokens(CIRCLE, 6), "frame must be"),
        (lambda: figures.tokens(CIRCLE, colour="red"), "colour must be"),
        (lambda: figures.tokens(CIRCLE, colour=np.ones(3)), "colour"),
        (lambda: figures.tokens(CIRCLE, trails=-1.0), "trails"),
        (lambda: figures.snapshots(CIRCLE, [2.0]), "times must be"),
        (lambda: figures.angle_paths(SPHERE), "on the circle"),
        (lambda: figures.angle_paths(CIRCLE, potential=lambda t: t[:3]), "potential"),
        (lambda: figures.histogram(SPHERE.final), r"\(n, 2\)"),
        (lambda: figures.histogram(CIRCLE.final, kind="round"), "kind must be"),
        (lambda: figures.histogram(2 * CIRCLE.final), "unit vectors"),
        (lambda: figures.sphere_histogram(CIRCLE.final), r"\(n, 3\)"),
        (lambda: figures.neurons_on_sphere(sf.Perceptron([1.0], [[1.0, 0.0]])), "dimension 3"),
        (lambda: figures.neurons_on_sphere(NEURONS, CIRCLE.final), r"\(n, 3\)"),
        (lambda: figures.counts_against_beta({1.0: CIRCLE}), "two inverse temperatures"),
        (lambda: figures.profiles({}), "named must be"),
        (lambda: figures.samples_movie(lambda x: x, np.ones((4, 2)), "a.gif"), "what carry gives"),
        (lambda: figures.samples_movie(lambda x: x[None], np.ones((4, 3)), "a.gif"), "x must"),
        (lambda: figures.samples_movie(lambda x: x[None], np.eye(2), "a.gif", titles=["a", "b"]), "titles must be"),
        (lambda: figures.draw_named("nothing", "a.png"), "name must be one of"),
        (lambda: figures.draw_named("profiles", "a.mp4"), "profiles"),
        (
            lambda: sf.evolve(sf.USA(1.0), sf.draw("uniform", 6000, 2), 1e-6, saveat=2).movie("a.gif", trails=1.0),
            "density",
        ),
    ],
)
def test_wrong_requests_get_a_sentence(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SphereflowError, match=words) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_things_of_other_kinds_get_a_sentence():
    """In a process of its own: in tests annotations are checked and would speak first."""
    calls = ["tokens('x')", "tokens(run, 1.5)", "tokens(run, 'a')", "snapshots(3, [0.0])", "movie(5, 'a.gif')"]
    calls += ["movie({'a': 3}, 'a.gif')", "angle_paths(3)", "profiles(3)", "samples_movie(3, [[0.0, 1.0]], 'a.gif')"]
    calls += ["counts_against_beta({1.0: 3, 2.0: 4})"]
    lines = ["import sphereflow as sf", "run = sf.simulate(n=3, d=2, beta=1.0, t1=0.1, saves=2, tol=1e-3)"]
    for call in calls:
        lines += ["try:", f"    sf.figures.{call}", "except sf.SphereflowError as error:", "    print('said', error)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("said") == len(calls), done.stdout


@pytest.mark.fast_cases("profiles", "neurons-on-sphere", "alibi-snapshots")
@pytest.mark.parametrize("name", figures.GALLERY)
def test_the_gallery_is_drawn(name, tmp_path):
    entry = figures.GALLERY[name]
    made = figures.draw_named(name, tmp_path / f"figure{'.gif' if entry.still is None else '.svg'}")
    assert made.stat().st_size > 5000
    if entry.still is not None:
        assert made.read_bytes().startswith(b"<?xml")
