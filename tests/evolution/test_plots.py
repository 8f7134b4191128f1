"""Pictures and movies of runs are made for every kind of token space."""

import sys

import numpy as np
import pytest

import sphereflow as sf


@pytest.mark.fast_cases("3")
@pytest.mark.parametrize("d", [1, 2, 3, 7])
def test_plot_is_drawn_in_every_dimension(d, tmp_path):
    figure = sf.simulate(n=8, d=d, beta=2.0, t1=2.0, saves=4).plot()
    figure.savefig(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 5_000


@pytest.mark.slow
def test_plot_of_tokens_that_are_not_on_a_sphere_and_of_causal_ones(tmp_path):
    free = sf.evolve(sf.EuclideanAttention(-np.eye(2)), np.random.default_rng(0).normal(size=(6, 2)), 1.0, saveat=4)
    free.plot().savefig(tmp_path / "free.png")
    sf.simulate(n=6, d=3, causal=True, t1=1.0, saves=4).plot().savefig(tmp_path / "causal.png")


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_movie_is_a_real_film(suffix, tmp_path):
    path = sf.simulate(n=8, d=3, beta=2.0, t1=2.0, saves=4).movie(tmp_path / f"film{suffix}")
    head = path.read_bytes()[:12]
    assert head[4:8] == b"ftyp" if suffix == ".mp4" else head[:3] == b"GIF"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_movie_of_unknown_kind():
    with pytest.raises(sf.SphereflowError, match=r"an \.mp4 or a \.gif"):
        sf.simulate(n=8, d=3, beta=2.0, t1=2.0, saves=4).movie("film.avi")


def test_without_an_encoder_a_film_is_a_gif(tmp_path, monkeypatch, capsys):
    """The sentence comes before any work: no run and no file."""
    from sphereflow import pictures
    from sphereflow.cli import app
    from sphereflow.cli.exit_codes import exit_code

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)  # as if it were not installed
    monkeypatch.setattr(pictures.shutil, "which", lambda name: None)
    told = r"needs the package 'imageio-ffmpeg': install it with pip install 'sphereflow\[movie\]'"
    run = sf.simulate(n=8, d=3, beta=2.0, t1=2.0, saves=4)
    with pytest.raises(sf.errors.MissingExtra, match=told):
        run.movie("film.mp4")
    monkeypatch.setattr(sf.laboratory, "simulate", None)
    assert exit_code(app, ["simulate", "--n", "8", "--movie", "film.mp4"]) == 2
    assert "pip install 'sphereflow[movie]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert run.movie("film.gif").read_bytes()[:3] == b"GIF"


def test_an_encoder_of_the_system_will_do(monkeypatch):
    from sphereflow import pictures

    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr(pictures.shutil, "which", {"ffmpeg": "/somewhere/ffmpeg"}.get)
    assert pictures.movie_encoder() == "/somewhere/ffmpeg"
    pictures.check_movie(".mp4")
