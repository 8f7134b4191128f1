"""The tabs of the page: their answers against the library, their limits, and the page itself in a real browser."""

import importlib.util
import math
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import xarray as xr

from sphereflow.errors import MissingExtra, SphereflowError
from sphereflow.explorer.tabs import headmaps, heads, landscape, memory, retrieval
from sphereflow.explorer.tabs.controls import Limits
from sphereflow.explorer.tabs.words import power, short

# --- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "kept"),
    [("5", 5), (-3, 1), ("1e9", 50), (math.inf, 50), (-math.inf, 1), ("nan", 7), ("many", 7), (None, 7), ([2], 7)],
)
def test_a_number_is_kept_within_its_limits_and_the_page_says_so(asked, kept):
    number, said = Limits("beta", 1, 50, 7).kept(asked)
    assert number == kept
    assert bool(said) == (asked != "5")
    if said:
        assert "beta" in said
        assert f"{kept} is used" in said


def test_whole_numbers_are_rounded():
    limits = Limits("seed", 0, 9, 3, whole=True)
    assert limits.kept("4.6") == (5, "seed takes whole numbers from 0 to 9; 5 is used.")
    assert limits.kept(4) == (4, "")


@pytest.mark.parametrize("limits", [landscape.BETA, landscape.NEURONS, retrieval.SLOPE, memory.TEMPERATURE])
def test_the_slider_covers_exactly_the_limits(limits):
    assert limits.at(0) == pytest.approx(limits.low)
    assert limits.at(1) == pytest.approx(limits.high)
    assert limits.at(-7) == limits.at(0)
    assert limits.at(7) == limits.at(1)
    assert limits.at(limits.place(limits.default)) == pytest.approx(limits.default, rel=5e-3)


def test_numbers_in_words():
    assert short(1.5e-09) == "1.5e-9"
    assert short(0.25) == "0.25"
    assert power(1.5e-09) == r"$1.5\cdot10^{-9}$"
    assert power(0.25) == "0.25"


# --- landscape ---------------------------------------------------------------------------------------------------


def test_no_measure_has_a_lower_energy_than_the_landscape_says():
    beta, found = 6.0, landscape.solution(6.0, 3, "relu", 0.1, 4)
    drawn = np.random.default_rng(4)
    inner = drawn.standard_normal((3, 2))
    assert np.degrees(np.arctan2(inner[:, 1], inner[:, 0])) == pytest.approx(found.neuron_angles)
    assert 0.1 * drawn.standard_normal(3) == pytest.approx(found.neuron_weights)
    rng = np.random.default_rng(0)

    def energy(angles, masses):
        """The definition, with the primitive u_+^2 of twice the rectifier."""
        x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        kernel = np.exp(beta * (x @ x.T - 1))
        a = np.radians(found.neuron_angles)
        cosines = x @ np.stack([np.cos(a), np.sin(a)])
        v = np.maximum(cosines, 0) ** 2 @ found.neuron_weights
        return masses @ kernel @ masses / (2 * beta) + masses @ v / 2

    atoms = np.radians(found.angles)
    assert energy(atoms, found.masses) == pytest.approx(found.energy, abs=1e-12)
    for size in (0.01, 0.3, 3.0):
        for _ in range(20):
            masses = found.masses * rng.uniform(1 - min(size, 1), 1 + size, len(atoms))
            others = energy(atoms + size * rng.standard_normal(len(atoms)), masses / masses.sum())
            assert others >= found.energy - found.gap
    assert found.gap < 1e-9
    assert found.above.min() >= 0


def test_the_landscape_in_words():
    one = landscape.solution(20.0, 5, "relu", 1.0, 0)
    assert len(one.masses) == 1
    assert "one atom" in landscape.in_words(one)
    assert f"{one.angles[0]:.2f}°" in landscape.in_words(one)
    flat = landscape.solution(1.0, 0, "relu", 1.0, 0)
    assert flat.kind == "density"
    assert "whole circle" in landscape.in_words(flat)
    for found in (one, flat):
        assert landscape.circle(found)["series"]
        assert landscape.curves(found)["series"]


# --- retrieval ---------------------------------------------------------------------------------------------------


def test_the_worst_position_is_that_of_the_library():
    from sphereflow.retrieval import critical_time, profile

    found = retrieval.curve(1.0, 1.0, 1.0, 8)
    expected = profile(1.0, 1.0, 1.0, 8)
    assert found.worst is not None
    assert found.worst[0] == expected.minimiser
    grid = np.linspace(0.01, 1, 4000)
    assert found.worst[0] == pytest.approx(grid[np.argmin(expected.excess(grid))], abs=3e-4)
    assert f"{100 * found.worst[0]:.1f} %" in retrieval.in_words(found)
    assert short(critical_time(1.0, 1.0, 8), 4) in retrieval.in_words(found)
    assert "theorem" in retrieval.in_words(found)


