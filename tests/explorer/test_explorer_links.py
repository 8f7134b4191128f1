"""Addresses that restore the whole page, rough frames that are called so, and every tab on a phone."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.timeout(1800)  # a busy machine is slow
SMALL = "?model=sa&n=8&d=3&beta=2&t1=1&seed=1"
TABS = ("phases", "staircase", "depth", "transport", "landscape", "retrieval", "memory", "heads")
READY = """[...document.querySelectorAll('.tab-answer')].some(a => a.offsetParent && a.innerText.trim())"""
IDLE = """[...document.querySelectorAll('.tab-progress')].every(p => !p.offsetParent)"""


def filled(page) -> None:
    page.wait_for_function(f"{READY} && {IDLE}")


def test_a_link_restores_the_tabs(visit):
    words = "&tab=retrieval&retrieval.beta=0.5&memory.load=0.45&memory.kernel=lsr&retrieval.t=elephants&retrieval.x=1"
    page = visit(SMALL + words)
    filled(page)
    shown = page.locator("input[aria-label='Inverse temperature β']:visible")
    assert shown.input_value() == "0.5"
    assert "Depth t must be a number; 1 is used." in page.locator(".kit-warning:visible").inner_text()
    page.fill("input[aria-label='Positional slope λ']", "2.5")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"retrieval\.slope=2\.5"))
    address = page.url
    # What another tab was given is kept before that tab is opened, and what nobody knows is not.
    assert "memory.load=0.45" in address
    assert "elephants" not in address
    assert "retrieval.x" not in address
    again = visit("?" + address.split("?")[1])
    filled(again)
    assert again.locator("input[aria-label='Positional slope λ']").input_value() == "2.5"
    again.get_by_role("tab", name="Memory").click()
    again.wait_for_function(
        "[...document.querySelectorAll('.tab-answer')].some(a => a.innerText.includes('load 0.45'))"
    )
    assert again.locator("input[aria-label='Load α']").input_value() == "0.45"
    assert "tab=memory" in again.url
    assert "retrieval.slope=2.5" in again.url


@pytest.mark.slow
def test_a_point_of_the_phase_diagram_plays_a_run(visit):
    page = visit(SMALL + "&tab=phases&phases.n=8&phases.d=3")
    filled(page)
    at = """() => { const box = document.querySelector('.tab-chart');
        return getElement(Number(box.id.slice(1))).chart.convertToPixel({gridIndex: 0}, [3, 6]); }"""
    place = page.evaluate(at)
    page.click(".tab-chart", position={"x": place[0], "y": place[1]})
    page.wait_for_url(re.compile("n=8&d=3&beta=(5.9|6)"))
    page.wait_for_function("document.querySelector('.sf-player').offsetParent !== null")
    page.wait_for_function("Number(document.querySelector('.sf-player').dataset.frames) >= 121")
    assert "tab=" not in page.url


@pytest.mark.slow
def test_tokens_move_roughly_while_the_accurate_run_is_far_behind(visit):
    """This run has hours to go, and a rough frame before anything is compiled; pictures of it say what they are."""
    page = visit("?model=sa&n=4000&d=5&beta=50&t1=100000")
    page.wait_for_function("Number(document.querySelector('.sf-player').dataset.moving) >= 3")
    page.wait_for_function("document.querySelector('.sf-player').__player.rough")
    status = page.locator(".sf-status.sf-shown")
    status.filter(
        has_text=re.compile(r"preview, steps good to 0\.02; .*refined to 10⁻⁵ · \d+ of 121 frames")
    ).wait_for()
    drawn = """async () => { const seen = [], fill = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (...all) { seen.push(all[0]); fill.apply(this, all); };
        await document.querySelector('.sf-player').__player.picture('caption');
        CanvasRenderingContext2D.prototype.fillText = fill;
        return seen; }"""
    assert any(text.startswith("preview") for text in page.evaluate(drawn))


@pytest.mark.slow
def test_accurate_frames_take_the_place_of_rough_ones(visit):
    page = visit("?model=usa&n=40&d=3&beta=4&t1=50&seed=3&speed=4")
    page.wait_for_function("Number(document.querySelector('.sf-player').dataset.frames) >= 121")
    player = "document.querySelector('.sf-player').__player"
    assert page.evaluate(f"[{player}.run.times.length, {player}.run.points.length, {player}.rough]") == [
        121,
        121,
        False,
    ]
    assert page.evaluate(f"{player}.run.energy.slice(1).every(Number.isFinite)")
    page.wait_for_function("!document.querySelector('.sf-status').classList.contains('sf-shown')")


@pytest.mark.slow
def test_every_tab_fits_a_phone(visit):
    page = visit(SMALL, 390, 844, has_touch=True)
    for name in TABS:
        tab = page.get_by_role("tab", name=re.compile(name, re.IGNORECASE))
        box = tab.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        tab.click()
        page.wait_for_url(re.compile(f"tab={name}"))
        filled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
