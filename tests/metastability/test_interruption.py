"""Ctrl-C in a real process: what was merged is kept, and the run goes on from there to the same end."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.metastability import Outcome, coarsen_to_one

# A shell's background job starts with Ctrl-C ignored, and hands that on; this process takes it up again.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import sphereflow as sf
from sphereflow.metastability import coarsen_to_one
print("ready", flush=True)
history = coarsen_to_one("sa", sf.draw("uniform", 24, 3, seed=2), 300.0, checkpoint=sys.argv[1])
print(history.outcome.name, len(history), flush=True)
"""


def _started(file):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_end(tmp_path):
    file = tmp_path / "run.json"
    process = _started(file)
    deadline = time.monotonic() + 200  # a busy machine takes its time
    while not file.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    outcome, merged = told.split()
    assert outcome == "INTERRUPTED"
    kept = json.loads(file.read_text())
    assert len(kept["merges"]) == int(merged) > 0

    start = sf.draw("uniform", 24, 3, seed=2)
    resumed = coarsen_to_one("sa", start, 300.0, checkpoint=file)
    whole = coarsen_to_one("sa", start, 300.0)
    assert resumed.outcome is Outcome.ONE_CLUSTER
    assert resumed.merges == whole.merges
    assert np.array_equal(resumed.curve, whole.curve)
    assert coarsen_to_one("sa", start, 300.0, checkpoint=file).merges == whole.merges  # finished: read back

    with pytest.raises(SphereflowError, match="was made with"):
        coarsen_to_one("sa", start, 301.0, checkpoint=file)
    file.write_text("{}")
    with pytest.raises(SphereflowError, match="not a file of the kind"):
        coarsen_to_one("sa", start, 300.0, checkpoint=file)
