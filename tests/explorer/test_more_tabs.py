"""What the tabs on phases, staircases, random depth and transport compute and say, without a browser."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.evolution.equiangular import collapse_time
from sphereflow.explorer.kit import ListControl
from sphereflow.explorer.tabs import depth, phases, staircase, threads, transport
from sphereflow.explorer.tabs.inputs import Amount
from sphereflow.random_transformers import Architecture, collapse


def of_type(options: dict, kind: str) -> list[dict]:
    return [series for series in options["series"] if series["type"] == kind]


@pytest.mark.slow
def test_phases_are_the_diagram_of_the_library():
    coarse, fine = (phases.diagram("clusters", "sa", 8, 2, 30.0, 20.0, 0, rows) for rows in (4, 16))
    assert np.array_equal(coarse.betas[[0, -1]], fine.betas[[0, -1]])
    # A row of the diagram does not depend on the others: the coarse picture is a part of the fine one.
    assert np.array_equal(coarse.value[[0, -1]], fine.value[[0, -1]])
    shown = phases.picture(fine, phases.together("sa", 8, 20.0), 30.0, 20.0)
    cells = of_type(shown, "custom")[0]["data"]
    assert len(cells) == 16 * (len(fine.times) - 1)
    assert cells[0][0] == pytest.approx(0.1, rel=1e-4)  # from t1 / 300 to t1, and from beta = 1/2 to the largest
    assert (cells[-1][1], cells[-1][3]) == pytest.approx((30, 20), rel=1e-4)
    assert "is 1 at $\\beta$ = 0.5" in phases.in_words(fine)


def test_the_line_of_the_phases_needs_no_simulation():
    times, betas = phases.together("sa", 16, 10.0)
    assert times[0] == collapse_time(16, 0.5)
    assert betas[-1] == pytest.approx(10)
    assert np.all(np.diff(times) > 0)
    alone = phases.picture(None, (times, betas), 30.0, 10.0)
    assert not of_type(alone, "custom")
    assert len(of_type(alone, "line")[0]["data"]) == np.sum(times <= 30)


def test_coarse_and_fine_reports_are_one_key():
    """A report is no part of what is computed."""
    one, two = (phases._Report(lambda share, words: None) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)


def test_two_tokens_take_one_stair():
    """For two tokens the limit of log t / beta is 1 - cos of their angle, and the energy goes from 1/2 to 1."""
    heights, levels = staircase.stairs("sa", 2, 2, 1)
    x = staircase.start(2, 2, 1)
    assert heights == pytest.approx([1 - x[0] @ x[1]])
    assert levels == pytest.approx([1])
    clusters = of_type(staircase.picture(None, (heights, levels), 2, 10.0, "clusters", "scaled"), "line")[0]["data"]
    assert [y for _, y in clusters] == [2, 2, 1, 1]
    energy = of_type(staircase.picture(None, (heights, levels), 2, 10.0, "energy", "scaled"), "line")[0]["data"]
    assert [y for _, y in energy] == [0.5, 0.5, 1, 1]


@pytest.mark.slow
def test_the_staircase_is_that_of_the_library():
    found = staircase.history("sa", 4, 2, 40.0, 1)
    logs = [merge.log_time for merge in found.merges]
    shown = staircase.picture(found, staircase.stairs("sa", 4, 2, 1), 4, 40.0, "clusters", "log")
    dots = of_type(shown, "scatter")[0]["data"]
    assert [x for x, _ in dots] == pytest.approx(logs, rel=1e-5)
    assert [y for _, y in dots] == [3, 2, 1]
    assert staircase.in_words(found).startswith("4 tokens become one in 3 mergers, the last at $t$ = ")
    scaled = staircase.picture(found, staircase.stairs("sa", 4, 2, 1), 4, 40.0, "energy", "scaled")
    assert of_type(scaled, "scatter")[0]["data"][-1][0] == pytest.approx(logs[-1] / 40, rel=1e-5)


@pytest.mark.slow
def test_depth_shows_the_equation_beside_the_networks():
    network = Architecture(d=16, n=4, layers=40, heads=1, step=0.3, beta=1.0)
    layers, curve = depth.predicted(network)
    assert curve[0] == pytest.approx(0, abs=1e-12)
    assert (layers[-1], len(layers)) == (40, 121)
    assert np.all(np.diff(curve) > 0)
    found = depth.measured(network, 0)
    shown = depth.picture(network, found)
    lines = of_type(shown, "line")
    assert [each["name"] for each in lines] == ["network"] * 8 + ["mean", "equation"]
    assert lines[-2]["data"][-1][1] == pytest.approx(found.overlap[:, -1].mean(), rel=1e-5)
    said = depth.in_words(network, depth.depths_of(network)[0], found)
    assert f"{collapse.predicted_overlap(network, np.array([40.0]))[0]:.3f}, and 8 networks have" in said


def test_targets_stay_on_the_side_that_is_seen():
    for x, y in ((0.0, 0.0), (0.3, -0.4), (1.0, 1.0), (-5.0, 0.0)):
        point = transport.target(x, y)
        assert np.linalg.norm(point) == pytest.approx(1)
        assert point[2] > 0.2
    assert transport.target(0.3, -0.4)[:2] == pytest.approx([0.3, -0.4])


def test_transport_says_how_far_the_schedule_ends():
    """Run again by the schedule alone, every token ends at its target: seen here without the tab's own words."""
    places = ((0.5, 0.5), (-0.6, 0.3))
    found = transport.schedule(2, 0.2, 1, places)
    ends = found.schedule.apply(list(transport.clouds(2, 0.2, 1)))
    for end, place in zip(ends, places, strict=True):
        # Geodesic distances are at most pi / 2 times those through space.
        assert np.linalg.norm(np.asarray(end) - transport.target(*place), axis=1).max() < transport.TOL
    assert found.w2.max() <= transport.TOL
    assert "to targets. Run again" in transport.in_words(found)
    before = transport.picture(transport.clouds(2, 0.2, 1), None, places, 100.0)
    assert {each.get("name") for each in before["series"]} >= {"target 1", "target 2", "cloud 1", "behind 2"}


