"""The tabs of the page: their answers against the library, their limits, and the page itself in a real browser."""

import importlib.util
import math

import numpy as np
import pytest
from measured_model import measurement

import sphereflow as sf
from sphereflow.errors import MissingExtra, SphereflowError
from sphereflow.explorer.tabs import headmaps, heads, landscape, memory, retrieval
from sphereflow.explorer.tabs.inputs import Limits
from sphereflow.explorer.tabs.words import power, short

# --- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "used"),
    [("5", 5), (-3, 1), ("1e9", 50), (math.inf, 50), (-math.inf, 1), ("nan", 7), ("many", 7), (None, 7), ([2], 7)],
)
def test_a_number_is_kept_within_its_limits_and_the_page_says_so(asked, used):
    number, said = Limits("beta", 1, 50, 7).nearest(asked)
    assert number == used
    assert bool(said) == (asked != "5")
    if said:
        assert "beta" in said
        assert f"{used} is used" in said


def test_whole_numbers_are_rounded():
    limits = Limits("seed", 0, 9, 3, whole=True)
    assert limits.nearest("4.6") == (5, "seed takes whole numbers from 0 to 9; 5 is used.")
    assert limits.nearest(4) == (4, "")


@pytest.mark.parametrize("limits", [landscape.BETA, landscape.NEURONS, retrieval.SLOPE, memory.TEMPERATURE])
def test_the_slider_covers_exactly_the_limits(limits):
    scale = limits.scale
    assert [scale.at(0), scale.at(scale.last)] == [limits.low, limits.high]
    assert scale.at(scale.place(limits.default)) == pytest.approx(limits.default, rel=1e-2)


def test_numbers_in_words():
    assert short(1.5e-09) == "1.5e-9"
    assert short(0.25) == "0.25"
    assert power(1.5e-09) == r"$1.5\cdot10^{-9}$"
    assert power(0.25) == "0.25"


# --- landscape ---------------------------------------------------------------------------------------------------


def test_no_measure_has_a_lower_energy_than_the_landscape_says():
    beta, found = 6.0, landscape.solution(6.0, 3, "relu", 0.1, 4)
    drawn = np.random.default_rng(4)
    inner = drawn.standard_normal((3, 2))
    assert np.degrees(np.arctan2(inner[:, 1], inner[:, 0])) == pytest.approx(found.neuron_angles)
    assert 0.1 * drawn.standard_normal(3) == pytest.approx(found.neuron_weights)
    rng = np.random.default_rng(0)

    def energy(angles, masses):
        """The definition, with the primitive u_+^2 of twice the rectifier."""
        x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        kernel = np.exp(beta * (x @ x.T - 1))
        a = np.radians(found.neuron_angles)
        cosines = x @ np.stack([np.cos(a), np.sin(a)])
        v = np.maximum(cosines, 0) ** 2 @ found.neuron_weights
        return masses @ kernel @ masses / (2 * beta) + masses @ v / 2

    atoms = np.radians(found.angles)
    assert energy(atoms, found.masses) == pytest.approx(found.energy, abs=1e-12)
    for size in (0.01, 0.3, 3.0):
        for _ in range(20):
            masses = found.masses * rng.uniform(1 - min(size, 1), 1 + size, len(atoms))
            others = energy(atoms + size * rng.standard_normal(len(atoms)), masses / masses.sum())
            assert others >= found.energy - found.gap
    assert found.gap < 1e-9
    assert found.above.min() >= 0


def test_the_landscape_in_words():
    one = landscape.solution(20.0, 5, "relu", 1.0, 0)
    assert len(one.masses) == 1
    assert "one atom" in landscape.in_words(one)
    assert f"{one.angles[0]:.2f}°" in landscape.in_words(one)
    flat = landscape.solution(1.0, 0, "relu", 1.0, 0)
    assert flat.kind == "density"
    assert "whole circle" in landscape.in_words(flat)
    for found in (one, flat):
        assert landscape.circle(found)["series"]
        assert landscape.curves(found)["series"]


# --- retrieval ---------------------------------------------------------------------------------------------------


def test_the_worst_position_is_that_of_the_library():
    from sphereflow.retrieval import critical_time, profile

    found = retrieval.curve(1.0, 1.0, 1.0, 8)
    expected = profile(1.0, 1.0, 1.0, 8)
    assert found.worst is not None
    assert found.worst[0] == expected.minimiser
    grid = np.linspace(0.01, 1, 4000)
    assert found.worst[0] == pytest.approx(grid[np.argmin(expected.excess(grid))], abs=3e-4)
    assert f"{100 * found.worst[0]:.1f} %" in retrieval.in_words(found)
    assert short(critical_time(1.0, 1.0, 8), 4) in retrieval.in_words(found)
    assert "theorem" in retrieval.in_words(found)


def test_deep_models_and_no_slope_in_words():
    assert "beyond" in retrieval.in_words(retrieval.curve(1.0, 1.0, 4.0, 8))
    assert "never" in retrieval.in_words(retrieval.curve(1.0, 0.0, 1.0, 8))
    hump = retrieval.curve(1.0, 10.0, 10.0, 8)  # a dip near the start, but the end is lower still
    assert hump.minima
    assert hump.worst is None
    assert "worst at the end" in retrieval.in_words(hump)


def test_every_corner_of_the_controls_gives_a_finite_curve():
    for beta in (retrieval.BETA.low, retrieval.BETA.high):
        for slope in (retrieval.SLOPE.low, retrieval.SLOPE.high):
            for t in (retrieval.TIME.low, retrieval.TIME.high):
                for vocab in (2, 64):
                    found = retrieval.curve(beta, slope, t, vocab)
                    assert np.isfinite(found.excess).all()
                    assert retrieval.in_words(found)
                    assert retrieval.picture(found)["series"]


