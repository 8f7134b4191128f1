"""The report: what its records hold, and that nothing in a claim can break it."""

import json
import math
import subprocess
import sys
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from sample_papers import sample_circles, sample_trouble

from sphereflow.claims import Check, Claim, Figure, Paper, Run, basis
from sphereflow.errors import SphereflowError
from sphereflow.report import ClaimResult, reproduce
from sphereflow.report.processes import _next, _Progress, run_in_processes
from sphereflow.report.record import paper_record, plain, report_text
from sphereflow.report.site import site

HERE = basis.Derived("a test")


def one(run: Run | None = None) -> Check:
    check = Check()
    check.same("one", predicted=1, measured=1)
    check.rival("two", 2)
    return check


def test_verdicts_of_every_kind(report):
    found = {each.claim.id: each.verdict for each in report.claims}
    assert found == {
        "perimeters": "holds",
        "below": "obeyed",
        "too-round": "refuted",
        "off": "fails",
        "raises": "fails",
        "refuses": "fails",
        "not-a-number": "fails",
        "forgets": "fails",
        "unrivalled": "inconclusive",
    }
    assert not report.ok
    assert report.papers[0].ok


def test_a_claim_that_raises_fails_with_a_sentence(report):
    errors = {each.claim.id: each.error for each in report.claims if each.error}
    assert set(errors) == {"raises", "refuses", "forgets"}
    assert errors["raises"].startswith("ZeroDivisionError: division by zero (sample_trouble.py, line ")
    assert errors["refuses"] == "n must be a whole number of at least 1, got -3."
    assert "NoneType where a Check was due" in errors["forgets"]
    assert "the pencil broke" in report.papers[1].pictures[0].error


def test_a_figure_that_cannot_be_drawn_is_enough_to_be_not_ok():
    claim = Claim("one", "", HERE, one)
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
    keys = {"id", "says", "basis", "rows", "rivals", "severity", "verdict"}
    assert all(set(claim) >= keys for claim in circles["claims"] + trouble["claims"])
    perimeters, below, refuted = circles["claims"]
    assert len(perimeters["rows"]) == 12
    assert perimeters["basis"] == {"kind": "theorem", "label": "3", "via": "the translation of 1897"}
    assert below["rows"][0]["side"] == "at most"
    assert refuted["rivals"][0]["values"] == {"length": 44 / 7}
    assert refuted["rivals"][0]["as_printed"]
    off, raises, _, not_a_number, *_ = trouble["claims"]
    assert [off["rows"][0][name] for name in ("predicted", "measured")] == [5, 4]
    assert raises["rows"] == []
    assert "ZeroDivisionError" in raises["error"]
    assert [row["measured"] for row in not_a_number["rows"]] == ["NaN", "Infinity"]


def test_the_report_as_json_counts_verdicts(report):
    record = json.loads(report_text(report), parse_constant=pytest.fail)
    assert record["verdicts"] == {"holds": 1, "obeyed": 1, "refuted": 1, "inconclusive": 1, "fails": 5}
    assert record["preset"] == "paper"


def test_values_of_any_kind_become_json():
    found = plain({"a": np.float64(2), "b": np.arange(2), "c": (1, math.inf), 4: None, "e": {1}, "f": True})
    assert found == {"a": 2.0, "b": [0, 1], "c": [1, "Infinity"], "4": None, "e": "{1}", "f": True}


def test_only_what_was_asked_for():
    result = reproduce([sample_circles.PAPER, sample_trouble.PAPER], only=["below", "polygons"], progress=False)
    assert [paper.paper.slug for paper in result.papers] == ["sample-circles"]
    assert [each.claim.id for each in result.claims] == ["below"]
    assert b"--only below --only polygons" in site(result)["index.html"]
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
    paper = Paper("p", "P", ("A",), 2000, "", "", claims=[Claim("one", "", HERE, worked.append)])
    (tmp_path / "file").touch()
    with pytest.raises(SphereflowError, match="is not a folder"):
        reproduce(paper, out=tmp_path / "file" / "report")
    assert worked == []


def test_ctrl_c_keeps_the_papers_that_were_finished(tmp_path):
    def interrupt(run):
        raise KeyboardInterrupt

    rest = Paper("rest", "Rest", ("A",), 2000, "", "", claims=[Claim("long", "", HERE, interrupt)])
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
        return one()

    paper = Paper("p", "P", ("A",), 2000, "", "", claims=[Claim("one", "", HERE, measure)])
    assert reproduce(paper, progress=True).ok


