"""Transformers with random weights: depth as time, one noise for all tokens, and the collapse of representations."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="random-transformers-homogenization",
    title="Homogenized Transformers",
    authors=("Hugo Koubbi", "Borjan Geshkovski", "Philippe Rigollet"),
    year=2026,
    arxiv="2604.01978",
    summary=(
        "At initialisation every head of every layer has fresh random weights. With small steps the tokens follow an "
        "ordinary equation, its corrected form, or a stochastic one in which all tokens share the same noise. For "
        "Gaussian weights the overlaps obey closed equations: flat attention collapses in a time log n, cold attention "
        "in a power of n, and the last stage has one rate for every temperature. Three formulas, as "
        "transcribed, are corrected: the overlap of images under product weights, the low-temperature equation "
        "(its coefficient depends on the law of the weights), and the modified equation (normalising adds a term)."
    ),
    texts="Read: the abstract and a public third-party Lean transcription of version 1; the paper itself was not "
    "available.",
    bibtex="""@misc{koubbi2026homogenized,
  title         = {Homogenized Transformers},
  author        = {Koubbi, Hugo and Geshkovski, Borjan and Rigollet, Philippe},
  year          = {2026},
  eprint        = {2604.01978},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.random_transformers_homogenization import one_layer as one_layer
from sphereflow.papers.random_transformers_homogenization import orders as orders
from sphereflow.papers.random_transformers_homogenization import heads as heads
from sphereflow.papers.random_transformers_homogenization import attention_moments as attention_moments
from sphereflow.papers.random_transformers_homogenization import collapse as collapse
from sphereflow.papers.random_transformers_homogenization import trade_offs as trade_offs
from sphereflow.papers.random_transformers_homogenization import last_stage as last_stage
from sphereflow.papers.random_transformers_homogenization import slow_motion as slow_motion
from sphereflow.papers.random_transformers_homogenization import shared_noise as shared_noise
from sphereflow.papers.random_transformers_homogenization import density as density
from sphereflow.papers.random_transformers_homogenization import sphere_density as sphere_density
from sphereflow.papers.random_transformers_homogenization import other_weights as other_weights
from sphereflow.papers.random_transformers_homogenization import initialisation as initialisation
from sphereflow.papers.random_transformers_homogenization import figures as figures
