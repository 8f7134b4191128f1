"""Attention without layer normalisation: limits decided by the spectrum of the value matrix."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="emergence-of-clusters",
    title="The emergence of clusters in self-attention dynamics",
    authors=("Borjan Geshkovski", "Cyril Letrouit", "Yury Polyanskiy", "Philippe Rigollet"),
    year=2023,
    arxiv="2305.05465",
    summary=(
        "Tokens in R^d under attention with weights frozen in depth and no layer normalisation. Seen in the variables "
        "z = exp(-tV) x, they converge to objects that the spectrum of V decides: a polytope if V is the identity, at "
        "most three parallel hyperplanes if the leading eigenvalue is simple and positive, products of the two in "
        "between, the origin if V is minus the identity. In one dimension the attention matrix itself becomes Boolean."
    ),
    texts="Read: the abstract, a public third-party Lean transcription of version 6 with the paper's labels, and "
    "the authors' repository; the paper's full text was not available.",
    bibtex="""@inproceedings{geshkovski2023emergence,
  title     = {The emergence of clusters in self-attention dynamics},
  author    = {Geshkovski, Borjan and Letrouit, Cyril and Polyanskiy, Yury and Rigollet, Philippe},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {36},
  year      = {2023},
  eprint    = {2305.05465},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the paper.
# isort: off
from sphereflow.papers.emergence_of_clusters import boolean as boolean
from sphereflow.papers.emergence_of_clusters import polytope as polytope
from sphereflow.papers.emergence_of_clusters import mixed as mixed
from sphereflow.papers.emergence_of_clusters import hyperplanes as hyperplanes
from sphereflow.papers.emergence_of_clusters import decay as decay
from sphereflow.papers.emergence_of_clusters import spectra as spectra
from sphereflow.papers.emergence_of_clusters import context as context
from sphereflow.papers.emergence_of_clusters import feed_forward as feed_forward
from sphereflow.papers.emergence_of_clusters import heads as heads
from sphereflow.papers.emergence_of_clusters import figures as figures
from sphereflow.papers.emergence_of_clusters import high_dimension as high_dimension
from sphereflow.papers.emergence_of_clusters import low_rank as low_rank
