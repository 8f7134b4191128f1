"""How many modes a Gaussian kernel density estimate has: theory, certain counts, and what attention makes of them."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="kde-modes",
    title="On the number of modes of Gaussian kernel density estimators",
    authors=("Borjan Geshkovski", "Philippe Rigollet", "Yihang Sun"),
    year=2024,
    arxiv="2412.09080",
    summary=(
        "The density estimate of n standard normal samples with bandwidth beta^(-1/2) has of the order of "
        "sqrt(beta log beta) modes when beta lies between powers n^c and n^(2-c). Almost all of them sit in two belts "
        "away from the origin, where noise beats the slope of the true density and samples are still dense. Modes are "
        "where mean shift, hence self-attention, first drives tokens: their number is that of metastable clusters. "
        "Here every mode is counted with certainty, and the Kac-Rice formula and its sparse extension predict the "
        "numbers for any n and beta."
    ),
    texts="Read: the abstract, a public third-party Lean transcription of version 3 with the paper's labels, and "
    "the authors' scripts; the paper's full text was not available.",
    bibtex="""@article{geshkovski2024number,
  title   = {On the number of modes of {G}aussian kernel density estimators},
  author  = {Geshkovski, Borjan and Rigollet, Philippe and Sun, Yihang},
  journal = {arXiv preprint arXiv:2412.09080},
  year    = {2024}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.kde_modes import small_cases as small_cases
from sphereflow.papers.kde_modes import formulas as formulas
from sphereflow.papers.kde_modes import table as table
from sphereflow.papers.kde_modes import regimes as regimes
from sphereflow.papers.kde_modes import limit as limit
from sphereflow.papers.kde_modes import powers as powers
from sphereflow.papers.kde_modes import clusters as clusters
from sphereflow.papers.kde_modes import tokens as tokens
from sphereflow.papers.kde_modes import space as space
from sphereflow.papers.kde_modes import figures as figures
