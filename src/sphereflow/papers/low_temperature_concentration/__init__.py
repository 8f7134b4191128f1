"""Mean-field Transformers at low temperature: fast concentration, a long rest of order log(beta), then the value."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="low-temperature-concentration",
    title="Quantifying concentration phenomena of mean-field Transformers in the low-temperature regime",
    authors=("Albert Alcalde", "Leon Bungert", "Konstantin Riedl", "Tim Roith"),
    year=2026,
    arxiv="2605.10931",
    summary=(
        "Infinitely many tokens at low temperature attend to the one direction that key and query prefer. Their law "
        "quickly concentrates on a push-forward of the initial law, on the dominant eigenspace of V B^T, rests there "
        "for a time of order log(beta), and then follows the spectrum of the value matrix V. The distance to the "
        "limit is measured against its bound: it is of order 1/beta at fixed times, better than the guaranteed "
        "sqrt(log(beta)/beta), and its smallest value over time falls like beta^(-1/2)."
    ),
    texts="Read: the abstract only, and a short digest that names the matrices; the paper's text and experiments "
    "were not available. Set-ups, constants and rates are worked out here.",
    bibtex="""@article{alcalde2026quantifying,
  title   = {Quantifying concentration phenomena of mean-field Transformers in the low-temperature regime},
  author  = {Alcalde, Albert and Bungert, Leon and Riedl, Konstantin and Roith, Tim},
  journal = {arXiv preprint arXiv:2605.10931},
  year    = {2026}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.low_temperature_concentration import zero_temperature as zero_temperature
from sphereflow.papers.low_temperature_concentration import expansion as expansion
from sphereflow.papers.low_temperature_concentration import phases as phases
from sphereflow.papers.low_temperature_concentration import samples as samples
from sphereflow.papers.low_temperature_concentration import rates as rates
from sphereflow.papers.low_temperature_concentration import directions as directions
from sphereflow.papers.low_temperature_concentration import sphere as sphere
from sphereflow.papers.low_temperature_concentration import transport as transport
from sphereflow.papers.low_temperature_concentration import figures as figures
