"""Sparse attention: the kept keys and head outputs against plain loops, plans, comparisons, refusals."""

import numpy as np
import pytest

from sphereflow import llm
from sphereflow.errors import SphereflowError
from sphereflow.llm.model.anatomy import attention_places
from sphereflow.llm.model.capture import capture
from sphereflow.llm.sparse.calibration import SIZES, calibrate, shared_out, truncation_errors
from sphereflow.llm.sparse.plans import SparsePlan

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from sphereflow.llm.model.tiny import tiny_model

RNG = np.random.default_rng(5)
TOKENS = RNG.integers(1, 90, size=(3, 30))
OTHERS = RNG.integers(1, 90, size=(2, 30))


@pytest.fixture(scope="module")
def llama():
    model = tiny_model("llama, grouped", 1)
    with torch.no_grad():  # at initialisation attention is flat; make it choose
        for name, weight in model.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                weight *= 20
    return model


def plan_for(model, rule, threshold=float("nan"), counts=5):
    shape = (2, 4)
    return SparsePlan("tiny", rule, 5, threshold, np.full(shape, counts), np.array([0.8, 1.1]), 5.0)


def naive_keys(rule, alpha, parts, threshold, residual, count):
    """The kept keys of one row, by loops; `parts` are W_O v_i."""
    order = sorted(range(len(alpha)), key=lambda i: -alpha[i])
    if rule in ("uniform", "error"):
        return set(order[:count])
    if rule == "mass":
        kept, total = set(), 0.0
        for i in order:
            if total >= threshold:
                break
            kept.add(i)
            total += alpha[i]
        return kept
    centre = sum(a * p for a, p in zip(alpha, parts, strict=True)) if rule == "deviation" else 0.0
    kept = {
        i
        for i, (a, p) in enumerate(zip(alpha, parts, strict=True))
        if a * np.linalg.norm(p - centre) / residual >= threshold
    }
    return kept | {order[0]}


@pytest.mark.parametrize(
    ("rule", "threshold"),
    [("deviation", 2e-3), ("contribution", 2e-3), ("mass", 0.6), ("uniform", 0.0), ("error", 0.0)],
)
def test_two_heads_against_loops(llama, rule, threshold):
    """Head outputs of the first layer, whose inputs are those of the dense model, to 1e-6."""
    seen = {}
    queries = np.array([[9, 20, 29]])
    capture(llama, TOKENS[:1], lambda layer: seen.setdefault(layer.index, layer), queries=queries)
    first, place = seen[0], attention_places(llama)[0]
    weight = place.output_projection.weight.detach().double().numpy()
    mixed = []
    hook = place.output_projection.register_forward_pre_hook(lambda module, args: mixed.append(args[0][0].numpy()))
    plan = plan_for(llama, rule, threshold)
    with llm.sparse_attention(llama, plan) as usage, torch.no_grad():
        llama(input_ids=torch.as_tensor(TOKENS[:1]), use_cache=False)
    hook.remove()
    kept_counts = []
    for head in (0, 3):
        for q, position in enumerate(queries[0]):
            rows, values = first.head_rows(0, q)
            alpha, value = rows[head].astype(float), values[head].astype(float)
            parts = [weight[:, 8 * head : 8 * head + 8] @ v for v in value]
            keys = naive_keys(rule, alpha, parts, threshold, 0.8, 5)
            wanted = sum(alpha[i] * value[i] for i in keys) / sum(alpha[i] for i in keys)
            got = mixed[0][position, 8 * head : 8 * head + 8]
            np.testing.assert_allclose(got, wanted, atol=1e-6)
            kept_counts.append(len(keys))
    assert min(kept_counts) >= 1
    assert max(kept_counts) < 30  # keys were left out
    assert usage.rows == 2 * 4 * 30
    assert 0 < usage.share < 1


def test_random_keys_are_visible_ones_and_counted(llama):
    with llm.sparse_attention(llama, plan_for(llama, "random"), seed=3) as usage, torch.no_grad():
        a = llama(input_ids=torch.as_tensor(TOKENS), use_cache=False).logits
    assert usage.kept == 2 * 4 * 3 * (1 + 2 + 3 + 4 + 26 * 5)
    with llm.sparse_attention(llama, plan_for(llama, "random"), seed=3), torch.no_grad():
        assert torch.equal(a, llama(input_ids=torch.as_tensor(TOKENS), use_cache=False).logits)


