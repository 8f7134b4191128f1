"""Two reports beside each other: nothing that differs may go unsaid."""

import copy
import json
import math

import pytest
from sample_papers import sample_circles

from sphereflow.errors import SphereflowError
from sphereflow.report import Report, reproduce
from sphereflow.report.comparison import compare_records, earlier_report
from sphereflow.report.record import report_record


@pytest.fixture
def record(report: Report) -> dict:
    return json.loads(json.dumps(report_record(report)))


def row_of(record: dict) -> tuple[str, dict]:
    """The first row that allows an error."""
    claims = [(f"{paper['paper']} {claim['id']}", claim) for paper in record["papers"] for claim in paper["claims"]]
    return next((name, row) for name, claim in claims for row in claim["rows"] if row["tolerance"] > 0)


def test_a_report_is_the_same_as_itself(record):
    found = compare_records(record, copy.deepcopy(record))
    assert (found.verdicts, found.rows) == ([], [])
    assert found.numbers > 0
    assert all(each.by == 0 for each in found.moved)  # those with infinite and undefined numbers as well


@pytest.mark.parametrize("which", ["measured", "predicted"])
def test_a_number_that_moves_is_told_in_tolerances(record, which):
    later = copy.deepcopy(record)
    claim, row = row_of(later)
    row[which] += 0.5 * row["tolerance"]
    farthest = compare_records(record, later).moved[0]
    assert (farthest.claim, farthest.row) == (claim, row["name"])
    assert farthest.by == pytest.approx(0.5, abs=1e-3)  # a tolerance near 1e-12 of a number near 3
    assert any("moved by 0.5 of its tolerance" in line for line in compare_records(record, later).lines())


@pytest.mark.parametrize(("value", "tolerance"), [("NaN", 1.0), ("Infinity", 1.0)])
def test_what_is_not_finite_is_infinitely_far(record, value, tolerance):
    earlier, later = copy.deepcopy(record), copy.deepcopy(record)
    _, old = row_of(earlier)
    _, new = row_of(later)
    old["tolerance"] = tolerance
    new["measured"] = value
    assert compare_records(earlier, later).moved[0].by == math.inf


def test_a_row_without_tolerance_moves_by_a_share_of_its_value(record):
    earlier, later = copy.deepcopy(record), copy.deepcopy(record)
    for each, measured in ((earlier, 2.0), (later, 2.5)):
        _, row = row_of(each)
        row |= {"predicted": 4.0, "measured": measured, "tolerance": 0.0}
    claim, row = row_of(record)
    found = {(each.claim, each.row): each for each in compare_records(earlier, later).moved}[claim, row["name"]]
    assert (found.by, found.unit) == (0.125, "value")


def test_verdicts_and_rows_that_differ_are_named(record):
    later = copy.deepcopy(record)
    claim = later["papers"][0]["claims"][0]
    claim["verdict"] = "another"
    claim["rows"][0]["name"] = "another row"
    found = compare_records(record, later)
    assert [each[2] for each in found.verdicts] == ["another"]
    assert sorted(what.split("'")[2] for _, what in found.rows) == [" is gone", " is new"]


def test_many_rows_that_moved_are_counted(record):
    later = copy.deepcopy(record)
    for paper in later["papers"]:
        for claim in paper["claims"]:
            for row in claim["rows"]:
                row["measured"] = 1e9
    lines = list(compare_records(record, later).lines(most=1))
    assert sum("moved by" in line and "of its tolerance" in line for line in lines) == 1
    assert any(line.startswith("and ") for line in lines)


def test_the_folder_or_the_file_is_read_and_anything_else_is_refused(tmp_path, record):
    kept = reproduce(sample_circles.PAPER, "quick", tmp_path / "kept", progress=False)
    for path in (tmp_path / "kept", tmp_path / "kept" / "results.json"):
        assert compare_records(earlier_report(path), report_record(kept)).verdicts == []
    for text in ("", "[]", "{}", '{"papers": [{"paper": "a", "claims": [{"id": 1}]}]}', '{"papers": 3}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(SphereflowError, match="holds no report"):
            earlier_report(tmp_path / "other.json")
    with pytest.raises(SphereflowError):
        earlier_report(tmp_path / "nowhere")
