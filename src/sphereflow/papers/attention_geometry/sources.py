"""Where the statements of the paper were read: its abstract, public reviews, and a later paper of the first author."""

from __future__ import annotations

from sphereflow.claims import basis

_LATER = "a later paper of the first author, 'Retrieval Capacity of Self-Attention Under Competition', which restates "
METRICS = basis.Summary(_LATER + "the definitions")
INVERSIONS = basis.Summary(_LATER + "the bounds by inversions")
SINGLETON = basis.Summary(_LATER + "the remark on one selected token")
COMPETITION = basis.Summary(_LATER + "the mean rank of required tokens")
EXTRACTION = basis.Summary(_LATER + "what is read from a causal language model")


def asked_of_models(assertion: str) -> basis.Extension:
    """An assertion of the abstract, asked of models that the paper did not run; the answer is no word of the paper."""
    return basis.Extension(f"the abstract asserts that {assertion}; asked of models that the paper did not run")


CONTROL = asked_of_models("selection by attention is sharper than random selection")
SINK = asked_of_models("the similarity of the sink correlates with recall")
SHORT_SINK = asked_of_models("value norms are stable, with a compressed sink")
REGIMES = asked_of_models("heads fall into three regimes, Retriever, Mixer and Reset")
PROFILES = asked_of_models("similarity decays exponentially and attention profiles are piecewise")
SMALL = asked_of_models("separability is strongest for about 1 to 4 tokens")
ENVELOPES = asked_of_models(
    "measured curves follow the theoretical envelopes; the paper's own were not available, this one is for independent "
    "directions in the effective dimension of the values"
)