@pytest.mark.parametrize("rule", ["deviation", "contribution", "mass"])
def test_steps_of_generation_gather_the_same_sums(llama, rule):
    """One token after the other with a cache, values gathered, against the whole text at once with a mask."""
    plan = plan_for(llama, rule, 0.6 if rule == "mass" else 2e-3)
    tokens = torch.as_tensor(TOKENS[:2, :12])
    with torch.no_grad(), llm.sparse_attention(llama, plan):
        whole = llama(input_ids=tokens, use_cache=False).logits
        cache, steps = None, []
        for k in range(12):
            out = llama(input_ids=tokens[:, k : k + 1], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            steps.append(out.logits[:, 0])
    np.testing.assert_allclose(torch.stack(steps, dim=1).numpy(), whole.numpy(), atol=2e-6)


def test_the_model_comes_back(llama):
    with torch.no_grad():
        before = llama(input_ids=torch.as_tensor(TOKENS), use_cache=False).logits
        inside = llm.sparse_attention(llama, plan_for(llama, "mass"))
        with pytest.raises(SphereflowError, match="already"), llm.sparse_attention(llama, plan_for(llama, "uniform")):
            inside.__enter__()
        assert torch.equal(before, llama(input_ids=torch.as_tensor(TOKENS), use_cache=False).logits)
    assert llama.config._attn_implementation == "eager"


@pytest.mark.parametrize("name", ["gpt-2", "gemma 3, normed queries", "mistral, window 8", "qwen 3"])
def test_other_architectures(name):
    model = tiny_model(name, 2)
    plan = llm.plan_sparsity(model, OTHERS, keep=6)
    assert plan.kept == pytest.approx(6, rel=0.05)
    with llm.sparse_attention(model, plan) as usage, torch.no_grad():
        model(input_ids=torch.as_tensor(OTHERS), use_cache=False)
    assert usage.mean_kept < 7


def test_an_attention_of_its_own_is_refused():
    with pytest.raises(SphereflowError, match="attention of Bloom"):
        llm.plan_sparsity(tiny_model("bloom"), OTHERS, keep=4)


def test_errors_and_shares_by_loops():
    rows = RNG.dirichlet(np.ones(70), size=2)
    values, matrix = RNG.standard_normal((2, 70, 3)), RNG.standard_normal((2, 5, 3))
    gram = np.einsum("hDa,hDb->hab", matrix, matrix)
    found = truncation_errors(rows, values, gram)
    for head in range(2):
        order = sorted(range(70), key=lambda i, head=head: -rows[head, i])
        z = sum(rows[head, i] * values[head, i] for i in range(70))
        for k, size in enumerate(SIZES):
            kept = order[:size]
            s = sum(rows[head, i] * values[head, i] for i in kept) / sum(rows[head, i] for i in kept)
            assert found[head, k] == pytest.approx(np.sum((matrix[head] @ (z - s)) ** 2), abs=1e-12)
    errors = np.array([[[9, 4, 1, 0, 0, 0, 0], [90, 80, 40, 0, 0, 0, 0]]], dtype=float)
    # One key each; then the second head's fall of 90 over 7 keys (12.9 a key) comes before 5 for one key.
    assert shared_out(errors, 4).tolist() == [[1, 7]]
    assert shared_out(errors, 5).tolist() == [[2, 8]]
    assert shared_out(errors, 80).mean() == 80


def test_comparison_is_matched_and_paired(llama):
    found = llm.compare_sparsity(llama, TOKENS, calibration=OTHERS, keep=(4, 8), progress=False)
    for rule in found.rules:
        np.testing.assert_allclose(
            found.mean_kept(rule), [4, 8], rtol=0.03 if rule in ("deviation", "contribution", "mass") else 1e-9
        )
    with torch.no_grad():
        logits = llama(input_ids=torch.as_tensor(TOKENS[:1, :-1])).logits[0].double().numpy()
    naive = []
    for position in range(10, 29):
        row = logits[position]
        naive.append(np.log(np.sum(np.exp(row - row.max()))) + row.max() - row[TOKENS[0, position + 1]])
    assert found.dense[0] == pytest.approx(np.mean(naive), abs=1e-6)
    gap = found.difference("deviation", "uniform")
    r, u = found.rules.index("deviation"), found.rules.index("uniform")
    assert gap.value[1] == pytest.approx(np.mean([found.loss[r, 1, w] - found.loss[u, 1, w] for w in range(3)]))
    assert gap.low[1] <= gap.value[1] <= gap.high[1]
    assert found.plot().axes


def test_calibration_counts_keys_as_the_rules_do(llama):
    """Thresholds of the calibration keep the wanted number in the layer whose inputs are dense."""
    known = calibrate(llama, OTHERS, 10)
    assert known.errors.shape == (2, 4, len(SIZES))
    for rule in ("deviation", "contribution", "mass"):
        assert known.threshold(rule, 8) < known.threshold(rule, 4)
        with pytest.raises(SphereflowError, match="keep must lie"):
            known.threshold(rule, 1000)


def test_refusals(llama):
    for wrong in ({"keep": 0}, {"keep": 11}, {"rule": "best"}):
        with pytest.raises(SphereflowError):
            llm.plan_sparsity(llama, OTHERS, **wrong)
    with pytest.raises(SphereflowError, match="in common"):
        llm.compare_sparsity(llama, TOKENS, calibration=TOKENS[:1], keep=(4,))
    with pytest.raises(SphereflowError, match="tokens must"):
        llm.plan_sparsity(llama, np.full((2, 30), 5000))
    with pytest.raises(SphereflowError, match="no decoder"):
        llm.plan_sparsity(tiny_model("bert"), OTHERS)
    with pytest.raises(SphereflowError, match="no tokenizer"):
        llm.plan_sparsity(llama, "a text")


def test_curves_that_come_with_the_package():
    for name in llm.sparsity_curves():
        found = llm.sparsity_curve(name)
        assert found.loss.shape == ((4, 3, 12) if name.startswith("gemma") else (6, 4, 24))
        for rule in ("deviation", "contribution", "mass", "uniform"):
            np.testing.assert_allclose(found.mean_kept(rule), found.keep, rtol=0.0101)
        assert all(word.startswith("sha256:") for word in found.source["texts"] + found.source["calibration"])
    with pytest.raises(SphereflowError, match="the recording"):
        llm.sparsity_curve("gpt5")


def test_everything_that_comes_with_the_package_opens():
    names = llm.recorded_results()
    assert {name.split("/")[0] for name in names} == {"position", "depth"}
    for name in names:
        assert llm.recorded_result(name).source["model"] in name
    assert llm.length_recording("stories15m").source["model"] == "stories15m"
    with pytest.raises(SphereflowError, match="the recording must be one of"):
        llm.recorded_result("sparsity/smollm2-help")
