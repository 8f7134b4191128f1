"""The gallery of runs: the code on a page makes the run of the page; files are whole, small and need nothing else."""

import base64
import html
import json
import re
import shutil
import struct

import numpy as np
import pytest

from sphereflow import figures
from sphereflow.errors import SphereflowError
from sphereflow.evolution.webpage.frames import BINS
from sphereflow.figures import EXHIBITS, write_gallery
from sphereflow.figures.exhibits.card import card
from sphereflow.figures.exhibits.exhibit import Exhibit, as_density, by_start, coloured, of_runs

MEGABYTE = 1_000_000
SMALL = {
    "pair": Exhibit(
        "<A> pair",
        "Two models & the same tokens.",
        "2312.10794",
        'import sphereflow as sf\nx0 = sf.draw("uniform", 8, 3)\n'
        'runs = {"<SA>": sf.evolve(sf.SA(2.0), x0, 1.0, saveat=3), "USA": sf.evolve(sf.USA(2.0), x0, 1.0, saveat=3)}',
        of_runs,
    ),
    "crowd": Exhibit(
        "A crowd",
        "A density.",
        "2312.10794",
        "import sphereflow as sf\nrun = sf.simulate(n=12, d=2, beta=4.0, t1=1.0, saves=3, tol=1e-4)",
        as_density,
    ),
    "growing": Exhibit(
        "Growing",
        "Points far out.",
        "2305.05465",
        "import numpy as np\nts, xs = [0.0, 1.0, 2.0], np.eye(2) * [[[1.0]], [[2.0]], [[5.0]]]",
        coloured(by_start, bare=True),
    ),
}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(figures.exhibits.pages, "EXHIBITS", SMALL)


def told(page, mark=""):
    """What the player of a page is told, and the frames: times, values and places of the tokens."""
    about = json.loads(re.search(rf'id="about{mark}">([^<]*)<', page)[1])
    frames = base64.b64decode(re.search(rf'id="frames{mark}">([^<]*)<', page)[1])
    n, size = about["n"], 24 + 2 * BINS + 8 * about["n"]
    heads = [struct.unpack_from("<dd", frames, k) for k in range(0, len(frames), size)]
    places = [np.frombuffer(frames, "<i2", 3 * n, k + 24 + 2 * BINS + 2 * n) for k in range(0, len(frames), size)]
    return about, np.array(heads), np.stack(places).reshape(-1, n, 3) / 32_767


def code_of(page):
    return html.unescape(re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)[1])


def run_again(code):
    names = {}
    exec(code, names)
    return names


def needs_nothing(page):
    """Nothing is loaded: the only addresses are links for the reader."""
    links = re.findall(r"""<a href="([^"]*)">""", page)
    loaded = re.findall(
        r"""(?:src|href)=["'](?!data:)([^"']*)|^import |url\(""", re.sub(r"<a href[^>]*>", "", page), re.M
    )
    return loaded == [] and all(link.endswith(".html") or link.startswith("https://arxiv.org/abs/") for link in links)


def test_a_pair_has_both_runs_and_one_code(small, tmp_path):
    index = write_gallery(tmp_path / "site", overwrite=False)
    page = (tmp_path / "site" / "pair.html").read_text("utf-8")
    assert needs_nothing(page)
    assert "<title>&lt;A&gt; pair</title>" in page
    assert "Two models &amp; the same tokens." in page
    runs = run_again(code_of(page))["runs"]
    for mark, name in (("", "<SA>"), ("-1", "USA")):
        _, heads, places = told(page, mark)
        np.testing.assert_array_equal(heads[:, 0], runs[name].ts)
        np.testing.assert_array_equal(heads[:, 1], runs[name].energy)
        np.testing.assert_allclose(places, runs[name].xs, atol=1 / 32_767)
    listed = re.findall(r'<li><a href="([^"]*)"><svg', index.read_text("utf-8"))
    assert listed == ["pair.html", "crowd.html", "growing.html"]
    assert {path.name for path in index.parent.iterdir()} == {"index.html", *listed}


