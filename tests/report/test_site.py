"""The site: pages that need nothing from elsewhere, can be read by anyone, and show what was measured."""

import itertools
import math
from html.parser import HTMLParser

import numpy as np
import pytest
from sample_papers import sample_circles

from sphereflow.claims import Check, Claim, Paper, basis
from sphereflow.report import reproduce
from sphereflow.report.formula import formula, prose, typeset_number
from sphereflow.report.rows import number, rows_of, severity, worst
from sphereflow.report.site import seconds, site

VOID = {"meta", "img", "br", "hr", "input", "link"}
LOADING = {"src", "href", "srcset", "poster", "data", "action"}


@pytest.fixture(scope="module")
def pages(report) -> dict[str, str]:
    return {name: content.decode() for name, content in site(report).items() if name.endswith(".html")}


@pytest.fixture(scope="module", params=["index.html", "sample-circles.html", "sample-trouble.html"])
def html(request, pages) -> str:
    return pages[request.param]


def words_of(text: str) -> str:
    return " ".join(Reader(text).text.split())


class Reader(HTMLParser):
    """Checks that tags are balanced, and keeps what matters of them."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == [], "tags that are never closed"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.text += " " if tag in {"dt", "dd", "td", "th", "p"} else ""

    def handle_data(self, data):
        if "style" not in self.open and "script" not in self.open:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_a_page_needs_nothing_from_elsewhere(html, report):
    reader, files = Reader(html), site(report)
    for tag, attributes in reader.tags:
        for name, value in attributes.items():
            assert not (name in LOADING and value is None)
            if name in LOADING and not str(value).startswith("#"):
                inside = str(value).partition("#")[0] in files
                assert inside or (tag == "a" and str(value).startswith("https://arxiv.org/abs/"))
    assert "@import" not in html
    assert "url(" not in html
    assert {"link", "iframe", "object", "embed"}.isdisjoint(tag for tag, _ in reader.tags)


def test_a_page_can_be_read_aloud(html):
    reader = Reader(html)
    levels = [int(tag[1]) for tag, _ in reader.tags if tag in {"h1", "h2", "h3", "h4"}]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(image["alt"] for image in reader.all("img"))
    assert all("scope" in cell for cell in reader.all("th"))
    assert reader.all("html")[0]["lang"] == "en"
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_text_is_escaped_and_formulas_are_mathml(pages):
    html = pages["sample-circles.html"]
    assert "<inscribed>" not in html
    assert "On circles &amp; their &lt;inscribed&gt; polygons" in html
    assert html.count("<math") >= 5
    assert 'alttext="p_k = 2k' in html
    assert "U+22FF" not in html
    assert "⋿" not in html


def test_a_formula_that_cannot_be_set_is_shown_as_latex(pages):
    html = pages["sample-trouble.html"]
    assert r'<code class="latex">\unknowncommand{2}</code>' in html
    assert r'<code class="latex">\frac{1}{</code>' in html


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        (
            "index",
            [
                "9 claims of 2 papers: 1 holds, 1 obeyed, 1 refuted, 1 inconclusive, 5 fail",
                "theorem 1 0 0 0 0",
                "summary 0 0 0 1 5",
                "preset paper",
                "jax",
            ],
        ),
        (
            "sample-circles",
            [
                "The Greek text was read in a translation.",
                "theorem 3, as transcribed in the translation of 1897",
                "Printed: The circumference of the unit circle is 44/7.",
                "Counterexample: A polygon with 100,000 sides has perimeter 6.28318, not 6.28571.",
                "Corrected: The circumference of the unit circle is",
                "why this tolerance Each of the k sides",
                "rivals circumscribed polygons: loses by",
                "rivals shorter than 7: survives",
                "parameters k = 3, 6144, radius = 1",
                "6.285714286",  # the printed value of the refuted claim
                "sample_circles.py, line ",
                "sphereflow reproduce sample-circles --only perimeters",
                "… 6 more",
                "title = {Measurement of a Circle}",
            ],
        ),
        (
            "sample-trouble",
            [
                "n must be a whole number of at least 1, got -3.",
                "This figure could not be drawn: RuntimeError: the pencil broke",
            ],
        ),
    ],
)
def test_what_the_pages_say(pages, name, sentences):
    text = words_of(pages[f"{name}.html"])
    for sentence in sentences:
        assert sentence in text


def test_claims_and_their_figures_are_linked_both_ways(pages):
    page = pages["sample-circles.html"]
    page = page.decode() if isinstance(page, bytes) else page
    card = page[page.index('<article class="claim holds" id="perimeters"') :]
    assert '<a href="#polygons">polygons</a>' in card[: card.index("</article>")]
    caption = page[page.index("<figcaption>") :]
    assert '<a href="#below">below</a>' in caption[: caption.index("</figcaption>")]


def test_the_same_results_give_the_same_site(report):
    assert site(report) == site(report)


def test_pictures_lie_beside_the_pages(report):
    files = site(report)
    assert files["figures/sample-circles-polygons.svg"].lstrip().startswith(b"<?xml")
    assert files["figures/sample-circles-cloud.png"].startswith(b"\x89PNG")


def check_of(predicted, measured, tolerance) -> Check:
    check = Check()
    names = range(np.size(measured))
    check.series(names, predicted=predicted, measured=measured, tolerance=tolerance, because="test")
    return check


def test_many_rows_are_cut_and_counted():
    claim = Claim("many", "", basis.Derived("a test"), lambda run: check_of(0.0, np.zeros(700), 1.0))
    paper = Paper("p", "P", ("A",), 2000, "", "", claims=[claim])
    text = words_of(site(reproduce(paper, progress=False))["p.html"].decode())
    assert "… 694 more; " in text
    assert "… 200 more in results.json" in text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1 / 3, 4, "0.3333"),
        (6.0, 4, "6"),
        (1.5e-9, 2, "1.5e-9"),
        (-2e20, 3, "-2e20"),
        (math.nan, 4, "nan"),
        (-math.inf, 4, "-inf"),
        (123456.7, 4, "1.235e5"),
        (1.23456e-4, 3, "1.23e-4"),
        (0.0, 4, "0"),
        (6144.0, 4, "6144"),
        (6e-12, 2, "6e-12"),
        (1e-20, 12, "1e-20"),
    ],
)
def test_numbers_are_short(value, digits, text):
    assert number(value, digits) == text


def test_digits_show_what_the_tolerance_can_see():
    (row,) = rows_of(check_of(math.pi, math.pi + 1e-9, 1e-8))
    assert (row.predicted, row.measured) == ("3.141592654", "3.141592655")
    assert row.used == pytest.approx(0.1, rel=1e-6)


def test_the_worst_row_is_the_one_nearest_to_its_tolerance():
    rows = rows_of(check_of([0, 0, 0], [5, 0.9, 0], [10, 1, 0]))
    assert worst(rows).name == "1"
    assert math.isinf(worst(rows_of(check_of(0, math.nan, 1))).used)


def test_html_in_formulas_stays_text():
    assert "<script>" not in formula(r"\text{<script>alert(1)</script>}")
    assert "<b>" not in prose("a <b> `<b>` $x<y$")
    assert prose("costs $5") == "costs $5"


def test_powers_of_ten_are_typeset():
    assert typeset_number("-1.5e-9") == "−1.5\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10<sup>−9</sup>"
    assert typeset_number("inf") == "inf"


def test_durations_in_words():
    assert [seconds(s) for s in (0.042, 12.34, 245, 7380)] == ["0.04 s", "12.3 s", "4 min 05 s", "2 h 03 min"]


def test_the_word_for_a_severity_without_a_number():
    """A rival that contradicts a count loses exactly; every other one by a number of tolerances."""

    def check(*rivals):
        check = Check()
        check.same("count", predicted=3, measured=3)
        check.at_most("most", bound=5, measured=3, because="a count")
        check.at_most("share", bound=0.5, measured=0.2, tolerance=0.05, because="a share")
        check.row("rate", predicted=2.0, measured=2.0, tolerance=0.1, because="a step")
        for name, values in enumerate(rivals):
            check.null(str(name), values)
        return severity(check)

    assert check() == ""
    assert check({"count": 4}) == "exact"
    assert check({"most": 6}) == "exact"
    assert check({"share": 0.65}) == "3"
    assert check({"count": 4, "share": 0.65}) == "exact"
    assert check({"count": 4}, {"share": 0.65}, {"rate": 2.5}) == "3"


def test_tables_have_no_column_for_a_verdict_that_no_claim_has(pages):
    report = reproduce([sample_circles.PAPER], only=["perimeters", "below"], progress=False)
    index = site(report)["index.html"].decode()
    for word, there in (("holds", True), ("obeyed", True), ("refuted", False), ("fails", False)):
        assert (f"{word}</th>" in index) == there
        assert f"{word}</th>" in pages["index.html"]
