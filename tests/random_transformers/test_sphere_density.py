"""The stochastic Fokker-Planck equation on the sphere against plain sums, other grids, the equation of the centre."""

import numpy as np
import pytest
from scipy.special import eval_legendre
from test_density_solver import Given

from sphereflow import random_transformers
from sphereflow.errors import SphereflowError
from sphereflow.numerics.harmonics import degrees, harmonics, sphere_points
from sphereflow.random_transformers.sphere_density import SphereStep, starting_harmonics


def directions(n, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def law(x, y, z):
    return 3 + x - 2 * y * z + z


def test_harmonics_add_up_to_legendre_polynomials_and_have_their_gradients():
    x, order = directions(6), degrees(9)
    values, slopes = harmonics(x, 9)
    for k in range(10):
        part = values[:, order == k]
        np.testing.assert_allclose(part @ part.T, eval_legendre(k, x @ x.T), atol=1e-12)
    along = directions(6, 1)
    along -= x * np.sum(x * along, axis=1, keepdims=True)
    ends = []
    for e in (1e-5, -1e-5):
        y = x + e * along
        ends.append(harmonics(y / np.linalg.norm(y, axis=1, keepdims=True), 9)[0])
    found = np.einsum("na,nak->nk", along, slopes)
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-5, atol=1e-6)
    np.testing.assert_allclose(np.einsum("na,nak->nk", x, slopes), 0, atol=1e-12)


def test_points_integrate_polynomials_of_their_degree_and_come_in_pairs():
    for exact in (5, 8, 13):
        x, weights = sphere_points(exact)
        half = len(x) // 2
        np.testing.assert_array_equal(x[:half], -x[half:])
        means = weights @ harmonics(x, exact)[0]
        np.testing.assert_allclose(means, np.eye(1, len(means))[0], atol=1e-13)


@pytest.mark.parametrize("beta", [0.0, 0.8])
def test_one_step_is_the_ito_equation_of_the_harmonics(beta):
    """Tokens moved by x + P dB m - |P dB m|^2 x / 2 on average: integrals on another grid, the softmax written out."""
    rng, h = np.random.default_rng(0), 0.02
    b, w = rng.standard_normal((1, 1, 3, 3)), rng.standard_normal((2, 1, 1, 3, 3)) / 2
    x, weights = sphere_points(60)
    mass = weights * law(*x.T) / (weights @ law(*x.T))
    c = starting_harmonics(law, 8)[None]
    found = SphereStep(beta, "product", 8)(Given(b, w), c, h)[0]
    a = (w[0, 0, 0] @ w[1, 0, 0].T) / np.sqrt(3)
    kernel = np.exp(beta * (x @ a.T) @ x.T) * mass
    m = kernel @ x / kernel.sum(axis=1, keepdims=True)
    noise = m @ (np.sqrt(h / 3) * b[0, 0]).T
    for k in range(1, 4):
        # phi = <u, x>^k for a direction u: grad phi = k <u,x>^(k-1) u, and the Laplacian on the sphere in closed form.
        u = np.array([0.36, 0.48, 0.8])
        t = x @ u
        laplace = k * (k - 1) * t ** max(k - 2, 0) - k * (k + 1) * t**k
        slope = k * t ** (k - 1) * (noise @ u - t * np.sum(noise * x, axis=1))
        exact = np.sum(mass * (t**k + h / 6 * np.sum(m**2, axis=1) * laplace + slope))
        fine, fine_weights = sphere_points(20)
        density = (found * (2 * degrees(8) + 1)) @ harmonics(fine, 8)[0].T
        assert np.sum(fine_weights * density * (fine @ u) ** k) == pytest.approx(exact, abs=1e-9)
    assert found[0] == pytest.approx(1, abs=1e-14)


def test_moments_of_a_poisson_kernel_are_those_of_its_centre():
    """d rho = m coth(rho)/3 dtau + sqrt(m/3) dB, m = (coth rho - rho/sinh^2 rho)^2, by plain Euler steps."""
    rng, rho = np.random.default_rng(1), np.ones(40_000)

    def mean_square(r):
        return (1 / np.tanh(r) - r / np.sinh(r) ** 2) ** 2

    for _ in range(100):
        m = mean_square(rho)
        rho = rho + 0.01 * m / 3 / np.tanh(rho) + np.sqrt(0.01 * m / 3) * rng.standard_normal(len(rho))
        rho = np.maximum(np.abs(rho), 1e-3)
    m, t = mean_square(rho), np.tanh(1.0)
    seen = random_transformers.solve_sphere_density(
        lambda x, y, z: (1 - t * z) ** -2, beta=0.0, t1=1.0, degree=8, repeats=3000, seed=2, progress=False
    )
    assert seen.squares(1).agrees([0.3468899, m.mean()], sigmas=4.5, slack=0.006)
    assert seen.powers(1)[:, -1].var() == pytest.approx(m.var(), rel=0.15)
    assert abs(m.mean() - 0.3468899) > 0.06  # the test would notice a law that stands still


def test_tokens_and_densities_are_read_alike_and_saved_where_asked():
    x = sphere_points(12)[0]
    seen = random_transformers.solve_sphere_density(
        law, beta=0.5, t1=0.1, saveat=[0.0, 0.05, 0.1], degree=4, repeats=3, progress=False
    )
    assert seen.harmonics.shape == (3, 3, 25)
    np.testing.assert_allclose(seen.density(x)[0, 0], law(*x.T) / 3, atol=1e-12)
    tokens = directions(20)
    start = random_transformers.solve_sphere_density(tokens, beta=0.0, t1=0.1, degree=3, repeats=2, progress=False)
    for k in (1, 2, 3):
        assert start.powers(k)[0, 0] == pytest.approx(eval_legendre(k, tokens @ tokens.T).mean())


@pytest.mark.parametrize(
    ("score", "square", "fourth"), [("product", 3, 25), ("gaussian", 3, 15), ("orthogonal", 3, 9), ("identity", 1, 1)]
)
def test_scores_have_the_scale_of_the_networks(score, square, fourth):
    """Moments of |Ax|: chi-square variables with three degrees of freedom, in the scaling of `weights` at d = 3."""
    a = SphereStep(1.0, score, 2)._matrices(np.random.default_rng(4), 40_000)[:, 0, :, 0]
    size = np.sum(a**2, axis=1)
    assert size.mean() == pytest.approx(square, rel=0.05)
    assert np.mean(size**2) == pytest.approx(fourth, rel=0.15)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"density": [1.0]}, "function of x, y, z"),
        ({"density": np.ones((2, 3))}, "function of x, y, z"),
        ({"density": lambda x, y, z: z}, "not negative"),
        ({"degree": 1}, "degree must be"),
        ({"saveat": [0.0, 2.0]}, "from 0 to t1 = 1"),
        ({"score": "cauchy"}, "score must be one of"),
        (
            {"steps": 3, "t1": 30.0, "saveat": 2, "degree": 8, "density": lambda x, y, z: np.exp(5 * z)},
            "take more steps than 3",
        ),
    ],
)
def test_refusals(change, words):
    given = {"density": law, "beta": 0.0, "t1": 1.0, "repeats": 100, "progress": False} | change
    with pytest.raises(SphereflowError, match=words):
        random_transformers.solve_sphere_density(given.pop("density"), **given)
