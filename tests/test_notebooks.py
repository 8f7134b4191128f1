"""Notebooks: what is kept is what the source says, and the source still runs; bars and players in their cells."""

import html
import json
import sys
import types

import pytest

import sphereflow as sf
from sphereflow import progress

sys.path.insert(0, "docs")
from _generate.notebooks import cells, sources

NAMES = [path.stem for path in sources()]


def test_there_are_five():
    assert len(NAMES) == 5


@pytest.mark.parametrize("path", sources(), ids=NAMES)
def test_what_is_kept_is_what_the_source_says(path):
    book = json.loads(path.with_suffix(".ipynb").read_text("utf-8"))
    kept = [(cell["cell_type"] == "markdown", "".join(cell["source"])) for cell in book["cells"]]
    assert kept == [(cell.text, cell.source) for cell in cells(path)]
    shown = [out for cell in book["cells"] for out in cell.get("outputs", ())]
    assert all(cell["execution_count"] for cell in book["cells"] if cell["cell_type"] == "code")
    assert not [out for out in shown if out["output_type"] == "error"]
    assert any({"image/png", "text/html"} & set(out.get("data", ())) for out in shown)


@pytest.mark.slow
@pytest.mark.parametrize("path", sources(), ids=NAMES)
def test_the_source_still_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)
    for cell in cells(path):
        if not cell.text:
            exec(compile(cell.source, str(path), "exec"), vars(module))


def test_a_player_is_the_page_in_a_frame(tmp_path):
    run = sf.simulate(n=3, d=3, beta=1.0, t1=1.0, saves=3, tol=1e-4)
    player = run.player(height=300)
    page = run.webpage(tmp_path / "run.html").read_text("utf-8")
    start, end = '<iframe srcdoc="', '" style="width: 100%; height: 300px; border: 0"></iframe>'
    shown = player._repr_html_()
    assert shown.startswith(start)
    assert shown.endswith(end)
    assert '"' not in shown[len(start) : -len(end)]
    assert html.unescape(shown[len(start) : -len(end)]) == page
    with pytest.raises(sf.SphereflowError, match="height"):
        run.player(height=3)


def test_pictures_show_themselves():
    assert sf.retrieval.profile(1.0, 1.0, 1.0).plot()._repr_png_().startswith(b"\x89PNG")


def test_a_bar_in_a_cell(monkeypatch):
    """A stand-in for IPython: what the cell is told, and that the bar is taken away."""
    told = []

    class Handle:
        def update(self, what):
            told.append(what)

    def display(what, display_id):
        told.append(what)
        return Handle()

    shell = type("ZMQInteractiveShell", (), {})()
    ipython, shown = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell
    shown.HTML, shown.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    monkeypatch.setattr(progress, "_BETWEEN_SECONDS", 0.0)
    with progress.progress_bar("a & b", None, total=4, patience=0.0) as bar:
        bar.advance()
        bar.advance(2)
    assert len(told) == 3
    assert '<progress value="3' in told[1]
    assert "a &amp; b: 3 of 4" in told[1]
    assert told[-1] == ""
    told.clear()
    with progress.progress_bar("quiet", False, total=4, patience=0.0) as bar:
        bar.advance()
    assert told == []