# --- memory ------------------------------------------------------------------------------------------------------


def test_the_phase_at_a_point_follows_from_the_lines():
    """Regions are nested: the number of lines that lie beyond the load, whichever way it is counted."""
    for kernel, sharpness in (("lse", 1.0), ("lse", 8.0), ("lsr", 3.414)):
        lines = memory.plane(kernel, sharpness)
        for temperature in (0.05, 0.5, 1.5):
            at = {name: np.interp(temperature, lines.temperatures, loads) for name, loads in lines.lines.items()}
            bounds = [at[name] for name in memory._BOUNDS[kernel]]
            assert bounds == sorted(bounds, reverse=True)
            for load in (0.01, 0.1, 0.3, 0.6, 1.2):
                if min(abs(load - bound) for bound in bounds) > 1e-3:
                    found = memory.place(kernel, sharpness, load, temperature)
                    assert found.region == sum(load < bound for bound in bounds)


def test_the_overlap_is_the_stationary_point_of_the_free_energy():
    t, b = 0.4, 3.0
    phi = memory.place("lse", 1.0, 0.1, t).overlap
    assert t * phi / (1 - phi**2) == pytest.approx(1)
    phi = memory.place("lsr", b, 0.1, t).overlap
    assert t * phi / (1 - phi**2) == pytest.approx(1 / (1 - b * (1 - phi)))


def test_the_phase_in_words():
    inside, outside = memory.place("lse", 1.0, 0.1, 0.3), memory.place("lse", 1.0, 0.7, 0.3)
    assert "overlap of 0.8612" in memory.in_words(inside, 0.1, 0.3)
    assert "no retrieval state" in memory.in_words(outside, 0.7, 0.3)
    assert "overlap" not in memory.in_words(outside, 0.7, 0.3)
    wide = memory.picture(memory.plane("lse", 1.0), 2.9, 0.3)  # the chosen point is always in the picture
    assert wide["xAxis"]["max"] >= 2.9


# --- heads -------------------------------------------------------------------------------------------------------


def test_a_measurement_is_averaged_over_documents(result):
    data, found = measurement(), headmaps.read(result)
    assert found.name == "my-model, 2 documents of 64 tokens"
    assert (found.rows, found.columns) == (("0", "1", "2"), ("0", "1", "2", "3"))
    assert found.values["f4"] == pytest.approx(data["f"].values[:, :, :, 0, 0, 0, 1].mean(axis=0))
    assert found.values["f4_random"] == pytest.approx(data["f"].values[:, :, :, 1, 0, 0, 1].mean(axis=0))
    assert found.values["sink_mass"] == pytest.approx(data["sink_mass"].values.mean(axis=0))
    assert np.array_equal(found.values["regime"], data["regime"].values)
    told = heads.head_in_words(found, 2, 1)
    assert told.startswith("Layer 2, head 1: a retriever head.")
    assert f"{found.values['f4'][2, 1]:.2f}" in told


def test_a_measurement_that_cannot_be_read_is_one_sentence(result, tmp_path):
    with pytest.raises(SphereflowError, match="there is no measurement in"):
        heads.measured(tmp_path)
    for content in (b"", b"hello", (result / "measurement.nc").read_bytes()[:300]):
        damaged = tmp_path / "measurement.nc"
        damaged.write_bytes(content)
        with pytest.raises(SphereflowError, match="not a measurement"):
            heads.measured(tmp_path)


def test_recordings_are_whole_models():
    assert set(headmaps.RECORDED) == set(sf.llm.recordings())
    for name in headmaps.RECORDED:
        found, made = headmaps.recorded(name), sf.llm.recording(name)
        layers, count = found.values["f4"].shape
        assert f"{layers} layers of {count} heads" in heads.in_words(found)
        for each, values in found.values.items():
            assert values.shape == (layers, count)
            assert heads.picture(found, each)["series"]
        assert found.values["f4"][1, 2] == pytest.approx(made.metrics["f"][:, 1, 2, 0, 1].mean())
        assert "head" in heads.head_in_words(found, 1, 2)
        # What the rule of the regimes can say from these numbers alone.
        assert np.all(found.values["sink_mass"][found.values["regime"] == 2] >= 0.5)
        assert np.all(found.values["f4"][found.values["regime"] == 0] >= 0.6)


def test_synthetic_heads_select_better_when_the_sink_points_along_the_others():
    f4 = headmaps.synthetic(0.1, 0).values["f4"]
    assert f4.shape == (len(headmaps.COMPRESSIONS), len(headmaps.COSINES))
    assert np.all(f4[:, -1] > f4[:, 0] + 0.4)


def test_tiny_models_say_what_to_install_when_torch_is_missing(monkeypatch):
    known = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else known(name, *more)
    )
    with pytest.raises(MissingExtra, match=r"pip install 'sphereflow\[llm\]'"):
        headmaps.tiny.__wrapped__("llama", 0)


def test_a_tiny_model_is_measured():
    pytest.importorskip("torch")
    found = headmaps.tiny("llama", 0)
    assert found.values["f4"].shape == (2, 4)
    assert np.all((found.values["f4"] >= 0) & (found.values["f4"] <= 1))
    assert np.all(found.values["sink_mass"] < 0.5)  # random weights attend to everything


def test_every_architecture_of_the_page_exists():
    from sphereflow.llm.model.tiny import ARCHITECTURES

    assert set(heads.ARCHITECTURES) <= set(ARCHITECTURES)
