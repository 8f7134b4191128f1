"""Every theory beside one model: verdicts, sections, and what a model that cannot be asked is told."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

from sphereflow.cli import measure as command
from sphereflow.errors import SphereflowError
from sphereflow.llm import LanguageModel, load_model, measure_heads, windows
from sphereflow.llm.heads.bootstrap import Interval, widened
from sphereflow.llm.measurement.sections import Section, Statement, asked, decide, words
from sphereflow.llm.model.tiny import tiny_model
from sphereflow.model_theories import SECTIONS, Subject, chosen_sections, make_sections, position
from sphereflow.model_theories.subject import drawn_again


def interval(*numbers):
    return Interval(*(np.asarray(float(x)) for x in numbers))


@pytest.mark.parametrize(
    ("found", "bounds", "verdict"),
    [
        (interval(1, 0.5, 1.5), {"above": 0}, "agrees"),
        (interval(1, -0.5, 1.5), {"above": 0}, "undecided"),
        (interval(-1, -1.5, -0.5), {"above": 0}, "disagrees"),
        (interval(0, -0.05, 0.05), {"above": -0.1, "below": 0.1}, "agrees"),
        (interval(0.3, 0.2, 0.4), {"above": -0.1, "below": 0.1}, "disagrees"),
        (interval(1, np.nan, np.nan), {"above": 0}, "undecided"),
    ],
)
def test_a_verdict_needs_the_whole_interval(found, bounds, verdict):
    assert decide(found, **bounds) == verdict


def test_few_documents_have_wide_intervals():
    """Student's interval, by its formula, for normal data: the bootstrap of four values alone is too narrow."""
    rows = np.array([0.2, 0.5, 0.35, 0.4])
    found = drawn_again(4, lambda at: rows[at].mean(), 0, repeats=20_000)
    reach = stats.t.ppf(0.975, 3) * rows.std(ddof=1) / 2
    assert found.high - found.low == pytest.approx(2 * reach, rel=0.1)
    assert float(found.value) == pytest.approx(rows.mean())
    assert np.isnan(drawn_again(1, lambda at: rows[at].mean(), 0).low)
    assert float(widened(interval(0.9, 0.8, 0.95), 2, most=1.0).high) == 1.0


def test_words_of_a_number():
    assert words(interval(0.25, 0.125, 0.5), share=True) == "25 % (95 % interval 12 to 50 %)"
    assert words(interval(0.25, np.nan, np.nan)).startswith("0.25 (no interval: ")


def test_the_verdict_of_a_section():
    said = [Statement("a", "", "agrees"), Statement("b", "", "disagrees"), Statement("c", "", "not asked")]
    assert Section("x", "X", tuple(said)).verdict == "agrees in 1, disagrees in 1 of 2 statements"
    assert Section("x", "X", tuple(said[2:])).verdict == "not asked"

    def refused():
        raise SphereflowError("no layer sees it.")

    assert asked("d", refused) == Statement("d", "No layer sees it.", "not asked")


def test_names_of_sections():
    assert tuple(command.SECTIONS) == SECTIONS
    assert chosen_sections("all") == SECTIONS
    assert chosen_sections("none") == ()
    assert chosen_sections("depth, geometry") == ("geometry", "depth")
    with pytest.raises(SphereflowError, match="--sections"):
        chosen_sections("geometry,depths")


@pytest.fixture(scope="module")
def subject(model_folder, text_file):
    loaded = load_model(model_folder)
    tokens = windows(text_file.read_text(), loaded.tokenizer, window=40, documents=3)
    heads = measure_heads(loaded.model, tokens, repeats=2)
    return Subject(loaded, text_file.read_text(), heads, 40, 3, 24, 0, lambda done, words: None)


@pytest.fixture(scope="module")
def sections(subject):
    return {each.name: each for each in make_sections(dataclasses.replace(subject), ["normalisation", "depth"])}


@pytest.mark.slow
def test_every_section_has_verdicts_and_a_picture(subject):
    found = make_sections(dataclasses.replace(subject), SECTIONS)
    assert tuple(each.name for each in found) == SECTIONS
    for section in found:
        assert section.picture.png.startswith(b"\x89PNG")
        assert section.verdict != "not asked"
        for each in section.statements:
            assert each.measured.endswith(".")
            assert "nan" not in each.measured.lower()
        json.dumps(section.record(), allow_nan=False)


