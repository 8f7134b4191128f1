"""The stochastic Fokker-Planck equation on the circle against plain sums, plain paths and closed forms."""

import numpy as np
import pytest

from sphereflow import random_transformers
from sphereflow.errors import SphereflowError
from sphereflow.random_transformers.fokker_planck import Step, attention_means

FINE = 2 * np.pi * np.arange(4000) / 4000
C = np.array([[1.0, 0.3 + 0.1j, 0.15j, 0.05, 0.02]])


def density(c, theta=FINE):
    return 1 + 2 * sum((c[k] * np.exp(1j * k * theta)).real for k in range(1, len(c)))


class Given(np.random.Generator):
    """A generator of random numbers that gives back what was put in."""

    def __init__(self, *arrays):
        super().__init__(np.random.PCG64(0))
        self.arrays = list(arrays)

    def standard_normal(self, shape):
        found = self.arrays.pop(0)
        assert found.shape == tuple(shape)
        return found


@pytest.mark.parametrize("size", [1e-9, 0.7, 6.0, 60.0])
def test_attention_of_a_law_is_a_ratio_of_bessel_series(size):
    u = size * np.exp(1j * np.array([[0.0, 0.4, 2.0, -1.2]]))
    for value, point in zip(attention_means(C, u)[0], u[0], strict=True):
        kernel = np.exp((np.conj(point) * np.exp(1j * FINE)).real - size) * density(C[0])
        assert value == pytest.approx(np.sum(kernel * np.exp(1j * FINE)) / np.sum(kernel), abs=1e-9)


@pytest.mark.parametrize("beta", [0.0, 1.3])
def test_one_step_is_the_ito_equation_of_the_modes(beta):
    """Against integrals on a fine grid with the softmax written out."""
    rng, h = np.random.default_rng(0), 0.02
    b, w = rng.standard_normal((2, 2, 1, 1)), rng.standard_normal((2, 2, 2, 1, 1))
    c = np.pad(C, ((0, 0), (0, 8)))
    found = Step(beta, "product", 12, 1, "generator")(Given(b, w), c, h)[0]
    a = (w[0, :, :, 0, 0] @ w[1, :, :, 0, 0].T) / np.sqrt(2)
    x = np.stack([np.cos(FINE), np.sin(FINE)])
    rho = density(C[0])
    m = []
    for point in x.T:
        kernel = np.exp(beta * (a @ point) @ x) * rho
        m.append(x @ kernel / kernel.sum())
    m = np.array(m)
    across = np.stack([-np.sin(FINE), np.cos(FINE)], axis=1)
    noise = np.sum(across * (m @ (np.sqrt(h / 2) * b[:, :, 0, 0]).T), axis=1)
    for k in range(6):
        wave = rho * np.exp(-1j * k * FINE)
        exact = np.mean(wave * (1 - k**2 / 4 * h * np.sum(m**2, axis=1) - 1j * k * noise))
        assert found[k] == pytest.approx(exact, abs=1e-9)


def test_moments_of_a_poisson_kernel_are_those_of_its_centre():
    """y = log(R/(1-R)), dy = R/4 dtau + dB/sqrt 2, by plain Euler steps."""
    rng, y = np.random.default_rng(1), np.full(200_000, np.log(1 / 3))
    for _ in range(100):
        y = y + 0.01 / 4 / (1 + np.exp(-y)) + np.sqrt(0.005) * rng.standard_normal(len(y))
    r = 1 / (1 + np.exp(-y))
    for scheme, repeats in (("generator", 6000), ("transport", 2000)):
        seen = random_transformers.solve_density(
            0.5 ** np.arange(9), beta=0.0, t1=1.0, modes=12, repeats=repeats, scheme=scheme, seed=2
        )
        assert seen.squares(1).agrees([0.25, r.mean()], sigmas=4.5, slack=0.002)
        assert seen.squares(2).agrees([0.0625, (r * r).mean()], sigmas=4.5, slack=0.002)
        np.testing.assert_array_equal(seen.modes[:, :, 0], 1)
        assert abs(r.mean() - 0.25) > 0.03  # the test would notice a law that stands still


def test_schemes_agree_at_positive_beta_and_save_where_asked():
    law = lambda theta: 5 + 3 * np.cos(theta) - 1.5 * np.sin(2 * theta)  # noqa: E731
    ends = []
    for scheme in ("generator", "transport"):
        seen = random_transformers.solve_density(
            law, beta=1.0, t1=0.4, saveat=[0.0, 0.1, 0.4], modes=10, repeats=400, scheme=scheme, seed=3
        )
        assert seen.modes.shape == (400, 3, 11)
        np.testing.assert_allclose(seen.modes[0, 0, :3], [1, 0.3, 0.15j], atol=1e-12)
        np.testing.assert_allclose(seen.density(np.array([0.0, 1.0]))[0, 0], law(np.array([0.0, 1.0])) / 5, atol=1e-12)
        ends.append(seen)
    assert ends[1].largest <= 1 + 1e-12
    # The same seed drives both schemes with the same noise: paths, not only laws, agree up to the step.
    assert np.abs(ends[0].modes[:, -1, 1] - ends[1].modes[:, -1, 1]).max() < 0.02


@pytest.mark.parametrize(
    ("score", "square", "fourth"), [("product", 2, 16), ("gaussian", 2, 8), ("orthogonal", 2, 4), ("identity", 1, 1)]
)
def test_scores_have_the_scale_of_the_networks(score, square, fourth):
    """Moments of |Ax|: chi-square variables with two degrees of freedom, in the scaling of `weights` at d = 2."""
    u = Step(1.0, score, 4, 1, "generator")._queries(np.random.default_rng(4), 60_000)[:, 0, 0]
    assert np.mean(np.abs(u) ** 2) == pytest.approx(square, rel=0.05)
    assert np.mean(np.abs(u) ** 4) == pytest.approx(fourth, rel=0.15)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"density": [1.0]}, "of its modes"),
        ({"density": [0.5, 0.1]}, "c_0 = 1"),
        ({"density": lambda theta: np.cos(theta)}, "not negative"),
        ({"t1": 0.0}, "t1 must be"),
        ({"saveat": [0.0, 2.0]}, "from 0 to t1 = 1"),
        ({"score": "cauchy"}, "score must be one of"),
        ({"scheme": "euler"}, "scheme must be one of"),
        ({"repeats": 1}, "repeats must be"),
        ({"steps": 2, "modes": 30, "density": 0.9 ** np.arange(31)}, "take more steps than 2"),
    ],
)
def test_refusals(change, words):
    given = {"density": [1.0, 0.3], "beta": 0.0, "t1": 1.0, "repeats": 100} | change
    with pytest.raises(SphereflowError, match=words):
        random_transformers.solve_density(given.pop("density"), **given)
