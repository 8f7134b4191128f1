"""Random layers shared by all tokens: when the noise makes them meet, when it keeps them apart, and how fast."""

from __future__ import annotations

from sphereflow.claims import Paper

PAPER = Paper(
    slug="synchronization-by-noise",
    title="Stochastic scaling limits and synchronization by noise in deep Transformer models",
    authors=("Andrea Agazzi", "Giuseppe Bruno", "Eloy Mosig Garcia", "Samuele Saviozzi", "Marco Romito"),
    year=2026,
    arxiv="2604.26898",
    summary=(
        "The perceptron weights of a layer are random but the same for all tokens, so a deep network at "
        "initialisation is a stochastic flow: all tokens feel one noise. Whether two of them approach is decided by "
        "the covariance of the layer, that is by the activation function and the dimension. Constants, thresholds "
        "and rates are derived here in closed form for layers with independent Gaussian weights, and compared with "
        "simulated networks with error bars. Attention shifts the exponent by its strength; the mean energy decays "
        "exponentially when the noise is coercive, and need not otherwise."
    ),
    texts="Read: the abstract and the first lines of the introduction. Whatever is quantitative is worked out here.",
    bibtex="""@article{agazzi2026stochastic,
  title   = {Stochastic scaling limits and synchronization by noise in deep Transformer models},
  author  = {Agazzi, Andrea and Bruno, Giuseppe and Mosig Garcia, Eloy and Saviozzi, Samuele and Romito, Marco},
  year    = {2026},
  eprint  = {2604.26898},
  archiveprefix = {arXiv}
}""",
)

# The parts register their claims and figures on PAPER, in the order of the theory.
# isort: off
from sphereflow.papers.synchronization_by_noise import classification as classification
from sphereflow.papers.synchronization_by_noise import one_layer as one_layer
from sphereflow.papers.synchronization_by_noise import gram_matrix as gram_matrix
from sphereflow.papers.synchronization_by_noise import exponents as exponents
from sphereflow.papers.synchronization_by_noise import spectrum as spectrum
from sphereflow.papers.synchronization_by_noise import attention as attention
from sphereflow.papers.synchronization_by_noise import energies as energies
from sphereflow.papers.synchronization_by_noise import dissipation as dissipation
from sphereflow.papers.synchronization_by_noise import meeting as meeting
from sphereflow.papers.synchronization_by_noise import chaos as chaos
from sphereflow.papers.synchronization_by_noise import quadratic_form as quadratic_form
from sphereflow.papers.synchronization_by_noise import pathwise as pathwise
from sphereflow.papers.synchronization_by_noise import sphere_paths as sphere_paths
from sphereflow.papers.synchronization_by_noise import depth as depth
from sphereflow.papers.synchronization_by_noise import many_tokens as many_tokens
from sphereflow.papers.synchronization_by_noise import limits as limits
from sphereflow.papers.synchronization_by_noise import figures as figures
