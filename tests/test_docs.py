"""The documentation is true: its code runs, its pictures can be drawn, its tables and links are current."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

from _generate import blocks, gallery, readme, reference, speed

from sphereflow import papers
from sphereflow.report.formula import formula

PAGES = sorted(DOCS.rglob("*.md"))
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)


# Functions without an example that is run: they need the weights of a language model, or are of use inside only.
NOT_SHOWN = {
    *("llm." + name for name in (
        "effective_betas", "iterate_layer", "layer_limits", "measure_heads", "head_matrices", "load_model", "read_text",
        "windows", "influence_profile", "record", "compare_sparsity", "plan_sparsity", "sparse_attention",
    )),
    *("memory.langevin", "memory.metropolis", "retrieval.source_average", "sphere.check_unit"),
    *("dynamics.from_state_dict", "sweeps.run_specification"),
}  # fmt: skip
HIDDEN = {"claims", "errors", "papers", "pictures"}  # of use to authors of papers and of the library


def test_every_public_function_has_an_example_that_is_run():
    shown = [each.text for page in PAGES for each in blocks.blocks(page) if not each.skipped]
    code = "\n".join([*shown, *(each.code for each in gallery.examples())])
    functions = {
        f"{area}.{name}"
        for area in reference.AREAS
        if area not in HIDDEN
        for name in reference.public_names(area)
        if name[0].islower() and not re.search(rf"\b{name}\b", code)
    }
    assert functions - NOT_SHOWN == set()


@pytest.mark.slow
def test_the_tour_runs():
    assert blocks.run_page(DOCS / "tour.md") >= 15


@pytest.mark.fast_cases("minimiser_with_proof")
@pytest.mark.parametrize("example", gallery.examples(), ids=lambda example: example.name)
def test_every_example_draws_its_picture(example):
    assert example.title
    assert example.about
    assert gallery.picture_of(example).startswith(b"\x89PNG")


def test_a_block_that_fails_says_where(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n```python\nx = 1\n```\n\n<!-- not run: no -->\n```bash\nrm -r /\n```\n\n```python\nx / 0\n```\n"
    )
    found = blocks.blocks(page)
    assert [(block.language, block.line, block.skipped) for block in found] == [
        ("python", 4, ""),
        ("bash", 9, "no"),
        ("python", 13, ""),
    ]
    with pytest.raises(RuntimeError, match="line 13: ZeroDivisionError"):
        blocks.run_page(page)


def test_only_commands_of_the_package_are_run():
    assert list(blocks.commands("sphereflow info  # versions\nsphereflow plot a \\\n  --x t\n")) == [
        ["info"],
        ["plot", "a", "--x", "t"],
    ]
    with pytest.raises(ValueError, match="pip"):
        list(blocks.commands("pip install x"))


def test_links_lead_somewhere():
    made = {
        "cli.md",
        "examples.md",
        "gallery/index.html",
        "api/index.md",
        *(f"api/{room}.md" for room in reference.AREAS),
        *(f"pictures/{each.name}.png" for each in gallery.examples()),
    }
    made |= {f"papers/{slug}.md" for slug in papers.slugs()}
    for page in PAGES:
        for target in re.findall(
            r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", FORMULA.sub("", CODE.sub("", page.read_text("utf-8")))
        ):
            place = (page.parent / target).resolve()
            known = place.exists() or place.relative_to(DOCS.resolve()).as_posix() in made
            assert known, f"{page.name} points to {target}"


def test_every_formula_can_be_set():
    for page in PAGES:
        for found in FORMULA.finditer(CODE.sub("", page.read_text("utf-8"))):
            latex = found[1] or found[2]
            assert not str(formula(latex)).startswith("<code"), f"{page.name}: {latex}"


def test_every_paper_has_words_and_a_place_for_its_claims():
    assert {page.stem for page in (DOCS / "papers").glob("*.md")} == {*papers.slugs(), "index"}
    for slug in papers.slugs():
        page = DOCS / "papers" / f"{slug}.md"
        assert page.read_text("utf-8").count("<!-- claims -->") == 1
        assert any(block.language == "python" for block in blocks.blocks(page)), f"{slug} does not say how to vary it"


@pytest.mark.parametrize("slug", papers.slugs())
def test_the_table_of_an_abstract_names_claims_of_its_paper(slug):
    text = (DOCS / "papers" / f"{slug}.md").read_text("utf-8")
    table = text.split("## What the abstract asserts", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)*)`", table))
    assert named
    assert named <= _claims(slug)


def test_the_stored_verdicts_are_of_the_claims_that_are_there():
    stored = json.loads((DOCS / "claims.json").read_text("utf-8"))["papers"]
    assert {paper["slug"]: set(paper["claims"]) for paper in stored} == {slug: _claims(slug) for slug in papers.slugs()}
    assert "fails" not in {verdict for paper in stored for verdict in paper["claims"].values()}


def _claims(slug):
    """The names of a paper's claims, read from its source: importing all papers would take as long as all the rest."""
    place = ROOT / "src" / "sphereflow" / "papers" / slug.replace("-", "_")
    files = place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    return {
        decorator.args[0].value
        for file in files
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "PAPER.claim"
    }


def test_the_readme_is_current():
    text = (ROOT / "README.md").read_text("utf-8")
    assert readme.updated(text) == text, "run python docs/_generate/readme.py"


def test_markers_that_are_missing_are_noticed():
    with pytest.raises(ValueError, match="papers:start"):
        readme.updated("no markers")


def test_speed_is_read_from_the_benchmarks():
    table = speed.speed_table()
    for name in re.findall(r"\]\((benchmarks/[^)]+)\)", table):
        assert (ROOT / name).exists()
    # The smallest and largest ratio of one column, found without the parser of tables.
    column = [float(line.split("|")[5]) for line in _lines("direct_engine") if line.startswith("| float")]
    assert f"PyTorch {min(column):.1f} to {max(column):.1f}" in table


def _lines(name):
    return (ROOT / "benchmarks" / f"{name}.md").read_text("utf-8").splitlines()


def test_every_room_has_a_page():
    packages = {place.parent.name for place in (ROOT / "src" / "sphereflow").glob("*/__init__.py")}
    assert packages - {"cli", "explorer"} <= set(reference.AREAS)
    for room in reference.AREAS:
        assert reference.public_names(room), f"{room} has no public names"


def test_every_command_is_on_the_page_of_commands():
    page = reference.command_page()
    for heading in ("## reproduce", "## memory phases", "## transport fit", "## drift train"):
        assert heading in page
    assert "<code>--beta</code> <code>NUMBER</code>" in page
