"""Where the statements of the paper were read."""

from __future__ import annotations

from sphereflow.claims.basis import Theorem

TEXT = "the text of arXiv v3"


def theorem(label: str) -> Theorem:
    """A theorem, proposition, lemma or example of version 3."""
    return Theorem(label, via=TEXT)
