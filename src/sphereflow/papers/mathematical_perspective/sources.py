"""Which texts were read: the abstract, third-party transcriptions of the statements, and the authors' repository."""

from __future__ import annotations

from sphereflow.claims import basis

LEAN = "a public third-party Lean transcription of v5"
SURVEY = "a public third-party Lean transcription of the survey arXiv:2512.01868"
ORTHOGONAL = basis.Theorem("thm: orthogonal", via=LEAN)
CURVE = basis.Theorem("thm: phase.transition.curve", via=LEAN)
CONE = basis.Theorem("lem: cone collapse", via=LEAN)
REPOSITORY = ("borjanG/2023-transformers-rotf", "commit 24613e8")
DIAGRAMS = basis.AuthorCode(*REPOSITORY, "phase-diagrams.py")
