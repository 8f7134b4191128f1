"""The verdict is a comparison and nothing else; these are the cases in which a comparison can mislead."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sphereflow.claims import FALSE_ALARM, Check, Paper, basis, margin
from sphereflow.errors import SphereflowError

finite = st.floats(-1e6, 1e6)
positive = st.floats(1e-9, 1e3)
HERE = basis.Derived("a test")


def check_of(predicted, measured, tolerance, rival=None, printed=None) -> Check:
    check = Check()
    names = range(np.size(measured))
    check.series(names, predicted=predicted, measured=measured, tolerance=tolerance, because="test")
    if rival is not None:
        check.rival("rival", rival)
    if printed is not None:
        check.printed(printed)
    return check


def agrees(predicted, measured, tolerance) -> bool:
    return check_of(predicted, measured, tolerance).verdict != "fails"


@given(finite, positive, st.floats(-3, 3))
def test_rows_agree_exactly_when_the_deviation_is_within_the_tolerance(predicted, tolerance, part):
    measured = predicted + part * tolerance
    assert agrees(predicted, measured, tolerance) == (abs(measured - predicted) / tolerance <= 1)


@pytest.mark.parametrize("measured", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_never_agrees(measured):
    assert not agrees(1.0, measured, 1e300)
    assert not agrees([1.0, 2.0], [1.0, measured], 1e300)
    assert not agrees(measured, measured, 1.0)


def test_zero_tolerance_asks_for_equality():
    assert agrees(3, 3, 0)
    assert not agrees(3, np.nextafter(3, 4), 0)


@pytest.mark.parametrize("tolerance", [-1e-9, math.nan, math.inf, [0.1, math.nan]])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    with pytest.raises(SphereflowError, match="must be finite and not negative"):
        check_of([0.0, 0.0], [0.0, 0.0], tolerance)


def test_one_bad_row_among_many_fails():
    predicted = np.linspace(0, 1, 100)
    measured = predicted.copy()
    measured[63] += 2e-6
    assert not agrees(predicted, measured, 1e-6)
    assert agrees(predicted, measured, 3e-6)


def test_a_claim_holds_only_if_every_rival_is_rejected():
    assert check_of(1.0, 1.01, 0.1).verdict == "inconclusive"  # no rival was named
    assert check_of(1.0, 1.01, 0.1, rival=2.0).verdict == "holds"
    assert check_of(1.0, 1.01, 0.1, rival=1.05).verdict == "inconclusive"
    check = check_of([1.0, 2.0], [1.0, 2.0], 0.1, rival=[1.0, 3.0])
    assert check.verdict == "holds"  # one row is enough to reject a rival
    check.rival("the same", [1.05, 2.05])
    assert check.verdict == "inconclusive"
    assert check_of(1.0, 2.0, 0.1, rival=3.0).verdict == "fails"


def test_severity_is_the_miss_of_the_nearest_rival_in_tolerances():
    check = check_of([1.0, 5.0], [1.0, 5.0], [0.1, 1.0], rival=[1.5, 5.0])
    check.rival("nearer", {"0": 1.2})
    check.rival("farther", check.times(2.0))
    assert check.severity == pytest.approx(2.0)
    assert check.nearest is not None
    assert check.nearest.name == "nearer"
    assert check_of(3, 3, 0, rival=4).severity == math.inf
    assert check_of(3, 3, 0).severity is None


def test_refuted_needs_agreement_with_the_mathematics_and_a_miss_of_the_printed_value():
    assert check_of(1.0, 1.001, 0.01, printed=2.0).verdict == "refuted"
    assert check_of(1.0, 1.5, 0.01, printed=2.0).verdict == "fails"  # agrees with neither
    assert check_of(1.0, 1.001, 0.01, printed=1.005).verdict == "inconclusive"  # nothing is refuted
    assert check_of(1.0, 2.0, 0.01, printed=2.0).verdict == "fails"  # the paper is right after all
    assert check_of(1.0, 1.0, 0.01, rival=1.001, printed=2.0).verdict == "inconclusive"
    assert check_of([1, 2], [1, 2], 0.1, printed=[1, 3]).verdict == "refuted"  # by a single row


def test_null_data_must_not_pass():
    check = check_of([1.0, 2.0], [1.0, 2.0], 0.1)
    check.null("shuffled", [2.0, 1.0])
    assert check.verdict == "holds"
    check.null("nothing shuffled", {"0": 1.05})
    assert check.verdict == "inconclusive"


@given(finite, finite, st.floats(1e-9, 10))
def test_bounds(bound, value, slack):
    for sign, side in ((1, "at_most"), (-1, "at_least")):
        check = Check()
        getattr(check, side)("b", bound=sign * bound, measured=sign * value, tolerance=slack, because="test")
        gap = max(value - bound, 0.0)
        assert check.verdict == ("obeyed" if gap / slack <= 1 else "fails")


@pytest.mark.parametrize("side", ["at_most", "at_least"])
def test_bounds_are_not_obeyed_by_nan_and_hold_when_a_nearer_bound_is_broken(side):
    def bounded(bound, measured, rival=None):
        check = Check()
        sign = 1 if side == "at_most" else -1
        getattr(check, side)("b", bound=sign * bound, measured=sign * measured, tolerance=0.01, because="test")
        if rival is not None:
            check.rival("other bound", sign * rival)
        return check.verdict

    assert bounded(1.0, math.nan) == bounded(math.nan, 1.0) == "fails"
    assert bounded(math.inf, 5.0) == "obeyed"
    assert bounded(1.0, 0.9, rival=0.5) == "holds"
    assert bounded(1.0, 0.4, rival=0.5) == "obeyed"


@pytest.mark.parametrize("side", ["at_most", "at_least"])
@pytest.mark.parametrize("given", [{}, {"tolerance": 0.0}, {"relative": 0.0}, {"relative": 0.1}])
@pytest.mark.parametrize("measured", [0.0, np.float64(2), np.array(1.0), np.array([0.5], dtype=np.float32), math.inf])
def test_a_bound_on_what_is_not_counted_needs_an_accuracy(side, given, measured):
    with pytest.raises(SphereflowError, match="the bound 'b' is on a number that is not counted"):
        getattr(Check(), side)("b", bound=0.0, measured=measured, because="test", **given)


@pytest.mark.parametrize("measured", [3, np.int64(3), np.array(3), np.int32([3]).max(), np.uint8(3)])
def test_a_count_needs_no_accuracy_and_a_rival_contradicts_it_exactly(measured):
    check = Check()
    check.at_most("most", bound=4.5, measured=measured, because="a count")
    check.at_least("least", bound=3, measured=measured, because="a count")
    check.rival("one more", {"least": 4})
    assert (check.verdict, check.severity) == ("holds", math.inf)
    flag = Check()
    flag.at_least("flag", bound=1, measured=np.True_, because="a flag")
    assert flag.verdict == "obeyed"


def test_error_bars_may_happen_to_vanish():
    """Repeats that agree are no slip of who wrote the claim."""
    check = Check()
    check.at_most("share", bound=0.5, measured=0.0, error=0.0, repeats=9, because="all alike")
    check.null("all", 1.0)
    assert check.verdict == "holds"


def test_severity_of_a_bound_says_how_far_the_rival_is():
    def lost_by(tolerance):
        check = Check()
        check.at_most("ratio", bound=1.0, measured=0.9, tolerance=tolerance, because="the solver")
        check.rival("a bound that is broken", 0.5)
        return check.severity, check.verdict

    assert lost_by(0.1) == (pytest.approx(4.0), "holds")
    assert lost_by(0.5) == (pytest.approx(0.8), "obeyed")


@given(st.floats(-5, 5).filter(lambda z: abs(abs(z) - 1) > 1e-9), positive)
def test_what_is_positive_is_so_beyond_its_accuracy(z, width):
    """The severity is the number itself in units of its accuracy: where zero is possible nothing holds."""
    check = Check()
    check.positive("gap", measured=z * width, tolerance=width, because="test")
    assert check.severity == pytest.approx(max(z, 0.0))
    assert check.verdict == ("holds" if z > 1 else "obeyed" if z > -1 else "fails")


def test_what_is_positive_takes_error_bars():
    check = Check()
    check.positive("gap", measured=1.0, error=0.1, repeats=9, because="test")
    check.positive("other", measured=8.0, error=1.0, because="test")
    assert [row.tolerance for row in check.rows] == pytest.approx([0.1 * margin(9), margin()])
    assert [check.excess(rival) for rival in check.rivals] == pytest.approx([10 / margin(9), 8 / margin()])
    assert check.false_alarm == 2 * FALSE_ALARM


def test_a_bound_beside_an_equation_is_inconclusive_when_a_rival_survives():
    check = check_of(1.0, 1.0, 0.1)
    check.at_most("b", bound=2.0, measured=1.0, tolerance=0.1, because="test")
    check.rival("weaker bound", {"b": 3.0})
    assert check.verdict == "inconclusive"


@pytest.mark.parametrize("repeats", [None, 3, 30])
def test_error_bars_give_false_alarms_at_the_stated_rate(repeats):
    law = stats.norm if repeats is None else stats.t(repeats - 1)
    assert 2 * law.sf(margin(repeats)) == pytest.approx(FALSE_ALARM, rel=1e-6)
    check = Check()
    check.row("mean", predicted=0.0, measured=0.5, error=0.1, repeats=repeats, tolerance=0.2, because="test")
    assert check.rows[0].tolerance == pytest.approx(0.2 + 0.1 * margin(repeats))
    check.row("exact", predicted=0.0, measured=0.0, tolerance=0.0, because="test")
    assert check.false_alarm == FALSE_ALARM


def row(**changed):
    given = {"predicted": 1.0, "measured": 1.0, "tolerance": 0.1, "because": "test"} | changed
    check = Check()
    check.row("a", predicted=1.0, measured=1.0, tolerance=0.1, because="test")
    check.row(given.pop("name", "b"), **given)
    return check


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"name": "a"}, "two rows of a check are named 'a'"),
        ({"relative": 0.1}, "both an absolute and a relative"),
        ({"tolerance": None}, "has no tolerance"),
        ({"because": ""}, "does not say why"),
        ({"measured": [1.0, 2.0]}, r"single numbers; measured has shape \(2,\)"),
        ({"error": 0.1, "repeats": 1}, "at least 2 repeats"),
        ({"tolerance": None, "relative": -0.1}, "relative tolerance of the row 'b' must not be negative"),
        ({"measured": "many"}, "measured of the row 'b' must be a number, got 'many'"),
    ],
)
def test_rows_that_would_mislead_are_refused(changed, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        row(**changed)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1.0, 2.0, 3.0], "3 values for 2 rows"),
        ({"c": 1.0}, "about 'c', which is not a row"),
        ({}, "predicts nothing"),
        ({"a": math.nan}, "no number for the row 'a': it is NaN"),
    ],
)
def test_rivals_that_say_nothing_about_the_rows_are_refused(values, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        row().rival("wrong", values)
    with pytest.raises(SphereflowError, match="before the rows"):
        Check().rival("early", 1.0)
    check = row()
    check.rival("twice", 2.0)
    with pytest.raises(SphereflowError, match="two rivals of a check are named 'twice'"):
        check.rival("twice", 3.0)


def test_a_series_has_one_value_for_each_name():
    with pytest.raises(SphereflowError, match="measured has 3 values for 2 rows"):
        Check().series("ab", predicted=[1, 2], measured=[1, 2, 3], tolerance=1, because="test")


def test_two_entries_of_a_paper_cannot_share_a_name():
    paper = Paper("p", "P", ("A",), 2000, "", "")
    paper.claim("one", says="", basis=HERE)(lambda run: None)
    with pytest.raises(SphereflowError, match="two entries named 'one'"):
        paper.figure("one", caption="")(lambda run: None)


@pytest.mark.parametrize("name", ["../escaped", "a/b", "<b>", "", ".hidden", "two words"])
def test_names_that_become_files_are_plain(name):
    paper = Paper("p", "P", ("A",), 2000, "", "")
    for make in (
        lambda: Paper(name, "P", ("A",), 2000, "", ""),
        lambda: paper.claim(name, says="", basis=HERE)(lambda run: None),
        lambda: paper.figure(name, caption="")(lambda run: None),
    ):
        with pytest.raises(SphereflowError, match="must be letters and digits"):
            make()


@pytest.mark.parametrize("where", [basis.Summary("a blog"), HERE, basis.Extension("ours")])
def test_only_what_was_read_can_be_refuted(where):
    paper = Paper("p", "P", ("A",), 2000, "", "")
    with pytest.raises(SphereflowError, match="only an abstract"):
        paper.claim("one", says="a", prints="b", basis=where)(lambda run: None)
    assert not where.printed


def test_every_basis_says_where_a_statement_comes_from():
    every = [
        basis.Abstract("clusters"),
        basis.Theorem("2.1", via="a transcription"),
        basis.Equation("3", via="a transcription"),
        basis.Figure("4", via="a transcription"),
        basis.AuthorCode("somebody/something", "0123abc", "main.py"),
        basis.Summary("a blog"),
        HERE,
        basis.Extension("beyond"),
    ]
    assert tuple(each.kind for each in every) == basis.KINDS
    assert every[1].sentence == "theorem 2.1, as transcribed in a transcription"
    assert [each.printed for each in every] == [True] * 5 + [False] * 3
    assert all(each.record()["kind"] == each.kind for each in every)


def test_a_value_on_its_tolerance_is_inside():
    check = Check()
    check.row("on the edge", predicted=1.0, measured=1.5, tolerance=0.5, because="numbers without rounding")
    check.rival("another", 3.0)
    assert check.excess() == 1.0
    assert check.verdict == "holds"
