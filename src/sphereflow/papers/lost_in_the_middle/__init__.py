"""A decoder retrieves early and late tokens better than those in the middle: the theory in numbers."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="lost-in-the-middle",
    title="Kinetic theory for Transformers and the lost-in-the-middle phenomenon",
    authors=("Mitia Duerinckx", "Borjan Geshkovski", "Stefano Rossi"),
    year=2026,
    arxiv="2605.09213",
    summary=(
        "Tokens of a decoder look back only, with weights that decay with distance. In the limit of many tokens their "
        "law follows a layered transport equation, at which level nothing can be retrieved. The next order, 1/N, is "
        "the covariance between the start of a source token and the end of the last one. For independent uniform "
        "tokens it is known in closed form, and the accuracy of retrieval as a function of the position of the source "
        "is U-shaped: high for early tokens, rising again at the end, with one minimum in between, until a time that "
        "depends on temperature, slope and vocabulary."
    ),
    texts="Read: the abstract, a public third-party Lean transcription of version 1 (definitions and statements, "
    "without the paper's numbering), and the authors' scripts, which hold no simulation of the theorem.",
    bibtex="""@article{duerinckx2026kinetic,
  title   = {Kinetic theory for {T}ransformers and the lost-in-the-middle phenomenon},
  author  = {Duerinckx, Mitia and Geshkovski, Borjan and Rossi, Stefano},
  year    = {2026},
  eprint  = {2605.09213},
  archivePrefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in this order.
# isort: off
from sphereflow.papers.lost_in_the_middle import thresholds as thresholds
from sphereflow.papers.lost_in_the_middle import shape as shape
from sphereflow.papers.lost_in_the_middle import volterra as volterra
from sphereflow.papers.lost_in_the_middle import mean_field as mean_field
from sphereflow.papers.lost_in_the_middle import monte_carlo as monte_carlo
from sphereflow.papers.lost_in_the_middle import softmax as softmax
from sphereflow.papers.lost_in_the_middle import accuracy as accuracy
from sphereflow.papers.lost_in_the_middle import own_prompt as own_prompt
from sphereflow.papers.lost_in_the_middle import cumulants as cumulants
from sphereflow.papers.lost_in_the_middle import positions as positions
from sphereflow.papers.lost_in_the_middle import real_models as real_models
from sphereflow.papers.lost_in_the_middle import figures as figures
