"""Which texts of the paper were read: its abstract, and a public third-party Lean transcription of its statements."""

from __future__ import annotations

LEAN = "a public third-party Lean transcription of v1 (fxeqxmulfx/transformer, folder Homogenized)"
