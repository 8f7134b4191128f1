"""Normalizing flows that are constructed instead of trained: from one density to another in relative entropy."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="transport-relative-entropy",
    title="Constructive approximate transport maps with normalizing flows",
    authors=("Antonio Álvarez-López", "Borjan Geshkovski", "Domènec Ruiz-Balet"),
    year=2025,
    arxiv="2412.19366",
    summary=(
        "The continuity equation is driven by one ReLU neuron at a time, x' = w (a.x + b)_+, with weights that are "
        "constant on pieces of time. Weights are constructed so that a known density becomes, up to a small relative "
        "entropy, a given one, with a count of the switches. Every piece has a closed-form flow, so nothing here is "
        "stepped in time. On the line the error is C/K^2 with a constant that is known beforehand; in the plane cells "
        "are treated one by one between shears; and where tails differ too much relative entropy is infinite whatever "
        "the weights."
    ),
    texts="Read: the abstract, the opening of the introduction, an author's demonstration page, and remarks of a later "
    "paper. The theorem's hypothesis on tails and its bound on switches were not available; constants and rates are "
    "derived here.",
    bibtex="""@article{alvarezlopez2025constructive,
  title   = {Constructive approximate transport maps with normalizing flows},
  author  = {{\\'A}lvarez-L{\\'o}pez, Antonio and Geshkovski, Borjan and Ruiz-Balet, Dom{\\`e}nec},
  journal = {Applied Mathematics \\& Optimization},
  volume  = {92},
  number  = {2},
  pages   = {33},
  year    = {2025},
  doi     = {10.1007/s00245-025-10299-7},
  eprint  = {2412.19366},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.transport_relative_entropy import flow as flow
from sphereflow.papers.transport_relative_entropy import line as line
from sphereflow.papers.transport_relative_entropy import tails as tails
from sphereflow.papers.transport_relative_entropy import accuracy as accuracy
from sphereflow.papers.transport_relative_entropy import plane as plane
from sphereflow.papers.transport_relative_entropy import gaussianisation as gaussianisation
from sphereflow.papers.transport_relative_entropy import learning as learning
from sphereflow.papers.transport_relative_entropy import few_switches as few_switches
from sphereflow.papers.transport_relative_entropy import figures as figures
