"""Attention plus perceptron: where stationary measures concentrate, from certified global minimisers."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="perceptrons-localization",
    title="Perceptrons and localization of attention's mean-field landscape",
    authors=("Antonio Álvarez-López", "Borjan Geshkovski", "Domènec Ruiz-Balet"),
    year=2026,
    arxiv="2601.21366",
    summary=(
        "Attention on the sphere is a gradient flow of an interaction energy; a perceptron with tied weights adds a "
        "potential. With it, stationary measures are never spread out: their support has no area, on the circle they "
        "are finitely many atoms, and not too heavy ones. The global minimiser is unique; here it is computed by "
        "convex programming, its atoms refined to rounding and its optimality proved by a duality gap. Two things as "
        "published do not hold: a statement about single clusters at every beta, and the energy of GELU in the code."
    ),
    texts="The paper's text was not available: its abstract, a public third-party Lean transcription of v2 with the "
    "paper's labels, and the authors' code were read. The figures of the paper were not seen.",
    bibtex="""@inproceedings{alvarezlopez2026perceptrons,
  title     = {Perceptrons and localization of attention's mean-field landscape},
  author    = {{\\'A}lvarez-L{\\'o}pez, Antonio and Geshkovski, Borjan and Ruiz-Balet, Dom{\\`e}nec},
  booktitle = {International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {306},
  pages     = {2180--2206},
  year      = {2026},
  eprint    = {2601.21366},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.perceptrons_localization import gradient as gradient
from sphereflow.papers.perceptrons_localization import flows as flows
from sphereflow.papers.perceptrons_localization import linear as linear
from sphereflow.papers.perceptrons_localization import splitting as splitting
from sphereflow.papers.perceptrons_localization import rings as rings
from sphereflow.papers.perceptrons_localization import ring_or_atoms as ring_or_atoms
from sphereflow.papers.perceptrons_localization import confinement as confinement
from sphereflow.papers.perceptrons_localization import stationary as stationary
from sphereflow.papers.perceptrons_localization import generic as generic
from sphereflow.papers.perceptrons_localization import normalised as normalised
from sphereflow.papers.perceptrons_localization import mean_field as mean_field
from sphereflow.papers.perceptrons_localization import concentration as concentration
from sphereflow.papers.perceptrons_localization import figures as figures
