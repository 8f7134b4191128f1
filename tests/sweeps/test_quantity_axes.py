"""Every parameter of every shipped quantity as an axis: each cell is what a sweep of that cell alone returns."""

import numpy as np
import pytest

from sphereflow.cli import app
from sphereflow.cli.exit_codes import exit_code
from sphereflow.errors import SphereflowError
from sphereflow.sweeps import QUANTITIES, boundary, open_sweep, sweep
from sphereflow.sweeps.quantities import FAILED

# Small cells, and for every parameter values whose results differ.
BASE = {
    "clustering": {"n": 4, "d": 2, "beta": 4.0, "t1": 1.0, "times": 3, "tol": 1e-2},
    "lifetime": {"n": 3, "beta": 10.0, "seed": 1},
    "memory": {"sharpness": 2.0, "alpha": 0.2, "temperature": 0.5},
    "retrieval": {"beta": 2.0, "slope": 0.5, "t": 2.0},
    "landscape": {"beta": 2.0, "neurons": 2},
    "collapse": {"d": 8, "n": 8, "layers": 60, "beta": 0.5},
    "drifting": {"step": 4.0, "count": 3},
}
AXES = {
    "clustering": {"n": [4, 5], "d": [2, 3], "beta": [0.0, 4.0], "model": ["sa", "usa"], "start": ["uniform", "vmf"],
                   "seed": [0, 3], "tol": [1e-9, 1e-2]},
    "lifetime": {"n": [2, 3], "d": [2, 3], "beta": [8.0, 12.0], "model": ["sa", "usa"], "start": ["uniform", "vmf"],
                 "seed": [0, 1], "tol": [1e-9, 1e-4]},
    "memory": {"kernel": ["lse", "lsr"], "sharpness": [1.0, 2.0], "alpha": [0.1, 0.3], "temperature": [0.3, 0.6],
               "size": [50, 100]},
    "retrieval": {"beta": [1.0, 2.0], "slope": [0.0, 0.5], "t": [1.0, 2.0], "vocab": [4, 8],
                  "readout": ["soft", "hard"]},
    "landscape": {"beta": [2.0, 6.0], "d": [2, 3], "neurons": [1, 2], "activation": ["relu", "gelu"],
                  "scale": [0.5, 1.0], "sign": ["minimise", "maximise"], "seed": [0, 1]},
    "collapse": {"d": [8, 16], "n": [8, 16], "layers": [30, 60], "heads": [2, 4], "step": [0.1, 0.3],
                 "beta": [0.5, 1.0], "weight_scale": [0.5, 1.0], "value_scale": [0.5, 1.0]},
    "drifting": {"step": [4.0, 6.0], "start": [0.05, 0.2], "count": [3, 100], "width": [0.5, 1.0],
                 "kernel": ["laplace", "gaussian"]},
}  # fmt: skip
# Each of these compiles programs of its own; clustering has other tests, below and in `test_sweep`.
SLOW = {
    *(("clustering", axis) for axis in AXES["clustering"]),
    *(("lifetime", axis) for axis in AXES["lifetime"] if axis != "beta"),
    *(("landscape", axis) for axis in AXES["landscape"] if axis != "activation"),
    *(("collapse", axis) for axis in ("d", "n", "weight_scale")),
}
CASES = [
    pytest.param(name, axis, marks=[pytest.mark.slow] * ((name, axis) in SLOW))
    for name, axes in AXES.items()
    for axis in axes
]


def test_every_parameter_is_covered():
    for name, quantity in QUANTITIES.items():
        assert set(quantity.parameters) == {*AXES[name], *quantity.fixed_only}


@pytest.mark.parametrize(("name", "axis"), CASES)
def test_cells_are_those_of_single_cells(name, axis):
    fixed = {key: value for key, value in BASE[name].items() if key != axis}
    values = AXES[name][axis]
    together = sweep(name, {axis: values}, fixed=fixed).dataset
    differ = False
    for i, value in enumerate(values):
        alone = sweep(name, {axis: [value]}, fixed=fixed).dataset
        for variable in QUANTITIES[name].variables:
            np.testing.assert_allclose(
                together[variable].values[i], alone[variable].values[0], rtol=1e-9, atol=1e-12, err_msg=variable
            )
            differ |= not np.array_equal(together[variable].values[0], alone[variable].values[0], equal_nan=True)
    assert differ, "these values cannot tell an axis that is ignored"


