"""The collapse calculator, as a function and as a command."""

import json
import subprocess
import sys

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.random_transformers.collapse import Architecture, collapse_depth, measure, predict
from sphereflow.random_transformers.depth_observables import effective_rank
from sphereflow.sphere import equiangular_frame


def test_knobs_follow_from_the_clock():
    found = predict(Architecture(64, 16, 500, 2, 0.1, 1.0))
    factors = {knob.name: knob.factor for knob in found.knobs}
    assert factors["step halved"] == pytest.approx(4)
    assert factors["values halved"] == pytest.approx(4)
    assert factors["heads doubled"] == pytest.approx(2)
    assert factors["beta doubled"] > 1
    assert factors["context doubled"] > 1
    assert found.folding == pytest.approx(64 / 63 * 200)


def test_flat_attention_needs_the_logistic_time():
    """L = (H/eta^2) log(n-1) until m = 1/2 for wide networks at beta = 0, up to 1/d."""
    a = Architecture(100_000, 33, 10, 3, 0.1, 0.0)
    level = (0.5 * 33 - 1) / 32  # the overlap at which m = 1/2
    assert collapse_depth(a, level) == pytest.approx(300 * np.log(32), rel=1e-3)


@pytest.mark.slow
def test_the_network_collapses_where_predicted():
    a = Architecture(24, 4, 300, 1, 0.2, 1.0)
    found = measure(a, 60, seed=3)
    assert found.arrived[0] == 1
    assert found.arrived[1] > 0.75
    depth = predict(a).depths[0]
    assert found.passages[0].agrees(depth, sigmas=3, slack=0.15 * depth)  # the mean lags behind by O(1/d)
    assert found.rank[:, 0].mean() > 3
    assert found.rank[:, -1].mean() < 2


def test_effective_rank_of_equiangular_tokens():
    x = equiangular_frame(5, 8, 0.3)
    values = np.array([1 + 4 * 0.3, *[1 - 0.3] * 4]) / 5  # eigenvalues of the Gram matrix, summing to one
    assert float(effective_rank(x)) == pytest.approx(np.exp(-np.sum(values * np.log(values))), rel=1e-10)


def test_too_large_to_measure():
    with pytest.raises(SphereflowError, match="random numbers"):
        measure(Architecture(1024, 1024, 10**6, 32, 0.001, 1.0), 16)
    with pytest.raises(SphereflowError, match="step must be"):
        Architecture(64, 8, 10, 1, 0.0, 1.0)


def test_command_line():
    options = "--d 16 --n 4 --layers 60 --heads 1 --step 0.3 --beta 1 --repeats 4 --json"
    command = [sys.executable, "-m", "sphereflow", "collapse", *options.split()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    record = json.loads(run.stdout)
    assert record["measured"]["layers"][-1] == 60
    assert record["predicted"]["depth"]["0.5"] < record["predicted"]["depth"]["0.9"]
    assert record["knobs"][0]["factor"] == pytest.approx(4)


def test_text_fits_the_terminal(capsys):
    from sphereflow.cli.collapse import command

    command(64, 32, 600, 1, 0.1, 1.0, 1.0, 1.0, 0, 0)
    text = capsys.readouterr().out
    assert "collapse is delayed most by" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert not any(line != line.rstrip() for line in text.splitlines())
