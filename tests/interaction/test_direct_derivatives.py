"""Derivatives of the direct engine against central differences of extended-precision sums."""

from __future__ import annotations

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import BLOCK, attention, log_p, make_mask, unit

from sphereflow.interaction import Attended, attend
from sphereflow.interaction.direct import direct_attention


def direct(q, k, v, beta, w, mask=None, block=BLOCK, **options) -> Attended:
    beta = jnp.asarray(beta, q.dtype)
    return direct_attention(*(jnp.asarray(x) for x in (q, k, v)), beta, jnp.asarray(w), mask, block=block, **options)


class TestDerivatives:
    """Forward and reverse derivatives against central differences of the extended-precision oracle."""

    m, n, beta, h = 6, 9, 4.0, 1e-6

    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        w = rng.random(self.n)
        w[4] = 0  # the derivative with respect to a zero weight is not zero
        q, k, v = unit(rng, self.m, 3), unit(rng, self.n, 3), rng.normal(size=(self.n, 2))
        return [q, k, v, np.asarray(self.beta), w]

    def numerical(self, function, arguments, directions) -> float:
        forward, back = (
            function(*(a + sign * self.h * e for a, e in zip(arguments, directions, strict=True))) for sign in (1, -1)
        )
        return (forward - back) / (2 * self.h)

    @pytest.mark.fast_cases("alibi")
    @pytest.mark.parametrize("kind", ["none", "causal", "alibi"])
    def test_general(self, kind):
        rng = np.random.default_rng(8)
        a, b = rng.normal(size=(self.m, 2)), rng.normal(size=self.m)
        bias = log_p(kind, self.m, self.n)
        arguments = self.arguments()
        directions = [rng.normal(size=x.shape) for x in arguments]
        directions[4] = np.abs(directions[4])

        def engine(*arguments):
            average, log_z = direct(*arguments, make_mask(kind))
            return jnp.sum(a * average) + jnp.sum(b * log_z)

        def plain(q, k, v, beta, w):
            # Around a zero weight the difference takes a negative one, of which the oracle has no logarithm.
            kernel = np.exp(np.asarray(beta * (q @ k.T - 1) + bias, np.longdouble)) * w
            total = kernel.sum(1)
            return float(np.sum(a * (kernel @ v) / total[:, None]) + np.sum(b * np.log(total)))

        expected = self.numerical(plain, arguments, directions)
        arguments, directions = (tuple(map(jnp.asarray, x)) for x in (arguments, directions))
        _, forward = jax.jit(lambda x, e: jax.jvp(engine, x, e))(arguments, directions)
        reverse = jax.jit(jax.grad(engine, argnums=range(5)))(*arguments)
        np.testing.assert_allclose(forward, expected, rtol=1e-7)
        inner = sum(float(jnp.sum(g * e)) for g, e in zip(reverse, directions, strict=True))
        np.testing.assert_allclose(inner, expected, rtol=1e-7)

    @pytest.mark.fast_cases("True")
    @pytest.mark.parametrize("symmetric", [False, True])
    def test_self_attention(self, symmetric):
        rng = np.random.default_rng(9)
        x, v, w = unit(rng, self.n, 3), rng.normal(size=(self.n, 2)), rng.random(self.n) + 0.1
        a, b = rng.normal(size=(self.n, 2)), rng.normal(size=self.n)

        def engine(x):
            average, log_z = direct(x, x, v, self.beta, w, bounded=True, symmetric=symmetric)
            return jnp.sum(a * average) + jnp.sum(b * log_z)

        def plain(x):
            average, log_z = attention(x, x, v, self.beta, w)
            return np.sum(a * average) + np.sum(b * log_z)

        e = rng.normal(size=x.shape)
        expected = self.numerical(plain, [x], [e])
        np.testing.assert_allclose(np.sum(jax.jit(jax.grad(engine))(x) * e), expected, rtol=1e-7)
        along = jax.jit(lambda x, e: jax.jvp(engine, (x,), (e,))[1])
        np.testing.assert_allclose(along(x, e), expected, rtol=1e-7)

    @pytest.mark.slow
    def test_slope_of_a_mask(self):
        rng = np.random.default_rng(2)
        q, k, v, _, _ = self.arguments()
        a, w = rng.normal(size=(self.m, 2)), np.full(self.n, 1 / self.n)
        mask = make_mask("alibi")
        slopes = jax.jit(jax.grad(lambda mask: jnp.sum(a * direct(q, k, v, self.beta, w, mask).average)))
        slope = slopes(mask).slope
        expected = self.numerical(
            lambda s: np.sum(a * attention(q, k, v, self.beta, w, log_p("alibi", self.m, self.n, s))[0]), [0.3], [1.0]
        )
        np.testing.assert_allclose(slope, expected, rtol=1e-7)


def test_derivatives_of_few_tokens_are_those_of_the_general_sum():
    x = jnp.asarray(unit(np.random.default_rng(3), 9, 3))
    turned = jnp.asarray(np.random.default_rng(4).normal(size=(9, 3)))

    def loss(x, beta, promise):
        found = attend(x, x, x, beta, self_attention=promise, method="direct")
        return jnp.sum(turned * found.average) + jnp.sum(found.log_partition**2)

    few, general = (jax.grad(loss, argnums=(0, 1))(x, 3.0, promise) for promise in (True, False))
    for one, other in zip(few, general, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    tangents = (turned, 0.7)
    few, general = (jax.jvp(lambda x, b, p=p: loss(x, b, p), (x, 3.0), tangents)[1] for p in (True, False))
    np.testing.assert_allclose(few, general, rtol=1e-12)


@pytest.mark.slow
def test_second_derivatives():
    rng = np.random.default_rng(7)
    x, w = jnp.asarray(unit(rng, 9, 3)), np.full(9, 1 / 9)
    e = jnp.asarray(rng.normal(size=x.shape))

    def hessian_times_e(block):
        def loss(x):
            return jnp.sum(direct(x, x, x, 2.0, w, block=block, bounded=True, symmetric=True).average ** 2)

        return jax.jit(lambda x, e: jax.jvp(jax.grad(loss), (x,), (e,))[1])(x, e)

    np.testing.assert_allclose(hessian_times_e(BLOCK), hessian_times_e(16), atol=1e-13)
