"""Does a test fail when the mathematics is broken?

    python tests/mutation/score.py [--only AREA ...] [--json] [--check]

`mutants.toml` lists mistakes a person could make (a sign, a factor 2, an index, a transposed matrix, < for <=, a
forgotten beta), three or more for every area, each with the cheapest tests that should notice. The working tree is
copied to a temporary folder; there, and only there, one mistake at a time is put in, its tests are run, and the file
is restored. A mutant is

- killed: a test failed; that is what tests are for;
- survived: all of them passed, so either a sharp test is missing, or the mistake makes no difference;
- broken: the package could not be imported or no test was found: the mutant is at fault, not the tests;
- slow: the tests did not finish in time, which tells nothing;
- unfounded: its tests fail without the mistake as well.

The score is killed out of all. The chosen tests are first run as they are, one area at a time. The script is run by
hand (some minutes, one process at a time) and is not collected by pytest. RESULTS.md holds the last score.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("mutants.toml")
PATIENCE_SECONDS = 240
# Slow to load, and loaded once: every run is a fork of this process.
SLOW_TO_LOAD = (
    "beartype",
    "diffrax",
    "matplotlib.figure",
    "optax",
    "scipy.integrate",
    "scipy.optimize",
    "scipy.stats",
    "xarray",
    "zarr",
)
# What pytest says when it ends: tests failed, and everything that is no verdict about the mutant.
PASSED, FAILED, WRONG_COPY = 0, 1, 99


@dataclass(frozen=True)
class Mutant:
    """One mistake: in `file`, `old` (which occurs exactly once) becomes `new`; `tests` should notice."""

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def chosen(self, words: list[str]) -> bool:
        return not words or any(word in (self.area, self.name) for word in words)


@dataclass(frozen=True)
class Outcome:
    area: str
    name: str
    outcome: str
    seconds: float
    noticed_by: str = ""


class Nimble:
    """Asks property tests for one counterexample, not for the smallest: the search for it takes minutes."""

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile("nimble", settings.get_profile("repeatable"), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("nimble")


class Copy:
    """A copy of the package and its tests in which mistakes may be made."""

    def __init__(self, folder: Path):
        self.folder = folder
        unwanted = shutil.ignore_patterns("__pycache__", "mutation")
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
        shutil.copy(ROOT / "pyproject.toml", folder)

    def pytest(self, tests: tuple[str, ...], patience: float = PATIENCE_SECONDS) -> tuple[int | None, str]:
        """(how pytest ended, the first test that failed); None if it did not end in time.

        Each run is a fork of this process, which has loaded what is slow to load, and nothing of the package.
        """
        assert "sphereflow" not in sys.modules
        told = self.folder / "told.txt"
        child = os.fork()
        if child == 0:
            code = WRONG_COPY
            try:
                code = self._run(tests, told)
            except BaseException:  # whatever it is must not go on as a second copy of this program
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        deadline = time.monotonic() + patience
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None, ""
            time.sleep(0.05)
        first = [line for line in told.read_text().splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return os.waitstatus_to_exitcode(status), first[0].split(" - ")[0].split(maxsplit=1)[1] if first else ""

    def _run(self, tests: tuple[str, ...], told: Path) -> int:
        """What the fork does."""
        os.setsid()
        with open(told, "w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        os.chdir(self.folder)
        source = str(self.folder / "src")
        sys.path.insert(0, source)
        os.environ["PYTHONPATH"] = source  # for commands that tests start
        found = importlib.util.find_spec("sphereflow")
        if found is None or found.origin is None or not Path(found.origin).is_relative_to(self.folder):
            print(f"the copy is not what would be imported, but {found}")
            return WRONG_COPY
        options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider", "-m", "not gpu"]  # those named may be slow
        # Plugins are loaded already; that is the point.
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        return int(pytest.main([*options, *tests], plugins=[Nimble()]))

    def write(self, file: str, text: str) -> None:
        path = self.folder / file
        path.write_text(text)
        # Compiled code is trusted by time and size, which a mistake of one character need not change.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            compiled.unlink()


def mutants() -> list[Mutant]:
    """The table, with every `old` checked to occur exactly once."""
    rows = tomllib.loads(TABLE.read_text())["mutant"]
    found = [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]
    repeated = [name for name, count in Counter(m.name for m in found).items() if count > 1]
    faults = [f"the name {name} occurs twice" for name in repeated]
    for mutant in found:
        count = (ROOT / mutant.file).read_text().count(mutant.old)
        if count != 1 or mutant.old == mutant.new:
            faults.append(f"{mutant.name}: its old text occurs {count} times in {mutant.file}")
        faults += [f"{mutant.name}: no file {t}" for t in mutant.tests if not (ROOT / t.split("::")[0]).is_file()]
    if faults:
        raise SystemExit("mutants.toml no longer fits the code:\n" + "\n".join(faults))
    return found


def unfounded(copy: Copy, here: list[Mutant]) -> set[str]:
    """Names of the mutants of an area whose tests fail without them."""
    union = tuple(dict.fromkeys(t for m in here for t in m.tests))
    began = time.monotonic()
    code, first = copy.pytest(union, 4 * PATIENCE_SECONDS)
    word = "sound" if code == PASSED else f"not sound: {first}"
    print(f"{here[0].area}: {word} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    if code == WRONG_COPY:
        raise SystemExit((copy.folder / "told.txt").read_text())
    return set() if code == PASSED else {m.name for m in here if copy.pytest(m.tests)[0] != PASSED}


def judge(copy: Copy, mutant: Mutant) -> Outcome:
    """Make the mistake, run its tests, and undo it."""
    began = time.monotonic()
    sound = (copy.folder / mutant.file).read_text()
    copy.write(mutant.file, sound.replace(mutant.old, mutant.new))
    try:
        code, first = copy.pytest(mutant.tests)
    finally:
        copy.write(mutant.file, sound)
    word = {PASSED: "survived", FAILED: "killed", None: "slow"}.get(code, "broken")
    return Outcome(mutant.area, mutant.name, word, round(time.monotonic() - began, 1), first)


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--only", nargs="+", default=[], metavar="AREA", help="areas, or names of mutants")
    reader.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    reader.add_argument("--check", action="store_true", help="only check that the table fits the code")
    asked = reader.parse_args()
    chosen = [m for m in mutants() if m.chosen(asked.only)]
    if not chosen:
        raise SystemExit(f"no mutant is called {' or '.join(asked.only)}.")
    if asked.check:
        print(f"{len(chosen)} mutants in {len({m.area for m in chosen})} areas fit the code.")
        return 0
    began = time.monotonic()
    for module in SLOW_TO_LOAD:
        importlib.import_module(module)
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder).resolve())
        for area in dict.fromkeys(m.area for m in chosen):
            here = [m for m in chosen if m.area == area]
            bad = unfounded(copy, here)
            for mutant in here:
                fine = mutant.name not in bad
                found.append(judge(copy, mutant) if fine else Outcome(area, mutant.name, "unfounded", 0.0))
                last = found[-1]
                print(f"  {last.outcome:<10} {last.name} ({last.seconds:.0f} s)", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    killed = sum(each.outcome == "killed" for each in found)
    if asked.json:
        print(json.dumps({"killed": killed, "of": len(found), "seconds": seconds, "mutants": [*map(asdict, found)]}))
    else:
        tell(found)
        print(f"\n{killed} of {len(found)} mutants were killed ({killed / len(found):.0%}), in {seconds:.0f} s.")
    return 0 if killed == len(found) else 1


def tell(found: list[Outcome]) -> None:
    width = max(len(each.name) for each in found)
    for each in found:
        noticed = each.noticed_by.removeprefix("tests/")
        print(f"{each.area:<14} {each.name:<{width}} {each.outcome:<10} {each.seconds:6.1f} s  {noticed}")


if __name__ == "__main__":
    sys.exit(main())
