"""The tabs in a real browser: each says what the library says, keeps its limits, and has nothing to complain about."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from sphereflow.explorer.tabs import landscape, memory, retrieval, staircase, transport

pytestmark = pytest.mark.timeout(1800)  # a busy machine is slow
PATIENCE = 600_000  # milliseconds; only a guard against waiting for ever
_SERVER = """
import importlib.util, sys
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else known(name, *more)
from nicegui import ui
from sphereflow.explorer.tabs import depth, heads, landscape, memory, phases, retrieval, staircase, transport
heads.measured(sys.argv[2])
def page_of(tab):
    def page():
        tab.build()
    return page
for tab in (depth, heads, landscape, memory, phases, retrieval, staircase, transport):
    ui.page("/" + tab.__name__.rpartition(".")[2])(page_of(tab))
ui.run(host="127.0.0.1", port=int(sys.argv[1]), show=False, reload=False)
"""


@pytest.fixture(scope="module")
def tabs(result):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    surroundings = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(port), str(result)],
        env=surroundings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            while True:  # whoever runs the tests limits each of them
                assert process.poll() is None, process.stdout.read()
                try:
                    urllib.request.urlopen(f"{address}/memory", timeout=600).close()
                    break
                except urllib.error.URLError:
                    time.sleep(0.1)
            yield address
        finally:
            process.terminate()
            process.communicate()


class Visitor:
    """Someone with a tab open, who also reads the console."""

    def __init__(self, page, address):
        self.page, self.complaints = page, []
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.complaints.append(str(e)))
        page.goto(address)
        self.until("")

    def click_chart(self, point, text):
        """Click on a point of the chart until the answer holds this text: one that is still laid out hears nothing."""
        from playwright.sync_api import TimeoutError as Late

        for patience in (3_000, 5_000, 30_000, PATIENCE):
            place = self.page.evaluate(
                """point => { const box = document.querySelector('.tab-chart');
                     return getElement(Number(box.id.slice(1))).chart.convertToPixel({gridIndex: 0}, point); }""",
                point,
            )
            self.page.click(".tab-chart", position={"x": place[0], "y": place[1]})
            try:
                return self.until(text, patience)
            except Late:
                if patience == PATIENCE:
                    raise

    def until(self, text, patience=PATIENCE):
        """Wait for an answer that holds this text, and for the end of the computation."""
        self.page.wait_for_function(
            """text => [...document.querySelectorAll('.tab-answer')].some(a => a.innerText.trim()
                 && a.innerText.replaceAll('\\u00a0', ' ').includes(text))
               && getComputedStyle(document.querySelector('.tab-progress')).display === 'none'""",
            arg=text,
            timeout=patience,
        )

    def type(self, label, text):
        self.page.fill(f'input[aria-label="{label}"]', text)
        self.page.keyboard.press("Enter")

    def choose(self, number, text):
        self.page.locator(".tab-controls .q-select").nth(number).click()
        self.page.locator(".q-menu").get_by_text(text, exact=True).click()

    def read(self, selector):
        return self.page.inner_text(selector).replace("\u00a0", " ").replace("\u2212", "-")

    def picture(self, number=0):
        return self.page.locator(".tab-chart svg").nth(number).inner_html()


@pytest.fixture
def visit(browser, tabs):
    pages = []

    def go(tab, **size):
        context = browser.new_context(viewport=size or {"width": 1200, "height": 900})
        pages.append((Visitor(context.new_page(), f"{tabs}/{tab}"), context))
        return pages[-1][0]

    yield go
    for visitor, context in pages:
        context.close()
        assert visitor.complaints == []


@pytest.mark.slow
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
    assert visitor.read(".kit-warning:visible") == "Neurons J takes numbers from 0 to 24; 24 is used."
    visitor.choose(0, "tanh")
    found = landscape.solution(20.0, 24, "tanh", landscape.STRENGTH.default, int(landscape.SEED.default))
    visitor.until(landscape.in_words(found).partition(" Proved")[0])


@pytest.mark.slow
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
    assert "must be a number; 1 is used" in visitor.read(".kit-warning:visible")
    visitor.page.locator(".kit-slider").nth(1).click(position={"x": 0, "y": 15})
    visitor.until("Without a positional slope")


@pytest.mark.slow
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
    assert "0.005 is used" in visitor.read(".kit-warning:visible")


@pytest.mark.slow
def test_heads_tab(visit, result):
    visitor = visit("heads")
    assert "My-model, 2 documents of 64 tokens: 3 layers of 4 heads" in visitor.read(".tab-answer")
    assert visitor.page.locator(".tab-chart svg path").count() >= 12
    visitor.click_chart([1, 2], "Layer 2, head 1: a retriever head.")
    before = visitor.picture()
    visitor.choose(1, "weight on the first token")
    visitor.page.wait_for_function(
        "before => document.querySelector('.tab-chart svg').innerHTML !== before", arg=before
    )
    visitor.choose(0, "SmolLM2-135M")
    visitor.until("30 layers of 9 heads")
    visitor.choose(0, "Gemma 3 270M")
    visitor.until("18 layers of 4 heads")
    visitor.choose(0, "tiny model, random weights")
    visitor.until("Synthetic heads")
    assert "pip install 'sphereflow[llm]'" in visitor.read(".tab-error")


@pytest.mark.slow
def test_staircase_tab(visit):
    visitor = visit("staircase")
    found = staircase.history("sa", 8, 2, 60.0, 1)
    visitor.until("8 tokens become one in 7 mergers")
    assert f"{found.merges[-1].log_time:.5g}" in visitor.read(".tab-facts")
    before = visitor.picture()
    visitor.type("Tokens n", "3")
    visitor.until("3 tokens become one in 2 mergers")
    visitor.choose(2, "energy, 1 for a single cluster")
    visitor.page.wait_for_function("document.querySelector('.tab-chart svg').textContent.includes('energy')")
    assert visitor.picture() != before


@pytest.mark.slow
def test_depth_tab(visit):
    visitor = visit("depth", width=390, height=844)
    visitor.type("Layers", "20")
    visitor.until("After 20 layers it has")
    assert visitor.page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.slow
def test_a_target_is_dragged(visit):
    visitor = visit("transport")
    visitor.until("blocks carry 3 clouds of 40 tokens to targets")
    at = """point => { const box = document.querySelector('.tab-chart'), place = box.getBoundingClientRect();
        const [x, y] = getElement(Number(box.id.slice(1))).chart.convertToPixel({gridIndex: 0}, point);
        return [place.left + x, place.top + y]; }"""
    taken, left = (visitor.page.evaluate(at, point) for point in (list(transport._PLACES[0]), [0.2, 0.1]))
    visitor.page.mouse.move(*taken)
    visitor.page.mouse.down()
    visitor.page.mouse.move(*left, steps=4)
    visitor.page.mouse.up()
    visitor.page.wait_for_function(
        """() => { const box = document.querySelector('.tab-chart');
            const rings = getElement(Number(box.id.slice(1))).chart.getOption().series;
            const [x, y] = rings.find(s => s.name === 'target 1').data[0];
            return Math.hypot(x - 0.2, y - 0.1) < 0.03; }"""
    )
    visitor.until("blocks carry 3 clouds")
    assert float(visitor.read(".tab-facts div:nth-child(3) dd").partition("\u00d7")[0]) > 0


@pytest.mark.slow
def test_phases_tab(visit):
    visitor = visit("phases")
    visitor.choose(2, "8")
    visitor.until("the number of clusters is 1 at")
    assert visitor.page.locator(".tab-chart svg path").count() > 16 * 36
    assert "16" in visitor.read(".tab-facts")
