"""Run the code of every page: `python docs/_generate/check.py [PAGE ...]`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _generate.blocks import blocks, run_page
from _generate.places import DOCS


def pages_with_code() -> list[Path]:
    """Pages of which at least one block is run."""
    pages = sorted(DOCS.rglob("*.md"))
    return [page for page in pages if any(not block.skipped for block in blocks(page))]


def main(names: list[str]) -> None:
    for page in [Path(name).resolve() for name in names] or pages_with_code():
        began = time.process_time()
        count = run_page(page)
        print(f"{page.relative_to(DOCS)}: {count} blocks run, {time.process_time() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
