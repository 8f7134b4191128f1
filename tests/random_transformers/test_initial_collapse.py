"""Real architectures at initialisation: the forward pass, its law, the recursion, and the command."""

import dataclasses
import json
import math

import numpy as np
import pytest

from sphereflow import random_transformers as rt
from sphereflow.errors import SphereflowError
from sphereflow.estimates import mean
from sphereflow.random_transformers.blocks import Blocks, read_blocks, states
from sphereflow.random_transformers.gram_recursion import dual, first_order, gram_path, logistic, rotary_means
from sphereflow.random_transformers.initial_network import mean_cosine, run_cosines, weight_deviations

GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 3, "n_head": 4, "vocab_size": 50, "n_positions": 16}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 50,
    "initializer_range": 0.2,
}
NAMES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "output": "o_proj"}


@pytest.mark.parametrize("config", [GPT2 | {"initializer_range": 0.2}, LLAMA], ids=["gpt2", "llama"])
def test_the_forward_pass_is_that_of_transformers(config):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    settings = {k: v for k, v in config.items() if k != "model_type"}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = transformers.AutoModel.from_config(
            transformers.AutoConfig.for_model(config["model_type"], **settings), attn_implementation="eager"
        ).eval()
    tokens = torch.arange(3, 12)[None]
    with torch.no_grad():
        seen = model(input_ids=tokens, output_hidden_states=True).hidden_states
    weights = {name: w.detach().double().numpy() for name, w in model.state_dict().items()}
    blocks = read_blocks(config)

    def project(layer, name, y):
        if blocks.family == "gpt2":
            at = f"h.{layer}."
            if name in "qkv":
                return y @ np.split(weights[at + "attn.c_attn.weight"], 3, axis=1)["qkv".index(name)]
            part = {"output": "attn.c_proj", "gate": "mlp.c_fc", "down": "mlp.c_proj"}[name]
            return y @ weights[f"{at}{part}.weight"]
        part = f"self_attn.{NAMES[name]}" if name in NAMES else f"mlp.{name}_proj"
        return y @ weights[f"layers.{layer}.{part}.weight"].T

    start = seen[0][0].double().numpy()
    ours = list(states(blocks, start, project))
    for depth in (1, 2):  # the last one of transformers is behind the final norm
        np.testing.assert_allclose(ours[depth], seen[depth][0].numpy(), atol=1e-5 * np.abs(ours[depth]).max())
    shapes = {name: count for name, (count, _) in weight_deviations(blocks).items()}
    assert shapes["k"] == blocks.groups * blocks.head_width


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_products_drawn_in_law_make_the_same_networks(family):
    """Mean cosines after two layers: real matrices against products that are drawn."""
    blocks = read_blocks(GPT2 if family == "gpt2" else LLAMA, layers=2)
    shapes = weight_deviations(blocks)

    def with_matrices(seed):
        rng = np.random.default_rng([seed, 7])

        def project(layer, name, y):
            columns, sigma = shapes[name]
            return y @ (sigma * rng.standard_normal((columns, y.shape[1]))).T

        start = rng.standard_normal((5, 32)) * blocks.embedding_sigma * math.sqrt(blocks.tables)
        return [mean_cosine(x) for x in states(blocks, start, project)][1:]

    real = mean(np.array([with_matrices(k) for k in range(150)]))
    drawn = mean(np.array([run_cosines(blocks, 5, k)[1:] for k in range(150)]))
    assert np.all(np.abs(real.value - drawn.value) < 5 * np.hypot(real.error, drawn.error))
    assert np.all(real.error < 0.03)


def naive_first_order(inner, flat, c):
    """The sums of the docstring, one term after the other."""
    n = len(inner)

    def cov(i, j, k, m):
        return inner[i, k] * inner[j, m] * c[(i - j - k + m) + 2 * (n - 1)]

    def less_mean(i, j, k, m):
        total = cov(i, j, k, m)
        total -= sum(flat[i, a] * cov(i, a, k, m) for a in range(n))
        total -= sum(flat[k, b] * cov(i, j, k, b) for b in range(n))
        return total + sum(flat[i, a] * flat[k, b] * cov(i, a, k, b) for a in range(n) for b in range(n))

    found = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            own = [less_mean(i, j, i, j) for j in range(n)]
            other = [less_mean(k, m, k, m) for m in range(n)]
            for j in range(n):
                for m in range(n):
                    part = less_mean(i, j, k, m)
                    part += 0.5 * (own[j] - sum(flat[i] * own)) + 0.5 * (other[m] - sum(flat[k] * other))
                    found[i, k] += flat[i, j] * flat[k, m] * inner[j, m] * part
    return found


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_first_order_of_attention(family):
    blocks = read_blocks(GPT2 if family == "gpt2" else LLAMA)
    y = np.random.default_rng(0).standard_normal((4, 6))
    inner, flat, c = y @ y.T, np.tri(4) / np.arange(1, 5)[:, None], rotary_means(blocks, 4)
    np.testing.assert_allclose(first_order(inner, flat, c), naive_first_order(inner, flat, c), rtol=1e-10, atol=1e-12)


