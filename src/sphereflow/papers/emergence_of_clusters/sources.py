"""Which texts of the paper were read: the abstract, a transcription of its statements, the authors' repository."""

from __future__ import annotations

from sphereflow.claims import basis

LEAN = "a public third-party Lean transcription of v6"
BOOLEAN = basis.Theorem("t:boolean", via=LEAN)
IDENTITY = basis.Theorem("t:Idcase11", via=LEAN)
HYPERPLANES = basis.Theorem("l:3hyperplanes11", via=LEAN)
MIXED = basis.Theorem("t:multiplicity", via=LEAN)
