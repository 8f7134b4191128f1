"""Where recordings come from: texts, encoders, files of the package, and what is refused in a sentence."""

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.llm.model.loading import LanguageModel
from sphereflow.llm.model.tiny import tiny_model
from sphereflow.llm.recorded.statistics import HEADS, STREAM

TOKENS = np.random.default_rng(0).integers(2, 90, (2, 40))


def test_texts_are_kept_by_digest(model_folder, text_file):
    text = text_file.read_text()
    loaded = sf.llm.load_model(model_folder)
    made = sf.llm.record(loaded, [text, text[::-1][:900]], window=16, documents=2, queries=2, sizes=(2,))
    assert made.text.tolist() == [0, 0, 1, 1]
    assert text[:40] not in str(made.record())
    assert made.source["texts"]["characters"] == [len(text), 900]
    (name,) = made.source["files"]
    assert name == "model.safetensors"
    assert made.shape == (4, 2, 4)


def test_an_encoder_is_loaded_from_a_folder(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tiny_model("bert").save_pretrained(tmp_path)
    words = ["[CLS]", "[SEP]", "[UNK]", "a", "b"]
    backend = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(tmp_path)
    loaded = sf.llm.load_model(tmp_path)
    assert type(loaded.model).__name__ == "BertModel"
    tokens = sf.llm.windows("a b " * 30, loaded.tokenizer, window=10, documents=3)
    assert (tokens[:, 0] == 0).all()
    assert (tokens[:, -1] == 1).all()
    assert sf.llm.record(loaded, "a b b " * 30, window=10, documents=2, sizes=(2,)).bidirectional


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"texts": "a text"}, "no tokenizer"),
        ({"texts": []}, "texts must be"),
        ({"texts": np.zeros((1, 5), dtype=int)}, "at least 8 positions"),
        ({"texts": np.zeros((0, 9), dtype=int)}, "at least 8 positions"),
        ({"texts": TOKENS + 90}, "from 0 to 96"),
        ({"texts": TOKENS - 90}, "from 0 to 96"),
        ({"queries": 0}, "queries must be a whole number"),
        ({"envelope_documents": -1}, "envelope_documents must be"),
        ({"sizes": ()}, "increasing"),
        ({"sizes": (4, 2)}, "increasing"),
        ({"sizes": (0, 2)}, "sizes must be"),
        ({"model": 3}, "model must be"),
        ({"model": "/nowhere/model"}, "no folder"),
    ],
)
def test_bad_input_in_one_sentence(given, told):
    call = {"model": LanguageModel("x", tiny_model("llama"), None), "texts": TOKENS} | given
    with pytest.raises(SphereflowError, match=told) as raised:
        sf.llm.record(call.pop("model"), call.pop("texts"), **call)
    assert "\n" not in str(raised.value)


def test_more_tokens_than_learned_positions():
    with pytest.raises(SphereflowError, match="64 positions"):
        sf.llm.record(tiny_model("bert"), np.full((1, 65), 5))


def test_recordings_that_come_with_the_package():
    names = sf.llm.recordings()
    assert {"smollm2", "stories15m", "minilm", "gemma3-270m"} <= set(names)
    for name in names:
        made = sf.llm.recording(name)
        assert made.name == name
        assert made.bidirectional == (name == "minilm")
        assert made.source["files"]
        assert set(made.stream) == set(STREAM)
        assert set(made.heads) == set(HEADS)
        np.testing.assert_allclose(made.histogram.sum(axis=-1), 1, atol=1e-5)
        with pytest.raises(ValueError, match="read-only"):
            made.profile[0] = 0
        assert sf.llm.recording(name) is made
    with pytest.raises(SphereflowError, match="must be one of"):
        sf.llm.recording("gpt-5")


@pytest.mark.slow
def test_the_recording_of_the_default_model_is_made_again():
    from sphereflow.llm.model.loading import default_file

    if default_file() is None:
        pytest.skip("the default model is not installed")
    kept = sf.llm.recording("smollm2")
    made = sf.llm.record("smollm2", sf.llm.corpus(), documents=1)
    assert made.source["files"] == kept.source["files"]
    if made.source["texts"]["digests"] != kept.source["texts"]["digests"]:
        pytest.skip("this Python has other help texts")
    # Rounding of another processor, through thirty layers.
    for name in ("mean_cosine", "rank", "median_norm"):
        np.testing.assert_allclose(made.stream[name][0], kept.stream[name][0], rtol=1e-3, err_msg=name)
    for name in ("sink_mass", "near_mass", "logit_spread"):
        np.testing.assert_allclose(made.heads[name][0], kept.heads[name][0], atol=5e-3, err_msg=name)
    np.testing.assert_allclose(made.similarity[0], kept.similarity[0], atol=1e-3)
