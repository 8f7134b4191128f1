"""What the documents point to exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "benchmarks/README.md"])
def test_links_lead_somewhere(name):
    page = ROOT / name
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{name} points to {target}"


def test_every_room_is_described():
    told = (ROOT / "ARCHITECTURE.md").read_text()
    for room in (ROOT / "src" / "sphereflow").iterdir():
        if any(room.glob("*.py")) and not room.name.startswith("_"):
            assert re.search(rf"\b{room.name}\b", told), f"ARCHITECTURE.md does not mention {room.name}"


def test_every_command_is_in_the_readme():
    from sphereflow.cli import app

    told = (ROOT / "README.md").read_text()
    names = [command.name for command in app.registered_commands] + [group.name for group in app.registered_groups]
    for name in names:
        assert f"sphereflow {name}" in told, f"README.md does not show sphereflow {name}"