def test_deep_models_and_no_slope_in_words():
    assert "beyond" in retrieval.in_words(retrieval.curve(1.0, 1.0, 4.0, 8))
    assert "never" in retrieval.in_words(retrieval.curve(1.0, 0.0, 1.0, 8))
    hump = retrieval.curve(1.0, 10.0, 10.0, 8)  # a dip near the start, but the end is lower still
    assert hump.minima
    assert hump.worst is None
    assert "worst at the end" in retrieval.in_words(hump)


def test_every_corner_of_the_controls_gives_a_finite_curve():
    for beta in (retrieval.BETA.low, retrieval.BETA.high):
        for slope in (retrieval.SLOPE.low, retrieval.SLOPE.high):
            for t in (retrieval.TIME.low, retrieval.TIME.high):
                for vocab in (2, 64):
                    found = retrieval.curve(beta, slope, t, vocab)
                    assert np.isfinite(found.excess).all()
                    assert retrieval.in_words(found)
                    assert retrieval.picture(found)["series"]


# --- memory ------------------------------------------------------------------------------------------------------


def test_the_phase_at_a_point_follows_from_the_lines():
    """Regions are nested: the number of lines that lie beyond the load, whichever way it is counted."""
    for kernel, sharpness in (("lse", 1.0), ("lse", 8.0), ("lsr", 3.414)):
        lines = memory.plane(kernel, sharpness)
        for temperature in (0.05, 0.5, 1.5):
            at = {name: np.interp(temperature, lines.temperatures, loads) for name, loads in lines.lines.items()}
            bounds = [at[name] for name in memory._BOUNDS[kernel]]
            assert bounds == sorted(bounds, reverse=True)
            for load in (0.01, 0.1, 0.3, 0.6, 1.2):
                if min(abs(load - bound) for bound in bounds) > 1e-3:
                    found = memory.place(kernel, sharpness, load, temperature)
                    assert found.region == sum(load < bound for bound in bounds)


def test_the_overlap_is_the_stationary_point_of_the_free_energy():
    t, b = 0.4, 3.0
    phi = memory.place("lse", 1.0, 0.1, t).overlap
    assert t * phi / (1 - phi**2) == pytest.approx(1)
    phi = memory.place("lsr", b, 0.1, t).overlap
    assert t * phi / (1 - phi**2) == pytest.approx(1 / (1 - b * (1 - phi)))


def test_the_phase_in_words():
    inside, outside = memory.place("lse", 1.0, 0.1, 0.3), memory.place("lse", 1.0, 0.7, 0.3)
    assert "overlap of 0.8612" in memory.in_words(inside, 0.1, 0.3)
    assert "no retrieval state" in memory.in_words(outside, 0.7, 0.3)
    assert "overlap" not in memory.in_words(outside, 0.7, 0.3)
    wide = memory.picture(memory.plane("lse", 1.0), 2.9, 0.3)  # the chosen point is always in the picture
    assert wide["xAxis"]["max"] >= 2.9


# --- heads -------------------------------------------------------------------------------------------------------


