"""What is asked of every paper: each claim has its expected verdict, each formula and quick figure can be shown."""

from typing import ClassVar

import numpy as np

from sphereflow.claims import Claim, Figure, Paper, Run
from sphereflow.report.formula import formula


class Verdicts:
    """Subclass it as `TestVerdicts` with the paper and the ids of the statements that are false as printed."""

    paper: ClassVar[Paper]
    refuted: ClassVar[tuple[str, ...]] = ()

    def test_claim(self, claim: Claim):
        measurement = claim.measure(Run())
        assert measurement.verdict == ("refuted" if claim.id in self.refuted else "holds"), measurement
        assert measurement.because
        assert len(measurement.labels) in (0, np.size(measurement.measured))

    def test_formula_is_typeset(self, claim: Claim):
        assert not claim.formula or "<math" in formula(claim.formula)

    def test_figure_is_drawn(self, figure: Figure):
        drawn = figure.draw(Run())
        drawn.canvas.draw()
        assert drawn.axes
