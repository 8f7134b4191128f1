"""One layer iterated and inverse temperatures of heads, against layers written out in NumPy and plain loops."""

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.llm.model.tiny import tiny_model

TOKENS = np.random.default_rng(5).integers(1, 90, (2, 16))


@pytest.fixture(scope="module")
def llama():
    model = tiny_model("llama, grouped").double()
    for weight in model.parameters():
        weight.data = weight.data * (3.0 if weight.ndim == 2 else 1.0)  # layers that do something
    return model


def components(unit):
    """Connected components at cosine .9, by spreading labels until nothing changes."""
    labels = list(range(len(unit)))
    for _ in labels:
        for i in range(len(unit)):
            for j in range(len(unit)):
                if unit[i] @ unit[j] > 0.9:
                    labels[i] = labels[j] = min(labels[i], labels[j])
    return len(set(labels))


@pytest.mark.parametrize(
    ("variant", "rescale", "parts"),
    [
        ("trained", True, {}),
        ("trained", False, {}),
        ("no MLP", True, {"mlp": False}),
        ("no attention", True, {"attention": False}),
    ],
)
def test_steps_are_those_of_the_layer_written_out(llama, layer_by_hand, variant, rescale, parts):
    import torch

    found = sf.llm.iterate_layer(llama, 1, TOKENS, steps=4, variant=variant, rescale=rescale, progress=False)
    with torch.no_grad():
        states = llama.model(torch.tensor(TOKENS), output_hidden_states=True).hidden_states[1].numpy()
    document = 1
    x = states[document]
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    before = None
    for step in range(5):
        unit = x[1:] / np.linalg.norm(x[1:], axis=1, keepdims=True)
        centred = unit - unit.mean(axis=0)
        centred /= np.linalg.norm(centred, axis=1, keepdims=True)
        for prefix, vectors in (("", unit), ("centred_", centred)):
            pairs = [vectors[i] @ vectors[j] for i in range(15) for j in range(i)]
            share = np.linalg.svd(vectors, compute_uv=False) ** 2 / 15
            rank = np.exp(-sum(s * np.log(s) for s in share if s > 1e-300))
            name = "mean_cosine" if not prefix else "centred_cosine"
            assert found.stream[name][document, step] == pytest.approx(np.mean(pairs), abs=1e-6)
            assert found.stream[f"{prefix}rank"][document, step] == pytest.approx(rank, rel=1e-6)
            assert found.stream[f"{prefix}clusters"][document, step] == components(vectors)
        if step:
            change = np.sqrt(np.mean(np.sum((unit - before) ** 2, axis=1)))
            assert found.change[document, step - 1] == pytest.approx(change, rel=1e-5)
        before = unit
        x = layer_by_hand(llama.model.layers[1], x, **parts)
        if rescale:
            x = x * norms / np.linalg.norm(x, axis=1, keepdims=True)
    assert (found.n, found.steps) == (15, 4)
    assert found.end in ("one point", "clusters", "apart")


def test_random_weights_keep_singular_values_and_the_model():
    model = tiny_model("llama, grouped")
    old = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    from sphereflow.llm.depth.iterated import _random_weights

    other = _random_weights(model.model.layers[1], np.random.default_rng(0))
    for (name, new), kept in zip(other.named_parameters(), model.model.layers[1].parameters(), strict=True):
        if new.ndim == 2:
            sizes = [np.linalg.svd(w.detach().numpy(), compute_uv=False) for w in (new, kept)]
            np.testing.assert_allclose(*sizes, rtol=1e-4, atol=1e-6, err_msg=name)
            assert not np.allclose(new.detach().numpy(), kept.detach().numpy(), atol=1e-3)
    one, two = (
        sf.llm.iterate_layer(model, 1, TOKENS, steps=4, variant="random weights", seed=s, progress=False)
        for s in (0, 1)
    )
    assert not np.allclose(one.change, two.change)
    assert all(np.array_equal(old[name], weight) for name, weight in model.state_dict().items())


def test_a_layer_that_shares_one_value_matrix_ends_at_its_leading_eigenvector(llama):
    """Attention alone, V made symmetric of rank one: every token ends along it, as predicted."""
    import copy

    import torch

    model = copy.deepcopy(llama)
    attention = model.model.layers[1].self_attn
    direction = np.ones(32) / np.sqrt(32)
    gain = model.model.layers[1].input_layernorm.weight.detach().numpy()
    value, output = np.zeros((16, 32)), np.zeros((32, 32))
    value[0], output[:, 0] = direction / gain, 4 * direction
    attention.v_proj.weight.data, attention.o_proj.weight.data = torch.tensor(value), torch.tensor(output)
    found = sf.llm.iterate_layer(model, 1, TOKENS, steps=60, variant="no MLP", progress=False)
    assert found.limit == "antipodal points"
    assert found.alignment[:, -1].min() > 0.99


