"""A tiny model on disk, with a tokenizer of words, as a user would have it."""

import pytest

WORDS = (
    "the", "code", "of", "table", "river", "window", "is", "garden", "a", "list", "here", "bridge", "mountain",
    ".", "winter", "forest", "island", "kitchen",
)  # fmt: skip


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from sphereflow.llm.model.tiny import tiny_model

    folder = tmp_path_factory.mktemp("model")
    tiny_model("llama, grouped").save_pretrained(folder)
    vocabulary = {word: k for k, word in enumerate(["<s>", "<unk>", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", unk_token="<unk>").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    import numpy as np

    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text(" ".join(np.random.default_rng(0).choice(WORDS, 400)))
    return path
