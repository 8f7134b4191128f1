"""A run as one file: clusters with names, frames as bytes, and the page they are put into."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.evolution.webpage import Camera, Recorder, viewing_directions
from sphereflow.evolution.webpage.frames import BINS, overlap_histogram
from sphereflow.evolution.webpage.groups import Names, groups, reach
from sphereflow.observables import cluster_labels


def clouds(n: int, d: int, spread: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(7, d))
    x = centres[rng.integers(0, 7, n)] / 2 + spread * rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "d", "spread"), [(200, 2, 0.02), (400, 3, 0.02), (300, 3, 0.0), (100, 5, 0.01)])
def test_groups_are_the_clusters_of_the_library(n, d, spread):
    x = clouds(n, d, spread)
    delta = 0.0447
    ours = groups(x, delta)
    theirs = cluster_labels(x, 1 - delta**2 / 2)
    assert np.array_equal(ours[:, None] == ours, theirs[:, None] == theirs)


@pytest.mark.slow
def test_a_crowd_at_rest_is_not_one_cluster():
    for d in (2, 3):
        for n in (100, 2000, 5000):
            x = np.asarray(sf.draw("uniform", n, d, seed=1))
            assert groups(x, reach(n, d)).max() + 1 > 0.6 * n
    assert reach(10, 3) == pytest.approx(np.arccos(0.999), rel=1e-3)


def test_a_cluster_keeps_the_name_of_its_largest_part():
    names = Names()
    first = names.follow(np.array([0, 0, 0, 1, 1, 2]))
    merged = names.follow(np.array([0, 0, 0, 0, 0, 1]))
    assert set(merged[:5]) == {first[0]}
    assert merged[5] == first[5]
    split = names.follow(np.array([0, 0, 0, 1, 1, 2]))
    assert split[0] == first[0]
    assert split[3] not in first  # what leaves a cluster is new


def test_histogram_of_all_pairs():
    x = clouds(60, 3, 0.3)
    cosines = [x[i] @ x[j] for i in range(60) for j in range(i)]
    expected = np.histogram(np.clip(cosines, -1, 1), BINS, (-1, 1))[0] / len(cosines)
    assert np.abs(overlap_histogram(x) / 65_535 - expected).max() < 1e-4


def test_a_frame_can_be_read_back():
    x = clouds(50, 3, 0.1)
    frame = Recorder(Camera.facing(x, on_sphere=True)).record(1.5, x, 0.25)
    t, energy, count, largest = struct.unpack_from("<ddII", frame)
    names = np.frombuffer(frame, "<u2", 50, 24 + 2 * BINS)
    points = np.frombuffer(frame, "<i2", 150, 24 + 2 * BINS + 100).reshape(50, 3) / 32_767
    assert (t, energy, count) == (1.5, 0.25, len(set(names)))
    assert largest == np.unique(names, return_counts=True)[1].max()
    assert np.abs(points - x).max() < 2e-5


def test_directions_to_look_from_are_orthonormal_and_show_the_mean():
    for x in (clouds(40, 9, 0.1), np.eye(5), np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]])):
        basis = viewing_directions(x)
        assert np.allclose(basis.T @ basis, np.eye(3))
    x = clouds(40, 9, 0.1)
    assert np.linalg.norm(x.mean(0) @ viewing_directions(x)) == pytest.approx(np.linalg.norm(x.mean(0)))


@pytest.mark.slow
def test_a_trajectory_writes_a_page_that_needs_nothing_else(tmp_path: Path):
    ts = np.array([0.0, 1.0, 2.0])
    run = sf.evolve(sf.SA(2.0), np.asarray(sf.draw("uniform", 8, 3)), saveat=ts, tol=1e-4, solver="heun")
    text = run.webpage(tmp_path / "run.html", title="<Eight> tokens").read_text("utf-8")
    assert "<title>&lt;Eight&gt; tokens</title>" in text
    assert not re.findall(r"""(?:src|href)=["'](?!data:)|^import |url\(""", text, re.MULTILINE)
    frames = base64.b64decode(re.search(r'id="frames">([^<]*)<', text).group(1))
    about = json.loads(re.search(r'id="about">([^<]*)<', text).group(1))
    assert (about["n"], about["frames"], about["lastTime"]) == (8, 3, 2.0)
    size = len(frames) // 3
    for k in range(3):
        time, energy = struct.unpack_from("<dd", frames, k * size)
        assert time == ts[k]
        assert energy == pytest.approx(run.energy[k])
    with pytest.raises(SphereflowError, match=r"a web page is an \.html file"):
        run.webpage(tmp_path / "run.png")
    with pytest.raises(SphereflowError, match="does not exist"):
        run.webpage(tmp_path / "nowhere" / "run.html")
