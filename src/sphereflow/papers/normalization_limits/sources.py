"""Where the statements of the paper were read: only texts about it were available."""

from __future__ import annotations

from sphereflow.claims import basis

LEMMA = basis.Summary("texts about the paper, which give Lemma 1 with its formula")
COROLLARY = basis.Summary("texts about the paper, which give Corollary 1 with its formula")
DISTANCE = basis.Summary("texts about the paper, which give the definition of the distance")
COLLAPSE = basis.Abstract("the distance between selected and other tokens collapses as their share is kept")
SEPARABILITY = basis.Abstract("only a part of the selected tokens can be told apart geometrically")
SENSITIVITY = basis.Abstract("the gradients of softmax become sensitive at low temperature")
