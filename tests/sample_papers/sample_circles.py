"""A small paper about circles for the tests of the report: one claim of each kind that ends well."""

import numpy as np

from sphereflow.claims import Measurement, Paper, Run, agreement, at_most
from sphereflow.pictures import blank

PAPER = Paper(
    slug="sample-circles",
    title="On circles & their <inscribed> polygons",
    authors=("Archimedes of Syracuse", "A. N. Other"),
    year=-250,
    summary="Polygons inside a circle of radius 1 bound $\\pi$ from below, and `2 pi` is the perimeter.",
    bibtex="@book{archimedes,\n  title = {Measurement of a Circle},\n  year  = {250 BC},\n}",
    arxiv="0000.00000",
)

SIDES = 3 * 2 ** np.arange(12)


@PAPER.claim(
    "perimeters",
    statement="The perimeter of the regular polygon with $k$ sides is $2k\\sin(\\pi/k)$, for a < b & c.",
    formula=r"p_k = 2k\sin\frac{\pi}{k}, \qquad \mathsf{E}_\beta = \lim_{k\to\infty} p_k = 2\pi",
    source="Proposition 3",
    falsifier="A perimeter that differs from the formula by more than rounding.",
)
def perimeters(run: Run) -> Measurement:
    corners = [np.exp(2j * np.pi * np.arange(k + 1) / k) for k in SIDES]
    measured = [np.abs(np.diff(c)).sum() for c in corners]
    return agreement(
        2 * SIDES * np.sin(np.pi / SIDES),
        measured,
        absolute=1e-12 * SIDES,
        because="Each of the k sides is rounded to about 1e-16, with a margin.",
        labels=tuple(f"$k={k}$" for k in SIDES),
        parameters={"k": "3 to 6144", "radius": 1.0},
    )


@PAPER.claim("below", statement="Every inscribed polygon is shorter than the circle.", source="Proposition 1")
def below(run: Run) -> Measurement:
    return at_most(2 * np.pi, 2 * SIDES * np.sin(np.pi / SIDES), because="The inequality is strict.")


@PAPER.claim(
    "too-round",
    statement="The circumference of the unit circle is 44/7.",
    source="page 1",
    formula=r"2\pi = \tfrac{44}{7}",
)
def too_round(run: Run) -> Measurement:
    angle = np.linspace(0, 2 * np.pi, 10**5)
    length = np.hypot(np.diff(np.cos(angle)), np.diff(np.sin(angle))).sum()
    return agreement(
        2 * np.pi,
        length,
        absolute=1e-8,
        because="Chords are shorter than arcs by a part 1e-9.",
        printed=44 / 7,
        note="A polygon with 100,000 sides has perimeter 6.28318, not 6.28571.",
    )


@PAPER.figure("polygons", caption="Perimeter of the inscribed polygon against its sides, and $2\\pi$.")
def polygons(run: Run):
    figure = blank(5, 3.2)
    axes = figure.add_subplot()
    axes.semilogx(SIDES, 2 * SIDES * np.sin(np.pi / SIDES), "o-", label="$2k\\sin(\\pi/k)$")
    axes.axhline(2 * np.pi, color="0.5", ls="--", label="$2\\pi$")
    axes.set(xlabel="sides $k$", ylabel="perimeter")
    axes.legend()
    return figure


@PAPER.figure("cloud", caption="Twenty thousand points, kept as a PNG.", presets=("paper",))
def cloud(run: Run):
    figure = blank(5, 3.2)
    figure.add_subplot().plot(*np.random.default_rng(run.seed).normal(size=(2, 20_000)), ",")
    return figure