def test_results_describe_themselves(report):
    assert "sample-circles: 1 holds, 1 obeyed, 1 refuted" in repr(report)
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
            if a.check is not None:
                assert repr(a.check) == repr(b.check)


def test_processes_stay_with_a_paper_then_begin_another_then_help_the_one_with_most_left():
    claim = Claim("one", "", HERE, one)
    states = [_Progress(Paper("p", "P", ("A",), 2000, "", ""), deque([claim] * size)) for size in (1, 3, 5)]
    short, longer, longest = states
    assert _next(states, None) is longest
    longest.began = 1.0
    assert _next(states, None) is longer
    assert _next(states, short) is short
    short.waiting.clear()
    longer.began = 1.0
    assert _next(states, short) is longest
    longest.waiting.clear()
    longer.waiting.clear()
    assert _next(states, longer) is None


@pytest.mark.slow
def test_a_process_that_dies_is_the_result_of_its_entry(monkeypatch, tmp_path):
    from sphereflow import papers

    source = Path(sample_circles.__file__)
    deadly = "\n@PAPER.claim('dies', says='', basis=basis.Derived('-'))\n"
    deadly += "def dies(run):\n    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / source.name).write_text(source.read_text() + deadly)
    monkeypatch.setattr(papers, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "sphereflow.papers.sample_circles", raising=False)
    for jobs in (1, 2):  # alone, the one that died is followed by another, who takes what is left
        (result,) = run_in_processes([papers.load("sample-circles")], Run(), jobs, lambda *told: None)
        verdicts = {each.claim.id: each.verdict for each in result.claims}
        assert verdicts == {"perimeters": "holds", "below": "obeyed", "too-round": "refuted", "dies": "fails"}
        assert "died" in result.claims[-1].error
        assert not any(picture.error for picture in result.pictures)


def test_a_script_is_not_run_again_by_its_processes(tmp_path):
    script = tmp_path / "script.py"
    paper = str(sample_circles.__file__)
    script.write_text(f"import sphereflow as sf\nprint('begun')\nprint(sf.reproduce({paper!r}, jobs=2).papers[0])\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("begun") == 1
    assert "fail" not in done.stdout


def test_records_are_read_back_as_they_were(report):
    from sphereflow.report.record import read_result, result_record

    for paper in report.papers:
        for result in paper.claims:
            read = read_result(result.claim, json.loads(json.dumps(result_record(result))))
            assert repr(read.check) == repr(result.check)
            assert (read.verdict, read.error) == (result.verdict, result.error)
            assert read.check is None or read.check.verdict == result.verdict


def test_mutants_of_a_sound_claim_are_noticed_and_of_a_vacuous_one_are_not():
    from sphereflow.report.mutation import mutants, survivors

    def paper(tolerance):
        def measure(run):
            check = Check()
            check.series(
                "abc",
                predicted=[0, 0.3, 0.6],
                measured=[0.1, 0.3, 0.5],
                tolerance=[tolerance, 0.35, 0.55],
                because="test",
            )
            check.rival("two", {"b": 2.0})
            return check

        return Paper("p", "P", ("A",), 2000, "", "", claims=[Claim("c", "", HERE, measure)])

    names = ["the rival 'two'", "measured values moved on by one row", "measured values in reverse order"]
    assert [name for name, _ in mutants(paper(0.55).claims[0].measure(Run()))] == names
    assert survivors(reproduce(paper(0.2), progress=False)) == []
    assert survivors(reproduce(paper(0.55), progress=False)) == [f"p c: {name}" for name in names[1:]]
    assert survivors(reproduce(sample_circles.PAPER, progress=False)) == []


def test_two_papers_of_one_slug_are_refused_and_one_paper_twice_is_one():
    def paper():
        return Paper("p", "P", ("A",), 2000, "", "", claims=[Claim("one", "", HERE, one)])

    with pytest.raises(SphereflowError, match="two of the papers have the slug p"):
        reproduce([paper(), paper()])
    same = paper()
    assert len(reproduce([same, same], progress=False).papers) == 1


def test_a_check_without_rows_is_an_error_of_the_claim(tmp_path):
    paper = Paper("p", "P", ("A",), 2000, "", "", claims=[Claim("empty", "", HERE, lambda run: Check())])
    report = reproduce(paper, out=tmp_path, progress=False)
    assert report.claims[0].error == "the claim's check has no rows."
    assert "no rows" in (tmp_path / "p.html").read_text()
