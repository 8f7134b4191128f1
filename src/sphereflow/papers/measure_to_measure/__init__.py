"""One Transformer that carries N measures on the sphere to N targets: the proof as an algorithm, checked in parts."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="measure-to-measure",
    title="Measure-to-measure interpolation using Transformers",
    authors=("Borjan Geshkovski", "Philippe Rigollet", "Domènec Ruiz-Balet"),
    year=2024,
    arxiv="2411.04551",
    summary=(
        "A Transformer moves probability measures on the sphere. The paper writes down piecewise-constant weights such "
        "that one and the same schedule carries N inputs to N targets: attention disentangles inputs that overlap, "
        "which no perceptron can, then each is clustered or split, and gated perceptrons move the clusters to their "
        "targets. Every piece has an exact flow map, so the schedule is applied without time stepping. One attention "
        "direction per measure is enough, so the number of pieces does not grow with the dimension. The gate printed "
        "in Lemma B.2 opens on the wrong side, and two other statements need correction."
    ),
    texts="Read: the whole text of version 3 on arXiv, and a public third-party Lean formalisation of it with a "
    "list of errata. The paper has no numerical experiments.",
    bibtex="""@article{geshkovski2024measure,
  title   = {Measure-to-measure interpolation using Transformers},
  author  = {Geshkovski, Borjan and Rigollet, Philippe and Ruiz-Balet, Dom{\\`e}nec},
  journal = {arXiv preprint arXiv:2411.04551},
  year    = {2024}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the proof.
# isort: off
from sphereflow.papers.measure_to_measure import flows as flows
from sphereflow.papers.measure_to_measure import gates as gates
from sphereflow.papers.measure_to_measure import clustering as clustering
from sphereflow.papers.measure_to_measure import disentangling as disentangling
from sphereflow.papers.measure_to_measure import limit_points as limit_points
from sphereflow.papers.measure_to_measure import matching as matching
from sphereflow.papers.measure_to_measure import main_theorem as main_theorem
from sphereflow.papers.measure_to_measure import held_out as held_out
from sphereflow.papers.measure_to_measure import perceptrons as perceptrons
from sphereflow.papers.measure_to_measure import figures as figures
