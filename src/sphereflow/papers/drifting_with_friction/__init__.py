"""One-step generators that drift: the field, its spurious scale, friction, identifiability, training and baselines."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="drifting-with-friction",
    title="Attraction, Repulsion, and Friction: Introducing DMF, a Friction-Augmented Drifting Model",
    authors=("A. Kazanskii", "T. Petrova", "K. Bagrianskii", "A. Puzikov", "R. State"),
    year=2026,
    arxiv="2604.18194",
    summary=(
        "A drifting model trains a one-step generator: a kernel field pulls generated samples towards data and pushes "
        "them apart, and the network is regressed onto the moved samples. In a two-particle version the iteration "
        "does not converge to the data but to a distance fixed by the width of the kernel. Friction that grows with "
        "training bounds the error over a finite horizon. A vanishing field identifies the data for the Gaussian "
        "kernel, already on an open set; for the Laplace kernel not on an open set. Friction as a gain is a "
        "learning-rate schedule under plain gradient descent, and nearly cancels under Adam."
    ),
    texts="The paper's text was not available: its abstract, first page and summaries were read, and the code of "
    "the base paper and of two baselines. The update with friction, its constants and all tables are not known here.",
    bibtex="""@misc{kazanskii2026attraction,
  title  = {Attraction, Repulsion, and Friction: Introducing {DMF}, a Friction-Augmented Drifting Model},
  author = {Kazanskii, A. and Petrova, T. and Bagrianskii, K. and Puzikov, A. and State, R.},
  year   = {2026},
  eprint = {2604.18194},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.drifting_with_friction import surrogate as surrogate
from sphereflow.papers.drifting_with_friction import estimators as estimators
from sphereflow.papers.drifting_with_friction import friction as friction
from sphereflow.papers.drifting_with_friction import identifiability as identifiability
from sphereflow.papers.drifting_with_friction import recovery as recovery
from sphereflow.papers.drifting_with_friction import training as training
from sphereflow.papers.drifting_with_friction import baselines as baselines
from sphereflow.papers.drifting_with_friction import compute as compute
from sphereflow.papers.drifting_with_friction import bridges as bridges
from sphereflow.papers.drifting_with_friction import figures as figures
from sphereflow.papers.drifting_with_friction import samples as samples
