"""The verdict is a comparison and nothing else; these are the cases in which a comparison can mislead."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sphereflow.claims import Measurement, Paper, agreement, at_least, at_most
from sphereflow.errors import SphereflowError

finite = st.floats(-1e6, 1e6)
positive = st.floats(1e-9, 1e3)


def verdict(predicted, measured, tolerance, printed=None):
    return Measurement(predicted, measured, tolerance, "test", printed=printed).verdict


@given(finite, positive, st.floats(-3, 3))
def test_holds_exactly_when_the_deviation_is_within_the_tolerance(predicted, tolerance, part):
    measured = predicted + part * tolerance
    expected = "holds" if abs(measured - predicted) <= tolerance else "fails"
    assert verdict(predicted, measured, tolerance) == expected


@pytest.mark.parametrize(("measured", "expected"), [(1.5, "holds"), (0.5, "holds"), (1.5 + 1e-9, "fails")])
def test_the_tolerance_itself_is_within_the_tolerance(measured, expected):
    assert verdict(1.0, measured, 0.5) == expected


@pytest.mark.parametrize("measured", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_never_holds(measured):
    assert verdict(1.0, measured, 1e300) == "fails"
    assert verdict([1.0, 2.0], [1.0, measured], 1e300) == "fails"


def test_two_infinities_do_not_agree():
    assert verdict(math.inf, math.inf, 1.0) == "fails"


def test_nan_as_prediction_fails_even_against_nan():
    assert verdict(math.nan, math.nan, 1.0) == "fails"


def test_zero_tolerance_asks_for_equality():
    assert verdict(3, 3, 0) == "holds"
    assert verdict(3, np.nextafter(3, 4), 0) == "fails"


@pytest.mark.parametrize("tolerance", [-1e-9, math.nan, math.inf, [0.1, math.nan]])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with pytest.raises(SphereflowError, match="tolerance must be finite"):
        verdict([0.0, 0.0], [0.0, 0.0], tolerance)


def test_one_bad_entry_among_many_fails():
    predicted = np.linspace(0, 1, 1000)
    measured = predicted.copy()
    measured[637] += 2e-6
    assert verdict(predicted, measured, 1e-6) == "fails"
    assert verdict(predicted, measured, 3e-6) == "holds"


def test_tolerances_may_differ_by_entry():
    assert verdict([0, 0], [0.5, 0.05], [1, 0.1]) == "holds"
    assert verdict([0, 0], [0.05, 0.5], [1, 0.1]) == "fails"


def test_one_prediction_for_many_measurements():
    assert verdict(1.0, [0.9, 1.1], 0.2) == "holds"


@pytest.mark.parametrize(("predicted", "measured"), [(np.zeros(3), np.zeros((3, 1))), (np.zeros(0), np.zeros(0))])
def test_shapes_that_would_compare_the_wrong_numbers_are_refused(predicted, measured):
    with pytest.raises(SphereflowError, match="one by one"):
        verdict(predicted, measured, 1.0)


def test_refuted_needs_agreement_with_the_mathematics_and_a_miss_of_the_printed_value():
    assert verdict(1.0, 1.001, 0.01, printed=2.0) == "refuted"
    assert verdict(1.0, 1.5, 0.01, printed=2.0) == "fails"  # agrees with neither
    assert verdict(1.0, 1.001, 0.01, printed=1.005) == "fails"  # agrees with both: nothing is refuted
    assert verdict(1.0, 2.0, 0.01, printed=2.0) == "fails"  # the paper is right after all


def test_refuted_by_a_single_entry():
    assert verdict([1, 2], [1, 2], 0.1, printed=[1, 3]) == "refuted"


def test_relative_tolerance_follows_the_size_of_the_prediction():
    assert agreement([1e3, 1e-3], [1.009e3, 1.009e-3], relative=0.01, because="").verdict == "holds"
    assert agreement([1e3, 1e-3], [1.011e3, 1e-3], relative=0.01, because="").verdict == "fails"
    assert agreement(-2.0, -2.01, relative=0.01, because="").verdict == "holds"


def test_exactly_one_kind_of_tolerance():
    with pytest.raises(SphereflowError, match="either an absolute or a relative"):
        agreement(1, 1, because="")
    with pytest.raises(SphereflowError, match="either an absolute or a relative"):
        agreement(1, 1, absolute=1, relative=1, because="")


@given(finite, finite, st.floats(0, 10))
def test_one_sided_statements(bound, value, slack):
    expected = "holds" if max(value - bound, 0) <= slack else "fails"
    assert at_most(bound, value, slack=slack, because="").verdict == expected
    assert at_least(-bound, -value, slack=slack, because="").verdict == expected


@pytest.mark.parametrize("compare", [at_most, at_least])
def test_one_sided_statements_do_not_hold_for_nan(compare):
    assert compare(1.0, math.nan, slack=1e9, because="").verdict == "fails"
    assert compare(math.nan, 1.0, slack=1e9, because="").verdict == "fails"


def test_a_bound_that_is_infinite_is_obeyed():
    assert at_most(math.inf, 5.0, because="").verdict == "holds"
    assert at_least(-math.inf, 5.0, because="").verdict == "holds"


def test_one_sided_statements_tell_value_and_bound():
    assert at_least([1, 2], [3, 4], because="", note="Both.").note == "value 3, 4 against the bound 1, 2. Both."


def test_two_entries_of_a_paper_cannot_share_a_name():
    paper = Paper("p", "P", ("A",), 2000, "", "")
    paper.claim("one", statement="", source="")(lambda run: None)
    with pytest.raises(SphereflowError, match="two entries named 'one'"):
        paper.figure("one", caption="")(lambda run: None)