def test_numbers_of_depth_are_those_of_the_heads(sections, subject):
    numbers = sections["depth"].statements[0].numbers
    ends = [np.mean([document[k].mean_cosine for document in subject.heads.theory]) for k in (0, -1)]
    assert numbers["change"]["value"] == pytest.approx(ends[1] - ends[0], abs=1e-12)


def test_the_exponent_of_the_distance_recomputed(sections, subject):
    """Plain loops over the attention of the model itself, for all heads at both lengths."""
    import torch

    tokens = windows(subject.text, subject.loaded.tokenizer, window=32, documents=3)
    model = subject.loaded.model
    values = {}
    for index, layer in enumerate(model.model.layers):
        layer.self_attn.v_proj.register_forward_hook(lambda m, a, out, index=index: values.__setitem__(index, out))
    levels = {16: [], 32: []}
    for document in tokens:
        with torch.no_grad():
            attention = model(torch.as_tensor(document[None]), output_attentions=True).attentions
        for index, weights in enumerate(attention):
            for head in range(4):
                v = values[index][0, :, 8 * (head // 2) : 8 * (head // 2) + 8].double().numpy()
                for length, found in levels.items():
                    alpha = weights[0, head, length - 1, :length].double().numpy()
                    chosen = sorted(range(length), key=lambda i: -alpha[i])[:4]
                    z = sum(alpha[i] * v[i] for i in range(length))
                    s = sum(alpha[i] * v[i] for i in chosen)
                    typical = np.median([np.linalg.norm(v[i]) for i in range(1, length)])
                    found.append(np.linalg.norm(z - 2 * s) / typical)
    expected = np.log(np.mean(levels[32]) / np.mean(levels[16])) / np.log(2)
    assert sections["normalisation"].statements[0].numbers["exponent"]["value"] == pytest.approx(expected, abs=1e-5)
    for layer in model.model.layers:
        layer.self_attn.v_proj._forward_hooks.clear()


def test_what_cannot_be_asked_says_why(subject):
    hidden = dataclasses.replace(subject, window=16)
    (made,) = make_sections(hidden, ["normalisation"])
    assert made.verdict == "not asked"
    assert made.statements[0].measured == "Lengths of the context need a window of at least 32 tokens."
    left_out = asked("lists", lambda: position._lists(dataclasses.replace(subject, prompts=0), {}))
    assert left_out.measured == "The key-value task was left out by --prompts 0."


def test_an_encoder_is_asked_about_its_heads_alone(subject):
    encoder = dataclasses.replace(subject)
    encoder.encoder = True
    for made in make_sections(encoder, SECTIONS[1:]):
        assert made.verdict == "not asked"
        assert "is an encoder" in made.statements[0].measured


def test_a_sliding_window(subject):
    """The tiny Mistral sees eight tokens: no statement about the first one or about longer contexts."""
    model = LanguageModel("mistral", tiny_model("mistral, window 8"), subject.loaded.tokenizer)
    tokens = windows(subject.text, model.tokenizer, window=40, documents=2)
    heads = measure_heads(model.model, tokens, repeats=2)
    other = dataclasses.replace(subject, loaded=model, heads=heads, documents=2)
    geometry, normalisation = make_sections(other, ["geometry", "normalisation"])
    assert "no layer sees the first token" in geometry.statements[0].measured
    assert normalisation.statements[0].measured == "No layer sees all of 32 tokens: a shorter --window shows them."


def test_projections_in_one_matrix(subject):
    """GPT-2 has no separate queries: one statement is not asked, the others are."""
    model = LanguageModel("gpt-2", tiny_model("gpt-2"), subject.loaded.tokenizer)
    (made,) = make_sections(dataclasses.replace(subject, loaded=model), ["depth"])
    assert made.statements[2].verdict == "not asked"
    assert "no separate projections" in made.statements[2].measured
    assert made.statements[1].verdict != "not asked"


def test_a_model_on_several_devices():
    """Tokens go to where the embeddings are, not to where the first weight is (here: moved out of memory)."""
    import torch

    model = tiny_model("llama")
    tokens = np.random.default_rng(0).integers(1, 97, size=(2, 24))
    expected = measure_heads(model, tokens, repeats=2)
    elsewhere = torch.nn.Parameter(torch.empty(3, device="meta"), requires_grad=False)
    model._parameters = {"elsewhere": elsewhere} | dict(model._parameters)
    assert next(model.parameters()).device.type == "meta"
    found = measure_heads(model, tokens, repeats=2)
    np.testing.assert_array_equal(found.metrics["f"], expected.metrics["f"])
