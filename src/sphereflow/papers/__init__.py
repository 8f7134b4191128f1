"""One module (or package) per paper, found by name: adding a paper edits nothing else.

A paper module defines `PAPER = Paper(slug=..., ...)` and registers its claims and figures on it. A paper of your own
is a file or a package anywhere, loaded by its path, or a module that an installed package names under the entry point
group `sphereflow.papers`.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from sphereflow.errors import SphereflowError

if TYPE_CHECKING:
    from sphereflow.claims import Paper

GROUP = "sphereflow.papers"


def slugs() -> list[str]:
    """The slugs of the library's papers, from the module names, without importing them."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def installed() -> list[str]:
    """The slugs of papers that other installed packages bring."""
    return sorted(set(entry_points(group=GROUP).names) - set(slugs()))


def load(name: str) -> Paper:
    """The paper with this slug, or in the file or package at this path, with its claims registered."""
    if name in slugs():
        return _paper(importlib.import_module(f"{__name__}.{name.replace('-', '_')}"), name)
    if name in installed():
        return _from_package(name)
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


def _from_package(name: str) -> Paper:
    found = list(entry_points(group=GROUP, name=name))
    if len(found) > 1:
        packages = ", ".join(sorted(entry.dist.name if entry.dist else entry.value for entry in found))
        raise SphereflowError(f"several installed packages bring a paper '{name}': {packages}.")
    with _loading(f"the installed paper {name}"):
        module = found[0].load()
    return replace(_paper(module, f"the installed paper {name}"), origin=name)


def _from_file(path: Path) -> Paper:
    file = path / "__init__.py" if path.is_dir() else path
    if not file.is_file():
        raise SphereflowError(f"there is no paper at {path}: {file} does not exist.")
    name = _free_name(file, path.resolve().name.removesuffix(".py"))
    package = [str(file.parent)] if path.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=package)
    if spec is None or spec.loader is None:
        raise SphereflowError(f"there is no paper at {path}: a paper is a Python file, or a folder with __init__.py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that a package finds its own parts, and results its classes
    try:
        with _loading(f"the paper {path}"):
            spec.loader.exec_module(module)
    except SphereflowError:
        del sys.modules[name]
        raise
    return replace(_paper(module, str(path)), origin=str(path.resolve()))


def _free_name(file: Path, name: str) -> str:
    """The file's own name, unless another module has it: a paper in numpy.py must not take the place of NumPy."""
    try:
        other = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a name no import could find
        other = None
    if other is None or (other.origin is not None and Path(other.origin).resolve() == file.resolve()):
        return name
    return f"{name}_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}"


@contextmanager
def _loading(what: str) -> Iterator[None]:
    try:
        yield
    except SphereflowError:
        raise
    except Exception as error:
        raise SphereflowError(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error


def _paper(module: object, where: str) -> Paper:
    paper = getattr(module, "PAPER", module)
    from sphereflow.claims import Paper

    if not isinstance(paper, Paper):
        raise SphereflowError(f"{where} does not define PAPER = Paper(...).")
    claims = {claim.id for claim in paper.claims}
    for figure in paper.figures:
        if unknown := set(figure.shows) - claims:
            raise SphereflowError(f"the figure '{figure.id}' of {where} shows no claim: {', '.join(sorted(unknown))}.")
    return paper