def _measurement():
    """A dataset of the form that `sphereflow measure` writes: 2 documents, 3 layers, 4 heads."""
    axes = ("document", "layer", "head", "selection", "sink", "distance", "N")
    rng = np.random.default_rng(0)
    features = {name: (axes[:3], rng.uniform(0, 1, (2, 3, 4)))
                for name in ("sink_mass", "compression", "sink_cosine", "effective_number")}  # fmt: skip
    return xr.Dataset(
        features | {"f": (axes, rng.uniform(0, 1, (2, 3, 4, 2, 2, 2, 3))),
                    "regime": (("layer", "head"), np.arange(12, dtype=np.int32).reshape(3, 4) % 3)},
        coords={"selection": ["attention", "random"], "sink": ["with sink", "without sink"],
                "distance": ["euclidean", "cosine"], "N": [2, 4, 8]},
        attrs={"model": "my-model", "documents": "2", "window": "64"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measurement")
    (folder / "measurement.nc").write_bytes(bytes(_measurement().to_netcdf(engine="scipy")))
    return folder


def test_a_measurement_is_averaged_over_documents(result):
    data, found = _measurement(), headmaps.read(result)
    assert found.name == "my-model, 2 documents of 64 tokens"
    assert (found.rows, found.columns) == (("1", "2", "3"), ("1", "2", "3", "4"))
    assert found.values["f4"] == pytest.approx(data["f"].values[:, :, :, 0, 0, 0, 1].mean(axis=0))
    assert found.values["f4_random"] == pytest.approx(data["f"].values[:, :, :, 1, 0, 0, 1].mean(axis=0))
    assert found.values["sink_mass"] == pytest.approx(data["sink_mass"].values.mean(axis=0))
    assert np.array_equal(found.values["regime"], data["regime"].values)
    told = heads.head_in_words(found, 2, 1)
    assert told.startswith("Layer 3, head 2: a retriever head.")
    assert f"{found.values['f4'][2, 1]:.2f}" in told


def test_a_measurement_that_cannot_be_read_is_one_sentence(result, tmp_path):
    with pytest.raises(SphereflowError, match="there is no measurement in"):
        heads.measured(tmp_path)
    for content in (b"", b"hello", (result / "measurement.nc").read_bytes()[:300]):
        damaged = tmp_path / "measurement.nc"
        damaged.write_bytes(content)
        with pytest.raises(SphereflowError, match="not a measurement"):
            heads.measured(tmp_path)


def test_the_stored_example_is_a_whole_model():
    found = headmaps.example()
    assert found.values["f4"].shape == (30, 9)
    assert "30 layers of 9 heads" in heads.in_words(found)
    for name, values in found.values.items():
        assert np.isfinite(values).all(), name
        assert heads.picture(found, name)["series"]
    # What the rule of the regimes can say from the stored numbers alone.
    assert np.all(found.values["sink_mass"][found.values["regime"] == 2] >= 0.5)
    assert np.all(found.values["f4"][found.values["regime"] == 0] >= 0.6)


def test_synthetic_heads_select_better_when_the_sink_points_along_the_others():
    f4 = headmaps.synthetic(0.1, 0).values["f4"]
    assert f4.shape == (len(headmaps.COMPRESSIONS), len(headmaps.COSINES))
    assert np.all(f4[:, -1] > f4[:, 0] + 0.4)


def test_tiny_models_say_what_to_install_when_torch_is_missing(monkeypatch):
    known = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else known(name, *more)
    )
    with pytest.raises(MissingExtra, match=r"pip install 'sphereflow\[llm\]'"):
        headmaps.tiny.__wrapped__("llama", 0)


def test_a_tiny_model_is_measured():
    pytest.importorskip("torch")
    found = headmaps.tiny("llama", 0)
    assert found.values["f4"].shape == (2, 4)
    assert np.all((found.values["f4"] >= 0) & (found.values["f4"] <= 1))
    assert np.all(found.values["sink_mass"] < 0.5)  # random weights attend to everything


def test_every_architecture_of_the_page_exists():
    from sphereflow.llm.tiny import ARCHITECTURES

    assert set(heads.ARCHITECTURES) <= set(ARCHITECTURES)


# --- in a browser ------------------------------------------------------------------------------------------------

_CHROMIUM = shutil.which("chromium")
browser_needed = pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium: install the package chromium.")

_SERVER = """
import importlib.util, sys
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else known(name, *more)
from nicegui import ui
from sphereflow.explorer.tabs import heads, landscape, memory, retrieval
heads.measured(sys.argv[2])
for tab in (heads, landscape, memory, retrieval):
    ui.page("/" + tab.__name__.rpartition(".")[2])(tab.build)
ui.run(host="127.0.0.1", port=int(sys.argv[1]), show=False, reload=False)
"""


@pytest.fixture(scope="module")
def server(result):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    surroundings = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(port), str(result)], env=surroundings, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(300):
                assert process.poll() is None, process.stdout.read()
                try:
                    urllib.request.urlopen(f"{address}/memory", timeout=5).close()
                    break
                except urllib.error.URLError:
                    time.sleep(0.1)
            yield address
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visitor:
    """Someone with a tab open, who also reads the console."""

    def __init__(self, page, address):
        self.page, self.complaints = page, []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.complaints.append(str(e)))
        page.goto(address)
        self.until("")

    def click_chart(self, point, text):
        """Click on a point of the chart until the answer holds this text: one that is still laid out hears nothing."""
        from playwright.sync_api import TimeoutError as Late

        for patience in (3_000, 5_000, 30_000):
            place = self.page.evaluate(
                """point => { const box = document.querySelector('.tab-chart');
                     return getElement(Number(box.id.slice(1))).chart.convertToPixel({gridIndex: 0}, point); }""",
                point,
            )
            self.page.click(".tab-chart", position={"x": place[0], "y": place[1]})
            try:
                return self.until(text, patience)
            except Late:
                if patience == 30_000:
                    raise

    def until(self, text, patience=30_000):
        """Wait for an answer that holds this text, and for the end of the computation."""
        self.page.wait_for_function(
            """text => [...document.querySelectorAll('.tab-answer')].some(a => a.innerText.trim()
                 && a.innerText.replaceAll('\\u00a0', ' ').includes(text))
               && getComputedStyle(document.querySelector('.tab-spinner')).display === 'none'""",
            arg=text, timeout=patience,
        )  # fmt: skip

    def type(self, label, text):
        self.page.fill(f'input[aria-label="{label}"]', text)
        self.page.keyboard.press("Enter")

    def choose(self, number, text):
        self.page.locator(".tab-select").nth(number).click()
        self.page.locator(".q-menu").get_by_text(text, exact=True).click()

    def read(self, selector):
        return self.page.inner_text(selector).replace("\u00a0", " ").replace("\u2212", "-")

    def picture(self, number=0):
        return self.page.locator(".tab-chart svg").nth(number).inner_html()


