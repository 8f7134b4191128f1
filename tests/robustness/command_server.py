"""Runs command lines in one warm process, each in a fresh copy of a folder, and reports what each left behind.

A command that has not ended after some seconds of processor time gets Ctrl-C, as from an impatient user: it must then
leave with 130. Processor time, because on a busy machine all commands take long. Memory is limited, so that a request
for 10^9 rows meets the wall here and not in the machine. The process is confined: it can write in the folder of its
template only.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from confinement import confine_writing

GIGABYTE = 2**30


def picture_of(folder: Path) -> dict[str, str]:
    """Every file below the folder, with a digest of its content."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            content = b"link" if path.is_symlink() else path.read_bytes()
            found[os.fsencode(path.relative_to(folder)).decode("utf-8", "replace")] = hashlib.md5(content).hexdigest()
        for name in folders:
            found[os.fsencode((Path(place) / name).relative_to(folder)).decode("utf-8", "replace") + "/"] = ""
    return found


def run(arguments: list[str], template: Path, patience: float) -> dict[str, object]:
    from sphereflow.cli import app
    from sphereflow.cli.exit_codes import exit_code

    scratch = Path(tempfile.mkdtemp(dir=template.parent))
    here = scratch / "here"
    shutil.copytree(template, here, symlinks=True)
    before = picture_of(scratch)
    os.chdir(here)
    out, err = io.StringIO(), io.StringIO()

    def impatient(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGPROF, impatient)
    began = time.process_time()
    crash, code = "", None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        signal.setitimer(signal.ITIMER_PROF, patience, patience)
        try:
            code = exit_code(app, arguments)
        except BaseException:
            crash = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - began
    after = picture_of(scratch)
    os.chdir("/")
    shutil.rmtree(scratch)
    changed = sorted(name for name in before | after if before.get(name) != after.get(name))
    return {
        "code": code,
        "crash": crash,
        "seconds": seconds,
        "changed": changed,
        "out": out.getvalue()[-2000:],
        "err": err.getvalue(),
        "peak": highest_memory(),
    }


def highest_memory() -> int:
    """Bytes; `ru_maxrss` would count what the process was before it became this program."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def main() -> None:
    template, samples, limit, patience = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    confine_writing(template.parent)  # before anything else: the lines to come are hostile
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print on the output must not mix with the answers
    import sphereflow.papers as papers

    papers.__path__[:] = [samples]
    import jax.numpy as jnp

    jnp.zeros(3).block_until_ready()  # the back end reserves addresses of its own, once
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = int(used + limit * GIGABYTE)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for line in sys.stdin:
        result = run(json.loads(line), template, patience)
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
