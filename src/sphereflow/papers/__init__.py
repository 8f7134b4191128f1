"""One module (or package) per paper, found by name: adding a paper edits nothing else.

A paper module defines `PAPER = Paper(slug=..., ...)` and registers its claims and figures on it.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from sphereflow.claims import Paper
from sphereflow.errors import SphereflowError


def slugs() -> list[str]:
    """The slugs of all papers, from the module names, without importing them."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def load(slug: str) -> Paper:
    """The paper with this slug, with its claims registered."""
    if slug not in slugs():
        near = difflib.get_close_matches(slug, slugs(), n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise SphereflowError(f"there is no paper '{slug}'; the papers are {', '.join(slugs())}.{hint}")
    return importlib.import_module(f"{__name__}.{slug.replace('-', '_')}").PAPER


def load_all() -> list[Paper]:
    """All papers in order of year, then slug."""
    return sorted((load(slug) for slug in slugs()), key=lambda paper: (paper.year, paper.slug))
