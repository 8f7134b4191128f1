"""Exponentially many patterns on the sphere in a heat bath: the published theory, the exact one, and simulations."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="dense-associative-memory",
    title="Geometric Entropy and Retrieval Phase Transitions in Continuous (Thermal) Dense Associative Memory",
    authors=("Tatiana Petrova", "Evgeny Polyachenko", "Radu State"),
    year=2026,
    arxiv="2604.07401",
    summary=(
        "A memory stores e^(alpha N) random patterns on the N-sphere; its state is a point of the same sphere in "
        "a heat bath. Retrieval competes with the entropy of the sphere and with the noise of all other patterns. "
        "Two theories are kept apart by name: the published one treats overlaps as Gaussian, the exact one uses "
        "their law on the sphere. The published maximum capacity 0.5 belongs to the first; on the sphere capacity "
        "is 0.6226 at beta = 1 and grows without bound. For the compact kernel one printed line contradicts the "
        "printed noise floor. Boundaries seen in simulations of moderate N are kinetic."
    ),
    texts="Read: the abstract and the LaTeX source in the authors' repository (epolyach/DenseAM-GPU), with drafts of "
    "three follow-up papers there; the final proceedings text was not compared.",
    bibtex="""@inproceedings{petrova2026geometric,
  title     = {Geometric Entropy and Retrieval Phase Transitions in Continuous (Thermal) Dense Associative Memory},
  author    = {Petrova, Tatiana and Polyachenko, Evgeny and State, Radu},
  booktitle = {International Conference on Machine Learning},
  year      = {2026},
  eprint    = {2604.07401},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.dense_associative_memory import published as published
from sphereflow.papers.dense_associative_memory import noise as noise
from sphereflow.papers.dense_associative_memory import capacity as capacity
from sphereflow.papers.dense_associative_memory import one_half as one_half
from sphereflow.papers.dense_associative_memory import hot_bath as hot_bath
from sphereflow.papers.dense_associative_memory import boundaries as boundaries
from sphereflow.papers.dense_associative_memory import equilibrium as equilibrium
from sphereflow.papers.dense_associative_memory import compact as compact
from sphereflow.papers.dense_associative_memory import escape as escape
from sphereflow.papers.dense_associative_memory import kinetics as kinetics
from sphereflow.papers.dense_associative_memory import simulations as simulations
from sphereflow.papers.dense_associative_memory import other_energies as other_energies
from sphereflow.papers.dense_associative_memory import figures as figures