@pytest.mark.parametrize("axis", ["t1", "times"])
def test_axes_that_would_bend_the_coordinates_are_refused(axis, tmp_path, capsys):
    fixed = {key: value for key, value in BASE["clustering"].items() if key != axis}
    with pytest.raises(SphereflowError, match=f"'{axis}' cannot be an axis of 'clustering'.*fix it"):
        sweep("clustering", {axis: [3, 5]}, fixed=fixed, out=tmp_path / "s.zarr")
    (tmp_path / "s.toml").write_text(f'quantity = "clustering"\n[axes]\n{axis} = [3, 5]\n[fixed]\nbeta = 1.0\n')
    assert exit_code(app, ["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "s.zarr")]) == 2
    assert "cannot be an axis" in capsys.readouterr().err
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize("tol", [1e-14, 0.0, 0.5, "small"])
def test_tolerances_have_limits(tol):
    with pytest.raises(SphereflowError, match="tol must be a finite number"):
        sweep("clustering", {"seed": [0]}, fixed=BASE["clustering"] | {"tol": tol})


@pytest.mark.slow
def test_the_energy_is_that_of_the_model_and_has_its_limit_at_zero():
    import sphereflow as sf

    found = sweep(
        "clustering", {"beta": [0.0, 4.0]}, fixed={k: v for k, v in BASE["clustering"].items() if k != "beta"}
    )
    x0 = np.asarray(sf.draw("uniform", 4, 2, seed=0))
    inner = x0 @ x0.T
    expected = [inner.mean() / 2, np.exp(4 * (inner - 1)).mean() / 8]
    np.testing.assert_allclose(found.dataset["energy"].values[:, 0], expected, rtol=1e-12)
    assert np.isfinite(found.dataset["energy"]).all()


@pytest.mark.slow
def test_a_solve_that_runs_out_of_steps_has_no_values_and_is_counted(tmp_path, monkeypatch, capsys):
    """Seven steps are enough for a loose tolerance and not for a tight one."""
    from sphereflow.sweeps import replicas

    whole = replicas.histories
    monkeypatch.setattr(replicas, "histories", lambda *given: whole(*given, 7))
    fixed = {name: value for name, value in BASE["clustering"].items() if name != "tol"}
    axes = {"seed": [0, 3], "tol": [1e-2, 1e-9]}
    out = tmp_path / "s.zarr"
    found = sweep("clustering", axes, fixed=fixed, out=out, progress=False)
    assert found.complete
    assert (found.cells_failed, found.cells_done) == (2, 4)
    for again in (found, open_sweep(out)):
        state = again.dataset["cell_state"]
        assert (state.sel(tol=1e-9) == 2).all()
        assert (state.sel(tol=1e-2) == 1).all()
        for variable in ("close_pairs", "mean_overlap", "energy"):
            assert np.isnan(again.dataset[variable].sel(tol=1e-9)).all()
            assert np.isfinite(again.dataset[variable].sel(tol=1e-2)).all()
        assert "2 cells failed and have no values" in repr(again)
    assert exit_code(app, ["sweep", "--status", "--out", str(out)]) == 0
    assert "2 of them failed" in capsys.readouterr().out


def test_a_mean_over_seeds_is_missing_where_one_of_them_failed(monkeypatch):
    def measured(cells):
        x = np.array([cell["beta"] + cell["seed"] for cell in cells], float)
        failed = np.array([cell["beta"] == 2.0 and cell["seed"] == 1 for cell in cells])
        return {name: np.where(failed, np.nan, x) for name in QUANTITIES["drifting"].variables} | {FAILED: failed}

    import dataclasses

    fake = dataclasses.replace(QUANTITIES["drifting"], parameters={"beta": None, "seed": 0}, evaluate=measured)
    monkeypatch.setitem(QUANTITIES, "drifting", fake)
    found = sweep("drifting", {"beta": [0.0, 1.0, 2.0, 3.0], "seed": [0, 1]})
    from sphereflow.sweeps.result import seeds_averaged, values_of

    mean, error = seeds_averaged(values_of(found, None))
    np.testing.assert_array_equal(mean, [0.5, 1.5, np.nan, 3.5])
    assert np.isnan(error.values[2])
    assert boundary(found, 3.0, "beta").position[0] == pytest.approx(2.5)  # between the neighbours that are known
