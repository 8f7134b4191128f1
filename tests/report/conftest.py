"""The results of the sample papers, which the tests of the report look at from several sides."""

import pytest
from sample_papers import sample_circles, sample_trouble

from sphereflow.report import Report, reproduce


@pytest.fixture(scope="session")
def report() -> Report:
    return reproduce([sample_circles.PAPER, sample_trouble.PAPER], "paper", progress=False)
