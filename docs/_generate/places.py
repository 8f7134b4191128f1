"""Where things lie in the repository."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent
ROOT = DOCS.parent
SOURCE = ROOT / "src" / "sphereflow"
EXAMPLES = DOCS / "examples"
CLAIMS = DOCS / "claims.json"
# What takes long to make is kept here between builds; `make clean` removes it.
KEPT = ROOT / "build" / "docs"
