r"""How well a model finds a fact by its place in the prompt: a list of keys and values, and a question for one of them.

A prompt lists m pairs of one-token words, "The code of table is river.", and ends with "The code of table is". With
$\ell_v$ the logit of the value v, three scores of the right value $v_*$:

$$p=\frac{e^{\ell_{v_*}}}{\sum_{\text{the }m\text{ values}}e^{\ell_v}}\ (\text{chance }1/m),\qquad
  \text{hit}=[v_*=\arg\max_v\ell_v],\qquad\log\frac{e^{\ell_{v_*}}}{\sum_{\text{vocabulary}}e^{\ell_v}}.$$

Words are easier or harder than others. So every set of words is asked in all m rotations of its list, a Latin square:
each pair stands once at every place, and the mean over rotations depends on the place alone. Sets have no word in
common; they are what is resampled.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.llm.model.anatomy import input_device
from sphereflow.llm.model.loading import require_torch
from sphereflow.llm.model.source import loaded_model, named_model, source, tokenizer_of
from sphereflow.progress import Progress, reporting
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = ("probability", "hit", "log_probability")
_OPENING = "Here is a list of codes.\n"
_LINE, _QUESTION = "The code of{key} is{value}.\n", "The code of{key} is"


@dataclass(frozen=True, eq=False, repr=False)
class KeyValueProfile(Result):
    """Scores of the right value by set of words, rotation of the list, and place of the pair in it.

    `source` names the model, its files and the software.
    """

    probability: Float[np.ndarray, "sets rotations places"]
    hit: Float[np.ndarray, "sets rotations places"]
    log_probability: Float[np.ndarray, "sets rotations places"]
    source: dict[str, Any]

    derived = ("chance",)

    @property
    def places(self) -> Float[np.ndarray, "places"]:
        """Relative places in (0, 1): centres of cells."""
        count = self.probability.shape[2]
        return np.asarray((np.arange(count) + 0.5) / count)

    @property
    def chance(self) -> float:
        """The probability of the right value for a model that knows nothing."""
        return 1 / self.probability.shape[2]

    def rows(self, score: str = "probability") -> Float[np.ndarray, "sets places"]:
        """One row per set of words, means over its rotations: what `retrieval.u_shape` and `fit_profile` take."""
        return np.asarray(getattr(self, one_of("score", score, SCORES)), dtype=float).mean(axis=1)

    def profile(self, score: str = "probability") -> Float[np.ndarray, "places"]:
        """Means over sets."""
        return self.rows(score).mean(axis=0)

    def error(self, score: str = "probability") -> Float[np.ndarray, "places"]:
        """Standard error of these means, over sets."""
        rows = self.rows(score)
        return np.asarray(rows.std(axis=0, ddof=1) / np.sqrt(len(rows)))

    def variables(self) -> Variables:
        dims = ("set", "rotation", "place")
        return {name: (dims, getattr(self, name)) for name in SCORES} | {"place": ("place", self.places)}

    def facts(self) -> list[str]:
        sets, rotations, pairs = self.probability.shape
        mean, hit, error = self.profile(), self.profile("hit"), self.error()
        low = 1 + int(np.argmin(mean[1:-1]))
        ends = ", ".join(
            f"{name} {mean[k]:.3f} ± {error[k]:.3f} (hit rate {hit[k]:.2f})"
            for name, k in (("first", 0), (f"lowest inside, place {low + 1},", low), ("last", -1))
        )
        return [
            f"{self.source['model']}: probability of the right value by place: {ends}; chance {self.chance:.3f}",
            f"{pairs} pairs, {sets} sets of words in {rotations} rotations",
        ]

    def plot(self) -> Figure:
        """Probability of the right value and hit rate by place, with standard errors."""
        from sphereflow.llm.position.pictures import draw_key_value

        return draw_key_value(self)


@named_model
@recorded_call
def retrieval_profile(
    model: Any, *, pairs: int = 16, sets: int = 16, seed: Seed = 0, progress: Progress = None
) -> KeyValueProfile:
    """Ask a causal language model for every pair of a list, in all rotations of the list, for several sets of words.

    **Arguments:** `model` is what `load_model` gives, or a name for it; `pairs` the length of the list; `sets` the
    number of sets of words, drawn with the seed from words that are one token each. A list is read once and all its
    questions share what was read: sets times pairs lists of about seven tokens per pair.

    ```python
    found = sf.llm.retrieval_profile("smollm2", sets=4)
    print(sf.retrieval.u_shape(found.rows()).summary())
    ```
    """
    rng = rng_from(seed)
    require_torch("a retrieval profile")
    whole_number("pairs", pairs, least=4)
    whole_number("sets", sets, least=2)
    asked = loaded_model(model)
    words = single_words(tokenizer_of(asked))
    if 2 * pairs * sets > len(words):
        raise SphereflowError(
            f"{sets} sets of {pairs} pairs need {2 * pairs * sets} words; {asked.name} has {len(words)} that are one "
            "token each: ask for fewer sets or pairs."
        )
    drawn = rng.permutation(len(words))[: 2 * pairs * sets].reshape(sets, 2, pairs)
    tables = {name: np.empty((sets, pairs, pairs)) for name in SCORES}
    with reporting("lists", progress) as report:
        for number, (keys, values) in enumerate(drawn):
            for turn in range(pairs):
                report((number * pairs + turn) / (sets * pairs), f"set {number + 1} of {sets}, rotation {turn + 1}")
                order = np.roll(np.arange(pairs), turn)
                scores = _asked(asked, [words[k] for k in keys[order]], [words[k] for k in values[order]])
                for name, row in zip(SCORES, scores, strict=True):
                    tables[name][number, turn] = row
        report(1.0, "")
    probability, hit, log_probability = (tables[name].astype(np.float32) for name in SCORES)
    return KeyValueProfile(probability, hit, log_probability, source(asked))


def single_words(tokenizer: Any) -> list[str]:
    """Words, with the space before them, that are one token each and different tokens."""
    found = {tuple(ids): f" {word}" for word in all_words() if len(ids := _ids(tokenizer, f" {word}")) == 1}
    if len(found) < 16:
        raise SphereflowError("the vocabulary of this model has too few whole words for the key-value task.")
    return list(found.values())


@functools.cache
def all_words() -> tuple[str, ...]:
    """Common English words, in the order of the file beside this one."""
    return tuple((Path(__file__).parent / "words.txt").read_text(encoding="utf-8").split())


def _asked(asked: Any, keys: list[str], values: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(probability among the values, hit, log-probability) of every pair of one list, by place."""
    import torch

    model, tokenizer = asked.model, asked.tokenizer
    front = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    lines = "".join(_LINE.format(key=k, value=v) for k, v in zip(keys, values, strict=True))
    prefix = front + _ids(tokenizer, _OPENING + lines)
    questions = [_ids(tokenizer, _QUESTION.format(key=key)) for key in keys]
    answers = [_ids(tokenizer, value)[0] for value in values]
    device = input_device(model)
    with torch.no_grad():
        read = model.base_model(input_ids=torch.tensor([prefix], device=device), use_cache=True).past_key_values
        read.batch_repeat_interleave(len(keys))
        found = model(input_ids=torch.tensor(questions, device=device), past_key_values=read, logits_to_keep=1)
        logs = torch.log_softmax(found.logits[:, -1].double(), dim=-1)[:, answers].cpu().numpy()
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    right = np.arange(len(keys))
    return np.diagonal(weights) / weights.sum(axis=1), (np.argmax(logs, axis=1) == right) * 1.0, np.diagonal(logs)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