def test_refusals():
    with pytest.raises(SphereflowError, match="layer"):
        sf.llm.iterate_layer(tiny_model("gpt-2"), 2, TOKENS)
    with pytest.raises(SphereflowError, match="variant"):
        sf.llm.iterate_layer(tiny_model("gpt-2"), 1, TOKENS, variant="no norm")
    with pytest.raises(SphereflowError, match="steps"):
        sf.llm.iterate_layer(tiny_model("gpt-2"), 1, TOKENS, steps=1)
    with pytest.raises(SphereflowError, match="mlp"):
        sf.llm.iterate_layer(tiny_model("bert"), 1, TOKENS)
    with pytest.raises(SphereflowError, match="separate projections"):
        sf.llm.effective_betas(tiny_model("gpt-2"), TOKENS)
    with pytest.raises(SphereflowError, match="no tokenizer"):
        sf.llm.effective_betas(tiny_model("llama"), "a text")
    with pytest.raises(SphereflowError, match="from 0 to 96"):
        sf.llm.effective_betas(tiny_model("llama"), TOKENS + 100)


def test_inverse_temperatures_of_two_heads_by_loops(llama):
    import torch

    found = sf.llm.effective_betas(llama, TOKENS, progress=False)
    with torch.no_grad():
        ran = llama.model(torch.tensor(TOKENS), output_hidden_states=True, output_attentions=True)
    for layer, head, document in ((0, 3, 0), (1, 0, 1)):
        x = ran.hidden_states[layer][document].numpy()
        part = llama.model.layers[layer]
        with torch.no_grad():
            y = part.input_layernorm(torch.tensor(x))
            q = part.self_attn.q_proj(y).numpy()[:, 8 * head : 8 * head + 8]
            group = head // 2
            k = part.self_attn.k_proj(y).numpy()[:, 8 * group : 8 * group + 8]
        sizes = [np.mean([np.linalg.norm(row) for row in rows[1:]]) for rows in (q, k)]
        assert found.norms[document, layer, head] == pytest.approx(sizes[0] * sizes[1] / np.sqrt(8), rel=1e-6)
        weights = ran.attentions[layer][document, head].numpy()
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        xx = xy = yy = count = 0.0
        for query in sorted({int(v) for v in np.linspace(8, 15, 17)}):
            others = range(1, query)
            logit = np.array([np.log(weights[query, i]) for i in others])
            cosine = np.array([unit[query] @ unit[i] for i in others])
            logit, cosine = logit - logit.mean(), cosine - cosine.mean()
            xx, xy, yy = xx + cosine @ cosine, xy + cosine @ logit, yy + logit @ logit
            count += len(others)
        assert found.logits[document, layer, head] == pytest.approx(np.sqrt(yy / count), rel=1e-4)
        assert found.cosines[document, layer, head] == pytest.approx(xy / xx, rel=1e-3, abs=1e-6)
        assert found.r2[document, layer, head] == pytest.approx(xy**2 / xx / yy, rel=1e-3, abs=1e-6)


def test_norms_behind_a_norm_are_those_the_logits_have():
    """Queries and keys of Qwen 3 are normalised per head: all norms are sqrt(d), so beta is sqrt(d)."""
    found = sf.llm.effective_betas(tiny_model("qwen 3"), TOKENS, progress=False)
    np.testing.assert_allclose(found.norms, 4.0, rtol=1e-3)


def test_places_in_the_diagram_are_the_formulas(llama):
    found = sf.llm.effective_betas(llama, TOKENS, progress=False)
    beta = found.norms.astype(float).mean(axis=0)
    rho = found.mean_cosine.astype(float).mean(axis=0)
    assert found.sharpness("norms")[1, 2] == pytest.approx(beta[1, 2] * (1 - rho[1]) / np.log(15), rel=1e-6)
    gamma, time, step = 0.0, 0.0, 1e-4
    while gamma < 0.9:
        b = beta[1, 2]
        gamma += step * 2 * (1 - gamma) * (14 * gamma + 1) / (np.exp(b * (1 - gamma)) + 14)
        time += step
    assert np.exp(found.log_collapse_times("norms")[1, 2]) == pytest.approx(time, rel=1e-3)
    assert found.time == pytest.approx(found.step.astype(float).sum(axis=1).mean(), rel=1e-6)
    assert set(np.unique(found.gathers("norms"))) <= {0.0, 1.0}
