"""Transformer blocks against sums written out in NumPy, and what JAX can do with them."""

import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf, expit

import sphereflow as sf
from sphereflow.dynamics import MLP, LayerNorm, MultiHeadAttention, Network, RMSNorm
from sphereflow.interaction import Causal, PositionWeights

N, D, H, G, K, V, M = 6, 8, 4, 2, 4, 3, 10
RNG = np.random.default_rng(0)
W = {
    name: RNG.normal(size=shape) / np.sqrt(shape[-1])
    for name, shape in {
        "query": (H, K, D),
        "key": (G, K, D),
        "value": (G, V, D),
        "output": (H, D, V),
        "query_bias": (H, K),
        "key_bias": (G, K),
        "value_bias": (G, V),
        "output_bias": (D,),
    }.items()
}
MATRICES = {name: W[name] for name in ("query", "key", "value", "output")}
F = {"up": (M, D), "down": (D, M), "gate": (M, D), "up_bias": (M,), "down_bias": (D,), "gate_bias": (M,)}
F = {name: RNG.normal(size=shape) / 3 for name, shape in F.items()}
SCALES, SHIFTS = 1 + 0.3 * RNG.normal(size=(2, D)), RNG.normal(size=(2, D))
X = 2 * RNG.normal(size=(N, D)) + 0.5


def attention_by_hand(x, w, visible, scale=K**-0.5, turn=lambda rows: rows):
    """One pair of tokens after the other."""
    out = np.zeros_like(x)
    for h in range(H):
        g = h * len(w["key"]) // H
        q = turn(x @ w["query"][h].T + w["query_bias"][h])
        k = turn(x @ w["key"][g].T + w["key_bias"][g])
        v = x @ w["value"][g].T + w["value_bias"][g]
        for i in range(len(x)):
            e = np.array([np.exp(scale * q[i] @ k[j]) * visible(i, j) for j in range(len(x))])
            out[i] += w["output"][h] @ (e @ v / e.sum())
    return out + w["output_bias"]


SIGMA = {
    "relu": lambda s: np.maximum(s, 0),
    "gelu": lambda s: s * (1 + erf(s / np.sqrt(2))) / 2,
    "gelu_tanh": lambda s: s * (1 + np.tanh(np.sqrt(2 / np.pi) * (s + 0.044715 * s**3))) / 2,
    "silu": lambda s: s * expit(s),
}


def mlp_by_hand(x, sigma):
    return SIGMA[sigma](x @ F["up"].T + F["up_bias"]) @ F["down"].T + F["down_bias"]


def gated_by_hand(x, sigma):
    gate = SIGMA[sigma](x @ F["gate"].T + F["gate_bias"])
    return (gate * (x @ F["up"].T + F["up_bias"])) @ F["down"].T + F["down_bias"]


def layer_norm(which, eps):
    def apply(x):
        centred = x - x.mean(1, keepdims=True)
        return SCALES[which] * centred / np.sqrt(x.var(1, keepdims=True) + eps) + SHIFTS[which]

    return apply


def rms_norm(which, eps):
    return lambda x: SCALES[which] * x / np.sqrt((x**2).mean(1, keepdims=True) + eps)


