"""The report: what its records hold, and that nothing in a claim can break it."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from sample_papers import sample_circles, sample_trouble

from sphereflow.claims import Claim, Figure, Measurement, Paper, Run
from sphereflow.errors import SphereflowError
from sphereflow.report import ClaimResult, reproduce
from sphereflow.report.crew import run_in_processes
from sphereflow.report.page import page
from sphereflow.report.record import paper_record, plain, report_text


def test_verdicts_of_every_kind(report):
    found = {each.claim.id: each.verdict for each in report.claims}
    assert found == {
        "perimeters": "holds",
        "below": "holds",
        "too-round": "refuted",
        "off": "fails",
        "raises": "fails",
        "refuses": "fails",
        "not-a-number": "fails",
        "forgets": "fails",
    }
    assert not report.ok
    assert report.papers[0].ok


def test_a_claim_that_raises_fails_with_a_sentence(report):
    errors = {each.claim.id: each.error for each in report.claims if each.error}
    assert set(errors) == {"raises", "refuses", "forgets"}
    assert errors["raises"].startswith("ZeroDivisionError: division by zero (sample_trouble.py, line ")
    assert errors["refuses"] == "n must be a whole number of at least 1, got -3."
    assert "NoneType where a Measurement was due" in errors["forgets"]
    assert "the pencil broke" in report.papers[1].pictures[0].error


def test_a_figure_that_cannot_be_drawn_is_enough_to_be_not_ok():
    claim = Claim("one", "", "", lambda run: Measurement(1, 1, 0, ""))
    fine = Paper("fine", "P", ("A",), 2000, "", "", claims=[claim])
    torn = Paper("torn", "P", ("A",), 2000, "", "", claims=[claim], figures=[Figure("f", "", lambda run: 1 / 0)])
    assert reproduce(fine, progress=False).ok
    report = reproduce([fine, torn], progress=False)
    assert [paper.ok for paper in report.papers] == [True, False]
    assert not report.ok


def test_pictures_are_svg_or_png_by_size(report):
    polygons, cloud = report.papers[0].pictures
    assert polygons.media_type == "image/svg+xml"
    assert b"<svg" in polygons.content
    assert cloud.media_type == "image/png"
    assert cloud.content.startswith(b"\x89PNG")


def test_figures_follow_the_preset():
    quick = reproduce(sample_circles.PAPER, "quick", progress=False)
    assert [picture.figure.id for picture in quick.papers[0].pictures] == ["polygons"]


def test_a_figure_drawn_twice_gives_the_same_bytes(report):
    again = reproduce(sample_circles.PAPER, only="polygons", progress=False)
    assert again.papers[0].pictures[0].content == report.papers[0].pictures[0].content


def test_json_is_one_readable_object_per_paper(report):
    lines = [json.dumps(paper_record(paper)) for paper in report.papers]
    circles, trouble = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert set(circles) >= {"paper", "preset", "seconds", "claims"}
    assert circles["paper"] == "sample-circles"
    keys = {"id", "statement", "source", "predicted", "measured", "tolerance", "verdict"}
    assert all(set(claim) >= keys for claim in circles["claims"] + trouble["claims"])
    perimeters, below, refuted = circles["claims"]
    assert len(perimeters["predicted"]) == len(perimeters["labels"]) == 12
    assert below["measured"] == [0.0] * 12
    assert refuted["printed"] == 44 / 7
    off, raises, _, not_a_number, _ = trouble["claims"]
    assert (off["predicted"], off["measured"], off["verdict"]) == (5, 4, "fails")
    assert raises["measured"] is None
    assert "ZeroDivisionError" in raises["note"]
    assert not_a_number["measured"] == ["NaN", "Infinity"]
    assert math.isnan(float(not_a_number["measured"][0]))


def test_the_report_as_json_counts_verdicts(report):
    record = json.loads(report_text(report), parse_constant=pytest.fail)
    assert record["verdicts"] == {"holds": 2, "refuted": 1, "fails": 5}
    assert record["preset"] == "paper"


def test_values_of_any_kind_become_json():
    found = plain({"a": np.float64(2), "b": np.arange(2), "c": (1, math.inf), 4: None, "e": {1}, "f": True})
    assert found == {"a": 2.0, "b": [0, 1], "c": [1, "Infinity"], "4": None, "e": "{1}", "f": True}


def test_only_what_was_asked_for():
    result = reproduce([sample_circles.PAPER, sample_trouble.PAPER], only=["below", "polygons"], progress=False)
    assert [paper.paper.slug for paper in result.papers] == ["sample-circles"]
    assert [each.claim.id for each in result.claims] == ["below"]
    assert "--only below --only polygons" in page(result)
    with pytest.raises(SphereflowError, match=r"no claim or figure is named 'belo' .* Did you mean 'below'\?"):
        reproduce(sample_circles.PAPER, only="belo")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"papers": "no-such-paper"}, "there is no paper 'no-such-paper'"),
        ({"papers": []}, "no paper was asked for"),
        ({"papers": sample_circles.PAPER, "preset": "fast"}, "preset must be one of quick, paper"),
        ({"papers": sample_circles.PAPER, "seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_requests_are_refused(arguments, sentence):
    with pytest.raises(SphereflowError, match=sentence):
        reproduce(**arguments)


def test_an_unwritable_folder_is_refused_before_the_work(tmp_path):
    worked = []
    paper = Paper("p", "P", ("A",), 2000, "", "", claims=[Claim("one", "", "", worked.append)])
    (tmp_path / "file").touch()
    with pytest.raises(SphereflowError, match="is not a folder"):
        reproduce(paper, out=tmp_path / "file" / "report")
    assert worked == []


def test_ctrl_c_keeps_the_papers_that_were_finished(tmp_path):
    def interrupt(run):
        raise KeyboardInterrupt

    rest = Paper("rest", "Rest", ("A",), 2000, "", "", claims=[Claim("long", "", "", interrupt)])
    with pytest.raises(KeyboardInterrupt):
        reproduce([sample_circles.PAPER, rest], out=tmp_path, progress=False)
    record = json.loads((tmp_path / "results.json").read_text())
    assert [paper["paper"] for paper in record["papers"]] == ["sample-circles"]
    assert record["missing"] == ["rest"]
    assert "Not in this report: rest." in (tmp_path / "index.html").read_text()


def test_each_paper_is_told_when_it_is_finished():
    told = []
    reproduce([sample_trouble.PAPER, sample_circles.PAPER], progress=False, finished=told.append)
    assert [result.paper.slug for result in told] == ["sample-trouble", "sample-circles"]


def test_long_claims_report_progress_without_harm():
    def measure(run):
        for fraction in (-1.0, 0.5, 2.0, math.nan):
            run.notify(fraction, "working [on] it")
        return Measurement(1, 1, 0, "")

    paper = Paper("p", "P", ("A",), 2000, "", "", claims=[Claim("one", "", "", measure)])
    assert reproduce(paper, progress=True).ok


def test_results_describe_themselves(report):
    assert "sample-circles: 2 hold, 1 refuted" in repr(report)
    assert isinstance(report.claims[0], ClaimResult)
    assert repr(report.claims[0]).startswith("<perimeters: holds, ")


def test_papers_in_processes_of_their_own_give_the_same_report(monkeypatch):
    from sphereflow import papers

    monkeypatch.setattr(papers, "__path__", [str(Path(sample_circles.__file__).parent)])
    heard = []
    options = {"seed": 3, "progress": False}
    apart = reproduce(None, "paper", jobs=2, finished=lambda paper: heard.append(paper.paper.slug), **options)
    together = reproduce(None, "paper", jobs=1, **options)
    assert sorted(heard) == [paper.paper.slug for paper in apart.papers] == ["sample-circles", "sample-trouble"]
    assert [(each.claim.id, each.verdict) for each in apart.claims] == [
        (each.claim.id, each.verdict) for each in together.claims
    ]
    for one, other in zip(apart.papers, together.papers, strict=True):
        assert [picture.content for picture in one.pictures] == [picture.content for picture in other.pictures]
        for a, b in zip(one.claims, other.claims, strict=True):
            assert bool(a.error) == bool(b.error)  # the words differ: the hook of the tests is only in this process
            if a.measurement is not None:
                np.testing.assert_array_equal(a.measurement.measured, b.measurement.measured)


@pytest.mark.slow
def test_a_process_that_dies_is_the_result_of_its_paper(monkeypatch, tmp_path):
    from sphereflow import papers

    for name in ("sample_circles", "sample_trouble"):
        source = Path(sample_circles.__file__).with_name(f"{name}.py")
        (tmp_path / source.name).write_text(source.read_text())
    with open(tmp_path / "sample_trouble.py", "a") as file:
        file.write("\nimport multiprocessing, os, signal\n")
        file.write("if multiprocessing.parent_process(): os.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(papers, "__path__", [str(tmp_path)])
    for name in ("sphereflow.papers.sample_circles", "sphereflow.papers.sample_trouble"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    report = reproduce(None, jobs=2, progress=False)
    assert report.papers[0].ok
    assert {claim.verdict for claim in report.papers[1].claims} == {"fails"}
    # Alone, the one that died is followed by another, who takes what is left.
    waiting = [papers.load("sample-circles"), papers.load("sample-trouble")]
    left = [(each.paper.slug, each.ok) for each in run_in_processes(waiting, Run(), 1, lambda *told: None)]
    assert left == [("sample-trouble", False), ("sample-circles", True)]
    assert "died" in report.papers[1].claims[0].error
