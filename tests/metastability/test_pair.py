"""Two clusters: quadrature against independent integration, closed forms, and extreme beta."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp

from sphereflow.errors import SphereflowError
from sphereflow.metastability import laplace_log_time, log_merging_time, merge_pair


@given(
    theta=st.floats(0.1, 2.5),
    beta=st.floats(0, 6),
    share=st.floats(0.05, 0.95),
    kind=st.sampled_from(["sa", "usa"]),
)
def test_the_time_and_the_landing_point_are_those_of_the_pair_of_equations(theta, beta, share, kind):
    first, second, end = share, 1 - share, 0.05

    def slope(t, y):
        gap = y[1] - y[0]
        weight = math.exp(beta * (math.cos(gap) - 1))
        pull = math.sin(gap) * weight
        if kind == "usa":
            return [second * pull, -first * pull]
        return [second * pull / (first + second * weight), -first * pull / (second + first * weight)]

    met = lambda t, y: y[1] - y[0] - end  # noqa: E731
    met.terminal = True
    run = solve_ivp(slope, (0, 1e30), [0.0, theta], events=met, rtol=1e-11, atol=1e-13, method="LSODA")
    merger = merge_pair(theta, beta, (first, second), kind, end=end)
    assert math.exp(merger.log_time) == pytest.approx(run.t_events[0][0], rel=1e-6)
    assert merger.moved[0] == pytest.approx(run.y_events[0][0][0], abs=1e-6)
    assert sum(merger.moved) == pytest.approx(theta - end)


def test_usa_has_an_elementary_integral_and_a_conserved_mean():
    for beta in (0.0, 3.0, 40.0):
        weight = lambda t, beta=beta: math.exp(beta * (math.cos(2.0) - math.cos(t))) / math.sin(t)  # noqa: E731
        integral = quad(weight, 0.1, 2.0, epsabs=0, epsrel=1e-12, limit=400)[0]
        expected = beta * (1 - math.cos(2.0)) + math.log(integral / 0.7)
        assert log_merging_time(2.0, beta, (0.5, 0.2), "usa", end=0.1) == pytest.approx(expected, rel=1e-11, abs=1e-11)
    moved = merge_pair(2.0, 300.0, (0.5, 0.2), "usa", end=0.1).moved
    assert moved[0] == pytest.approx(1.9 * 0.2 / 0.7, rel=1e-12)


@pytest.mark.parametrize("beta", [1e3, 1e5, 1e6, 1e9])
def test_extreme_beta_follows_laplace_and_lands_by_squared_mass(beta):
    merger = merge_pair(1.0, beta, (0.6, 0.3), "sa", end=1e-3 / math.sqrt(beta))
    assert merger.log_time - laplace_log_time(1.0, beta, (0.6, 0.3), "sa") == pytest.approx(0, abs=3 / beta + 1e-6)
    # The light one moves (.6/.3)^2 times as much, except over the last 1/sqrt(beta).
    assert merger.moved[0] == pytest.approx(0.09 / 0.45, abs=4 / math.sqrt(beta))
    assert np.all(np.diff(merger.log_times) >= 0)
    assert np.all(np.diff(merger.thetas) < 0)


def test_unequal_masses_merge_faster_in_sa_only():
    equal, unequal = (log_merging_time(1.0, 40.0, m, "sa") for m in ((0.5, 0.5), (0.9, 0.1)))
    assert unequal < equal - 1
    assert log_merging_time(1.0, 40.0, (0.5, 0.5), "usa") == pytest.approx(
        log_merging_time(1.0, 40.0, (0.9, 0.1), "usa")
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"theta": math.pi}, "opposite"),
        ({"theta": 0.5, "end": 0.6}, "below the initial angle"),
        ({"theta": 1.0, "masses": (0.5, -0.5)}, "masses must be"),
        ({"theta": 1.0, "model": "softmax"}, "one of"),
        ({"theta": math.nan}, "theta"),
    ],
)
def test_what_makes_no_sense_is_said(arguments, word):
    with pytest.raises(SphereflowError, match=word):
        merge_pair(**{"beta": 5.0, **arguments})


def test_the_angle_zero_takes_for_ever():
    for end in (0.0, -1.0, float("nan")):
        with pytest.raises(SphereflowError, match="end"):
            merge_pair(1.0, 5.0, end=end)


@pytest.mark.parametrize("kind", ["sa", "usa"])
@pytest.mark.parametrize("beta", [1e3, 1e9, 1e13, 1e15, 1e24, 1e100])
def test_any_beta_gives_the_leading_asymptotics(beta, kind):
    masses = (0.3, 0.6)
    exact, leading = (f(1.0, beta, masses, kind) for f in (log_merging_time, laplace_log_time))
    # The next term is of relative size 1/beta in T; rounding is that of an exponent of size beta.
    assert exact == pytest.approx(leading, abs=10 / beta + 1e-14 * beta)