def test_what_is_no_token_on_a_sphere_is_not_called_one(small, tmp_path):
    write_gallery(tmp_path, ["crowd", "growing"])
    about, heads, places = told((tmp_path / "crowd.html").read_text("utf-8"))
    assert about["bare"]
    assert "density" in about["note"]
    run = run_again(SMALL["crowd"].code)["run"]
    np.testing.assert_array_equal(heads[:, 1], run.energy)
    # The radius can be turned back into the density, whose mean is 1 whatever the tokens do;
    # rounding to 16 bits moves it by less than 6 times the step of the radius, 7e-5.
    radii = np.linalg.norm(places, axis=2) / about["unit"]
    np.testing.assert_allclose(np.expm1(3 * (radii - 1)).mean(axis=1), 1, atol=5e-4)


def test_tokens_that_leave_are_still_in_the_picture(small, tmp_path):
    write_gallery(tmp_path, "growing")
    about, heads, places = told((tmp_path / "growing.html").read_text("utf-8"))
    assert about["unit"] == pytest.approx(0.2)
    np.testing.assert_allclose(places[:, 0, 0], [0.2, 0.4, 1.0], atol=1 / 32_767)
    np.testing.assert_array_equal(heads[:, 1], 0)
    assert about["colours"] == [1, 4]


def test_a_picture_has_every_token_in_its_place():
    (shown,) = SMALL["growing"].players.values()
    drawn = card(shown, 1.0, 0.0)
    dots = re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="3.2"', drawn)
    assert [tuple(map(float, dot)) for dot in dots] == [(282.0, 150.0), (150.0, 18.0)]


@pytest.mark.parametrize("only", ["nothing", ["crowd", "nothing"], []])
def test_wrong_names_get_a_sentence(only, small, tmp_path):
    with pytest.raises(SphereflowError, match="only must"):
        write_gallery(tmp_path / "site", only)
    assert not (tmp_path / "site").exists()


def test_nothing_is_replaced_unasked(small, tmp_path):
    (tmp_path / "crowd.html").write_text("mine")
    with pytest.raises(SphereflowError, match="exists already"):
        write_gallery(tmp_path, "crowd")
    assert (tmp_path / "crowd.html").read_text() == "mine"
    write_gallery(tmp_path, "crowd", overwrite=True)
    assert (tmp_path / "crowd.html").read_text() != "mine"


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EXHIBITS))
def test_the_code_on_a_page_makes_its_run(name, tmp_path):
    write_gallery(tmp_path, name)
    page = (tmp_path / f"{name}.html").read_text("utf-8")
    assert needs_nothing(page)
    assert len(page) < 1.5 * MEGABYTE
    assert len(code_of(page).splitlines()) <= 4
    again = EXHIBITS[name].shown(run_again(code_of(page)))
    for number, shown in enumerate(again.values() if isinstance(again, dict) else [again]):
        about, heads, places = told(page, f"-{number}" if number else "")
        np.testing.assert_array_equal(heads[:, 0], shown.ts)
        # The same machine, the same numbers: what is left is rounding to 16 bits.
        if shown.xs.shape[2] <= 3:
            np.testing.assert_allclose(places[:, :, : shown.xs.shape[2]], about["unit"] * shown.xs, atol=1 / 32_767)


@pytest.mark.slow
def test_pages_open_from_files_on_a_phone(small, tmp_path):
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium was found")
    from playwright.sync_api import sync_playwright

    index = write_gallery(tmp_path)
    troubles = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 400, "height": 850}, color_scheme="dark")
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda sent: None if sent.url.startswith(("file:", "data:")) else troubles.append(sent.url))
        for name in ("index", *SMALL):
            page.goto(f"{index.parent.as_uri()}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") == 400
            if name != "index":
                page.wait_for_function("document.querySelector('.sf-clock').textContent !== 't = 0'", timeout=60_000)
        page.goto(f"{index.parent.as_uri()}/pair.html")
        page.evaluate("player.seek(1)")
        page.wait_for_function(
            "[...document.querySelectorAll('.sf-clock')].every((c) => c.textContent === 't = 0.500')"
        )
        browser.close()
    assert troubles == []
