"""A model whose layers were moved out of memory by accelerate gives the numbers of the same model in memory."""

import copy

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.llm.model.tiny import tiny_model

accelerate = pytest.importorskip("accelerate")
TOKENS = np.random.default_rng(0).integers(1, 90, (2, 48))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """One tiny Llama in memory; its copies with all weights fetched when they are needed, from memory or from disk."""
    whole = tiny_model("llama, grouped").requires_grad_(False)
    found = {}
    for place in ("cpu", "disk"):
        moved = copy.deepcopy(whole)
        if place == "cpu":
            found[place] = accelerate.cpu_offload(moved, execution_device="cpu")
        else:
            found[place] = accelerate.disk_offload(moved, tmp_path_factory.mktemp("weights"), execution_device="cpu")
    return whole, found


@pytest.mark.slow
@pytest.mark.parametrize("place", ["cpu", "disk"])
def test_what_is_measured_does_not_depend_on_where_weights_are(models, place):
    whole, moved = models[0], models[1][place]
    assert any(weight.is_meta for weight in moved.parameters())

    def everything(model):
        heads = sf.llm.measure_heads(model, TOKENS, sizes=(2, 4), repeats=2)
        betas = sf.llm.effective_betas(model, TOKENS, progress=False)
        layer = sf.llm.iterate_layer(model, 1, TOKENS, steps=4, variant="no MLP", progress=False)
        plan = sf.llm.plan_sparsity(model, TOKENS, keep=4, rule="deviation")
        recorded = sf.llm.record(model, TOKENS, sizes=(2, 4), queries=4, envelope_documents=0)
        numbers = (heads.metrics["f"], betas.norms, layer.stream["rank"], layer.alignment, recorded.profile)
        return [*numbers, plan.threshold], (betas.source["weights"], layer.limit)

    (expected, words), (found, same) = everything(whole), everything(moved)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert words == same
    with pytest.raises(SphereflowError, match="moved out of memory"):
        sf.llm.iterate_layer(moved, 1, TOKENS, steps=4, variant="random weights", progress=False)
