"""A small paper about circles for the tests of the report: one claim of each kind that ends well."""

import numpy as np

from sphereflow.claims import Check, Paper, Run, basis
from sphereflow.pictures import blank

PAPER = Paper(
    slug="sample-circles",
    title="On circles & their <inscribed> polygons",
    authors=("Archimedes of Syracuse", "A. N. Other"),
    year=-250,
    summary="Polygons inside a circle of radius 1 bound $\\pi$ from below, and `2 pi` is the perimeter.",
    bibtex="@book{archimedes,\n  title = {Measurement of a Circle},\n  year  = {250 BC},\n}",
    arxiv="0000.00000",
    texts="The Greek text was read in a translation.",
)

SIDES = 3 * 2 ** np.arange(12)


@PAPER.claim(
    "perimeters",
    says="The perimeter of the regular polygon with $k$ sides is $2k\\sin(\\pi/k)$, for a < b & c.",
    formula=r"p_k = 2k\sin\frac{\pi}{k}, \qquad \mathsf{E}_\beta = \lim_{k\to\infty} p_k = 2\pi",
    basis=basis.Theorem("3", via="the translation of 1897"),
)
def perimeters(run: Run) -> Check:
    corners = [np.exp(2j * np.pi * np.arange(k + 1) / k) for k in SIDES]
    check = Check(parameters={"k": [3, 6144], "radius": 1.0})
    check.series(
        [f"$k={k}$" for k in SIDES],
        predicted=2 * SIDES * np.sin(np.pi / SIDES),
        measured=[np.abs(np.diff(c)).sum() for c in corners],
        tolerance=1e-12 * SIDES,
        because="Each of the k sides is rounded to about 1e-16, with a margin.",
    )
    check.rival("circumscribed polygons", 2 * SIDES * np.tan(np.pi / SIDES))
    return check


@PAPER.claim(
    "below", says="Every inscribed polygon is shorter than the circle.", basis=basis.Abstract("polygons from below")
)
def below(run: Run) -> Check:
    check = Check()
    for k in SIDES:
        check.at_most(
            f"{k} sides", bound=2 * np.pi, measured=2 * k * np.sin(np.pi / k), tolerance=1e-12, because="rounding"
        )
    check.rival("shorter than 7", 7.0)
    return check


@PAPER.claim(
    "too-round",
    says="The circumference of the unit circle is $2\\pi$.",
    prints="The circumference of the unit circle is 44/7.",
    basis=basis.Figure("1", via="the translation of 1897"),
    formula=r"2\pi \ne \tfrac{44}{7}",
)
def too_round(run: Run) -> Check:
    angle = np.linspace(0, 2 * np.pi, 10**5)
    length = np.hypot(np.diff(np.cos(angle)), np.diff(np.sin(angle))).sum()
    check = Check(note="A polygon with 100,000 sides has perimeter 6.28318, not 6.28571.")
    check.row(
        "length", predicted=2 * np.pi, measured=length, tolerance=1e-8, because="Chords are shorter by a part 1e-9."
    )
    check.printed(44 / 7)
    return check


@PAPER.figure(
    "polygons",
    caption="Perimeter of the inscribed polygon against its sides, and $2\\pi$.",
    shows=("perimeters", "below"),
)
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
