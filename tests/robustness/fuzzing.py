"""Feeds hostile command lines to the server, judges each answer, and counts how they end."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "sample_papers"
MEMORY_GIGABYTES = 6.0

# What a command that was stopped may leave for the next one to continue from.
RESUMABLE = re.compile(
    r"\.partial(/|$)|\.checkpoint$|\.zarr(/|$)|\.journal$|monte-carlo\.json$|(^|/)phases/|model\.npz$|\.npz$"
)
# Temporary names, and probes for the right to write.
HALF_WRITTEN = re.compile(r"(^|/)\.[^/]*$|\.new(/|$)|\.probe$|\.tmp$")


class Server:
    """A process that runs command lines; a new one takes over when one is lost.

    `patience` is in seconds of processor time, `grace` in seconds of the clock, for one that hangs.
    """

    def __init__(self, template: Path, patience: float = 3.0, grace: float = 600.0):
        self._template, self._patience, self._grace = template, patience, grace
        self._process: subprocess.Popen[str] | None = None

    def ask(self, arguments: list[str]) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(arguments) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self._grace)
        answer = process.stdout.readline() if ready else ""
        if answer:
            told = json.loads(answer)
            if told["code"] == 130:  # what was being imported when Ctrl-C came is of no use to the next line
                self.close()
            return told
        died = process.poll() if ready else None
        self.close()
        said = f"the process died ({died})" if ready else "did not stop after Ctrl-C"
        return {"code": None, "crash": said, "seconds": self._grace, "changed": [], "out": "", "err": "", "peak": 0}

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "command_server.py"),
                str(self._template),
                str(SAMPLES),
                str(MEMORY_GIGABYTES),
                str(self._patience),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(self._template.parent),
        )
        return self._process


def environment(sandbox: Path) -> dict[str, str]:
    """Everything that is written, caches included, goes into the sandbox; nothing is fetched."""
    places = {"TMPDIR": sandbox, "SPHEREFLOW_CACHE": sandbox / "cache", "MPLCONFIGDIR": sandbox / "cache"}
    for place in places.values():
        place.mkdir(exist_ok=True)
    settings = {"COLUMNS": "80", "TERM": "dumb", "HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu"}
    return os.environ | settings | {name: str(place) for name, place in places.items()}


def faults(answer: dict[str, Any]) -> list[str]:
    """What is wrong with how a command ended; nothing, if it ended as it should."""
    code, errors = answer["code"], _without_lost_interrupts(answer["err"])
    found = []
    if code is None:
        return ["crashed: " + answer["crash"].strip().splitlines()[-1][:300]]
    if code not in (0, 1, 2, 130):
        found.append(f"exit code {code}")
    if "Traceback" in errors:
        found.append("a traceback")
    if code in (2, 130) and not _one_sentence(errors):
        found.append(f"not one sentence: {errors[-300:]!r}")
    if code == 2 and answer["changed"]:
        found.append(f"refused, but changed {answer['changed'][:5]}")
    left = [name for name in answer["changed"] if HALF_WRITTEN.search(name)]
    if left:
        found.append(f"half written: {left[:5]}")
    if code == 130 and any(not RESUMABLE.search(name) for name in answer["changed"]):
        found.append(f"stopped, but changed {answer['changed'][:5]}")
    return found


def _without_lost_interrupts(errors: str) -> str:
    """Without the reports of interrupts that came while Python was collecting garbage, where none can be raised."""
    return re.sub(r"Exception ignored in: (?:.*\n)*?KeyboardInterrupt: ?\n", "", errors)


def _one_sentence(errors: str) -> bool:
    return errors.startswith("sphereflow: ") and errors.count("\n") == 1 and errors.endswith((".\n", "?\n"))


@dataclass
class Tally:
    """How many lines ended how, and which of them badly."""

    codes: Counter[Any] = field(default_factory=Counter)
    bad: list[tuple[list[str], list[str], dict[str, Any]]] = field(default_factory=list)
    seconds: float = 0.0
    peak: int = 0

    def take(self, arguments: list[str], answer: dict[str, Any]) -> None:
        self.codes[answer["code"]] += 1
        self.seconds += answer["seconds"]
        self.peak = max(self.peak, answer["peak"])
        wrong = faults(answer)
        if wrong:
            self.bad.append((arguments, wrong, answer))

    def __str__(self) -> str:
        ends = ", ".join(f"{count} x exit {code}" for code, count in sorted(self.codes.items(), key=str))
        return (
            f"{self.codes.total()} command lines in {self.seconds:.0f} s: {ends}; {len(self.bad)} faults; "
            f"at most {self.peak / 2**30:.1f} GiB"
        )


def main() -> None:
    """Run the lines with these numbers: python fuzzing.py FIRST LAST."""
    import tempfile

    sys.path.insert(0, str(HERE))
    from hostile_lines import hostile_line
    from playground import lay_out

    from sphereflow.cli import app

    first, last = int(sys.argv[1]), int(sys.argv[2])
    tally, began = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        template = Path(place) / "template"
        lay_out(template)
        server = Server(template)
        for number in range(first, last):
            line = hostile_line(app, number)
            answer = server.ask(line)
            tally.take(line, answer)
            if faults(answer):
                told = [word if len(word) < 60 else word[:20] + "..." for word in line]
                print(f"{number} {told} -> {answer['code']} {faults(answer)} [{answer['seconds']:.1f} s]", flush=True)
                if "-v" in sys.argv:
                    print(answer["crash"], flush=True)
            elif answer["seconds"] > 2 or "-a" in sys.argv:
                told = [word if len(word) < 60 else word[:20] + "..." for word in line]
                print(
                    f"   {number} {told} -> {answer['code']} [{answer['seconds']:.1f} s] {answer['err'].strip()[-150:]}"
                )
        server.close()
    print(f"{tally}; wall {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
