"""Which texts of the paper were read: its abstract, and the first lines of the introduction."""

from __future__ import annotations

from sphereflow.claims import basis

MODEL = "layers with independent Gaussian weights on the sphere, our normalisation"
ACTIVATIONS = basis.Abstract("the activation functions for which the noise is coercive are characterised")
SYNCHRONISATION = basis.Abstract("the limit shows synchronisation by noise")
ENERGY = basis.Abstract("the interaction energy dissipates exponentially on average if the noise is coercive enough")
COMPANION = basis.Summary("published results on the random quadratic form (Engel and Shalova), a companion model")
