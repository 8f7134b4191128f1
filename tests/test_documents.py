"""What the documents point to exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from _generate.blocks import run_page

SOURCE = ROOT / "src" / "sphereflow"


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "benchmarks/README.md"])
def test_links_lead_somewhere(name):
    page = ROOT / name
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{name} points to {target}"


def test_every_area_is_described():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    for area in (ROOT / "src" / "sphereflow").iterdir():
        if any(area.glob("*.py")) and not area.name.startswith("_"):
            assert re.search(rf"\b{area.name}\b", page), f"ARCHITECTURE.md does not mention {area.name}"


def test_what_is_described_exists_and_fits_on_a_page():
    page = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(page.splitlines()) <= 110
    for row in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE):
        package = SOURCE
        for name in re.findall(r"`([\w.]+)`", row):
            place = SOURCE.joinpath(*name.split(".")) if "." in name else package / name  # the package is said once
            package = place.parent
            assert place.is_dir() or place.with_suffix(".py").exists(), f"there is no sphereflow/{place.name}"


def test_every_command_is_in_the_readme():
    from sphereflow.cli import app

    told = (ROOT / "README.md").read_text()
    names = [command.name for command in app.registered_commands] + [group.name for group in app.registered_groups]
    for name in names:
        assert f"sphereflow {name}" in told, f"README.md does not show sphereflow {name}"


def test_the_examples_for_contributors_run():
    assert run_page(ROOT / "CONTRIBUTING.md") == 4


def test_mutants_are_mistakes_in_the_present_source():
    check = [sys.executable, str(ROOT / "tests/mutation/score.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "fit the code" in done.stdout
