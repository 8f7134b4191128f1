"""Shapes are checked at run time in tests; property tests are repeatable; a test process stays small."""

import ctypes
import gc
import sys

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("sphereflow", "typechecking.check")

from sphereflow import runtime

runtime.keep_programs()  # they are dropped between files, by the rule below

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=15)
settings.load_profile("repeatable")

ROOM, LIMIT = 1.2e9, 2.5e9  # bytes above which compiled programs are dropped, and which no fast test may pass


def memory(field):
    """Bytes of this process, its children not counted: now (VmRSS) or at most so far (VmHWM); 0 if unknown."""
    try:
        with open("/proc/self/status") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return 0.0


def make_room():
    """Drop compiled programs and figures, and give their memory back to the system, which free alone does not."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    jax.clear_caches()
    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Of a test with `fast_cases`, the cases that it does not name are slow."""
    made = yield
    for item in made if isinstance(made, list) else ():
        for mark in item.iter_markers("fast_cases"):
            cases = {each.callspec.id for each in made if each.originalname == item.originalname}
            if unknown := set(mark.args) - cases:
                raise pytest.UsageError(f"{item.originalname} has no case {', '.join(unknown)}, but {sorted(cases)}")
            if item.callspec.id not in mark.args:
                item.add_marker("slow")
    return made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    item.peak_before = memory("VmHWM")
    done = yield
    last_of_file = nextitem is None or nextitem.path != item.path
    if memory("VmRSS") > (ROOM if last_of_file else (ROOM + LIMIT) / 2):
        make_room()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    done = yield
    peak = memory("VmHWM")
    if item.peak_before < peak > LIMIT and not {"slow", "gpu"} & {mark.name for mark in item.iter_markers()}:
        pytest.fail(
            f"the test process grew to {peak / 1e9:.1f} GB, more than the {LIMIT / 1e9:g} GB that leave room for a "
            "second one: share shapes, or mark the test slow.",
            pytrace=False,
        )
    return done
