"""What can be asked for, what runs, and that the three lines are true; no browser needed."""

from __future__ import annotations

import dataclasses
import math
from urllib.parse import parse_qs

import equinox as eqx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sphereflow as sf
from sphereflow.explorer import models, panel, simulation
from sphereflow.explorer.kit import Scale
from sphereflow.explorer.presets import PRESETS, matching
from sphereflow.explorer.settings import LIMITS, MODELS, MOST_COORDINATES, Settings, parse
from sphereflow.papers import slugs
from sphereflow.report.formula import formula
from sphereflow.sphere import STARTS


def test_an_address_holds_every_parameter():
    settings = Settings(model="own", n=17, d=5, beta=0.1 + 0.2, start="vmf", t1=3.75, seed=99, noise=1 / 3, speed=0.25)
    query = {name: values[0] for name, values in parse_qs(settings.query()).items()}
    assert query.keys() == {field.name for field in dataclasses.fields(Settings)}
    assert parse(query) == (settings, [])


@given(st.dictionaries(st.sampled_from([*LIMITS, "model", "start", "clock", "speed", "else"]), st.text() | st.floats()))
def test_whatever_is_asked_the_limits_hold(query):
    settings, _ = parse(query)
    for name, limit in LIMITS.items():
        value = getattr(settings, name)
        assert math.isfinite(value)
        assert limit.least <= value <= limit.most
    assert settings.n * settings.d <= MOST_COORDINATES
    assert settings.model in MODELS
    assert settings.start in STARTS


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"n": "1000000000"}, "n must be a whole number from 2 to 5,000"),
        ({"n": "3.5"}, "n must be"),
        ({"beta": "inf"}, "beta must be a number from 0 to 10,000"),
        ({"beta": "-1"}, "beta must be"),
        ({"model": "rm -rf"}, "model must be one of sa"),
        ({"speed": "3"}, "speed must be one of"),
        ({"n": "5000", "d": "64"}, "at most 312 tokens"),
        ({"start": "orthogonal"}, "as many dimensions as tokens"),
        ({"start": "grid"}, "needs d = 2"),
        ({"model": "common", "t1": "5000"}, "until t = 100"),
    ],
)
def test_one_sentence_for_each_bad_value(query, word):
    settings, said = parse(query)
    assert len(said) == 1
    assert word in said[0]
    assert parse(dataclasses.asdict(settings)) == (settings, [])


def test_sliders_agree_with_the_numbers_beside_them():
    scales = {name: scale for name, (_, scale) in panel._SLIDERS.items()}
    assert scales.keys() <= LIMITS.keys()
    for name, scale in {**scales, "whole": Scale(0, 24, whole=True)}.items():
        assert [scale.at(0), scale.at(scale.last)] == [scale.low, scale.high], name
        for place in range(scale.last + 1):
            assert abs(scale.place(scale.at(place)) - place) <= (0 if scale.stops or scale.whole else 1), name
        assert [scale.at(-7), scale.at(1e9)] == [scale.low, scale.high], name
        assert [scale.place(-1e9), scale.place(1e9)] == [0, scale.last], name


def test_presets_are_within_the_limits_and_their_formulas_can_be_set():
    assert len({preset.slug for preset in PRESETS}) == len(PRESETS) >= 6
    for preset in PRESETS:
        assert parse(dataclasses.asdict(preset.settings)) == (preset.settings, [])
        assert matching(preset.settings) is preset
        assert formula(preset.formula).startswith("<math")
        assert preset.slug in {*slugs(), "high-dimension"}


SMOOTH = [
    Settings(model="sa", n=24, d=3, beta=5.0, t1=20.0),
    Settings(model="usa", n=24, d=3, beta=2.0, t1=20.0, clock="linear", seed=3),
    Settings(model="causal", n=24, d=2, beta=1 / 3, t1=20.0, start="grid"),
    Settings(model="perceptron", n=24, d=3, beta=2.0, t1=10.0, push=0.5),
    Settings(model="euclid", n=24, d=3, beta=1.0, t1=3.0, clock="linear"),
    Settings(model="sa", n=1500, d=3),
]
NOISY = [
    Settings(model="common", n=24, d=3, beta=2.0, t1=2.0, noise=0.7),
    Settings(model="common", n=24, d=3, t1=2.0, pull=0.0, seed=5),
    Settings(model="own", n=24, d=4, beta=2.0, t1=2.0, start="mixture"),
]


def carried_out(settings: Settings) -> dict:
    lines = models.python_lines(settings)
    assert len(lines.splitlines()) == 3
    made: dict = {}
    exec(lines, made)
    return made


def shown_by_the_page(settings: Settings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    times, tokens, energies = zip(*(frame for turn in simulation.frames(settings) for frame in turn), strict=True)
    assert np.allclose(times, settings.times, rtol=1e-12)
    return np.array(times), np.stack(tokens), np.array(energies)


@pytest.mark.parametrize("settings", SMOOTH, ids=lambda s: f"{s.model}-{s.n}")
def test_the_three_lines_ask_for_what_the_page_solves(settings, monkeypatch: pytest.MonkeyPatch):
    asked: dict = {}
    monkeypatch.setattr(sf, "evolve", lambda model, x0, **options: asked.update(model=model, x0=x0, **options))
    carried_out(settings)
    assert eqx.tree_equal(asked["model"], models.dynamics(settings))
    assert np.array_equal(asked["x0"], models.first_tokens(settings))
    assert asked["x0"].dtype == models.first_tokens(settings).dtype
    assert np.array_equal(asked["saveat"], settings.times)
    assert (asked["tol"], asked["solver"]) == (models.TOL, models.SOLVER)


@pytest.mark.slow
def test_the_three_lines_make_the_frames_of_the_page():
    run = carried_out(SMOOTH[0])["run"]
    _, tokens, energies = shown_by_the_page(SMOOTH[0])
    assert np.abs(tokens - run.xs).max() < 10 * models.TOL
    assert np.allclose(energies[1:], run.energy[1:], atol=1e-5)
    assert np.diff(energies[1:]).min() > -1e-9


@pytest.mark.fast_cases("common-1")
@pytest.mark.parametrize("settings", NOISY, ids=lambda s: f"{s.model}-{s.pull:g}")
def test_the_three_lines_make_the_same_noise(settings):
    _, tokens, _ = shown_by_the_page(settings)
    assert np.abs(tokens - np.asarray(carried_out(settings)["frames"])).max() < 1e-10
