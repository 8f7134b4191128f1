"""How many arithmetic mistakes at random places do the tests notice?

    LINE_MAP=map.jsonl PYTHONPATH=tests/mutation pytest -n 0 -p line_map
    python tests/mutation/random_mutants.py --map map.jsonl [--count 300] [--seed 0] [--out outcomes.jsonl]

The places are drawn from all of `src/sphereflow` but its front ends, papers, pages and pictures: additions,
multiplications, powers, comparisons, signs and the numbers in them. Each becomes its nearest wrong neighbour (+ and -,
* and /, < and <=, x and -x, k and k+1). The map says which tests run the line; the cheapest of them, up to a budget,
are run in a copy of the tree as `score.py` does it. A mistake on a line that no fast test runs counts as not noticed.
Outcomes are appended as they come, and what a file holds already is not run again.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import random
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from score import ROOT, SLOW_TO_LOAD, Copy, Mutant, Outcome, judge

PACKAGE = ROOT / "src/sphereflow"
SHOWN = {"pictures", "plots", "picture", "webpage"}  # and files that do nothing else
ELSEWHERE = {"fused", "fused_circle", "sharded"}  # what only a graphics card or several devices run
LEFT_OUT = {"cli", "explorer", "figures", "laboratory", "loading", "model_theories", "papers", "pictures", "report"}
SHOWING = {"plot", "facts", "summary", "movie", "draw", "caption"}  # functions that make words and pictures
BUDGETS_SECONDS = (10.0, 60.0)  # the cheapest tests first, which notice most; the others for what survives these

_OTHER = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.Pow: "*",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
}
_SIGN = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Lt: "<", ast.LtE: "<="} | {
    ast.Gt: ">",
    ast.GtE: ">=",
}


class Place(NamedTuple):
    """Where a mistake goes: line and column of the text that is replaced."""

    file: str
    line: int
    begin: int
    end: int
    new: str


def places(path: Path) -> list[Place]:
    """All places of a file, in its order."""
    text = path.read_text()
    lines = text.splitlines()
    file = str(path.relative_to(PACKAGE))
    found: list[Place] = []

    def between(left: ast.expr, right: ast.expr, operator: type) -> None:
        """The sign between two operands on one line."""
        if left.end_lineno != right.lineno or operator not in _OTHER:
            return
        row = lines[right.lineno - 1].encode()
        gap = row[left.end_col_offset : right.col_offset].decode()
        at = gap.find(f" {_SIGN[operator]} ")
        at = at + 1 if at >= 0 else gap.find(_SIGN[operator])
        if at >= 0:
            begin = left.end_col_offset + at
            found.append(Place(file, right.lineno, begin, begin + len(_SIGN[operator]), _OTHER[operator]))

    def number(side: ast.expr) -> None:
        """A number that is added, multiplied or a power."""
        if isinstance(side, ast.Constant) and type(side.value) in (int, float):
            found.append(Place(file, side.lineno, side.col_offset, side.end_col_offset or 0, repr(side.value + 1)))

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef) and (node.name in SHOWING or node.name.startswith("_plot")):
            return
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.arguments):  # words, and annotations of shapes
            return
        if isinstance(node, ast.AnnAssign):
            return visit(node.value) if node.value is not None else None
        if isinstance(node, ast.BinOp):
            words = any(
                isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)
            )
            if not words:
                between(node.left, node.right, type(node.op))
                for side in (node.left, node.right):
                    number(side)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            between(node.left, node.comparators[0], type(node.ops[0]))
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and not isinstance(node.operand, ast.Constant)
        ):
            found.append(Place(file, node.lineno, node.col_offset, node.col_offset + 1, "+"))
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.FunctionDef) and child in (node.returns, *node.decorator_list):
                continue
            visit(child)

    visit(ast.parse(text))
    return found


def draw(count: int, seed: int) -> list[Place]:
    """Places drawn without replacement from the whole source that counts."""
    files = [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0].removesuffix(".py") not in LEFT_OUT
        and not (SHOWN | ELSEWHERE) & {path.stem, path.parent.name}
    ]
    everything = [place for path in files for place in places(path)]
    return random.Random(seed).sample(everything, count)


def area_of(place: Place) -> str:
    """The package, or the module beside packages, that a place is in."""
    return place.file.split("/")[0].removesuffix(".py")


def mutant(place: Place, tests: tuple[str, ...]) -> Mutant:
    """The mistake as a row of the table has it: the whole file before and after, so that the place is certain."""
    path = PACKAGE / place.file
    text = path.read_text()
    rows = text.splitlines(keepends=True)
    row = rows[place.line - 1].encode()
    old = row[place.begin : place.end].decode()
    rows[place.line - 1] = (row[: place.begin] + place.new.encode() + row[place.end :]).decode()
    name = f"{place.file}:{place.line}:{place.begin} {old} -> {place.new}"
    return Mutant(area_of(place), name, f"src/sphereflow/{place.file}", text, "".join(rows), tests)


def tests_of(place: Place, runs: dict[tuple[str, int], list[tuple[float, str]]]) -> list[tuple[str, ...]]:
    """The tests that run the line in two rounds, the cheapest first and those of the same area before others."""
    area = area_of(place)
    known = sorted(runs.get((place.file, place.line), []), key=lambda test: (f"tests/{area}" not in test[1], test[0]))
    rounds: list[tuple[str, ...]] = []
    for budget in BUDGETS_SECONDS:
        spent, chosen = 0.0, 0
        while chosen < len(known) and (not chosen or spent + known[chosen][0] <= budget):
            spent, chosen = spent + known[chosen][0], chosen + 1
        rounds += [tuple(test for _, test in known[:chosen])] if chosen else []
        known = known[chosen:]
    return rounds


def line_map(path: Path) -> dict[tuple[str, int], list[tuple[float, str]]]:
    """The tests that run each line."""
    found: dict[tuple[str, int], list[tuple[float, str]]] = {}
    for row in path.read_text().splitlines():
        run = json.loads(row)
        for file, lines in run["lines"].items():
            for line in lines:
                found.setdefault((file, line), []).append((run["seconds"], run["test"]))
    return found


def outcome(copy: Copy, rounds: list[Mutant], sound: set[str]) -> Outcome:
    """What becomes of a mistake: a later round is run where it survived those before. `sound` tests pass without it."""
    if not rounds[0].tests:
        return Outcome(rounds[0].area, rounds[0].name, "not run", 0.0)
    seconds = 0.0
    for each in rounds:
        last = judge(copy, each)
        seconds += last.seconds
        if last.outcome != "survived":
            break
    if last.outcome == "killed" and last.noticed_by not in sound:
        if copy.pytest((last.noticed_by,))[0] != 0:
            last = replace(last, outcome="unfounded")
        else:
            sound.add(last.noticed_by)
    return replace(last, seconds=seconds)


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--map", type=Path, required=True, help="what the plugin line_map wrote")
    reader.add_argument("--count", type=int, default=300)
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--out", type=Path, default=Path("random_mutants.jsonl"))
    reader.add_argument("--only", nargs="+", default=[], metavar="AREA", help="of those drawn, the ones in these areas")
    asked = reader.parse_args()
    runs = line_map(asked.map)
    drawn = [each for each in draw(asked.count, asked.seed) if not asked.only or area_of(each) in asked.only]
    made = [[mutant(place, tests) for tests in tests_of(place, runs) or [()]] for place in drawn]
    known = [json.loads(row) for row in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {row["name"] for row in known}
    found = [Outcome(**row) for row in known if row["name"] in {rounds[0].name for rounds in made}]
    sound: set[str] = set()
    for module in SLOW_TO_LOAD:
        importlib.import_module(module)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder).resolve())
        for rounds in made:
            if rounds[0].name in done:
                continue
            last = outcome(copy, rounds, sound)
            found.append(last)
            with asked.out.open("a") as out:
                out.write(json.dumps(asdict(last)) + "\n")
            print(f"{len(found):4} {last.outcome:<9} {last.name} ({last.seconds:.0f} s) {last.noticed_by}", flush=True)
    counts = Counter(each.outcome for each in found)
    print(f"{counts['killed']} of {len(found)} killed ({counts['killed'] / len(found):.0%}): {dict(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
