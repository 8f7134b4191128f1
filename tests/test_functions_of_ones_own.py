"""Densities, activations and sizes that a user gives: a wrong one is one sentence, never a wrong number."""

import numpy as np
import pytest

from sphereflow import landscape, meanfield, modes, retrieval
from sphereflow.errors import SphereflowError
from sphereflow.reading import density_values

DIAGONAL = np.diag([1.0, 0.5])
USES = {
    "concentrate": lambda f: meanfield.concentrate(DIAGONAL, beta=5.0, density=f, t1=0.1, saveat=2),
    "evolve_rings": lambda f: meanfield.evolve_rings(3, 5.0, density=f, t1=0.1, nodes=16, saveat=2),
    "flow": lambda f: meanfield.starting_law(f),
    "gaussian_density": lambda f: modes.gaussian_density(np.zeros(1), 100, 5.0, f),
    "edgeworth_density": lambda f: modes.edgeworth_density(np.zeros(1), 100, 5.0, f),
    "mode_density": lambda f: modes.mode_density(np.zeros(1), 100, 5.0, f),
    "density_prompt": lambda f: retrieval.density_prompt(lambda sigma, theta: f(theta), nodes=8).rows(np.ones(2)),
}
WRONG = {
    "negative": lambda x: np.cos(3 * np.asarray(x)) - 0.5,
    "nan": lambda x: np.full(np.shape(x), np.nan),
    "words": lambda x: "much",
    "other shape": lambda x: np.ones(7),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_density_is_refused(use, wrong):
    with pytest.raises(SphereflowError, match="density"):
        USES[use](WRONG[wrong])


def test_a_density_may_be_a_constant_and_may_vanish_somewhere():
    places = np.linspace(-1, 1, 5)
    assert density_values("density", lambda x: 2, places).tolist() == [2.0] * 5
    assert density_values("density", lambda x: x > 0, places).tolist() == [0, 0, 0, 1, 1]
    with pytest.raises(SphereflowError, match="zero"):
        density_values("density", lambda x: 0 * x, places)


@pytest.mark.parametrize("rows", [[[0.5, 0.6]], [[-0.5, 1.5]], [[1.0]], [[np.nan, 1.0]]])
def test_the_rows_of_a_prompt_are_laws(rows):
    prompt = retrieval.codeword_prompt(lambda sigma: np.array(rows), 2)
    with pytest.raises(SphereflowError, match="masses of a prompt"):
        prompt.rows(np.array([0.5]))


def test_an_expansion_is_refused_where_samples_are_sparse():
    """Order 4 would be -1.8 modes per unit at t=5, and -4e79 at t=20."""
    for t in (5.0, 20.0):
        with pytest.raises(SphereflowError, match="samples"):
            modes.edgeworth_density(np.array([t]), 1e4, 30.0)
        assert modes.mode_density(np.array([t]), 1e4, 30.0, edgeworth=True)[0] >= 0


def test_a_wrong_activation_is_refused_when_the_problem_is_made():
    for wrong in (lambda u: u * np.nan, lambda u: 1.0, lambda u: "a"):
        with pytest.raises(SphereflowError, match="activation"):
            landscape.Problem(2.0, [1.0], [[1.0, 0.0]], activation=wrong)


def test_numbers_of_particles_are_not_rounded():
    problem = landscape.Problem(2.0, [1.0], [[1.0, 0.0]])
    for wrong in ([2.5, 4], "ab"):
        with pytest.raises(SphereflowError, match="sizes"):
            landscape.mean_field_limit(problem, wrong, 0.1)


def test_a_very_long_run_on_the_line_is_refused():
    with pytest.raises(SphereflowError, match="steps"):
        modes.line_attention(np.arange(5.0), 2.0, [0.0, 1e9])