def on_sphere(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def mlp(sigma="gelu", **changed):
    plain = {name: w for name, w in F.items() if not name.startswith("gate")}
    return MLP(activation=sigma, **{**plain, **changed})


def attention(**changed):
    return MultiHeadAttention(**{**W, **changed})


def norms(kind=LayerNorm):
    if kind is LayerNorm:
        return {
            "attention_norm": LayerNorm(SCALES[0], SHIFTS[0], 0.1),
            "mlp_norm": LayerNorm(SCALES[1], SHIFTS[1], 0.2),
        }
    return {"attention_norm": RMSNorm(SCALES[0], 0.1), "mlp_norm": RMSNorm(SCALES[1], 0.2)}


def everywhere(i, j):
    return 1.0


def before(i, j):
    return float(j <= i)


def near(x, y, atol=1e-12):
    np.testing.assert_allclose(np.asarray(x), y, rtol=0, atol=atol)


@pytest.mark.fast_cases(
    "pre-False-LayerNorm", "pre-True-RMSNorm", "post-False-RMSNorm", "none-True-LayerNorm", "sphere-False-LayerNorm"
)
@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("placement", ["pre", "post", "none", "sphere"])
def test_a_block_is_what_is_written_down(placement, parallel, kind):
    by_hand = layer_norm if kind is LayerNorm else rms_norm
    first, second = by_hand(0, 0.1), by_hand(1, 0.2)
    given = norms(kind) if placement in ("pre", "post") else {}
    if parallel and placement == "post":
        del given["mlp_norm"]
    block = sf.Block(attention(), mlp(), placement=placement, parallel=parallel, **given)

    def a(x):
        return attention_by_hand(x, W, everywhere)

    def f(x):
        return mlp_by_hand(x, "gelu")

    def joined(placement, norm, branch):
        """x + branch(x), normalised where it is said."""
        return {
            "pre": lambda x: x + branch(norm(x)),
            "post": lambda x: norm(x + branch(x)),
            "none": lambda x: x + branch(x),
            "sphere": lambda x: on_sphere(x + branch(x)),
        }[placement]

    if not parallel:
        expected = joined(placement, second, f)(joined(placement, first, a)(X))
    elif placement == "pre":  # each branch has a norm of its own
        expected = joined("none", None, lambda x: a(first(x)) + f(second(x)))(X)
    else:
        expected = joined(placement, first, lambda x: a(x) + f(x))(X)
    with jax.disable_jit():  # sixteen small programs take longer to compile than to step through
        near(block(X), expected)


@pytest.mark.parametrize("sigma", SIGMA)
def test_activations_and_gates(sigma):
    near(mlp(sigma)(jnp.asarray(X)), mlp_by_hand(X, sigma))
    near(MLP(activation=sigma, **F)(jnp.asarray(X)), gated_by_hand(X, sigma))


def test_masks_and_scale():
    x = jnp.asarray(X)
    causal = attention_by_hand(X, W, before)
    near(attention(causal=True)(x), causal)
    near(attention(mask=Causal(), scale=1 / np.sqrt(K))(x), causal)

    def window(i, j):
        return jnp.where(jnp.abs(i - j) <= 1, 0.0, -jnp.inf)

    both = attention(causal=True, mask=PositionWeights(window), scale=0.7)(x)
    near(both, attention_by_hand(X, W, lambda i, j: float(0 <= i - j <= 1), scale=0.7))


def test_rotary_positions_are_a_complex_phase():
    def turn(rows):
        z = rows[:, : K // 2] + 1j * rows[:, K // 2 :]
        z = z * np.exp(1j * np.outer(np.arange(len(rows)), 50.0 ** (-2 * np.arange(K // 2) / K)))
        return np.concatenate([z.real, z.imag], axis=1)

    near(attention(rotary=50)(jnp.asarray(X)), attention_by_hand(X, W, everywhere, turn=turn))


def test_outputs_side_by_side_and_heads_in_another_order():
    x = jnp.asarray(X)
    plain = attention()(x)
    near(attention(output=np.concatenate(list(W["output"]), axis=1))(x), plain)
    repeated = {name: np.repeat(W[name], H // G, axis=0) for name in ("key", "value", "key_bias", "value_bias")}
    near(attention(**repeated)(x), plain)
    order = [2, 0, 3, 1]
    moved = {name: (W | repeated)[name][order] for name in W if name != "output_bias"}
    near(attention(**moved)(x), plain)
    for name in ("query", "output", "query_bias"):
        assert np.abs(attention(**(repeated | {name: W[name][order]}))(x) - plain).max() > 1e-3, name


def test_without_output_and_on_the_sphere_it_is_a_layer_of_this_library():
    q, k, v = RNG.normal(size=(3, 2, 3, 3)) / 2
    x = sf.draw("uniform", 5, 3)
    block = sf.Block(MultiHeadAttention(q, k, v, scale=1.7), placement="sphere")
    model = sf.SA(1.7, query=q, key=k, value=v)
    near(sf.run_layers([block] * 3, x), sf.run_layers(model, x, 3, 1.0))


def block_of(**changed):
    return sf.Block(attention(causal=True), mlp(), placement="pre", **norms(), **changed)


@pytest.mark.slow
def test_layers_follow_one_another_for_one_sequence_or_many():
    blocks = [block_of(), sf.Block(attention(), placement="none")]
    frames = sf.run_layers(blocks, X)
    assert frames.shape == (3, N, D)
    near(frames[0], X, atol=0)
    near(frames[2], blocks[1](blocks[0](X)))
    many = np.stack([X, -X, 3 * X])
    together = sf.run_layers(blocks, many)
    assert together.shape == (3, 3, N, D)
    near(together[:, 0], frames)
    near(together[:, 2], sf.run_layers(blocks, 3 * X))


@pytest.mark.slow
def test_float32_stays():
    blocks = [block_of(), sf.Block(attention(rotary=10), placement="sphere")]
    frames = sf.run_layers(blocks, X.astype("float32"))
    assert frames.dtype == jnp.float32
    near(frames, sf.run_layers(blocks, X), atol=1e-4)
    narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.float32) if eqx.is_inexact_array(leaf) else leaf, blocks)
    assert sf.run_layers(narrow, X).dtype == jnp.float64
    assert MLP(F["up"].astype("float32"), F["down"], "relu").up.dtype == jnp.float32


@pytest.mark.slow
def test_layers_are_pure():
    blocks = [block_of()]

    def last(blocks, x):
        return jnp.sum(jnp.sin(sf.run_layers(blocks, x)[-1]))

    value = last(blocks, jnp.asarray(X))
    near(jax.jit(jax.vmap(last, in_axes=(None, 0)))(blocks, jnp.stack([X, X])), [value, value])
    slope = eqx.filter_grad(lambda both: last(*both))((blocks, jnp.asarray(X)))
    direction = jax.tree.map(lambda g: jnp.cos(7.0 * jnp.arange(g.size).reshape(g.shape)), slope)
    assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(slope))

    def moved(h):
        return last(*eqx.apply_updates((blocks, jnp.asarray(X)), jax.tree.map(lambda v: h * v, direction)))

    along = sum(jnp.vdot(g, v) for g, v in zip(jax.tree.leaves(slope), jax.tree.leaves(direction), strict=True))
    np.testing.assert_allclose((moved(1e-5) - moved(-1e-5)) / 2e-5, along, rtol=1e-7)


@pytest.mark.slow
def test_many_tokens_are_summed_in_blocks():
    n = 1100  # more than the side of a block of pairs
    x = np.random.default_rng(1).normal(size=(n, D))
    out = attention(causal=True)(jnp.asarray(x))
    q, k, v = (np.einsum("hkd,nd->hnk", W[m], x) + W[f"{m}_bias"][:, None] for m in ("query", "key", "value"))
    k, v = np.repeat(k, H // G, axis=0), np.repeat(v, H // G, axis=0)
    e = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(K)) * np.tri(n)
    expected = np.einsum("hdv,hnv->nd", W["output"], e @ v / e.sum(2, keepdims=True)) + W["output_bias"]
    near(out, expected)


@pytest.mark.slow
def test_a_network_looks_up_words():
    table, places = RNG.normal(size=(11, D)), RNG.normal(size=(7, D))
    words, shift = RNG.normal(size=(5, D)), RNG.normal(size=5)
    network = Network([block_of()], table, places, LayerNorm(), words, shift)
    ids = np.array([3, 1, 10, 0])
    x = np.asarray(block_of()(table[ids] + places[:4]))
    unit = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    near(network(ids), unit @ words.T + shift)
    near(network(table[ids]), network(ids))
    near(network(np.stack([ids, ids]))[1], network(ids))
    near(Network([block_of()])(X), block_of()(X))
    for wrong in (11, -1):
        with pytest.raises(sf.SphereflowError, match=f"ids must be from 0 to 10, got {wrong}"):
            network(np.array([0, wrong]))
        assert np.isnan(eqx.filter_jit(network.embed)(jnp.array([0, wrong]))[1]).all()
    with pytest.raises(sf.SphereflowError, match="8 tokens, but positions for 7"):
        network(np.zeros(8, int))
    with pytest.raises(sf.SphereflowError, match="no embedding"):
        Network([block_of()])(ids)


REFUSALS = {
    "key: d_head": (lambda: attention(key=W["key"][:, :3]), "d_head must be the same number in all weights, got 4"),
    "value: d": (lambda: attention(value=W["value"][..., :5]), "d must be the same number.*5 in value"),
    "groups": (
        lambda: attention(key=np.ones((3, K, D)), value=np.ones((3, V, D)), key_bias=None, value_bias=None),
        "must divide those of query, got 3 for 4",
    ),
    "key and value": (lambda: attention(value=np.ones((4, V, D)), value_bias=None), "g must be the same"),
    "output": (lambda: attention(output=np.ones((D, 11))), r"h d_value = 12 columns .*, got \(8, 11\)"),
    "no output": (lambda: attention(output=None), "without output, value must have the shape"),
    "query_bias": (lambda: attention(query_bias=np.ones((H, 5))), "d_head must be the same"),
    "not finite": (lambda: attention(query=np.nan * W["query"]), "query must be finite, got nan"),
    "scale": (lambda: attention(scale=-1.0), "scale must be at least 0"),
    "rotary, odd": (lambda: MultiHeadAttention(*np.ones((3, 1, 3, 3)), rotary=100.0), "d_head must be even, got 3"),
    "rotary": (lambda: attention(rotary=1.0), "rotary must be a finite number above 1"),
    "activation": (lambda: mlp("swish"), "activation must be one of relu"),
    "down": (lambda: mlp(down=np.ones((D, 3))), "m must be the same number in all weights, got 10 in up, 3 in down"),
    "gate_bias": (lambda: mlp(gate_bias=F["gate_bias"]), "gate_bias needs a gate"),
    "norm": (lambda: LayerNorm(np.ones(3), np.ones(4)), "d must be the same number"),
    "eps": (lambda: RMSNorm(eps=-1.0), "eps must be a finite number at least 0"),
    "placement": (lambda: sf.Block(attention(), placement="peri"), "placement must be one of pre, post, none, sphere"),
    "no norm": (lambda: sf.Block(attention(), placement="pre"), "'pre' needs attention_norm"),
    "one norm": (lambda: sf.Block(attention(), mlp(), placement="post", attention_norm=LayerNorm()), "needs mlp_norm"),
    "a norm too many": (lambda: sf.Block(attention(), placement="none", attention_norm=RMSNorm()), "has no place"),
    "parallel": (lambda: sf.Block(attention(), mlp(), placement="post", parallel=True, **norms()), "mlp_norm has no"),
    "dimension": (lambda: sf.Block(attention(), placement="pre", attention_norm=LayerNorm(np.ones(3))), "dimension 3"),
    "tokens": (lambda: sf.run_layers([block_of()], np.ones((N, 5))), r"shape \(n, 8\)"),
    "one token": (lambda: block_of()(jnp.ones(D)), r"shape \(n, 8\), got float64 of shape \(8,\)"),
    "whole numbers": (lambda: block_of()(jnp.ones((N, D), int)), "real numbers"),
    "infinite": (lambda: sf.run_layers([block_of()], np.inf * X), "x0 must be finite"),
    "no blocks": (lambda: sf.run_layers([], X), "blocks must be a list of Block, at least one"),
    "layers": (lambda: sf.run_layers([block_of()], X, 3), "layers is for attention that is the same"),
    "step": (lambda: sf.run_layers([block_of()], X, step=0.1), "step is for attention"),
    "attention without layers": (lambda: sf.run_layers(sf.SA(1.0), sf.normalise(X)), "layers must be a whole number"),
    "attention, replicas": (lambda: sf.run_layers(sf.SA(1.0), sf.normalise(X)[None], 2), r"x0 must be .* \(n, d\)"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_does_not_fit_is_refused(case):
    call, sentence = REFUSALS[case]
    with pytest.raises(sf.SphereflowError, match=sentence):
        call()


def test_other_kinds_of_things_are_refused():
    """In a process of its own, because here annotations are checked before the library sees what it was given."""
    child = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stdout + child.stderr
    assert child.stdout.count("\n") == 9


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    for call in (
        lambda: sf.Block("attention", placement="none"),
        lambda: sf.Block(attention(), "mlp", placement="none"),
        lambda: sf.Block(attention(), placement="pre", attention_norm=np.ones(D)),
        lambda: sf.Block(attention(), mlp(), placement="none", parallel="no"),
        lambda: attention(causal="no"),
        lambda: attention(mask=np.tri(N)),
        lambda: sf.run_layers([block_of(), "block"], X),
        lambda: sf.run_layers(block_of(), X),
        lambda: block_of()([["a"]]),
    ):
        try:
            call()
        except sf.SphereflowError as refusal:
            print(refusal)
