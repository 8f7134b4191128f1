"""Functions for sweeps that run in processes of their own; every call leaves a line in the file that it is told."""

import os
import signal
import time
from pathlib import Path


def slow(x, seed, calls, wait):
    with open(calls, "a") as file:
        file.write(f"{x} {seed}\n")
    time.sleep(wait)
    return {"square": x**2 + seed, "pair": [x, float(seed)]}


def deadly(x, flag):
    """Kills its worker once, at x = 7."""
    if x == 7 and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return 3.0 * x


def large(x):
    import numpy as np

    return np.random.default_rng(int(x)).normal(size=20_000)


def curve(x, seed, scale):
    return scale * x**2 + seed
