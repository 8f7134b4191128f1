"""Where the statements of the paper were read."""

from __future__ import annotations

from sphereflow.claims import basis

LEAN = "a public third-party Lean transcription of v1"
CODE = basis.AuthorCode("borjanG/2026-lost-in-the-middle", "commit 7113d3a", "generate_u_shape_numerology_data.py")
CLOSED_FORM = basis.Theorem("closed form of the correlation for independent uniform tokens", via=LEAN)
U_SHAPE = basis.Theorem("U-shape of the retrieval profile", via=LEAN)
EXPANSION = basis.Theorem("expansion of the retrieval accuracy", via=LEAN)