def test_the_first_order_is_that_of_softmax():
    """Against softmax of Gaussian logits of small deviation, averaged over many draws of both signs."""
    rng = np.random.default_rng(1)
    y = rng.standard_normal((3, 5))
    inner, flat, s = y @ y.T, np.tri(3) / np.arange(1, 4)[:, None], 0.02
    values, vectors = np.linalg.eigh(inner)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    logits = s * root @ rng.standard_normal((200_000, 3, 3)) @ root
    logits = np.concatenate([logits, -logits])
    weights = np.where(np.tri(3, dtype=bool), np.exp(logits), 0.0)
    weights /= weights.sum(axis=-1, keepdims=True)
    sampled = np.mean(weights @ inner @ weights.transpose(0, 2, 1), axis=0)
    blocks = read_blocks(GPT2)
    change = s**2 * first_order(inner, flat, rotary_means(blocks, 3))
    np.testing.assert_allclose(sampled - flat @ inner @ flat.T, change, atol=0.02 * np.abs(change).max())


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_the_mean_product_of_activations(family):
    from sphereflow.random_transformers.blocks import activation

    blocks = dataclasses.replace(read_blocks(GPT2 if family == "gpt2" else LLAMA), sigma=0.1)
    rho = 0.6
    inner = 32 * np.array([[1, rho], [rho, 1]])
    h, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    s = 0.1 * math.sqrt(32)
    a, b = s * h[:, None], s * (rho * h[:, None] + math.sqrt(1 - rho**2) * h[None])
    wanted = np.sum(w[:, None] * w[None] * activation(blocks, a) * activation(blocks, b))
    found = dual(inner, blocks)
    assert found[0, 1] == pytest.approx(wanted, rel=1e-9)
    assert found[0, 0] == pytest.approx(np.sum(w * activation(blocks, s * h) ** 2), rel=1e-9)


def test_the_recursion_without_mlp_by_hand():
    """Two tokens with flat causal attention: three numbers, added layer by layer."""
    blocks = dataclasses.replace(read_blocks(LLAMA, layers=3), mlp=False, eps=0.0)
    k11 = k22 = 32 * 0.2**2
    k12 = 0.0
    force = 32 * 32 * 0.2**4 * 32
    cosines, time, times = [0.0], 0.0, [0.0]
    for _ in range(3):
        time += force / ((k11 + k22) / 2)
        r = k12 / math.sqrt(k11 * k22)
        k11, k22, k12 = k11 + force, k22 + force * (1 + r) / 2, k12 + force * (1 + r) / 2
        cosines.append(k12 / math.sqrt(k11 * k22))
        times.append(time)
    found, clock = gram_path(blocks, 2, order=0)
    np.testing.assert_allclose(found, cosines, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(clock, times, rtol=1e-12)
    m = (1 + logistic(np.array([0.7]), 2)) / 2
    assert m[0] == pytest.approx(0.5 / (0.5 + 0.5 * math.exp(-0.7)))


def test_advice_is_run_and_scales_are_ratios():
    found = rt.initial_collapse(LLAMA | {"initializer_range": 0.02}, n=6, layers=4, width=128, repeats=6, level=0.2)
    advice = {each.change: each for each in found.advice}
    assert len(advice) == 4
    assert advice["residual projections"].predicted == pytest.approx(0.2, abs=2e-3)
    assert advice["embeddings"].predicted == pytest.approx(0.2, abs=1e-2)  # the same but for eps of the norm
    for each in found.advice:
        assert each.measured.agrees(each.predicted, sigmas=6, slack=4 / 128)
    assert found.cosine().agrees(found.recursion[-1], sigmas=6, slack=4 / 128)
    again = rt.initial_collapse(LLAMA | {"initializer_range": 0.02}, n=6, layers=4, width=128, repeats=6, level=1.0)
    assert again.advice == ()
    assert np.array_equal(again.measured, found.measured)
    assert found.plot().axes


def test_configs(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"num_hidden_layers": 7, "rope_parameters": {"rope_theta": 5e5}}))
    read = read_blocks(path)
    assert (read.layers, read.theta, read.groups, read.head_width) == (7, 5e5, 2, 8)
    gpt2 = read_blocks("gpt2", layers=50, scale=2.0)
    assert isinstance(gpt2, Blocks)
    assert gpt2.attention_sigma == pytest.approx(2 * 0.02 / 10)
    assert read_blocks("gpt2", width=384).hidden == 4 * 384
    for bad, said in (("gpt3", "there is no gpt3"), ({"model_type": "bert"}, "'bert'"), ({}, "model_type")):
        with pytest.raises(SphereflowError, match=said):
            read_blocks(bad)
    with pytest.raises(SphereflowError, match="multiple of the number of heads"):
        read_blocks("gpt2", width=100)
    with pytest.raises(SphereflowError, match="activation"):
        read_blocks(GPT2 | {"activation_function": "relu"})
    path.write_text("[1, 2")
    with pytest.raises(SphereflowError, match="cannot read"):
        read_blocks(path)
    for wrong in ({"n": 1}, {"repeats": 1}, {"level": 0.0}, {"layers": 0}, {"scale": float("nan")}):
        with pytest.raises(SphereflowError):
            rt.initial_collapse(GPT2, **wrong)


def test_the_command_with_a_config(tmp_path, capsys):
    from sphereflow.cli.collapse import command

    path = tmp_path / "config.json"
    path.write_text(json.dumps(GPT2))
    command(n=5, layers=3, repeats=2, config=str(path), level=1e-3)
    text = capsys.readouterr().out
    assert "to keep the cosine at 0.001 after layer 3" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    with pytest.raises(SphereflowError, match="--beta"):
        command(config="gpt2", beta=2.0)
    with pytest.raises(SphereflowError, match="--width"):
        command(width=8)
