"""A small paper for the tests of the report in which everything goes wrong."""

import math

from sphereflow.claims import Check, Paper, Run, basis
from sphereflow.errors import SphereflowError

PAPER = Paper(
    slug="sample-trouble",
    title="Everything that can go wrong",
    authors=("M. Urphy",),
    year=1949,
    summary="Claims that fail, each in its own way.",
    bibtex="@misc{murphy}",
)
PAGE = basis.Summary("a page torn out")


@PAPER.claim("off", says="Two and two make five.", basis=PAGE, formula=r"\unknowncommand{2}")
def off(run: Run) -> Check:
    check = Check()
    check.row("sum", predicted=5, measured=2 + 2, relative=0.01, because="One percent is generous.")
    check.rival("three", 3)
    return check


@PAPER.claim("raises", says="One can divide by zero.", basis=PAGE, formula=r"\frac{1}{")
def raises(run: Run) -> Check:
    check = Check()
    check.row("quotient", predicted=1, measured=1 / (run.seed - run.seed), tolerance=1, because="exact")
    return check


@PAPER.claim("refuses", says="An impossible request is served.", basis=PAGE)
def refuses(run: Run) -> Check:
    raise SphereflowError("n must be a whole number of at least 1, got -3.")


@PAPER.claim("not-a-number", says="Infinity less infinity is zero.", basis=PAGE)
def not_a_number(run: Run) -> Check:
    check = Check()
    check.series("ab", predicted=[0.0, 1.0], measured=[math.inf - math.inf, math.inf], tolerance=1e-3, because="Exact.")
    return check


@PAPER.claim("forgets", says="A function returns something.", basis=PAGE)
def forgets(run: Run) -> Check:
    return None  # type: ignore[return-value]


@PAPER.claim("unrivalled", says="One is one.", basis=PAGE)
def unrivalled(run: Run) -> Check:
    check = Check()
    check.same("one", predicted=1, measured=1)
    return check


@PAPER.figure("torn", caption="A figure that cannot be drawn.")
def torn(run: Run):
    raise RuntimeError("the pencil broke")
