"""The tests that every paper shares are made once for each of its claims and quick figures."""

from verdicts import Verdicts


def pytest_generate_tests(metafunc):
    if metafunc.cls is None or not issubclass(metafunc.cls, Verdicts):
        return
    paper = metafunc.cls.paper
    cases = {"claim": paper.claims, "figure": [figure for figure in paper.figures if "quick" in figure.presets]}
    for name in metafunc.fixturenames:
        metafunc.parametrize(name, cases[name], ids=lambda case: case.id)
