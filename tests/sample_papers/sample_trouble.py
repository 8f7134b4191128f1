"""A small paper for the tests of the report in which everything goes wrong."""

import math

from sphereflow.claims import Measurement, Paper, Run, agreement
from sphereflow.errors import SphereflowError

PAPER = Paper(
    slug="sample-trouble",
    title="Everything that can go wrong",
    authors=("M. Urphy",),
    year=1949,
    summary="Claims that fail, each in its own way.",
    bibtex="@misc{murphy}",
)


@PAPER.claim("off", statement="Two and two make five.", source="page 5", formula=r"\unknowncommand{2}")
def off(run: Run) -> Measurement:
    return agreement(5, 2 + 2, relative=0.01, because="One percent is generous.")


@PAPER.claim("raises", statement="One can divide by zero.", source="page 0", formula=r"\frac{1}{")
def raises(run: Run) -> Measurement:
    return agreement(1, 1 / (run.seed - run.seed), absolute=1, because="")


@PAPER.claim("refuses", statement="An impossible request is served.", source="page 1")
def refuses(run: Run) -> Measurement:
    raise SphereflowError("n must be a whole number of at least 1, got -3.")


@PAPER.claim("not-a-number", statement="Infinity less infinity is zero.", source="page 2")
def not_a_number(run: Run) -> Measurement:
    return agreement([0.0, 1.0], [math.inf - math.inf, math.inf], absolute=1e-3, because="Exact.", labels=("a", "b"))


@PAPER.claim("forgets", statement="A function returns something.", source="page 3")
def forgets(run: Run) -> Measurement:
    return None  # type: ignore[return-value]


@PAPER.figure("torn", caption="A figure that cannot be drawn.")
def torn(run: Run):
    raise RuntimeError("the pencil broke")
