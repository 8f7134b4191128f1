"""Where the statements of the paper were read."""

from __future__ import annotations

from sphereflow.claims import basis

LEAN = "a public third-party Lean transcription of v2"
REPOSITORY = "antonioalvarezl/2026-MLP-Attention-Energy"
ENERGY = basis.Equation("primitive.field and section 2.3", via=LEAN)
SECOND_ORDER = basis.Equation("2order", via=LEAN)
MAXIMISER = basis.Theorem("prop: min.max (i)", via=LEAN)
MINIMISER = basis.Theorem("prop: min.max (ii)", via=LEAN)
CIRCLE = basis.Theorem("thm: circle", via=LEAN)
ANY_DIMENSION = basis.Theorem("thm: any.d", via=LEAN)
LINEAR = basis.Theorem("rem: genericity-vacuity", via=LEAN)
BOUND = basis.Theorem("thm: bound", via=LEAN)
CONCAVITY = basis.Theorem("lem: concavity", via=LEAN)
NORMALISED = basis.Theorem("prop: unified.log", via=LEAN)
CODE = basis.AuthorCode(REPOSITORY, "commit 18518e0", "wgf_circle/dynamics.py")
ATOMIC = basis.Abstract("critical points are generically atomic and localised on small sets")
EXAMPLE = basis.Derived("one relu neuron on the circle or the sphere, solved in closed form")
