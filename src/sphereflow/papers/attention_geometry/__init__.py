"""Which tokens a head selects, whether they can be told from the others, and what the sink has to do with it."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="attention-geometry",
    title="Geometric Analysis of Token Selection in Multi-Head Attention",
    authors=("Timur Mudarisov", "Mikhail Burtsev", "Tatiana Petrova", "Radu State"),
    year=2026,
    arxiv="2602.01893",
    summary=(
        "The N tokens of largest attention weight are called selected. In the space of weighted values one asks "
        "whether they form a ball around their own sum that no other token enters, and measures it by "
        "precision, recall and F. Under independent values these follow a semi-analytic law. On SmolLM2-135M "
        "selection by attention is far above a random control and the sink's value is short; recall goes with the "
        "cosine of the sink and the sum of all other tokens, and only weakly with its cosine to the selected sum, "
        "of which the sink is itself a part."
    ),
    texts="The paper's text was not available: its abstract and public reviews were read, and a later paper of the "
    "first author that restates the definitions. The paper's own bounds, fitted forms and thresholds are not known "
    "here.",
    bibtex="""@misc{mudarisov2026geometric,
  title         = {Geometric Analysis of Token Selection in Multi-Head Attention},
  author        = {Mudarisov, Timur and Burtsev, Mikhail and Petrova, Tatiana and State, Radu},
  year          = {2026},
  eprint        = {2602.01893},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.attention_geometry import metrics as metrics
from sphereflow.papers.attention_geometry import structure as structure
from sphereflow.papers.attention_geometry import independent as independent
from sphereflow.papers.attention_geometry import cosine as cosine
from sphereflow.papers.attention_geometry import sink as sink
from sphereflow.papers.attention_geometry import extraction as extraction
from sphereflow.papers.attention_geometry import model as model
from sphereflow.papers.attention_geometry import recorded as recorded
from sphereflow.papers.attention_geometry import sparsification as sparsification
from sphereflow.papers.attention_geometry import figures as figures
