"""What is asked of every paper: each claim has its expected verdict, each formula and quick figure can be shown."""

from typing import ClassVar

from sphereflow.claims import Claim, Figure, Paper, Run
from sphereflow.cli.paper_contents import contents_of
from sphereflow.report.entry import judged
from sphereflow.report.formula import formula


class Verdicts:
    """Subclass it as `TestVerdicts` with the paper and the ids of the statements that are
    false as printed (`refuted`) or are bounds without a rejected rival (`obeyed`).

    What is not named in `slow_claims` or `slow_figures` is run in the fast tier, so a new claim is. Named there is
    what was measured to take more than 0.7 processor seconds, from an empty compilation cache and without those
    before it; `sphereflow reproduce` runs it too.
    """

    paper: ClassVar[Paper]
    refuted: ClassVar[tuple[str, ...]] = ()
    obeyed: ClassVar[tuple[str, ...]] = ()
    slow_claims: ClassVar[tuple[str, ...]] = ()
    slow_figures: ClassVar[tuple[str, ...]] = ()

    def test_claim(self, claim: Claim):
        check, verdict = judged(claim, claim.measure(Run()))
        wanted = "refuted" if claim.id in self.refuted else "obeyed" if claim.id in self.obeyed else "holds"
        assert verdict == wanted, check

    def test_formulas_are_typeset(self):
        for claim in self.paper.claims:
            assert not claim.formula or "<math" in formula(claim.formula), claim.id

    def test_figure_is_drawn(self, figure: Figure):
        drawn = figure.draw(Run())
        drawn.canvas.draw()
        assert drawn.axes

    def test_the_list_of_papers_says_what_the_paper_says(self):
        found, paper = contents_of(self.paper.slug), self.paper
        for name in ("slug", "title", "authors", "year", "arxiv"):
            assert getattr(found, name) == getattr(paper, name)
        assert sorted(found.claims) == sorted(claim.id for claim in paper.claims)
        assert sorted(found.figures) == sorted(figure.id for figure in paper.figures)

    def test_what_is_slow_or_refuted_is_in_the_paper_and_something_is_fast(self):
        claims = {claim.id for claim in self.paper.claims}
        assert set(self.slow_claims) | set(self.refuted) | set(self.obeyed) <= claims
        assert set(self.slow_figures) <= {figure.id for figure in self.paper.figures if "quick" in figure.presets}
        assert set(self.slow_claims) < claims
