"""Where the statements of the paper were read: only texts about it were available."""

from __future__ import annotations

from sphereflow.claims import basis

LEMMA = basis.Summary("texts about the paper, which give Lemma 1 with its formula")
COROLLARY = basis.Summary("texts about the paper, which give Corollary 1 with its formula")
DISTANCE = basis.Summary("texts about the paper, which give the definition of the distance")
COLLAPSE = basis.Abstract("the distance between selected and other tokens collapses as their share is kept")
SEPARABILITY = basis.Abstract("only a part of the selected tokens can be told apart geometrically")


def asked_of_models(assertion: str) -> basis.Extension:
    """An assertion of the abstract, asked of models that the paper did not run; the answer is no word of the paper."""
    return basis.Extension(f"the abstract asserts that {assertion}; asked of models that the paper did not run")
