"""A plugin of pytest: which lines of the package each test runs, and what it costs.

    LINE_MAP=map.jsonl PYTHONPATH=tests/mutation pytest -n 0 -p line_map

writes one JSON line a test: its name, its processor seconds, and the lines by file. It asks Python itself
(`sys.monitoring`, from Python 3.12 on), which reports a line once a test and costs next to nothing; before, a slower
trace. A function that JAX has compiled for an earlier test of the process does not run again, so a line belongs to the
tests that traced it.
"""

from __future__ import annotations

import json
import os
import sys
from types import CodeType, FrameType
from typing import Any

import pytest

_ROOT = os.path.realpath("src/sphereflow") + os.sep
_lines: set[tuple[str, int]] = set()


def _note(code: CodeType, line: int) -> None:
    if code.co_filename.startswith(_ROOT):
        _lines.add((code.co_filename.removeprefix(_ROOT), line))


if sys.version_info >= (3, 12):
    from sys import monitoring

    def _once(code: CodeType, line: int) -> object:
        _note(code, line)
        return monitoring.DISABLE

    monitoring.use_tool_id(monitoring.COVERAGE_ID, "line_map")
    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, _once)
    monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)
    _begin = monitoring.restart_events
else:

    def _always(frame: FrameType, event: str, _: object) -> Any:
        _note(frame.f_code, frame.f_lineno)
        return _always if frame.f_code.co_filename.startswith(_ROOT) else None

    def _begin() -> None:
        sys.settrace(_always)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    _lines.clear()
    _begin()
    began = sum(os.times()[:4])
    done = yield
    seconds = sum(os.times()[:4]) - began
    files: dict[str, list[int]] = {}
    for file, line in sorted(_lines):
        files.setdefault(file, []).append(line)
    with open(os.environ["LINE_MAP"], "a") as out:
        out.write(json.dumps({"test": item.nodeid, "seconds": round(seconds, 3), "lines": files}) + "\n")
    return done