@pytest.fixture
def visit(chromium, server):
    pages = []

    def go(tab, **size):
        context = chromium.new_context(viewport=size or {"width": 1200, "height": 900})
        pages.append((Visitor(context.new_page(), f"{server}/{tab}"), context))
        return pages[-1][0]

    yield go
    for visitor, context in pages:
        context.close()
        assert visitor.complaints == []


@browser_needed
def test_landscape_tab(visit):
    visitor = visit("landscape")
    before = visitor.picture()
    visitor.type("Inverse temperature β", "20")
    found = landscape.solution(20.0, 3, "relu", landscape.STRENGTH.default, int(landscape.SEED.default))
    visitor.until(landscape.in_words(found).partition(" Proved")[0])
    assert f"{found.energy:.10g}" in visitor.read(".tab-facts")
    assert visitor.picture() != before
    visitor.type("Neurons J", "1000")
    found = landscape.solution(20.0, 24, "relu", landscape.STRENGTH.default, int(landscape.SEED.default))
    visitor.until(landscape.in_words(found).partition(" Proved")[0])
    assert visitor.read(".tab-warning:visible") == "Neurons J takes numbers from 0 to 24; 24 is used."
    visitor.choose(0, "tanh")
    found = landscape.solution(20.0, 24, "tanh", landscape.STRENGTH.default, int(landscape.SEED.default))
    visitor.until(landscape.in_words(found).partition(" Proved")[0])


@browser_needed
def test_retrieval_tab(visit):
    visitor = visit("retrieval", width=390, height=844)
    assert visitor.page.evaluate("document.documentElement.scrollWidth") == 390
    before = visitor.picture()
    visitor.type("Depth t", "0.3")
    worst = retrieval.curve(1.0, 1.0, 0.3, 8).worst
    visitor.until(f"retrieval is worst {100 * worst[0]:.1f} % of the way")
    assert f"{worst[0]:.6g}" in visitor.read(".tab-facts")
    assert visitor.picture() != before
    visitor.type("Depth t", "deep")
    visitor.until(f"retrieval is worst {100 * retrieval.curve(1.0, 1.0, 1.0, 8).worst[0]:.1f} %")
    assert "must be a number; 1 is used" in visitor.read(".tab-warning:visible")
    visitor.page.locator(".tab-slider").nth(1).click(position={"x": 0, "y": 15})
    visitor.until("Without a positional slope")


@browser_needed
def test_memory_tab(visit):
    visitor = visit("memory")
    visitor.click_chart([0.45, 0.3], "retrieval is metastable")
    found = memory.place("lse", 1.0, 0.45, 0.3)
    assert found.name == "retrieval metastable"
    assert found.overlap == pytest.approx(float(visitor.read(".tab-facts div:nth-child(2) dd")), abs=5e-3)
    visitor.choose(0, "compact (LSR)")
    visitor.until("retrieval is lost")
    visitor.type("Load α", "-1")
    visitor.until("no neighbour is within reach")
    assert "0.005 is used" in visitor.read(".tab-warning:visible")


@browser_needed
def test_heads_tab(visit, result):
    visitor = visit("heads")
    assert "My-model, 2 documents of 64 tokens: 3 layers of 4 heads" in visitor.read(".tab-answer")
    assert visitor.page.locator(".tab-chart svg path").count() >= 12
    visitor.click_chart([1, 2], "Layer 3, head 2: a retriever head.")
    before = visitor.picture()
    visitor.choose(1, "weight on the first token")
    visitor.page.wait_for_function(
        "before => document.querySelector('.tab-chart svg').innerHTML !== before", arg=before
    )
    visitor.choose(0, "SmolLM2-135M, stored")
    visitor.until("30 layers of 9 heads")
    visitor.choose(0, "tiny model, random weights")
    visitor.until("Synthetic heads")
    assert "pip install 'sphereflow[llm]'" in visitor.read(".tab-error")
