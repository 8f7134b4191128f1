"""The tests that every paper shares are made once for each of its claims and quick figures."""

import pytest
from verdicts import Verdicts


def pytest_generate_tests(metafunc):
    if metafunc.cls is None or not issubclass(metafunc.cls, Verdicts):
        return
    paper = metafunc.cls.paper
    cases = {
        "claim": (paper.claims, metafunc.cls.slow_claims),
        "figure": ([figure for figure in paper.figures if "quick" in figure.presets], metafunc.cls.slow_figures),
    }
    for name in metafunc.fixturenames:
        everything, slow = cases[name]
        marked = [pytest.param(one, id=one.id, marks=[pytest.mark.slow] * (one.id in slow)) for one in everything]
        metafunc.parametrize(name, marked)
