"""The paper's claims come out as expected, and the known mistakes are caught by them."""

import numpy as np
import pytest
from verdicts import Verdicts

from sphereflow import landscape
from sphereflow.claims import Run
from sphereflow.landscape import Problem, concentration, linear, obstruct, sphere_space
from sphereflow.papers import load
from sphereflow.papers import perceptrons_localization as paper

PAPER = load("perceptrons-localization")


class TestVerdicts(Verdicts):
    paper = PAPER
    refuted = (
        "gelu-primitive",
        "single-cluster",
    )
    slow_claims = (
        "ascent",
        "atom-count",
        "exact-below-flow",
        "generic-atoms",
        "generic-weights-in-any-dimension",
        "gradient",
        "grid-independence",
        "linear-density",
        "localised-sets",
        "mass-bound",
        "mean-field-limit",
        "monotone-energy",
        "no-perceptron",
        "normalised-flow",
        "ring-or-atoms",
        "ring-range",
        "ring-with-generic-weights",
        "splitting",
        "stationary-lists",
        "stationary-pairs",
        "third-atom",
    )
    slow_figures = (
        "counts",
        "density-to-atoms",
        "exact-against-flow",
        "potential-atoms-variation",
        "ring-cascade",
        "splitting-cascade",
    )


@pytest.mark.slow
def test_a_kernel_of_the_other_convention_is_caught(monkeypatch):
    """e^(beta x.y) in the energy with weights of the peak convention: thresholds and angles move."""
    right = sphere_space.SphereSpace.half_potential

    def weaker(self, points):
        jet = right(self, points)
        return type(jet)(*(np.exp(-self.beta) * part for part in jet))

    monkeypatch.setattr(sphere_space.SphereSpace, "half_potential", weaker)
    assert paper.splitting.splitting_on_a_grid(Run()).verdict == "fails"
    assert paper.gradient.conventions(Run()).verdict == "fails"


def test_v_in_place_of_half_v_is_caught(monkeypatch):
    right = sphere_space.SphereSpace.half_potential

    def twice(self, points):
        return type(jet := right(self, points))(*(2 * part for part in jet))

    monkeypatch.setattr(sphere_space.SphereSpace, "half_potential", twice)
    assert paper.linear.linear_density(Run()).verdict == "fails"
    assert paper.confinement.half_circle(Run()).verdict == "fails"


def test_a_wrong_eigenvalue_is_caught(monkeypatch):
    right = linear.funk_hecke
    monkeypatch.setattr(
        linear, "funk_hecke", lambda d, beta, degree: right(d, beta, degree) * (1.2 if degree == 2 else 1)
    )
    assert paper.linear.linear_any_dimension(Run()).verdict == "fails"


def test_the_naked_constant_is_not_a_bound(monkeypatch):
    monkeypatch.setattr(paper.concentration, "window_bound", lambda problem: concentration.NAKED_BOUND)
    assert paper.concentration.mass_bound(Run()).verdict == "fails"


@pytest.mark.slow
def test_a_field_with_other_weights_is_caught(monkeypatch):
    right = landscape.critical_points
    monkeypatch.setattr(
        landscape, "critical_points", lambda here, *a, **k: right(here.replaced(outer=0.99 * here.outer), *a, **k)
    )
    assert paper.stationary.stationary_pairs(Run()).verdict == "fails"


@pytest.mark.slow
def test_harmonics_in_double_precision_are_caught(monkeypatch):
    """Without the shifted contour the high harmonics of smooth activations drown in rounding."""
    monkeypatch.setattr(obstruct, "_SHIFTS", np.zeros(1))
    assert paper.generic.generic_atoms(Run()).verdict == "fails"


def test_a_positive_hessian_does_not_make_a_global_minimiser():
    dirac = landscape.inspect(Problem(5.0, [-0.5], [[1.0, 0.0]]), [0.0])
    assert dirac.margin == pytest.approx(0.5)
    assert dirac.gap > 0.01


def test_the_printed_statement_holds_from_the_corrected_beta_on():
    """Random second-order points with small weights never fit one window at beta of at least 0.2558."""
    for seed in range(3):
        problem = Problem.random(0.3, 2, 2, seed=seed, scale=0.05, kernel_scale="raw")
        if concentration.perceptron_strength(problem.converted("raw")) < 0.16547:
            found = landscape.minimise(problem)
            assert concentration.heaviest_window(found.angles, found.masses, 1 / (2 * np.sqrt(0.3)), 1) < 1 - 1e-9


def test_constants_of_the_kernel_one_percent_off_are_caught(monkeypatch):
    claims = paper.concentration
    monkeypatch.setattr(claims, "INSIDE", 1.01 * claims.INSIDE)
    assert claims.kernel_facts(Run()).verdict == "fails"
