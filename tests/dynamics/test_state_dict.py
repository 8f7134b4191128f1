"""Weights saved by other programs: the numbers of torch and of transformers, and no entry lost in silence."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import sphereflow as sf
from sphereflow.dynamics import from_state_dict

D, H, N, WORDS = 16, 4, 7, 29
IDS = np.random.default_rng(0).integers(0, WORDS, (2, N))
X = np.random.default_rng(1).normal(size=(2, N, D))


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads of torch that wait for one another on a busy machine would take twenty times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shaken(model, std=0.4):
    """Weights far from their initial values, biases and norms among them, so that each of them matters."""
    torch.manual_seed(0)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, mean=0.1, std=std)
    return model.double().eval()


def encoder(norm_first=True, activation="gelu", layers=2, bias=True, final=True):
    layer = torch.nn.TransformerEncoderLayer(
        D, H, 24, 0.0, activation, batch_first=True, norm_first=norm_first, bias=bias
    )
    norm = torch.nn.LayerNorm(D, bias=bias) if final else None
    return shaken(torch.nn.TransformerEncoder(layer, layers, norm=norm, enable_nested_tensor=False))


def gpt2():
    config = transformers.GPT2Config(
        n_layer=2, n_embd=D, n_head=H, vocab_size=WORDS, n_positions=12, bos_token_id=0, eos_token_id=0
    )
    return shaken(transformers.GPT2LMHeadModel(config))


def llama(**changed):
    config = transformers.LlamaConfig(
        hidden_size=D,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=H,
        num_key_value_heads=2,
        vocab_size=WORDS,
        rope_theta=300.0,
        rms_norm_eps=1e-3,
        **changed,
    )
    return shaken(transformers.LlamaForCausalLM(config))


LLAMA = {"heads": H, "rotary": 300.0, "eps": 1e-3}
TORCH = {"heads": H, "norm_first": True, "activation": "gelu"}


def near(x, tensor, atol=1e-10):
    expected = tensor.detach().numpy() if hasattr(tensor, "detach") else tensor
    np.testing.assert_allclose(np.asarray(x), expected, rtol=0, atol=atol)


def hidden_states_agree(model, network, atol=1e-10):
    """Layer by layer; transformers returns the last one after the final norm."""
    told = model(torch.as_tensor(IDS), output_hidden_states=True)
    frames = sf.run_layers(network.blocks, network.embed(IDS))
    assert len(frames) == len(told.hidden_states) == 3
    near(frames[:2], torch.stack(told.hidden_states[:2]), atol)
    near(network.final_norm(frames[2]), told.hidden_states[2], atol)
    near(network(IDS), told.logits, 10 * atol)
    assert told.logits.abs().max() > 0.5


@pytest.mark.fast_cases("True-relu-False", "False-gelu-True")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_the_encoder_of_torch(norm_first, activation, causal):
    model = encoder(norm_first, activation)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(N, dtype=torch.float64) if causal else None
    options = {"heads": H, "norm_first": norm_first, "activation": activation, "causal": causal}
    network = from_state_dict(model.state_dict(), **options)
    near(network(X), model(torch.as_tensor(X), mask=mask, is_causal=causal))


def test_one_layer_without_biases_or_inside_a_module():
    alone = encoder(layers=1, bias=False, final=False)
    x = torch.as_tensor(X)
    near(from_state_dict(alone.layers[0].state_dict(), **TORCH)(X), alone(x))
    listed = torch.nn.ModuleDict({"blocks": alone.layers, "out": torch.nn.Linear(D, 5)}).double()
    network = from_state_dict(listed.state_dict(), unembedding="out.weight", **TORCH)
    near(network(X), listed["out"](alone(x)))


def test_gpt2():
    model = gpt2()
    network = from_state_dict(model.state_dict(), heads=H)
    hidden_states_agree(model, network)
    bare = from_state_dict(model.transformer.state_dict(), heads=H)
    assert bare.unembedding is None
    tied = from_state_dict(model.transformer.state_dict(), heads=H, unembedding="wte.weight")
    near(tied(IDS), network(IDS), atol=1e-12)


def test_nanogpt_keeps_its_matrices_the_other_way_round():
    state = {name: np.asarray(w) for name, w in gpt2().state_dict().items()}
    matrices = [name for name in state if ".c_" in name and name.endswith("weight")]
    assert len(matrices) == 8
    upright = {name: w.T if name in matrices else w for name, w in state.items()}
    with pytest.raises(sf.SphereflowError, match="activation must be given for weights named as in nanoGPT"):
        from_state_dict(upright, heads=H)
    near(from_state_dict(upright, heads=H, activation="gelu_tanh")(IDS), from_state_dict(state, heads=H)(IDS))
    mixed = upright | {"transformer.h.1.mlp.c_fc.weight": state["transformer.h.1.mlp.c_fc.weight"]}
    with pytest.raises(sf.SphereflowError, match=r"in the layer 'transformer\.h\.1\.': m must be the same"):
        from_state_dict(mixed, heads=H, activation="gelu_tanh")


def in_float64(model):
    """The norms and rotary angles of transformers are in float32 whatever the weights; here they are written again."""

    def rms(module):
        return lambda x: module.weight * x / torch.sqrt((x**2).mean(-1, keepdim=True) + module.variance_epsilon)

    def angles(x, position_ids):
        rates = 300.0 ** (-torch.arange(0, D // H, 2, dtype=torch.float64) / (D // H))
        turned = (position_ids[..., None] * rates).repeat(1, 1, 2)
        return turned.cos(), turned.sin()

    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.forward = rms(module)
    model.model.rotary_emb.forward = angles
    return model


@pytest.mark.fast_cases("True")
@pytest.mark.parametrize("biased", [False, True])
def test_llama_with_grouped_heads(biased):
    model = llama(attention_bias=biased, mlp_bias=biased)
    network = from_state_dict(model.state_dict(), **LLAMA)
    assert network.blocks[0].attention.key.shape == (2, D // H, D)
    hidden_states_agree(model, network, atol=1e-5)  # as it comes, with parts in float32
    hidden_states_agree(in_float64(model), network)


# --- nothing is lost ------------------------------------------------------------------------------------------------

MODELS = {"torch": (encoder, TORCH), "gpt2": (gpt2, {"heads": H}), "llama": (llama, LLAMA)}


@pytest.mark.parametrize("family", MODELS)
def test_no_tensor_can_be_left_out_and_none_added(family):
    make, options = MODELS[family]
    state = make().state_dict()
    for name in state:
        rest = {other: w for other, w in state.items() if other != name}
        if name == "lm_head.weight":
            assert from_state_dict(rest, **options).unembedding is None
            continue
        with pytest.raises(sf.SphereflowError, match=r"state lacks|were not used|no layer 0"):
            from_state_dict(rest, **options)
    more = state | {"probe.weight": torch.ones(3)}
    with pytest.raises(sf.SphereflowError, match=r"not used: 'probe\.weight'; name them in ignore"):
        from_state_dict(more, **options)
    assert from_state_dict(more, ignore=["probe.*"], **options).blocks
    with pytest.raises(sf.SphereflowError, match=r"ignore names 'prob\.\*', which is not in the state"):
        from_state_dict(state, ignore="prob.*", **options)


@pytest.mark.fast_cases("llama")
@pytest.mark.parametrize("family", MODELS)
def test_every_tensor_and_the_order_of_heads_matter(family):
    make, options = MODELS[family]
    state = {name: np.asarray(w) for name, w in make().state_dict().items()}
    inputs = X if family == "torch" else IDS
    base = from_state_dict(state, **options)(inputs)
    run = eqx.filter_jit(lambda network: network(inputs))
    for name, w in state.items():
        # Keys that all get the same shift leave the softmax as it is: of that bias the other two thirds are looked at.
        bump = np.cos(3.0 * np.arange(w.size)).reshape(w.shape)
        assert np.abs(run(from_state_dict(state | {name: w + 0.1 * bump}, **options)) - base).max() > 1e-6, name
    out = {
        "torch": "layers.1.self_attn.out_proj.weight",
        "gpt2": "transformer.h.1.attn.c_proj.weight",
        "llama": "model.layers.1.self_attn.o_proj.weight",
    }[family]
    heads = np.roll(np.arange(D).reshape(H, -1), 1, axis=0).ravel()
    moved = state[out][heads] if family == "gpt2" else state[out][:, heads]
    assert np.abs(run(from_state_dict(state | {out: moved}, **options)) - base).max() > 1e-3


def test_constants_of_older_versions_are_compared():
    state = {name: np.asarray(w) for name, w in gpt2().state_dict().items()}
    mask = {"transformer.h.0.attn.bias": np.tri(12, dtype=bool)[None, None], "transformer.h.0.attn.masked_bias": -1e4}
    mask = {name: np.asarray(value) for name, value in mask.items()}
    assert len(from_state_dict(state | mask, heads=H).blocks) == 2
    with pytest.raises(sf.SphereflowError, match=r"attn\.bias' is not what it must be"):
        from_state_dict(state | {"transformer.h.0.attn.bias": np.ones((1, 1, 12, 12))}, heads=H)
    state = llama().state_dict()
    rates = {"model.layers.1.self_attn.rotary_emb.inv_freq": 300.0 ** -(torch.arange(2) / 2)}
    assert len(from_state_dict(state | rates, **LLAMA).blocks) == 2
    for wrong in ({"rotary": 1e4}, {"heads": 8}):
        with pytest.raises(sf.SphereflowError, match=r"inv_freq' is not what it must be"):
            from_state_dict(state | rates, **(LLAMA | wrong))


# --- what arrays do not tell, and what is no state ------------------------------------------------------------------


def without(name):
    return {
        key: value for key, value in {"torch": TORCH, "llama": LLAMA}[name.split()[0]].items() if key != name.split()[1]
    }


REFUSALS = {
    "activation": (
        lambda: from_state_dict(encoder().state_dict(), **without("torch activation")),
        "activation must be",
    ),
    "norm_first": (
        lambda: from_state_dict(encoder().state_dict(), **without("torch norm_first")),
        "norm_first must be",
    ),
    "rotary": (lambda: from_state_dict(llama().state_dict(), **without("llama rotary")), "rotary .* must be given"),
    "eps": (lambda: from_state_dict(llama().state_dict(), **without("llama eps")), "eps .* must be given"),
    "gpt2, norm_first": (lambda: from_state_dict(gpt2().state_dict(), heads=H, norm_first=False), "has no meaning for"),
    "torch, rotary": (lambda: from_state_dict(encoder().state_dict(), rotary=1e4, **TORCH), "rotary has no meaning"),
    "heads": (lambda: from_state_dict(gpt2().state_dict(), heads=3), "do not make heads=3 heads"),
    "heads, llama": (lambda: from_state_dict(llama().state_dict(), **(LLAMA | {"heads": 1})), "8 of keys, .* heads=1"),
    "name": (lambda: from_state_dict(gpt2().state_dict(), heads=H, embedding="wte"), "lacks 'wte'; it was asked for"),
    "unknown": (lambda: from_state_dict({"net.0.weight": np.ones((2, 2))}, heads=1), "has no entry that ends in"),
    "empty": (lambda: from_state_dict({}, heads=1), "state is empty"),
    "no array": (lambda: from_state_dict({"model": {}}, heads=1), "'model' is a dict"),
    "two stacks": (
        lambda: from_state_dict({f"{x}.{k}": w for x in "ab" for k, w in encoder().state_dict().items()}, **TORCH),
        r"one stack of layers, got 'a\.layers\.' .*'b\.layers\.'",
    ),
    "not finite": (
        lambda: from_state_dict(encoder().state_dict() | {"norm.bias": torch.full((D,), torch.nan)}, **TORCH),
        r"norm\.bias must be finite, got nan",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_known_is_asked_for(case):
    call, sentence = REFUSALS[case]
    with pytest.raises(sf.SphereflowError, match=sentence):
        call()


# --- files ----------------------------------------------------------------------------------------------------------


def test_files_hold_what_was_saved(tmp_path):
    from safetensors.torch import save_file

    state = encoder(layers=1).float().state_dict()
    network = from_state_dict(state, **TORCH)
    np.savez(tmp_path / "w.npz", **{name: w.numpy() for name, w in state.items()})
    torch.save(state, tmp_path / "w.pt")
    save_file(state, tmp_path / "w.safetensors", metadata={"format": "pt"})
    for kind in ("npz", "pt", "safetensors"):
        loaded = from_state_dict(tmp_path / f"w.{kind}", **TORCH)
        assert eqx.tree_equal(loaded, network), kind
        assert loaded.blocks[0].attention.query.dtype == jnp.float32
    half = {name: w.bfloat16() for name, w in state.items()}
    save_file(half, tmp_path / "half.safetensors")
    coarse = from_state_dict(tmp_path / "half.safetensors", **TORCH)
    assert eqx.tree_equal(coarse, from_state_dict(half, **TORCH))
    near(coarse.final_norm.scale, state["norm.weight"], atol=0.01)


def test_damaged_and_foreign_files_get_one_sentence(tmp_path):
    import pickle

    state = {name: w.numpy() for name, w in encoder(layers=1).state_dict().items()}
    np.savez(tmp_path / "w.npz", **state)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "w.npz").read_bytes()[:500])
    (tmp_path / "w.safetensors").write_bytes(b"\x10" + bytes(7) + b'{"a": "b"}      ')
    (tmp_path / "long.safetensors").write_bytes(b"\xff" * 20)
    told = b'{"a": {"dtype": "F64", "shape": [9], "data_offsets": [0, 8]}}'
    (tmp_path / "size.safetensors").write_bytes(len(told).to_bytes(8, "little") + told + bytes(8))
    np.savez(tmp_path / "object.npz", a=np.array([{}], dtype=object))
    (tmp_path / "evil.pt").write_bytes(pickle.dumps({"a": Touch(tmp_path / "touched")}))
    (tmp_path / "w.txt").write_text("a")
    for name, sentence in {
        "cut.npz": "is not a whole .npz file",
        "object.npz": "something other than numbers",
        "w.safetensors": "does not describe 'a'",
        "long.safetensors": "it is cut, or something else",
        "size.safetensors": "'a' does not have the size",
        "evil.pt": "is not a file of weights that torch can read",
        "w.txt": "state must end in .npz or .safetensors",
        "none.npz": "there is no file",
    }.items():
        with pytest.raises(sf.SphereflowError, match=sentence):
            from_state_dict(tmp_path / name, heads=1)
    assert not (tmp_path / "touched").exists()


def test_a_file_of_torch_without_torch(tmp_path, monkeypatch):
    (tmp_path / "w.pt").write_bytes(b"")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(sf.SphereflowError, match=r"reading w\.pt .* needs the package 'torch': install it with pip"):
        from_state_dict(tmp_path / "w.pt", heads=1)


class Touch:
    """What a pickle could do when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.slow
def test_precision_and_derivatives():
    state = {name: jnp.asarray(w.numpy(), jnp.float32) for name, w in gpt2().state_dict().items()}
    network = from_state_dict(state, heads=H)
    assert network(IDS).dtype == jnp.float32

    def score(head):
        return jnp.sum(jnp.sin(from_state_dict(state | {"lm_head.weight": head}, heads=H)(IDS)))

    assert np.abs(jax.grad(score)(state["lm_head.weight"])).max() > 0


@pytest.mark.slow
def test_the_guide_for_torch_runs():
    """The documentation is built without torch: its block is run here, after the one that it continues."""
    docs = Path(__file__).parent.parent.parent / "docs"
    sys.path.insert(0, str(docs))
    try:
        from _generate import blocks
    finally:
        sys.path.remove(str(docs))
    page = docs / "guides" / "weights.md"
    start, with_torch = blocks.blocks(page)[:2]
    assert (start.skipped, with_torch.skipped) == ("", "needs torch")
    known = {}
    with blocks.empty_folder():
        for block in (start, with_torch):
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), known)
    assert known["losses"][-1] < known["losses"][0] / 2
    assert len(known["overlap"]) == 3
