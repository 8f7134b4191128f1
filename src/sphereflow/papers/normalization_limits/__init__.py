"""What normalised attention cannot do: keep weight on one key, tell keys apart, be sharp and smooth at once."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="normalization-limits",
    title="Limitations of Normalization in Attention Mechanism",
    authors=("Timur Mudarisov", "Mikhail Burtsev", "Tatiana Petrova", "Radu State"),
    year=2025,
    arxiv="2508.17821",
    summary=(
        "Attention seen as a selector of limited capacity. With bounded logits every softmax weight is of order 1/L; "
        "the distance between the selected keys and the rest collapses when a fixed share of them is selected; only "
        "part of the selected keys can be told apart geometrically; and the derivative of the normaliser grows like "
        "1/T. Each statement is checked in its sharp form."
    ),
    texts="The paper's text was not available: its abstract and texts about it were read. They give the definitions, "
    "Lemma 1 and Corollary 1, not the right-hand sides of Theorems 1 and 2.",
    bibtex="""@inproceedings{mudarisov2025limitations,
  title     = {Limitations of Normalization in Attention Mechanism},
  author    = {Mudarisov, Timur and Burtsev, Mikhail and Petrova, Tatiana and State, Radu},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2025},
  eprint    = {2508.17821},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the paper.
# isort: off
from sphereflow.papers.normalization_limits import weights as weights
from sphereflow.papers.normalization_limits import distances as distances
from sphereflow.papers.normalization_limits import separability as separability
from sphereflow.papers.normalization_limits import sensitivity as sensitivity
from sphereflow.papers.normalization_limits import normalisers as normalisers
from sphereflow.papers.normalization_limits import training as training
from sphereflow.papers.normalization_limits import figures as figures
from sphereflow.papers.normalization_limits import real_heads as real_heads
from sphereflow.papers.normalization_limits import recorded as recorded
