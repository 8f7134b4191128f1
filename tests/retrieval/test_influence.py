"""The estimator without noise of others, the retrieval task, and the layered mean field, against plain computations."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import sphereflow as sf
from sphereflow.retrieval import (
    codeword_prompt,
    codewords,
    decode,
    density_prompt,
    growth_rates,
    hard_hit,
    layered_flow,
    measure_profile,
    profile,
    soft_hit,
    source_average,
    sphere_influence,
    two_time_influence,
    wave_influence,
)
from sphereflow.retrieval.influence import equidistant, uniform_angles


def test_without_influence_the_estimate_is_zero():
    """Tokens that do not move: every environment gives zero up to rounding."""
    waves = np.array([1.0, 2.0, 3.0])[:, None, None]
    estimate = source_average(
        lambda tokens: tokens,
        uniform_angles(6),
        equidistant(8),
        lambda target, start: np.cos(waves * (target - start)),
        source=2,
        repeats=50,
    )
    assert np.abs(estimate.value).max() < 1e-15
    assert estimate.error.max() < 1e-15


def test_a_known_influence_is_found_without_noise():
    """The target is shifted by e sin(target - source): the mean of cos is J_1-like, known by quadrature."""
    size = 0.3

    def advance(tokens):
        moved = tokens.copy()
        moved[:, -1] -= size * np.sin(tokens[:, -1] - tokens[:, 1])
        return moved

    estimate = source_average(
        advance,
        uniform_angles(4),
        equidistant(32),
        lambda target, start: np.cos(target - start)[None],
        source=1,
        repeats=40,
    )
    u = np.linspace(0, 2 * np.pi, 4096, endpoint=False)
    assert estimate.value[0] == pytest.approx(np.cos(u - size * np.sin(u)).mean(), abs=1e-14)
    assert estimate.error[0] < 1e-14


def test_several_targets_and_batches():
    def both(targets, start):
        assert targets.shape[-1] == 2
        return np.stack([targets[..., 0] * 0 + 1, np.cos(targets[..., 1] - start)])

    estimate = source_average(
        lambda tokens: tokens,
        uniform_angles(5),
        equidistant(4),
        both,
        source=2,
        target=(4, 2),
        repeats=7,
        columns=8,
    )
    np.testing.assert_allclose(estimate.value, 1)


@pytest.mark.slow
def test_waves_agree_with_the_closed_form_and_repeat():
    call = lambda: wave_influence(24, 11, 1.0, beta=1.0, weights=1.0, repeats=200, waves=(1,), seed=5)  # noqa: E731
    first, again = call(), call()
    np.testing.assert_array_equal(first.value, again.value)
    exact = two_time_influence(growth_rates(1.0)[0], 1.0, 1.0, 11.5 / 24, 1.0)
    assert abs(first.value[0] - exact) < 3 * first.error[0] + (0.4 + 0.15 * 24 / 11.5) / 24
    assert first.error[0] < 0.02


def test_two_tokens_on_the_sphere():
    """The second one falls towards the first along a great circle, u' = -beta sin(u) e^{beta cos u}."""
    beta, t = 0.7, 0.4
    found = sphere_influence(2, 0, t, beta=beta, slope=1.0, d=3, repeats=60, seed=1)
    height, weight = np.polynomial.legendre.leggauss(20)  # cos(u) is uniform on S^2
    fall = solve_ivp(lambda _, u: -beta * np.sin(u) * np.exp(beta * np.cos(u)), (0, t), np.arccos(height), rtol=1e-9)
    s = np.cos(fall.y[:, -1])
    expected = 2 * np.array([weight @ s, weight @ (3 * s**2 - 1) / 2]) / 2
    assert found.agrees(expected, sigmas=4)
    assert (found.error < 0.1 * np.abs(expected)).all()


def test_wrong_requests():
    with pytest.raises(sf.SphereflowError, match="more than 8 copies"):
        wave_influence(16, 3, 1.0, beta=1.0, weights=1.0, waves=(8,), copies=8)
    with pytest.raises(sf.SphereflowError, match="source must be"):
        wave_influence(16, 15, 1.0, beta=1.0, weights=1.0)
    with pytest.raises(sf.SphereflowError, match="each of sources must be"):
        measure_profile(16, 1.0, beta=1.0, weights=1.0, vocab=4, sources=(0,))


# --- the task ---------------------------------------------------------------------------------------------------


def test_codewords_are_decoded():
    words = codewords(7)
    np.testing.assert_array_equal(decode(words + 0.4 * np.pi / 7, 7), np.arange(7))
    np.testing.assert_array_equal(decode(words - 20 * np.pi, 7), np.arange(7))
    np.testing.assert_array_equal(hard_hit(np.array([0.0, 0.44, 0.46, 2 * np.pi - 0.3]), 7), [1, 1, 0, 1])


@pytest.mark.parametrize("vocab", [1, 2, 8, 32])
def test_baselines(vocab):
    """Averages over the circle: 1/M and sqrt(pi/2)/M."""
    u = np.linspace(0, 2 * np.pi, 20000, endpoint=False)
    assert soft_hit(u, vocab).mean() == pytest.approx(np.sqrt(np.pi / 2) / vocab, rel=1e-12)
    assert hard_hit(u, vocab).mean() == pytest.approx(1 / vocab, abs=2e-4)
    n = 3
    wave = 2 * np.mean(soft_hit(u, vocab) * np.cos(n * u))
    assert wave == pytest.approx(np.sqrt(2 * np.pi) / vocab * np.exp(-((np.pi * n / vocab) ** 2) / 2), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["uniform", "codewords"])
