"""Shapes are checked at run time in tests; property tests are repeatable; fast tests stay fast and small."""

import ctypes
import gc
import os
import sys
from pathlib import Path

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Claims, pages and commands stand on the library and take no arrays from users: they are half of all modules.
ROOMS = Path(__file__).parent.parent / "src/sphereflow"
ABOVE = {"claims", "cli", "explorer", "papers", "report"}
LIBRARY = [f"sphereflow.{room.stem}" for room in sorted(ROOMS.iterdir()) if room.stem not in {*ABOVE, "__init__"}]
install_import_hook(LIBRARY, "typechecking.check")

from sphereflow import runtime

runtime.keep_programs()  # they are dropped between files, by the rule below
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)  # small ones are shared by all files as well

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=15)
settings.load_profile("repeatable")

# Fast tests are mostly compiling, and what is compiled runs for milliseconds: these flags, which processes started by
# tests inherit, spare much of it. Machine code and its rounding are then not those of a user; in slow tests they are.
QUICK = (
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 --xla_backend_optimization_level=0"
)

ROOM, LIMIT = 1.2e9, 2.5e9  # bytes above which compiled programs are dropped, and which no fast test may pass


def memory(field):
    """Bytes of this process, its children not counted: now (VmRSS) or at most so far (VmHWM); 0 if unknown."""
    try:
        with open("/proc/self/status") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return 0.0


def processor():
    """Processor seconds of this process so far, and of its children that have ended."""
    return sum(os.times()[:4])


def make_room():
    """Drop compiled programs and figures, and give their memory back to the system, which free alone does not."""
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    jax.clear_caches()
    gc.collect()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def pytest_configure(config):
    """A release that does not know a flag would end the process, so that only one that does is given them."""
    if config.option.markexpr.startswith("not slow") and jax.__version__.startswith("0.10."):
        os.environ.setdefault("XLA_FLAGS", QUICK)


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
    item.peak_before, item.began = memory("VmHWM"), processor()
    done = yield
    last_of_file = nextitem is None or nextitem.path != item.path
    if memory("VmRSS") > (ROOM if last_of_file else (ROOM + LIMIT) / 2):
        make_room()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    done = yield
    peak, cost = memory("VmHWM"), processor() - item.began
    item.user_properties.append(("processor", cost))
    if {"slow", "gpu"} & {mark.name for mark in item.iter_markers()}:
        return done
    if item.peak_before < peak > LIMIT:
        pytest.fail(
            f"the test process grew to {peak / 1e9:.1f} GB, more than the {LIMIT / 1e9:g} GB that leave room for a "
            "second one: share shapes, or mark the test slow.",
            pytrace=False,
        )
    return done


def pytest_terminal_summary(terminalreporter):
    """The ten dearest tests in processor seconds, which tell more than durations where others use the machine as well.

    No more than a list: the servers and browsers of a whole run are counted with its last test, which ends them.
    """
    ends = [report for report in terminalreporter.getreports("") if report.when == "teardown"]
    costs = sorted(
        ((dict(report.user_properties).get("processor", 0.0), report.nodeid) for report in ends), reverse=True
    )
    terminalreporter.section(f"dearest 10 of {sum(cost for cost, _ in costs):.0f} processor seconds")
    for cost, name in costs[:10]:
        terminalreporter.write_line(f"{cost:8.2f} {name}")
