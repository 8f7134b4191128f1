"""The paper's record, on which every part registers its claims and figures."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="mathematical-perspective",
    title="A mathematical perspective on Transformers",
    authors=("Borjan Geshkovski", "Cyril Letrouit", "Yury Polyanskiy", "Philippe Rigollet"),
    year=2023,
    arxiv="2312.10794",
    summary=(
        "Tokens after layer normalisation are particles on the unit sphere, layers are time, attention is a mean-field "
        "force. An interaction energy increases along the flow, tokens collapse to one cluster in the long run, and in "
        "high dimension one scalar equation describes the whole evolution, with a metastable phase when the inverse "
        "temperature is well above the logarithm of the number of tokens. Extensions from the survey 'The mean-field "
        "dynamics of Transformers' (arXiv:2512.01868): the long-context transition and the normalisation schemes."
    ),
    texts="Read: the abstract, a public third-party Lean transcription of version 5 with the paper's labels, and "
    "the authors' repository; of the survey a transcription only.",
    bibtex="""@article{geshkovski2025mathematical,
  title   = {A mathematical perspective on {T}ransformers},
  author  = {Geshkovski, Borjan and Letrouit, Cyril and Polyanskiy, Yury and Rigollet, Philippe},
  journal = {Bulletin of the American Mathematical Society},
  volume  = {62},
  number  = {3},
  pages   = {427--479},
  year    = {2025},
  eprint  = {2312.10794},
  archivePrefix = {arXiv}
}
@article{rigollet2025meanfield,
  title  = {The mean-field dynamics of {T}ransformers},
  author = {Rigollet, Philippe},
  year   = {2025},
  eprint = {2512.01868},
  archivePrefix = {arXiv}
}""",
)
