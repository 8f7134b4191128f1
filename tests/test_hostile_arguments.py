"""Wrong arguments of the main functions of every area: one sentence, or a right answer; never a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "hostile_arguments.py"
SLOW = (
    "metastability",
    "simulate",
    "landscape",
    "modes",
    "random_transformers",
    "synchronisation",
    "transport",
    "memory",
    "drifting",
)


@pytest.mark.slow
@pytest.mark.parametrize("area", ["retrieval", *(pytest.param(a, marks=pytest.mark.slow) for a in SLOW)])
def test_wrong_arguments_get_a_sentence(area):
    told = subprocess.run([sys.executable, str(PROGRAM), area], capture_output=True, text=True, timeout=280)
    assert told.returncode == 0, told.stderr
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(rows) > 10
    assert [row for row in rows if row[2] != row[3]] == []
