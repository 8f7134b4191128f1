"""What was measured is kept, and only the verdict of the very function that was measured."""

import numpy as np
import pytest
from sample_papers import sample_circles

from sphereflow.claims import Check, Claim, Figure, Paper, Run, basis
from sphereflow.report import reproduce

HERE = basis.Derived("a test")


def one(run: Run | None = None) -> Check:
    check = Check()
    check.same("one", predicted=1, measured=1)
    check.rival("two", 2)
    return check


def _noting(name, log):
    """A claim that leaves a line in a file each time it is measured; what it holds stays the same."""

    def measure(run):
        with log.open("a") as lines:
            lines.write(f"{name} {run.seed}\n")
        return one()

    return Claim(name, "", HERE, measure)


def test_what_is_finished_is_not_measured_again(tmp_path):
    log = tmp_path / "log"

    def paper():
        claims = [_noting("one", log), Claim("fails", "", HERE, lambda run: 1 / 0)]
        figure = Figure("f", "", sample_circles.polygons)
        return Paper("p", "P", ("A",), 2000, "", "", claims=claims, figures=[figure])

    def measured():
        return [int(line.split()[1]) for line in log.read_text().splitlines()]

    first = reproduce(paper(), out=tmp_path, progress=False)
    again = reproduce(paper(), out=tmp_path, progress=False)
    assert measured() == [0]
    assert repr(again.claims[0].check) == repr(first.claims[0].check)
    assert again.papers[0].pictures[0].content == first.papers[0].pictures[0].content
    assert again.claims[1].verdict == "fails"  # an error is tried again
    reproduce(paper(), out=tmp_path, seed=1, progress=False)
    reproduce(paper(), "paper", out=tmp_path, seed=1, progress=False)
    reproduce(paper(), "paper", out=tmp_path, seed=1, fresh=True, progress=False)
    assert measured() == [0, 1, 1, 1]
    for kept in (tmp_path / "finished").iterdir():
        kept.write_text(kept.read_text()[:-20])
    assert reproduce(paper(), "paper", out=tmp_path, seed=1, progress=False).claims[0].verdict == "holds"
    assert len(measured()) == 5


def test_a_verdict_is_never_that_of_another_function(tmp_path):
    def closed_over(value):
        def measure(run):
            check = Check()
            check.row("a", predicted=1.0, measured=value, tolerance=0.1, because="test")
            check.rival("two", 2.0)
            return check

        return measure

    def typed_in(value):
        names = {"Check": Check}
        lines = f"check.row('a', predicted=1., measured={value}, tolerance=.1, because='-'); check.rival('two', 2.)"
        exec(compile(f"def measure(run):\n check = Check(); {lines}\n return check", "<stdin>", "exec"), names)
        return names["measure"]

    def random(value):
        generator = np.random.default_rng(0)
        first = iter([1.0, value])
        return lambda run: closed_over(next(first) + 0 * generator.normal())(run)

    def verdict(measure, name):
        paper = Paper("p", "P", ("A",), 2000, "", "", claims=[Claim(name, "", HERE, measure)])
        return reproduce(paper, out=tmp_path, progress=False).claims[0].verdict

    assert [verdict(closed_over(value), "closed") for value in (1.0, 5.0)] == ["holds", "fails"]
    assert [verdict(typed_in(value), "typed") for value in (1.0, 5.0)] == ["holds", "fails"]
    changing = random(5.0)  # holds a generator: whether it is the same function cannot be told, so it is never kept
    assert [verdict(changing, "random") for _ in range(2)] == ["holds", "fails"]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    log = tmp_path / "log"

    def interrupted(run):
        raise KeyboardInterrupt

    def paper(second):
        return Paper("p", "P", ("A",), 2000, "", "", claims=[_noting("a", log), second])

    with pytest.raises(KeyboardInterrupt):
        reproduce(paper(Claim("b", "", HERE, interrupted)), out=tmp_path, progress=False)
    report = reproduce(paper(_noting("b", log)), out=tmp_path, progress=False)
    assert log.read_text().splitlines() == ["a 0", "b 0"]
    assert report.ok