def test_controls_are_restored_within_their_limits(monkeypatch: pytest.MonkeyPatch):
    """Without a page: the controls' own part is replaced by one that only remembers."""
    shown = []
    for cls, given, kept in ((Amount, "7.5", 7.5), (Amount, "1e9", 400.0), (Amount, "<b>", 60.0)):
        control = object.__new__(cls)
        control.limits = staircase.BETA

        class Box:
            value = 60.0

            def show(self, value, move=True):
                self.value = value

        class Line:
            def show(self, *sentences):
                shown.append(sentences)

        control._control, control._notice = Box(), Line()
        control.restore(given)
        assert control.value == kept
    assert shown[0] == ("",)
    assert "takes numbers from 5 to 400" in shown[1][0]
    assert "must be a number" in shown[2][0]
    words = object.__new__(ListControl)
    words._options, taken = {"a": "A", "b": "B"}, []
    words.show = taken.append
    for text in ("b", "c", "<script>"):
        words.restore(text)
    assert taken == ["b"]


def test_who_waits_for_a_place_is_counted():
    """More computations than places: the others wait in line, and the page can say so."""
    release = threading.Event()

    async def crowd() -> int:
        tasks = [asyncio.ensure_future(threads.run_in_thread(release.wait, 600)) for _ in range(threads.TOGETHER + 3)]
        while threads.in_line() < 3:
            await asyncio.sleep(0.01)
        most = threads.in_line()
        release.set()
        await asyncio.gather(*tasks)
        return most

    assert asyncio.run(crowd()) == 3
    assert threads.in_line() == 0


def test_presets_of_the_tabs_stay_within_the_limits_of_the_sphere():
    """A click on the diagram asks for a run that the page can show."""
    from sphereflow.explorer.settings import Settings, parse

    for n in phases.SIZES:
        for d in phases.DIMENSIONS:
            for beta in (phases.TOP.low, phases.TOP.high):
                asked = {"n": int(n), "d": int(d), "beta": beta, "t1": phases.LAST.high, "model": "usa"}
                settings, said = parse(asked, Settings())
                assert said == []
                assert settings.n == int(n)
    assert sf.evolution.phase_diagram is phases.phase_diagram
