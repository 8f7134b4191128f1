"""The house style stays in the house: figures look alike, and a user's matplotlib is left as it was."""

import subprocess
import sys

import matplotlib
import pytest

from sphereflow.errors import SphereflowError
from sphereflow.pictures import KINDS, PALETTE, blank, compact, look, rendered


def drawn(points=10):
    with look():
        figure = blank(4, 3)
        axes = figure.add_subplot()
        axes.plot(range(points), [(7 * k) % 11 for k in range(points)], ".")
        axes.set_title(r"a < b | c_d é $\langle x_i, x_j\rangle \leq \beta$")
    return figure


def test_settings_of_the_user_are_as_before():
    before = dict(matplotlib.rcParams)
    for kind in KINDS:
        rendered(drawn(), kind)
    assert dict(matplotlib.rcParams) == before


def test_no_figure_is_left_with_pyplot():
    script = (
        "import sys; from sphereflow.pictures import blank, rendered; rendered(blank(), 'png'); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_same_figure_gives_the_same_bytes(kind, start):
    first, second = rendered(drawn(), kind), rendered(drawn(), kind)
    assert first.startswith(start)
    assert first == second


@pytest.mark.slow
def test_large_pictures_become_png():
    assert compact(drawn(10))[0] == "image/svg+xml"
    media_type, content = compact(drawn(20_000))
    assert media_type == "image/png"
    assert len(content) < 300_000


def test_only_powers_of_ten_at_an_axis_are_read_as_formulas():
    with look():
        figure = blank(3, 2)
        left, right = figure.subplots(1, 2)
        left.plot([0, -2e5], [0.25, 0.75])
        left.set_yticks([0.2, 0.4])
        right.semilogx([1, 1000], [0, 1])
    rendered(figure, "svg")
    assert [label.get_text() for label in left.get_yticklabels()][:2] == ["0.2", "0.4"]
    assert left.get_xticklabels()[0].get_text().startswith("\N{MINUS SIGN}")
    assert left.xaxis.get_offset_text().get_text() == r"$\times\mathdefault{10^{5}}\mathdefault{}$"
    assert "10^{" in right.get_xticklabels()[0].get_text()


def test_an_unknown_kind_is_refused():
    with pytest.raises(SphereflowError, match="png, svg, pdf; got 'bmp'"):
        rendered(drawn(), "bmp")


def test_lines_take_the_colours_of_the_house():
    with look():
        axes = blank().add_subplot()
        assert [axes.plot([0, 1])[0].get_color() for _ in PALETTE] == list(PALETTE)
