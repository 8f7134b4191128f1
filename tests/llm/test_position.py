"""Key-value lists and the influence of positions, against whole prompts, difference quotients and plain loops."""

import numpy as np
import pytest

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.llm.model.tiny import tiny_model
from sphereflow.llm.position import keyvalue


@pytest.fixture(scope="module")
def worded():
    """A tiny model whose vocabulary has the words of the task."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = ["<s>", "<unk>", "Here", "is", "a", "list", "of", "codes", ".", "The", "code", *keyvalue.all_words()]
    backend = Tokenizer(models.WordLevel({word: k for k, word in enumerate(known)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", unk_token="<unk>")
    model = tiny_model("llama, grouped")
    model.resize_token_embeddings(len(known))
    return sf.llm.LanguageModel("tiny", model, tokenizer)


def test_words_are_different_and_enough_for_sixteen_sets():
    words = keyvalue.all_words()
    assert len(set(words)) == len(words) >= 16 * 32
    assert all(word.isalpha() and word.islower() for word in words)


def test_scores_are_those_of_whole_prompts_in_every_rotation(worded):
    import torch

    found = sf.llm.retrieval_profile(worded, pairs=4, sets=2, seed=3, progress=False)
    words = keyvalue.single_words(worded.tokenizer)
    keys, values = np.random.default_rng(3).permutation(len(words))[:16].reshape(2, 2, 4)[0]
    seen = set()
    for turn in range(4):
        order = [(place - turn) % 4 for place in range(4)]
        lines = "".join(f"The code of{words[keys[k]]} is{words[values[k]]}.\n" for k in order)
        answers = [worded.tokenizer(words[values[k]], add_special_tokens=False)["input_ids"][0] for k in order]
        for place in range(4):
            seen.add((order[place], place))
            text = f"Here is a list of codes.\n{lines}The code of{words[keys[order[place]]]} is"
            ids = [0, *worded.tokenizer(text, add_special_tokens=False)["input_ids"]]
            with torch.no_grad():
                logits = worded.model(torch.tensor([ids])).logits[0, -1].double().numpy()
            weights = np.exp(logits[answers])
            assert found.probability[0, turn, place] == pytest.approx(weights[place] / weights.sum(), rel=1e-5)
            whole = logits[answers[place]] - np.log(np.sum(np.exp(logits)))
            assert found.log_probability[0, turn, place] == pytest.approx(whole, abs=1e-5)
            assert found.hit[0, turn, place] == (np.argmax(weights) == place)
    assert len(seen) == 16  # a Latin square: every pair once at every place
    np.testing.assert_allclose(found.rows()[0], found.probability[0].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found.error(), found.rows().std(axis=0, ddof=1) / np.sqrt(2), rtol=1e-12)
    assert (found.parameters["model"], found.chance) == ("tiny", 0.25)


@pytest.mark.parametrize(
    ("given", "words"),
    [({"pairs": 3}, "pairs"), ({"sets": 1}, "sets"), ({"pairs": 64, "sets": 16}, "fewer sets")],
)
def test_impossible_lists_are_refused(worded, given, words):
    with pytest.raises(SphereflowError, match=words):
        sf.llm.retrieval_profile(worded, **given)


def test_models_without_tokenizer_or_words_are_refused(worded):
    with pytest.raises(SphereflowError, match="no tokenizer"):
        sf.llm.retrieval_profile(worded.model)
    with pytest.raises(SphereflowError, match="must be a language model"):
        sf.llm.influence_profile(3)


def test_gradients_are_difference_quotients_and_rollout_is_a_product(layer_by_hand):
    import torch

    model = tiny_model("llama, grouped").double()
    found = sf.llm.influence_profile(model, n=10, prompts=2, depths=(1, 2), seed=7, progress=False)
    rng = np.random.default_rng(7)
    tokens = np.arange(1, 97)[rng.integers(96, size=(2, 11))]  # 0 is padding
    probes = rng.normal(size=(2, 2, 32))
    probes /= np.linalg.norm(probes, axis=-1, keepdims=True)
    embedded = model.get_input_embeddings()(torch.tensor(tokens)).detach().numpy()

    def read(x, depth):
        for layer in model.model.layers[:depth]:
            x = layer_by_hand(layer, x)
        return x[-1]

    prompt, step = 1, 1e-5
    for k, depth in enumerate((1, 2)):
        for position in (0, 6, 10):
            slopes = []
            for coordinate in range(32):
                shift = np.zeros((11, 32))
                shift[position, coordinate] = step
                ends = [read(embedded[prompt] + sign * shift, depth) for sign in (1, -1)]
                slopes.append((ends[0] - ends[1]) @ probes[prompt, k] / (2 * step))
            expected = np.linalg.norm(slopes) * np.linalg.norm(embedded[prompt, position])
            # transformers computes norms and softmax in single precision
            assert found.gradient[prompt, k, position] == pytest.approx(expected, rel=2e-5, abs=1e-9)
    with torch.no_grad():
        attentions = model.model(torch.tensor(tokens), output_attentions=True).attentions
    for k, depth in enumerate((1, 2)):
        product = np.eye(11)
        for layer in range(depth):
            mean = sum(attentions[layer][prompt, head].numpy() for head in range(4)) / 4
            product = (np.eye(11) + mean) / 2 @ product
        np.testing.assert_allclose(found.rollout[prompt, k], product[-1], rtol=1e-6)


def test_rows_are_geometric_means_without_the_ends():
    found = sf.llm.influence_profile(tiny_model("gpt-2"), n=12, prompts=3, depths=(2,), progress=False)
    rows = found.rows(bins=3)
    kept = np.log(found.gradient[1, 0, 1:10].astype(float))
    for k in range(3):
        assert rows[1, k] == pytest.approx(np.exp(np.mean(kept[3 * k : 3 * k + 3]) - np.mean(kept)), rel=1e-6)
    np.testing.assert_allclose(found.places(3), [1.5 / 12, 4.5 / 12, 7.5 / 12])
    assert found.first_share()[0, 0] == pytest.approx(found.rollout[0, 0, 0] / found.rollout[0, 0].sum(), rel=1e-6)
    for given, words in (({"depth": 1}, "depth"), ({"measure": "other"}, "measure"), ({"bins": 99}, "bins")):
        with pytest.raises(SphereflowError, match=words):
            found.rows(**given)
    with pytest.raises(SphereflowError, match="depths"):
        sf.llm.influence_profile(tiny_model("gpt-2"), depths=(2, 1))


def test_positions_behind_a_window_have_no_influence_and_no_profile():
    model = tiny_model("mistral, window 8")
    found = sf.llm.influence_profile(model, n=24, prompts=2, depths=(1, 2), progress=False)
    assert np.all(found.gradient[:, 0, :17] == 0)
    with pytest.raises(SphereflowError, match="no gradient influence"):
        found.rows(depth=1, bins=4)
