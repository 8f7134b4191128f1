"""The list of papers needs none of the numerics; that it is true is asked of every paper in `papers/verdicts.py`."""

import subprocess
import sys


def test_listing_them_imports_no_numerics():
    code = (
        "import sys; from sphereflow.cli import app; from sphereflow.cli.exit_codes import exit_code\n"
        "assert exit_code(app, ['papers', '--quiet']) == 0\n"
        "print([name for name in ('jax', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
