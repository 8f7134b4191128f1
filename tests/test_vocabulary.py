"""One word for one thing in all public functions; the table is in CONTRIBUTING.md."""

import importlib
import inspect
from pathlib import Path

import pytest

import sphereflow as sf

CONTRIBUTING = Path(__file__).parent.parent / "CONTRIBUTING.md"


def public_functions():
    """(name, signature) of what every area exports: functions and methods."""
    for area in sf._AREAS:
        module = importlib.import_module(f"sphereflow.{area}")
        for name, thing in vars(module).items():
            if name.startswith("_") or not getattr(thing, "__module__", "").startswith("sphereflow"):
                continue
            if inspect.isfunction(thing):
                yield f"{area}.{name}", inspect.signature(thing)
            elif inspect.isclass(thing):
                for method, function in vars(thing).items():
                    if inspect.isfunction(function) and not method.startswith("_"):
                        yield f"{area}.{name}.{method}", inspect.signature(function)


def table():
    """The words of the table and those that they replace."""
    rows = [line.split("|") for line in CONTRIBUTING.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row[1:-1]] for row in rows]
    return {word.strip("`"): instead.replace("`", "").replace(",", " ").split() for word, _, instead in cells}


def test_the_table_has_the_words_that_hold_everywhere():
    words = ["model", "n", "d", "beta", "t0", "t1", "saveat", "tol", "seed", "repeats", "progress", "out"]
    assert set(words) <= set(table())


@pytest.mark.parametrize(("word", "others"), [(word, others) for word, others in table().items() if others])
def test_nothing_is_called_by_another_word(word, others):
    found = {name: set(others) & set(signature.parameters) for name, signature in public_functions()}
    assert {name: used for name, used in found.items() if used} == {}


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
