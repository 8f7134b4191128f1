"""One word for one thing in all public functions; the table is in CONTRIBUTING.md."""

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import sphereflow as sf

ROOT = Path(__file__).parent.parent
CONTRIBUTING, SOURCE = ROOT / "CONTRIBUTING.md", ROOT / "src" / "sphereflow"


@cache
def public_functions():
    """(where, {argument: annotation}) of all public functions and methods of the package outside its papers."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "papers"]
    return [
        (f"{path.relative_to(SOURCE)}: {name}", arguments)
        for path in paths
        for name, arguments in _arguments(ast.parse(path.read_text()).body)
    ]


def _arguments(body, owner=""):
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _arguments(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield owner + node.name, {a.arg: ast.unparse(a.annotation) if a.annotation else "" for a in given}


def table():
    """The words of the table and those that they replace."""
    rows = [line.split("|") for line in CONTRIBUTING.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row[1:-1]] for row in rows]
    return {word.strip("`"): re.findall(r"`(\w+)`", instead) for word, _, instead in cells}


def test_the_table_has_the_words_that_hold_everywhere():
    words = ["model", "n", "d", "beta", "t0", "t1", "saveat", "tol", "seed", "repeats", "progress", "out"]
    assert set(words) <= set(table())


@pytest.mark.parametrize(("word", "others"), [(word, others) for word, others in table().items() if others])
def test_nothing_is_called_by_another_word(word, others):
    offences = []
    for name, arguments in public_functions():
        offences += [(name, other) for other in others if other in arguments and not _allowed(name, other, arguments)]
    assert offences == []


def _allowed(name, word, arguments):
    """The tolerance of a claim is another thing than `tol`, and an array of tokens is not their number."""
    is_number = "int" in re.findall(r"\w+", arguments[word].split("Annotated[")[-1].split(",")[0])
    return name.startswith("claims/") if word == "tolerance" else word == "tokens" and not is_number


def test_the_functions_that_are_read_are_many():
    names = {name for name, _ in public_functions()}
    assert len(names) > 1500
    assert {"evolution/shell.py: evolve", "cli/retrieval.py: command", "drifting/convex.py: invert"} <= names


def test_the_name_of_a_model_may_be_written_in_any_case():
    x0 = sf.draw("uniform", 3, 2, 0)
    calls = [
        lambda model: sf.simulate(n=3, d=2, beta=1.0, t1=0.1, saves=2, model=model).final.sum(),
        lambda model: sf.meanfield.growth_rates(2.0, model).sum(),
        lambda model: sf.metastability.log_merging_time(1.0, 5.0, model=model),
        lambda model: sf.metastability.coarsen_to_one(model, x0, 5.0, errors=False, progress=False).log_times[-1],
    ]
    for call in calls:
        assert call("usa") == call("USA") != call("SA") == call("sa")
        with pytest.raises(sf.SphereflowError, match="model must be one of sa, usa"):
            call("attention")


def test_a_model_may_be_an_object():
    x0 = sf.draw("uniform", 3, 2, 0)
    calls = [
        lambda model: sf.meanfield.growth_rates(5.0, model).sum(),
        lambda model: sf.metastability.log_merging_time(1.0, 5.0, model=model),
        lambda model: sf.metastability.slow_modes(np.eye(2), np.full(2, 0.5), 5.0, model).logs.sum(),
        lambda model: sf.metastability.coarsen_to_one(model, x0, 5.0, errors=False, progress=False).log_times[-1],
    ]
    for call in calls:
        assert call(sf.USA(5.0)) == call("usa") != call(sf.SA(5.0)) == call("sa")
        for other in (sf.SA(5.0, causal=True), sf.USA(5.0, kernel_scale="raw"), sf.SA(5.0) + sf.USA(5.0)):
            with pytest.raises(sf.SphereflowError, match="plain SA"):
                call(other)
        with pytest.raises(sf.SphereflowError, match=r"beta must be that of the model, 4, got 5"):
            call(sf.SA(4.0))


def test_simulate_takes_any_dynamics():
    size = {"n": 3, "d": 2, "t1": 0.1, "saves": 2}
    named = sf.simulate(beta=2.0, model="usa", **size)
    assert np.array_equal(sf.simulate(model=sf.USA(2.0), **size).final, named.final)
    both = sf.simulate(model=sf.USA(2.0) + sf.SA(1.0), **size)
    assert not np.array_equal(both.final, named.final)
    end = {"n": 3, "d": 2, "t1": "inf"}
    assert (
        sf.simulate(model=sf.USA(5.0), **end).log_times[-1] == sf.simulate(beta=5.0, model="usa", **end).log_times[-1]
    )
    for extra in ({"beta": 3.0}, {"causal": True}, {"kernel_scale": "raw"}):
        with pytest.raises(sf.SphereflowError, match="belong to the model"):
            sf.simulate(model=sf.USA(2.0), **size, **extra)


def test_progress_may_be_a_function_everywhere():
    x0 = sf.draw("uniform", 4, 2, 0)
    architecture = sf.random_transformers.Architecture(8, 3, 4, 1, 0.1, 1.0)
    calls = [
        lambda progress: sf.metastability.coarsen_to_one("sa", x0, 5.0, errors=False, progress=progress),
        lambda progress: sf.modes.sample_modes(20, 4.0, 10, progress=progress),
        lambda progress: sf.random_transformers.measure(architecture, 2, progress=progress),
    ]
    for call in calls:
        reports = []
        call(lambda share, words, reports=reports: reports.append((share, words)))
        assert 0.5 < reports[-1][0] <= 1.0  # four tokens merge three times
        assert [share for share, _ in reports] == sorted(share for share, _ in reports)
        assert all(isinstance(words, str) for _, words in reports)


def test_a_kernel_comes_before_its_width():
    """Wherever both may be given by position, so that the order of one function is that of all."""
    orders = {name: list(arguments) for name, arguments in public_functions()}
    both = {name: order for name, order in orders.items() if {"kernel", "width"} <= set(order)}
    assert len(both) >= 7
    assert [name for name, order in both.items() if order.index("kernel") > order.index("width")] == []
