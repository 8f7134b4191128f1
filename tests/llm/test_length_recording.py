"""Every number of a recording at several lengths against plain loops, on two heads; and what it refuses."""

import math

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.llm.model.tiny import tiny_model
from sphereflow.numerics.selection import expected_recall

TOKENS = np.random.default_rng(1).integers(2, 90, (2, 24))
LENGTHS, SIZES, TEMPERATURES = (8, 24), (2, 4), (1.0, 0.1)


@pytest.fixture(scope="module")
def told():
    import torch

    model = tiny_model("llama, grouped")
    made = sf.llm.record_lengths(model, TOKENS, lengths=LENGTHS, sizes=SIZES, temperatures=TEMPERATURES)
    with torch.no_grad():
        out = model(torch.tensor(TOKENS[1:]), output_attentions=True)
    values = [np.repeat(layer.values[0].double().numpy(), 2, axis=0) for layer in out.past_key_values.layers]
    return made, [rows[0].double().numpy() for rows in out.attentions], values


def cos(a, b):
    return a @ b / math.sqrt((a @ a) * (b @ b))


def test_two_heads_by_loops(told):
    made, attentions, values = told
    for layer, head in ((0, 1), (1, 2)):
        for k, length in enumerate(LENGTHS):
            alpha, v = attentions[layer][head, length - 1, :length], values[layer][head][:length]
            r = np.median([math.sqrt(x @ x) for x in v[1:]])
            for sink in range(2):
                a = alpha if sink == 0 else alpha[1:] / sum(alpha[1:])
                u = v[sink:] / r
                at = (1, layer, head, sink, k)
                order = sorted(range(len(a)), key=lambda i: -a[i])
                z = sum(a[i] * u[i] for i in range(len(a)))
                n = len(a)
                pairs = [cos(u[i], u[j]) for i in range(n) for j in range(n) if i != j]
                whole = {
                    "concentration": sum(w * w for w in a),
                    "output": math.sqrt(z @ z),
                    "squares": sum(a[i] ** 2 * (u[i] @ u[i]) for i in range(n)),
                    "cosine": np.mean(pairs),
                }
                for name, value in whole.items():
                    np.testing.assert_allclose(made.whole[name][at], value, rtol=1e-6, atol=1e-6, err_msg=name)
                for j, size in enumerate(SIZES):
                    top = order[:size]
                    s = sum(a[i] * u[i] for i in top)
                    away = [np.linalg.norm(a[i] * u[i] - s) for i in range(n)]
                    near = min(away[i] for i in range(n) if i not in top)
                    mass = sum(a[i] for i in top)
                    c = whole["cosine"]
                    kappa = ((n - 2 * size) ** 2 - n) / (n * (n - 1))
                    expected = {
                        "distance": np.linalg.norm(z - 2 * s),
                        "recall": sum(away[i] < near for i in top) / size,
                        "top_mass": mass,
                        "expected_recall": expected_recall(
                            np.array([a[i] for i in top]), np.array([a[i] for i in order[size:]]), 8
                        ),
                    }
                    for name, value in expected.items():
                        found = made.selection[name][(*at, j)]
                        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-6, err_msg=name)
                    same = math.sqrt(max((1 - c) * whole["concentration"] + c * (1 - 2 * mass) ** 2, 0))
                    np.testing.assert_allclose(made.equicorrelated()[(*at, j)], same, atol=1e-6)
                    drawn = math.sqrt(max(kappa * whole["output"] ** 2 + (1 - kappa) * whole["squares"], 0))
                    np.testing.assert_allclose(made.random_selection()[(*at, j)], drawn, atol=1e-6)
            for j, t in enumerate(TEMPERATURES):
                w = alpha ** (1 / t) / sum(alpha ** (1 / t))
                dense = np.linalg.norm((np.diag(w) - np.outer(w, w)) / t, 2)
                np.testing.assert_allclose(made.jacobian[1, layer, head, k, j], dense, rtol=1e-6)


def test_it_is_saved(told, tmp_path):
    made = told[0]
    assert sf.load(made.save(tmp_path / "lengths.npz")) == made


def test_a_layer_that_does_not_see_all_tokens_is_not_asked():
    made = sf.llm.record_lengths(tiny_model("mistral, window 8"), TOKENS, lengths=(8, 9), sizes=(2, 4, 16))
    assert made.layers_asked.tolist() == [2, 0]
    assert np.isnan(made.selection["distance"][..., 1, :]).all()
    assert np.isfinite(made.selection["distance"][..., 0, :2]).all()
    assert np.isnan(made.selection["recall"][..., 2]).all()
    assert "2 of 2 layers" in made.summary()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"lengths": (8, 99)}, "the longest length is 99"),
        ({"lengths": (2, 8)}, "lengths must be at least 4"),
        ({"lengths": ()}, "lengths must be increasing"),
        ({"sizes": (4, 2)}, "sizes must be increasing"),
        ({"sizes": (0, 4)}, "sizes must be a whole number"),
        ({"temperatures": (0.0,)}, "temperatures must be"),
        ({"temperatures": ()}, "one temperature at least"),
        ({"model": tiny_model("bert")}, "is an encoder"),
    ],
)
def test_bad_input_in_one_sentence(given, words):
    call = {"model": tiny_model("llama"), "lengths": (8, 24), "sizes": SIZES} | given
    with pytest.raises(SphereflowError, match=words) as raised:
        sf.llm.record_lengths(call.pop("model"), TOKENS, **call)
    assert "\n" not in str(raised.value)
