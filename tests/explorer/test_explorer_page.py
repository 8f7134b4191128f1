"""The page as a visitor meets it, in a real browser."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1800)  # a busy machine is slow
SMALL = "?model=sa&n=32&d=3&beta=4&start=uniform&t1=300&clock=log&seed=1&speed=4"
FRAMES = 121
PATIENCE = 600_000  # milliseconds; only a guard against waiting for ever


def frames(page, at_least: int = 2) -> None:
    page.wait_for_function(f"Number(document.querySelector('.sf-player').dataset.frames) >= {at_least}")


def field(page, name: str):
    return page.locator(f"input[data-field={name}], [data-field={name}] input").first


def ask(page, name: str, value: str) -> None:
    field(page, name).fill(value)
    field(page, name).press("Enter")


def test_a_run_plays_and_its_clusters_merge(visit):
    page = visit(SMALL)
    frames(page, FRAMES)
    first = page.evaluate("document.querySelector('.sf-player').__player.run.clusters[0]")
    page.wait_for_function("document.querySelector('.sf-toggle').title.startsWith('Play')")  # the end stops the clock
    last = int(page.locator(".sf-player").get_attribute("data-clusters"))
    assert first > 20
    assert last <= 3
    assert "cluster" in page.locator(".sf-count").inner_text()


def test_changing_beta_starts_another_run_and_the_address_follows(visit):
    page = visit(SMALL)
    frames(page)
    ask(page, "beta", "7.25")
    page.wait_for_url(re.compile("beta=7.25"))
    frames(page)
    assert "β = 7.25" in page.locator(".sf-canvas").get_attribute("aria-label")
    assert page.locator(".sf-about h2").inner_text().endswith("β = 7.25, seed 1")


@pytest.mark.slow
def test_the_address_restores_everything(visit):
    query = (
        "?model=common&n=24&d=3&beta=2.5&start=mixture&t1=7.5&clock=linear&seed=12&push=1&noise=0.35&pull=0.5&speed=2"
    )
    first = visit(query)
    ask(first, "seed", "13")
    first.wait_for_url(re.compile("seed=13"))
    address = first.url
    again = visit("?" + address.split("?")[1])
    frames(again)
    shown = {name: field(again, name).input_value() for name in ("n", "d", "beta", "t1", "seed", "noise", "pull")}
    assert shown == {"n": "24", "d": "3", "beta": "2.5", "t1": "7.5", "seed": "13", "noise": "0.35", "pull": "0.5"}
    assert again.locator(".sf-speed").input_value() == "2"
    assert "shared noise" in again.locator(".sf-canvas").get_attribute("aria-label")
    again.locator(".sf-speed").select_option("0.5")
    again.wait_for_url(re.compile("speed=0.5"))
    assert again.url.replace("speed=0.5", "speed=2") == address


@pytest.mark.slow
def test_keyboard(visit):
    page = visit(SMALL.replace("speed=4", "speed=0.25"))
    frames(page)
    toggle = page.locator(".sf-toggle")
    page.locator("body").press(" ")
    assert toggle.get_attribute("aria-label") == "Play (space)"
    page.evaluate("document.querySelector('.sf-time').value = 20")
    page.locator(".sf-time").dispatch_event("input")
    page.wait_for_function("!document.querySelector('.sf-clock').textContent.endsWith('= 0')")
    page.locator("body").press("r")
    assert toggle.get_attribute("aria-label") == "Pause (space)"
    field(page, "beta").press("r")  # letters typed into a field are not commands
    unnamed = page.evaluate(
        """[...document.querySelectorAll('button, input, select, [role=slider], [role=tab], canvas')].filter(
             (e) => e.offsetParent && !e.getAttribute('aria-label') && !e.textContent.trim() && !e.labels?.length)
             .map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    reached = set()
    page.locator("body").click(position={"x": 3, "y": 3})
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    slider = page.get_by_role("slider", name="Inverse temperature β, slider")
    slider.press("ArrowRight")
    page.wait_for_url(re.compile("beta=4.1&"))
    assert {"Inverse temperature β, slider", "Tokens n", "Seed", "Restart (r)", "Time", "Speed"} <= reached


