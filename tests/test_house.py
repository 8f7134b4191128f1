"""The house stays easy to walk through: short files, one idea each, no drawers for odds and ends."""

import ast
import statistics
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parent.parent / "src" / "sphereflow").rglob("*.py"))


def test_files_are_short():
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    assert {str(path): length for path, length in lengths.items() if length > 400} == {}
    assert statistics.median(lengths.values()) <= 150


def test_no_file_is_a_drawer():
    assert [path for path in SOURCES if path.stem in {"utils", "util", "helpers", "misc", "common", "tools"}] == []


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if "papers" not in p.parts], ids=lambda path: str(path.relative_to(SOURCES[0].parent))
)
def test_every_file_and_public_name_says_what_it_is(path):
    """A docstring for each module, and for each function and class that other rooms can see (papers are read whole)."""
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    silent = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not node.decorator_list  # a claim or a figure says what it is in its decorator
    ]
    assert not silent, f"no docstring: {', '.join(silent)}"


PACKAGES = [path for path in SOURCES if path.name == "__init__.py" and not {"papers", "cli"} & set(path.parts)]


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_no_public_name_hides_a_module(path):
    """`from sphereflow.area import name` means one thing."""
    names = {alias.asname for node in ast.walk(ast.parse(path.read_text("utf-8"))) for alias in _imported(node)}
    modules = {each.stem for each in path.parent.glob("*.py")} | {
        each.parent.name for each in path.parent.glob("*/*.py")
    }
    assert names & modules == set()


def test_public_classes_have_names_of_their_own():
    """What two areas export under one name is one class."""
    homes: dict[str, set[str]] = {}
    for path in PACKAGES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for alias in _imported(node):
                if alias.name[:1].isupper() and not alias.name.isupper():
                    homes.setdefault(alias.name, set()).add(str(node.module).split(".")[1])
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def _imported(node: ast.AST) -> list[ast.alias]:
    return [alias for alias in node.names if alias.asname] if isinstance(node, ast.ImportFrom) else []
