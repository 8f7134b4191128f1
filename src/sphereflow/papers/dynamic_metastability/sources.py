"""Where the statements of the paper were read."""

from __future__ import annotations

from sphereflow.claims import basis

LEAN = "a public third-party Lean transcription of v1"
METASTABILITY = basis.Theorem("thm: metastability", via=LEAN)
STAIRCASE = basis.Theorem("thm: staircase", via=LEAN)
SLOW_MOTION = basis.Theorem("on slow motion near a manifold (Otto-Reznikoff framework)", via=LEAN)
SADDLES = basis.Abstract("the passage from plateau to plateau goes from saddle to saddle")
RANDOM_STARTS = basis.Theorem("on which random starts are separated", via=LEAN)
MOVIE = basis.AuthorCode("HugoKoubbi/2024-transformers-dotm", "commit 4aa178a", "kinetic.py")
