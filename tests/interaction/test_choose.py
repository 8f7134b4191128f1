"""The choice of an engine: the reasons it gives, the memory it refuses, the promise it makes."""

import expansion_oracle as oracle
import jax.numpy as jnp
import numpy as np
import pytest
from attention_oracle import unit

from sphereflow.errors import SphereflowError
from sphereflow.interaction import DIRECT, Alibi, Causal, PositionWeights
from sphereflow.interaction.choice import choose
from sphereflow.interaction.linear import expand


@pytest.mark.parametrize(
    ("request_", "engine"),
    [
        ({"n": 10**6, "d": 2, "beta": 10.0}, "fourier"),
        ({"n": 10**6, "d": 2, "beta": 0.0}, "fourier"),
        ({"n": 10**6, "d": 2, "beta": 1e6}, "fourier"),
        ({"n": 10**6, "d": 2, "beta": 1e12}, "direct"),
        ({"n": 10**5, "d": 2, "beta": 10.0, "mask": Causal()}, "fourier"),
        ({"n": 10**5, "d": 3, "beta": 10.0, "mask": Alibi(jnp.asarray(0.1))}, "harmonic"),
        ({"n": 10**5, "d": 2, "beta": 10.0, "mask": PositionWeights(lambda i, j: -0.0 * (i + j))}, "direct"),
        ({"n": 10**6, "d": 3, "beta": 10.0}, "harmonic"),
        ({"n": 10**6, "d": 3, "beta": 1e5}, "direct"),
        ({"n": 10**5, "d": 4, "beta": 0.5}, "polynomial"),
        ({"n": 10**5, "d": 8, "beta": 10.0}, "direct"),
        ({"n": 10**5, "d": 512, "beta": 0.1}, "direct"),
        ({"n": 100, "d": 2, "beta": 10.0}, "direct"),
        ({"n": 10**5, "d": 2, "beta": None}, "direct"),
        ({"n": 10**5, "d": 2, "beta": 10.0, "unit_keys": False}, "direct"),
        ({"n": 10**5, "d": 3, "beta": 10.0, "unit_queries": False}, "harmonic"),
        ({"n": 10**5, "d": 2, "beta": 10.0, "dtype": "float32"}, "fourier"),
        ({"n": 10**6, "d": 3, "beta": 10.0, "dtype": "float32", "tol": 1e-7}, "harmonic"),
    ],
)
def test_engine_for_a_request(request_, engine):
    n = request_.pop("n")
    chosen = choose(n, n, memory=1e12, **request_)
    assert chosen.engine.name == engine
    assert chosen.reason
    assert (chosen.engine == DIRECT) == (engine == "direct")
    assert chosen.predicted_seconds > 0
    assert str(chosen).startswith(engine)


@pytest.mark.fast_cases("3-12.0-1e-09")
@pytest.mark.parametrize(("d", "beta", "tol"), [(2, 3.0, 1e-6), (2, 900.0, 1e-10), (3, 12.0, 1e-9), (4, 0.6, 1e-8)])
def test_chosen_expansions_keep_the_promise(d, beta, tol):
    x = unit(np.random.default_rng(0), 200, d)
    x[:120] = x[0]
    chosen = choose(10**6, 10**6, d, beta, tol=tol, memory=1e12)
    found = expand(chosen.engine.expansion(d), *(jnp.asarray(x),) * 3, beta, tol=tol)
    assert max(oracle.worst_errors(found.attended, *oracle.attention(x, x, x, beta), x)) <= tol
    assert float(found.error_bound) <= chosen.engine.tol == tol


def test_predictions_grow_linearly_with_an_expansion():
    one, ten = (choose(n, n, 2, 10.0, memory=1e12).predicted_seconds for n in (10**6, 10**7))
    assert 9 < ten / one < 11


def test_what_does_not_fit_is_refused_early():
    with pytest.raises(SphereflowError, match=r"needs about .* GiB, but 1\.0 GiB are free: about \d+ tokens would fit"):
        choose(10**9, 10**9, 3, 1.0, memory=2**30)


def test_a_method_asked_for_is_used_or_refused():
    assert choose(10**6, 10**6, 2, 10.0, method="direct", memory=1e12).engine.name == "direct"
    assert choose(50, 50, 2, 10.0, method="fourier").engine.name == "fourier"
    with pytest.raises(SphereflowError, match="dimension d=3"):
        choose(50, 50, 3, 10.0, method="fourier")
    with pytest.raises(SphereflowError, match="not unit vectors"):
        choose(50, 50, 2, 10.0, method="fourier", unit_keys=False)
    with pytest.raises(SphereflowError, match="method must be one of"):
        choose(50, 50, 2, 10.0, method="magic")


def test_long_queries_need_the_modes_of_a_colder_temperature():
    """The kernel of a query is exp(beta |q| cos), whatever its length."""
    request = {"d": 2, "method": "fourier", "unit_queries": False, "memory": 1e12}
    long = choose(10**5, 10**5, beta=10.0, longest_query=3.0, **request)
    assert long.modes == choose(10**5, 10**5, beta=30.0, **request).modes
    assert long.modes > choose(10**5, 10**5, beta=10.0, **request).modes


def test_rounding_is_compared_with_a_typical_denominator():
    """Uniform tokens on S^2 have Z = (1 - exp(-2 beta))/(2 beta): twenty times below one at beta = 10."""
    chosen = choose(10**6, 10**6, 3, 10.0, tol=1e-13, memory=1e12)
    assert chosen.engine.name == "direct"
    assert "rounding" in chosen.reason
    assert choose(10**6, 10**6, 3, 10.0, tol=1e-12, memory=1e12).engine.name == "harmonic"
    assert choose(10**6, 10**6, 3, 0.5, tol=1e-13, memory=1e12).engine.name == "harmonic"
