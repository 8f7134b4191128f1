"""Attention of two tokens in the exact equation, dissipation, coercivity and the orders of limits."""

import numpy as np
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.papers.synchronization_by_noise.limits import flow_overlap, mean_overlap
from sphereflow.papers.synchronization_by_noise.reference import MEAN_GAPS, mean_gaps
from sphereflow.synchronisation import coercivity_test, dissipation, limit_orders
from sphereflow.synchronisation.both_limits import LimitOrders
from sphereflow.synchronisation.covariance import of_activation, of_powers
from sphereflow.synchronisation.two_point import TwoPoint


@pytest.mark.parametrize(("v", "beta"), [(-1.5, 0.7), (2.0, 3.0)])
def test_attention_of_two_tokens_adds_its_drift(v, beta):
    d, law = 5, of_powers([0.4, 0.3, 0.2])
    pair, plain = TwoPoint(d, law, v, beta), TwoPoint(d, law)
    for r in (-0.8, 0.1, 0.95):
        x, y = np.zeros((2, d))
        x[0], y[0], y[1] = 1, r, np.sqrt(1 - r**2)
        heads = [(np.exp(beta * a @ a) * a + np.exp(beta * a @ b) * b) / (np.exp(beta) + np.exp(beta * r))
                 for a, b in ((x, y), (y, x))]  # fmt: skip
        moved = v * (heads[0] - (heads[0] @ x) * x) @ y + v * (heads[1] - (heads[1] @ y) * y) @ x
        assert float(pair.drift(np.array(r)) - plain.drift(np.array(r))) == pytest.approx(moved, abs=1e-12)
        z = np.array(np.arctanh(r))
        change = pair.coefficients(z)[0] - plain.coefficients(z)[0]
        assert float(change) == pytest.approx(moved / (1 - r**2), abs=1e-10)


def test_coercivity_with_attention_is_the_least_rate():
    angle = np.linspace(1e-4, np.pi, 20_001)
    for v in (-2.0, 0.0, 1.0, 6.0):
        pair = TwoPoint(6, of_powers([1.0, 0.2]), v, 2.0)
        assert pair.coercivity() == pytest.approx(pair.pull(np.cos(angle)).min(), abs=1e-4)
        assert pair.decay_rate(abs(v), 2.0) == TwoPoint(6, of_powers([1.0, 0.2])).coercivity() - 6 * abs(v)
        assert pair.lyapunov() == TwoPoint(6, of_powers([1.0, 0.2])).lyapunov(attraction=v)


def test_long_time_rates_are_those_of_the_moments():
    rates = {v: TwoPoint(6, of_powers([1.0]), v).long_time_rate() for v in (0.0, -1.0, -1.5, -2.5, -3.0)}
    assert rates == pytest.approx({0.0: 3.0, -1.0: 1.125, -1.5: 0.5, -2.5: 0.0, -3.0: 0.0})
    assert TwoPoint(8, of_activation("relu")).long_time_rate() == pytest.approx(0.125)
    assert TwoPoint(8, of_activation("tanh")).long_time_rate() == 0  # odd: antipodal pairs stay


def test_dissipation_tells_the_thresholds_and_the_bound():
    found = dissipation("softplus", 8, [0.0, 0.5], strength=-1.0, start=0.9, cells=400)
    c = 5 * 0.921246 - 7 * 0.293379
    assert found.constant == pytest.approx(c - 2, abs=1e-4)
    assert found.coercive_above == pytest.approx(-c / 2, abs=1e-4)
    assert found.synchronises_above == pytest.approx((5 * 0.293379 - 7 * 0.921246) / 2, abs=1e-4)
    assert found.gap[0] == pytest.approx(0.1, abs=1e-6)
    assert found.gap[1] < found.bound[1] == pytest.approx(0.1 * np.exp(-(c - 2) / 2), abs=1e-5)
    uniform = dissipation(of_powers([2.25, 0.25]), 6, [0.4], cells=800)
    assert uniform.gap[0] == pytest.approx(0.04365, abs=1e-5)
    with pytest.raises(SphereflowError, match="start must be"):
        dissipation("relu", 8, [1.0], start="random")


def test_single_layers_have_the_rates_of_the_formula_with_attention():
    found = coercivity_test("sigmoid", 5, overlaps=(-0.6, 0.3, 0.95), strength=-0.4, beta=2.0, repeats=40_000, seed=2)
    assert found.measured.agrees(found.formula, 5, 0.01)
    assert found.least.value == found.measured.value.min()
    circle = coercivity_test("cos", 2, overlaps=(0.5,), repeats=40_000)
    exact = (0.25 * np.cosh(0.5) - 0.5 * np.cosh(1)) / np.e / 0.5
    assert circle.measured.agrees(exact, 5, 0.01)
    with pytest.raises(SphereflowError, match="strictly between"):
        coercivity_test("relu", 8, overlaps=(0.5, 1.0))


def test_orders_of_limits_extrapolate_in_their_own_direction():
    depths, sizes = np.array([8.0, 16.0]), np.array([4.0, 8.0])
    rows, columns = np.append(1 / depths, 0)[:, None], np.append(1 / sizes, 0)[None, :]
    smooth = 0.3 + 2 * rows + 0.7 * columns - 3 * rows * columns
    noise = 1 + 0.1 * np.random.default_rng(0).standard_normal(50)
    found = LimitOrders(depths, sizes, smooth[..., None] * noise, 0.0)
    assert found.deep_first.value == pytest.approx(0.3 * noise.mean())
    assert found.many_first.value == pytest.approx(0.3 * noise.mean())
    assert abs(found.difference.value) < 1e-12
    # A table whose limits do not commute, L/(L+n) at its ends: 1 and 0.
    torn = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [1.0, 1.0, 0.5]])
    assert LimitOrders(depths, sizes, torn[..., None] * noise, 0.0).difference.value == pytest.approx(noise.mean())
    with pytest.raises(SphereflowError, match="at least two different"):
        limit_orders("relu", depths=(4, 4))
    with pytest.raises(SphereflowError, match="multiple of every depth"):
        limit_orders("relu", depths=(4, 6), steps=8)


def test_networks_have_the_overlap_of_the_two_token_computation():
    found = limit_orders("relu", depths=(2, 4), sizes=(2, 4), repeats=4000, seed=3)
    table = found.table()
    for i, depth in enumerate((2, 4)):
        for j, n in enumerate((2, 4)):
            exact = 1 / n + (1 - 1 / n) * mean_overlap(depth, 0.0)
            assert abs(table.value[i, j] - exact) < 5 * table.error[i, j] + 3e-3
    assert mean_overlap(64, 1.0) == pytest.approx(flow_overlap(1.0), abs=0.005)


@pytest.mark.slow
def test_reference_values_are_computed_again():
    for v in (0.0, -1.0, -1.5, -2.5, -3.0):
        coarse, fine = (mean_gaps(v, (0.0, 0.9), cells) for cells in (2000, 4000))
        for start, row in zip((0.0, 0.9), (4 * fine - coarse) / 3, strict=True):
            np.testing.assert_allclose(row, MEAN_GAPS[v, start], atol=2e-8)
