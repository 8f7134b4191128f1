"""The paper: who wrote it, and what it says in a few words."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="dynamic-metastability",
    title="Dynamic metastability in the self-attention model",
    authors=("Borjan Geshkovski", "Hugo Koubbi", "Yury Polyanskiy", "Philippe Rigollet"),
    year=2024,
    arxiv="2410.06833",
    summary=(
        "Tokens that start in well separated small caps collapse inside each cap in moderate time, and then the caps "
        "stay put for a time exponentially long in beta, although in the end everything merges into one point. In a "
        "rescaled clock the energy becomes a staircase, each jump a merger of two clusters."
    ),
    texts="Read: the abstract, a public third-party Lean transcription of version 1 with the paper's labels, and the "
    "authors' two scripts; the paper's full text and figures were not available.",
    bibtex="""@article{geshkovski2024dynamic,
  title={Dynamic metastability in the self-attention model},
  author={Geshkovski, Borjan and Koubbi, Hugo and Polyanskiy, Yury and Rigollet, Philippe},
  journal={arXiv preprint arXiv:2410.06833},
  year={2024}
}""",
)
