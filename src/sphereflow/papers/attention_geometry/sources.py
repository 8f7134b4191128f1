"""Where the statements of the paper were read: its abstract, public reviews, and a later paper of the first author."""

from __future__ import annotations

from sphereflow.claims import basis

_LATER = "a later paper of the first author, 'Retrieval Capacity of Self-Attention Under Competition', which restates "
METRICS = basis.Summary(_LATER + "the definitions")
INVERSIONS = basis.Summary(_LATER + "the bounds by inversions")
SINGLETON = basis.Summary(_LATER + "the remark on one selected token")
COMPETITION = basis.Summary(_LATER + "the mean rank of required tokens")
EXTRACTION = basis.Summary(_LATER + "what is read from a causal language model")
CONTROL = basis.Abstract("selection by attention is sharper than random selection")
SINK = basis.Abstract("the similarity of the sink correlates with recall")
SHORT_SINK = basis.Abstract("value norms are stable, with a compressed sink")
REGIMES = basis.Abstract("heads of three regimes: Retriever, Mixer, Reset")
PROFILES = basis.Abstract("similarity decays exponentially, attention profiles are piecewise")
