"""One module (or package) per paper, found by name: adding a paper edits nothing else.

A paper module defines `PAPER = Paper(slug=..., ...)` and registers its claims and figures on it. A paper of your own
is a file or a package anywhere, loaded by its path, or a module that an installed package names under the entry point
group `sphereflow.papers`.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from sphereflow.claims import Paper
from sphereflow.errors import SphereflowError

GROUP = "sphereflow.papers"


def slugs() -> list[str]:
    """The slugs of the library's papers, from the module names, without importing them."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def installed() -> list[str]:
    """The slugs of papers that other installed packages bring."""
    return sorted(entry_points(group=GROUP).names)


def load(name: str) -> Paper:
    """The paper with this slug, or in the file or package at this path, with its claims registered."""
    if name in slugs():
        return importlib.import_module(f"{__name__}.{name.replace('-', '_')}").PAPER
    if name in installed():
        (entry,) = entry_points(group=GROUP, name=name)
        return replace(_paper(entry.load(), f"the entry point {name}"), origin=name)
    if name.endswith(".py") or "/" in name or Path(name).is_dir():
        return _from_file(Path(name))
    known = [*slugs(), *installed()]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise SphereflowError(
        f"there is no paper '{name}'; the papers are {', '.join(known)}, or give the path of a file.{hint}"
    )


def load_all() -> list[Paper]:
    """All papers of the library in order of year, then slug."""
    return sorted((load(slug) for slug in slugs()), key=lambda paper: (paper.year, paper.slug))


def _from_file(path: Path) -> Paper:
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise SphereflowError(f"there is no paper at {path}: {file} does not exist.")
    name = path.resolve().name.removesuffix(".py")
    package = [str(file.parent)] if path.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=package)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that a package finds its own parts, and results its classes
    try:
        spec.loader.exec_module(module)
    except SphereflowError:
        raise
    except Exception as error:
        raise SphereflowError(f"the paper {path} cannot be loaded: {type(error).__name__}: {error}") from error
    return replace(_paper(module, str(path)), origin=str(path.resolve()))


def _paper(module: object, where: str) -> Paper:
    paper = getattr(module, "PAPER", module)
    if not isinstance(paper, Paper):
        raise SphereflowError(f"{where} does not define PAPER = Paper(...).")
    return paper
