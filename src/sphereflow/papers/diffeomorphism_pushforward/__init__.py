"""A diffeomorphism and its push-forward at once, by explicit weights; and what conditional sampling needs of them."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="diffeomorphism-pushforward",
    title="Constructive conditional normalizing flows",
    authors=("Borjan Geshkovski", "Domènec Ruiz-Balet"),
    year=2026,
    arxiv="2602.08606",
    summary=(
        "One flow of ReLU neurons, played one at a time with weights constant on pieces of time, should be close to a "
        "given map and carry a density close to where the map carries it. Conditional sampling needs both: a rotated "
        "map has the same push-forward of a Gaussian and wrong conditionals. General maps are factored into a gradient "
        "of a convex function, which pieces make exactly, and rearrangements that keep volume, made of 3-cycles of "
        "cells out of shears. Regular maps, such as those of Knothe and Rosenblatt, are played at random, one neuron "
        "after another, with an error of one over the root of the number of switches in any dimension."
    ),
    texts="Read: the abstract, the opening of the introduction, and texts about the paper. The factorisation and "
    "the cycles are worked out here along the lines of the abstract; the paper's own may differ in form.",
    bibtex="""@article{geshkovski2026constructive,
  title   = {Constructive conditional normalizing flows},
  author  = {Geshkovski, Borjan and Ruiz-Balet, Dom{\\`e}nec},
  journal = {arXiv preprint arXiv:2602.08606},
  year    = {2026}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.diffeomorphism_pushforward import exact_parts as exact_parts
from sphereflow.papers.diffeomorphism_pushforward import permutations as permutations
from sphereflow.papers.diffeomorphism_pushforward import pipeline as pipeline
from sphereflow.papers.diffeomorphism_pushforward import failures as failures
from sphereflow.papers.diffeomorphism_pushforward import random_play as random_play
from sphereflow.papers.diffeomorphism_pushforward import banana as banana
from sphereflow.papers.diffeomorphism_pushforward import chain as chain
from sphereflow.papers.diffeomorphism_pushforward import conditionals as conditionals
from sphereflow.papers.diffeomorphism_pushforward import learning as learning
from sphereflow.papers.diffeomorphism_pushforward import figures as figures
