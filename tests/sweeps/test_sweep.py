"""Grids, specifications, refinement, boundaries and pictures of sweeps."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.errors import SphereflowError
from sphereflow.estimates import fit_power
from sphereflow.sweeps import (
    QUANTITIES,
    Grid,
    boundary,
    open_sweep,
    read_specification,
    shipped,
    sweep,
)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.integers(1, 60))
def test_blocks_cover_every_cell_once(lengths, batch):
    grid = Grid.of({f"axis{i}": range(length) for i, length in enumerate(lengths)})
    shape = grid.block_shape(batch)
    assert math.prod(shape) <= batch
    seen = np.zeros(grid.shape, int)
    for region in grid.blocks(shape):
        seen[region] += 1
        cells = grid.cells(region)
        assert len(cells) == math.prod(part.stop - part.start for part in region)
        assert cells[0] == {f"axis{i}": part.start for i, part in enumerate(region)}
    assert (seen == 1).all()


def test_a_function_is_swept_with_axes_in_order():
    found = sweep(
        lambda beta, name, seed, n: n * beta + len(name) + 10 * seed,
        fixed={"n": 2},
        grid={"beta": [1.0, 2.5], "name": ["a", "abc"], "seed": range(3)},
    )
    assert found.dataset["value"].dims == ("beta", "name", "seed")
    assert float(found.dataset["value"].sel(beta=2.5, name="abc", seed=2)) == 28.0
    assert found.complete
    assert found.cells_done == 12
    assert "beta: 2, name: 2, seed: 3" in repr(found)


def test_batched_cells_are_the_same_as_single_ones():
    def function(a, b):
        return {"u": a * b, "v": [a, b]}

    axes = {"a": np.linspace(0.1, 1, 7), "b": np.linspace(1, 2, 5)}
    together = sweep(lambda a, b: {"u": a * b, "v": (a, b)[0] * np.ones(2)}, axes, vmap=True, batch=8)
    alone = sweep(function, axes)
    np.testing.assert_allclose(together.dataset["u"], alone.dataset["u"], rtol=1e-15)
    assert together.dataset["v"].shape == (7, 5, 2)


def test_a_changed_sweep_is_refused_and_says_why(tmp_path):
    out = tmp_path / "a.zarr"
    sweep("retrieval", {"beta": [1.0, 2.0]}, fixed={"t": 1.0}, out=out, progress=False)
    with pytest.raises(SphereflowError, match=r"'beta' was \[1.0, 2.0\] and is now \[1.0, 3.0\]"):
        sweep("retrieval", {"beta": [1.0, 3.0]}, fixed={"t": 1.0}, out=out)
    with pytest.raises(SphereflowError, match=r"'t' was 1\.0 and is now 2\.0"):
        sweep("retrieval", {"beta": [1.0, 2.0]}, fixed={"t": 2.0}, out=out)
    with pytest.raises(SphereflowError, match="quantity was"):
        sweep("lifetime", {"beta": [1.0, 2.0]}, out=out)
    (tmp_path / "b.zarr").mkdir()
    (tmp_path / "b.zarr" / "mine").touch()
    with pytest.raises(SphereflowError, match="is not a sweep"):
        sweep("retrieval", {"beta": [1.0]}, fixed={"t": 1.0}, out=tmp_path / "b.zarr")
    assert (tmp_path / "b.zarr" / "mine").exists()


@pytest.mark.slow
def test_refinement_finds_a_circle_with_few_cells(tmp_path):
    calls = []

    def inside(x, y):
        calls.append((x, y))
        return float(x**2 + y**2)

    axes = {"x": np.linspace(0, 1, 65), "y": np.linspace(0, 1, 65)}
    rule = {"axes": ["x", "y"], "variable": "value", "level": 0.49, "stride": 8}
    kept = {"out": tmp_path / "circle.zarr", "version": "1"}  # by its list, the function is another one every time
    found = sweep(inside, axes, refine=rule, progress=False, **kept)
    assert len(calls) == found.cells_done < 0.2 * 65**2
    assert len(set(calls)) == len(calls)
    line = boundary(found, 0.49, "x")
    exact = np.sqrt(np.maximum(0.49 - line.values**2, 0))
    crossed = np.isfinite(line.position)
    assert crossed.sum() >= 44
    # A linear interpolation of a parabola over 1/64 is off by at most 2e-4 where the slope is not small.
    steep = crossed & (exact > 0.2)
    np.testing.assert_allclose(line.position[steep], exact[steep], atol=2e-4)
    assert (np.abs(line.position - exact)[steep] < line.error[steep]).all()
    sweep(inside, axes, refine=rule, progress=False, **kept)
    assert len(calls) == found.cells_done  # nothing was left to do


def test_a_level_that_is_met_at_a_corner_is_refined_on_both_sides():
    computed = []

    def value(x):
        computed.append(x)
        return x - 8.0

    rule = {"axes": ["x"], "variable": "value", "level": 0.0, "stride": 8}
    sweep(value, {"x": np.arange(25.0)}, refine=rule)
    assert {7.0, 9.0} < set(computed)
    assert len(computed) < 25


@pytest.mark.slow
def test_error_bars_of_a_boundary_cover_it():
    """A step at 0.5 in noise of known size: the crossing of the mean is within three of its own errors."""

    def noisy(x, seed):
        return x + 0.3 * np.random.default_rng([int(1000 * x), seed]).normal()

    found = sweep(noisy, {"x": np.linspace(0, 1, 21), "seed": range(40)})
    line = boundary(found, 0.5, "x")
    assert abs(line.position[0] - 0.5) < 3 * line.error[0]
    assert 0.01 < line.error[0] < 0.1


def test_exponents_are_fitted_with_their_errors():
    rng = np.random.default_rng(5)
    x = np.geomspace(1, 100, 30)
    pulls = []
    for _ in range(200):
        y = 3 * x**1.7 * (1 + 0.02 * rng.normal(size=30))
        slope, error, factor = fit_power(x, y, 0.02 * y)
        pulls.append((slope - 1.7) / error)
        assert factor == pytest.approx(3, rel=0.2)
    assert np.std(pulls) == pytest.approx(1, abs=0.2)
    assert fit_power(x, 2 * x**-0.5).exponent == pytest.approx(-0.5, abs=1e-12)


@pytest.mark.slow
def test_clustering_agrees_with_single_runs():
    import sphereflow as sf
    from sphereflow.observables import close_fraction

    axes = {"beta": [1.0, 4.0], "seed": [0, 3]}
    fixed = {"n": 8, "d": 3, "t1": 4.0, "times": 3, "tol": 1e-6}
    found = sweep("clustering", axes, fixed=fixed).dataset
    for beta in axes["beta"]:
        for seed in axes["seed"]:
            run = sf.simulate(8, 3, beta, 4.0, seed=seed, saves=3)
            x = np.asarray(run.xs)
            cell = found.sel(beta=beta, seed=seed)
            np.testing.assert_allclose(cell["close_pairs"], close_fraction(x), atol=1e-12)
            mean = (np.einsum("tid,tjd->t", x, x) - 8) / 56
            np.testing.assert_allclose(cell["mean_overlap"], mean, atol=1e-5)


def test_lifetimes_of_pairs_are_those_of_the_quadrature():
    from sphereflow.metastability import log_merging_time
    from sphereflow.sphere import draw

    found = sweep("lifetime", {"beta": [20.0, 60.0]}, fixed={"n": 2, "seed": 4}).dataset
    x = np.asarray(draw("uniform", 2, 2, 4))
    angle = float(np.arccos(np.clip(x[0] @ x[1], -1, 1)))
    expected = [log_merging_time(angle, beta, model="sa") for beta in (20.0, 60.0)]
    np.testing.assert_allclose(found["log_last_merger"], expected, rtol=1e-4)


def test_areas_can_be_swept_by_name():
    drift = sweep("drifting", {"step": [1.0, 4.0, 6.0]}).dataset
    np.testing.assert_allclose(drift["distance"][:2], np.log(2), atol=1e-8)
    assert drift["swing"][2] == pytest.approx(0.8873409264 - 0.5004190449, abs=1e-8)
    shape = sweep("landscape", {"beta": [2.0, 8.0]}, fixed={"neurons": 2}).dataset
    assert (shape["gap"] < 1e-10).all()
    assert (shape["atoms"] >= 1).all()
    depth = sweep("collapse", {"heads": [2, 4]}, fixed={"beta": 0.5, "layers": 200}).dataset
    assert float(depth["half_depth"][1]) > float(depth["half_depth"][0])  # more heads, later collapse


@pytest.mark.parametrize("name", list(shipped()))
def test_shipped_sweeps_are_sound(name):
    specification = read_specification(name)
    quantity = QUANTITIES[specification.quantity]
    first = specification.grid.cells(tuple(slice(0, 1) for _ in specification.grid.shape))[0]
    quantity.completed({**specification.fixed, **first})
    assert specification.title


TOML = 'quantity = "retrieval"\n[axes]\nbeta = {axis}\n[fixed]\nt = 1.0\n{more}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("quantity = [", "is not a TOML file"),
        ("[axes]\nbeta = [1.0]", "must say what is measured"),
        (TOML.format(axis="[1.0]", more="").replace("retrieval", "nonsense"), "quantity must be one of"),
        (TOML.format(axis="[1.0]", more="gamma = 3"), "has no parameter 'gamma'"),
        ('quantity = "retrieval"\n[axes]\nbeta = [1.0]', "needs a value of 't'"),
        (TOML.format(axis="[]", more=""), "has no values"),
        (TOML.format(axis='[1.0, "a"]', more=""), "all numbers or all words"),
        (TOML.format(axis="[1.0, 1.0]", more=""), "twice"),
        (TOML.format(axis="[1.0, nan]", more=""), "finite"),
        (TOML.format(axis="3.0", more=""), "must be a list"),
        (TOML.format(axis="{ count = 3, scale = 'log', from = 0.0, to = 1.0 }", more=""), "above 0"),
        (TOML.format(axis="{ count = 1000000000 }", more=""), "at most"),
        (TOML.format(axis="[1.0]", more="[refine]\naxes = ['gamma']"), "axes must be some of beta"),
        (TOML.format(axis="[1.0]", more="[refine]\naxes = ['beta']\nvariable = 'no'\nlevel = 1"), "variable must be"),
        (TOML.format(axis="[-1.0]", more=""), "beta"),
        ("colour = 1", "unknown entry 'colour'"),
    ],
)
def test_a_faulty_specification_gets_one_sentence(tmp_path, capsys, text, words):
    file = tmp_path / "spec.toml"
    file.write_text(text)
    assert exit_code(app, ["sweep", str(file), "--out", str(tmp_path / "out.zarr")]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep", "nowhere.toml", "--out", "o.zarr"], "no shipped sweep of that name"),
        (["sweep", "memory"], "--out"),
        (["sweep", "--out", "o.zarr"], "name a specification"),
        (["sweep", "memory", "--out", "FILE/o.zarr"], "cannot write"),
        (["sweep", "memory", "--out", "o.zarr", "--workers", "0"], "workers must be"),
        (["sweep", "--status", "--out", "none.zarr"], "there is no sweep"),
        (["plot", "none.zarr"], "there is no sweep"),
        (["plot", "none.zarr", "--out", "a.doc"], "--out must end in"),
        (["sweep", "lifetime", "--out", "o.zarr", "--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler answers"),
    ],
)
def test_bad_commands_get_one_sentence(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").touch()
    monkeypatch.setattr("sphereflow.sweeps.workers._PATIENCE_SECONDS", 0.5)
    assert exit_code(app, arguments) == 2
    assert words in capsys.readouterr().err


def test_command_line_from_specification_to_picture(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        'quantity = "retrieval"\n[axes]\nbeta = { from = 0.5, to = 2.0, count = 4 }\nt = [1.0, 2.0, 4.0]\n'
    )
    assert exit_code(app, ["sweep", "s.toml", "--out", "r.zarr"]) == 0
    assert exit_code(app, ["sweep", "--status", "--out", "r.zarr"]) == 0
    assert "complete" in capsys.readouterr().out
    for arguments in (
        ["--level", "1.5", "--x", "t"],
        ["--variable", "recency", "--at", "t=2"],
        ["--fit", "--variable", "worst_score", "--x", "t"],
    ):
        assert exit_code(app, ["plot", "r.zarr", "--out", "r.png", *arguments]) == 0, capsys.readouterr().err
        assert (tmp_path / "r.png").read_bytes()[:4] == b"\x89PNG"
    assert open_sweep("r.zarr").complete
    assert exit_code(app, ["plot", "r.zarr", "--variable", "none"]) == 2
    assert exit_code(app, ["plot", "r.zarr", "--x", "none"]) == 2
