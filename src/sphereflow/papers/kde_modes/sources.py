"""Where the statements of the paper were read."""

from __future__ import annotations

LEAN = "a public third-party Lean transcription of v3"
CODE = "KimiSun18/2024-gauss-kde-attention"