@pytest.mark.slow
def test_a_phone_sees_everything_without_scrolling_sideways(visit):
    page = visit(SMALL, 390, 844, has_touch=True)
    frames(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    stage = page.locator(".sf-stage").bounding_box()
    assert stage["width"] > 330
    assert stage["y"] + stage["height"] < 844
    assert len(page.screenshot()) > 20_000


@pytest.mark.slow
def test_dark(visit):
    page = visit(SMALL, color_scheme="dark")
    page.wait_for_function("document.body.classList.contains('body--dark')")
    page.get_by_role("button", name="Light or dark").click()
    page.wait_for_function("!document.body.classList.contains('body--dark')")


def test_hostile_addresses_are_answered_with_a_sentence(visit):
    page = visit(
        "?n=1000000000&d=-3&beta=nan&t1=1e999&model=<script>alert(1)</script>&seed=1.5&start=../../etc&clock=x"
    )
    said = page.locator(".sf-said").inner_text()
    for name in ("N must be", "D must be", "Beta must be", "T1 must be", "Model must be", "Seed must be"):
        assert name in said
    assert field(page, "n").input_value() == "300"
    assert page.locator(".sf-said script").count() == 0
    frames(page, 1)


@pytest.mark.slow
def test_exports(visit, tmp_path: Path, browser):
    page = visit(SMALL)
    frames(page, FRAMES)
    with page.expect_download(timeout=PATIENCE) as saved:
        page.get_by_role("button", name="The sphere as it stands").click()
    picture = tmp_path / "sphere.png"
    saved.value.save_as(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    with page.expect_download(timeout=PATIENCE) as saved:
        page.get_by_role("button", name="One file that plays without a server").click()
    exported = tmp_path / "run.html"
    saved.value.save_as(exported)
    with page.expect_download(timeout=PATIENCE) as saved:
        page.get_by_role("button", name="An mp4 of the run; takes a while").click()
        page.locator(".q-notification").filter(has_text=re.compile("Filming: \\d+ s so far")).wait_for()
    movie = tmp_path / "run.mp4"
    saved.value.save_as(movie)
    assert b"ftyp" in movie.read_bytes()[:32]
    page.get_by_role("button", name="Three lines that make this run").click()
    assert "sf.evolve(sf.SA(4.0), x0" in page.locator("[data-code]").inner_text()
    _plays_by_itself(browser, exported)


def _plays_by_itself(browser, exported: Path) -> None:
    context = browser.new_context(viewport={"width": 1000, "height": 800}, offline=True)
    alone, troubles = context.new_page(), []
    alone.set_default_timeout(PATIENCE)
    alone.on("pageerror", lambda error: troubles.append(str(error)))
    alone.on("request", lambda sent: troubles.append(sent.url) if sent.url.startswith("http") else None)
    alone.goto(exported.as_uri())
    alone.wait_for_function("Number(document.querySelector('.sf-player').dataset.frames) === 121")
    before = alone.locator(".sf-clock").inner_text()
    alone.wait_for_function(f"document.querySelector('.sf-clock').textContent !== {before!r}")
    turned = alone.evaluate("player.sphere.yaw")
    box = alone.locator(".sf-canvas").bounding_box()
    alone.mouse.move(box["x"] + 100, box["y"] + 100)
    alone.mouse.down()
    alone.mouse.move(box["x"] + 200, box["y"] + 120)
    alone.mouse.up()
    assert alone.evaluate("player.sphere.yaw") > turned + 0.1
    assert "sf.evolve" in alone.locator("pre").inner_text()
    context.close()
    assert troubles == []


@pytest.mark.slow
def test_a_canvas_will_do_where_there_is_no_webgl(visit):
    page = visit(SMALL + "&webgl=off")
    frames(page, 10)
    painted = """(() => { const c = document.querySelector('.sf-canvas');
        const image = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return image.filter((v, i) => i % 4 === 3 && v > 200).length; })()"""
    page.wait_for_function(f"{painted} > 100")


@pytest.mark.slow
def test_a_heavy_visitor_does_not_block_another(visit):
    """The heavy run has hours to go; that the light one ends at all shows that it had its turns."""
    heavy = visit("?model=sa&n=4000&d=5&beta=50&t1=100000")
    frames(heavy, 1)
    light = visit(SMALL)
    frames(light, FRAMES)
    assert int(heavy.locator(".sf-player").get_attribute("data-frames")) < FRAMES
    ask(light, "beta", "3")
    light.wait_for_url(re.compile("beta=3"))


@pytest.mark.slow
def test_an_export_of_a_run_that_is_replaced_says_so(visit):
    page = visit("?model=sa&n=4000&d=5&beta=50&t1=100000")
    frames(page, 1)
    page.get_by_role("button", name="An mp4 of the run; takes a while").click()
    page.locator(".q-notification").filter(
        has_text=re.compile("The run is not over yet: \\d+ of 121 frames")
    ).wait_for()
    ask(page, "n", "8")
    words = "No mp4 was saved: the run was replaced by another; nothing was saved."
    page.locator(".q-notification").filter(has_text=words).wait_for()


def test_unknown_runs_are_not_found(server):
    answer = urllib.request.urlopen(server.address + "run/unknown/frames", timeout=600).read()
    assert answer[:4] == b"\x02\0\0\0"
    assert b"no longer knows this run" in answer
    for address in ("run/unknown/sphereflow.html", "run/..%2f..%2fetc/frames"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.address + address, timeout=600)