def test_measured_profile(prompt):
    found = measure_profile(
        24, 1.0, beta=1.0, weights=1.0, vocab=8, sources=(4, 20), prompt=prompt, repeats=100, seed=1
    )
    curve = profile(1.0, 1.0, 1.0, 8)
    value, error = found.excess("soft")
    assert (np.abs(value - curve.excess(found.sigma0)) < 4 * error + 0.2).all()
    assert (found.hard.value > 0).all()
    assert curve.plot(found).axes
    assert found.plot().axes


# --- layered mean field -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_layers_of_a_prompt_that_depends_on_position():
    """Two blocks of codewords: the second follows the first; against scipy with exact averages over blocks."""
    vocab, jump, slope, beta, t = 3, 0.4, 1.5, 1.2, 0.8

    def probabilities(sigma):
        early, late = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.1, 0.8])
        # Layers at the jump itself belong to the block whose panel they end or begin.
        inside = np.arange(len(sigma)) < np.searchsorted(sigma, jump, side="left") + 1
        return np.where(inside[:, None], early, late)

    flow = layered_flow(codeword_prompt(probabilities, vocab, jumps=(jump,)), t, beta=beta, slope=slope)

    # The first block is autonomous: an all-to-all flow of three atoms.
    def first_block(_, x):
        angle = x[:, None] - x[None, :]
        return (-beta * np.sin(angle) * np.exp(beta * np.cos(angle))) @ np.array([0.6, 0.3, 0.1])

    exact = solve_ivp(first_block, (0, t), codewords(vocab), rtol=1e-11, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(flow.angles[0], exact, atol=1e-8)
    np.testing.assert_allclose(
        flow.angles[flow.sigma < jump * 0.999], exact[None].repeat((flow.sigma < jump * 0.999).sum(), axis=0), atol=1e-8
    )
    # Many tokens with the same law, one at a time, tend to the layers.
    assert np.ptp(flow.angles[flow.sigma > jump * 1.001], axis=0).max() > 1e-3


@pytest.mark.slow
def test_layers_against_many_particles():
    """A prompt that turns with position: the mean-field wave of late layers against an average over samples."""
    from sphereflow.retrieval import CausalCircle
    from sphereflow.retrieval import flow as run

    flow = layered_flow(density_prompt(lambda s, th: 1 + 0.8 * np.cos(th - 2 * s)), 1.0, beta=1.0, slope=1.0)
    n, samples = 400, 200
    rng = np.random.default_rng(0)
    sigma = (np.arange(n) + 0.5) / n
    u = rng.uniform(-np.pi, np.pi, (30, n, samples))
    accept = rng.uniform(0, 1.8, u.shape) < 1 + 0.8 * np.cos(u)
    theta = np.take_along_axis(u, accept.argmax(axis=0)[None], axis=0)[0] + 2 * sigma[:, None]
    final = np.asarray(run(CausalCircle(1.0, 1.0), theta, 1.0, dt=0.25))
    late = slice(int(0.6 * n), n)
    found = np.exp(1j * final[late]).mean()
    used = flow.sigma >= 0.6
    waves = np.sum(flow.masses * np.exp(1j * flow.angles), axis=1)
    grid = np.linspace(0.6, 1, 400)
    expected = np.mean(np.interp(grid, flow.sigma[used], waves[used].real)) + 1j * np.mean(
        np.interp(grid, flow.sigma[used], waves[used].imag)
    )
    assert abs(found - expected) < 5 / np.sqrt(samples * 160) + 4 / n
    still = np.mean(np.exp(1j * theta[late]))
    assert abs(expected - still) > 0.05


@pytest.mark.slow
def test_covariance_of_a_prompt_that_is_not_uniform():
    """Layered covariance for the density 1 + 0.9 cos against simulated tokens, source integrated by quadrature."""
    from sphereflow.retrieval import CausalCircle
    from sphereflow.retrieval.influence import circle_advance

    n, k, q = 48, 15, 12
    flow = layered_flow(
        density_prompt(lambda s, th: 1 + 0.9 * np.cos(th) + 0 * s),
        1.0,
        beta=1.0,
        slope=1.0,
        source=(k - 0.5) / n,
        waves=(1,),
    )
    predicted = flow.two_time_covariance()[0, -1]
    nodes = 2 * np.pi * np.arange(q) / q
    weights = (1 + 0.9 * np.cos(nodes)) / q

    def draw(rng, count):
        u = rng.uniform(-np.pi, np.pi, (20, count, n))
        accept = rng.uniform(0, 1.9, u.shape) < 1 + 0.9 * np.cos(u)
        return np.take_along_axis(u, accept.argmax(axis=0)[None], axis=0)[0]

    def centred(target, start):
        c, s = np.cos(start) - np.sum(weights * np.cos(nodes)), np.sin(start) - np.sum(weights * np.sin(nodes))
        return (np.cos(target) * c + np.sin(target) * s)[None]

    estimate = source_average(
        circle_advance(CausalCircle(1.0, 1.0, length=n), 1.0),
        draw,
        lambda rng, count: (np.tile(nodes, (count, 1)), weights),
        centred,
        source=k - 1,
        repeats=250,
    ).scaled(n)
    band = (0.4 + 0.15 * n / (k - 0.5)) / n
    assert abs(estimate.value[0] - predicted) < 3 * estimate.error[0] + 2 * band
    uniform = two_time_influence(growth_rates(1.0)[0], 1.0, 1.0, (k - 0.5) / n, 1.0)
    assert abs(predicted - uniform) > 2 * (3 * estimate.error[0] + 2 * band)
