"""How well a model finds a fact by its place in the prompt: a list of keys and values, and a question for one of them.

A prompt lists pairs of words, "The code of table is river.", and ends with "The code of table is". The score of a
place is the probability of the right value among the values of the list; chance is one over their number. A theory of
retrieval gives a profile over relative places in (0, 1); `fitted` puts any such curve beside the measured one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.progress import Progress, reporting
from sphereflow.seeds import Record, Seed, recorded, rng_from

_WORDS = (
    "table", "river", "window", "garden", "bridge", "mountain", "letter", "winter", "forest", "island", "kitchen",
    "doctor", "market", "engine", "castle", "flower", "silver", "orange", "yellow", "purple", "horse", "tiger",
    "eagle", "rabbit", "dragon", "camera", "guitar", "piano", "violin", "bottle", "basket", "blanket", "candle",
    "ladder", "hammer", "needle", "pocket", "ribbon", "saddle", "shadow", "thunder", "turtle", "valley", "village",
    "wagon", "whistle", "author", "banker", "farmer", "hunter", "lawyer", "painter", "pilot", "player", "sailor",
    "singer", "soldier", "teacher", "writer", "apple", "banana", "bread", "butter", "cheese", "cherry", "coffee",
    "honey", "lemon", "onion", "pepper", "potato", "salt", "sugar", "tomato", "water", "wheat", "circle", "square",
)  # fmt: skip
_OPENING = "Here is a list of codes.\n"
_LINE, _QUESTION = "The code of{key} is{value}.\n", "The code of{key} is"


@dataclass(frozen=True)
class KeyValueProfile:
    """Probability of the right value and how often it is the largest, by prompt and place of the pair in the list."""

    probability: Float[np.ndarray, "prompts places"]
    hit: Float[np.ndarray, "prompts places"]
    seed: Record

    @property
    def places(self) -> Float[np.ndarray, "places"]:
        count = self.probability.shape[1]
        return (np.arange(count) + 0.5) / count

    @property
    def chance(self) -> float:
        return 1 / self.probability.shape[1]

    @property
    def error(self) -> Float[np.ndarray, "places"]:
        """Standard error of the mean probability."""
        return self.probability.std(axis=0, ddof=1) / np.sqrt(len(self.probability))

    @property
    def shape(self) -> str:
        """U-shaped if both ends (an eighth of the list each) stand out by two standard errors, else which of them."""
        edge = max(1, self.probability.shape[1] // 8)
        parts = (slice(0, edge), slice(edge, -edge), slice(-edge, None))
        means = [self.probability[:, at].mean(axis=1) for at in parts]
        first, last = (end - means[1] for end in (means[0], means[2]))
        stands = [bool(d.mean() > 2 * d.std(ddof=1) / np.sqrt(len(d))) for d in (first, last)]
        return {(True, True): "U-shaped", (True, False): "primacy only", (False, True): "recency only"}.get(
            (stands[0], stands[1]), "flat within error"
        )


@dataclass(frozen=True)
class FittedCurve:
    """offset + scale * curve at the places, and the part of the variance over places that it explains."""

    values: Float[np.ndarray, " places"]
    explained: float
    scale: float


def key_value_profile(
    model: Any,
    tokenizer: Any,
    *,
    pairs: int = 16,
    prompts: int = 8,
    seed: Seed = 0,
    progress: Progress = None,
) -> KeyValueProfile:
    """Ask for every pair of every prompt; the list is read once and all questions share it."""
    rng = rng_from(seed)
    import torch

    words = single_words(tokenizer)
    whole_number("the number of pairs", pairs, least=4, most=len(words) // 2)
    whole_number("the number of prompts", prompts, least=2)
    device = next(model.parameters()).device
    front = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    probability, hit = np.empty((prompts, pairs)), np.empty((prompts, pairs))
    with reporting("prompts", progress) as report:
        for number in range(prompts):
            report(number / prompts, f"prompt {number + 1}")
            drawn = [words[k] for k in rng.permutation(len(words))[: 2 * pairs]]
            keys, values = drawn[:pairs], drawn[pairs:]
            lines = "".join(_LINE.format(key=k, value=v) for k, v in zip(keys, values, strict=True))
            prefix = front + _ids(tokenizer, _OPENING + lines)
            questions = [_ids(tokenizer, _QUESTION.format(key=key)) for key in keys]
            with torch.no_grad():
                read = model.base_model(input_ids=torch.tensor([prefix], device=device), use_cache=True).past_key_values
                read.batch_repeat_interleave(pairs)
                asked = model(input_ids=torch.tensor(questions, device=device), past_key_values=read).logits[:, -1]
            answers = [_ids(tokenizer, value)[0] for value in values]
            logits = asked[:, answers].float().cpu().numpy().astype(float)
            weights = np.exp(logits - logits.max(axis=1, keepdims=True))
            probability[number] = np.diagonal(weights / weights.sum(axis=1, keepdims=True))
            hit[number] = np.argmax(logits, axis=1) == np.arange(pairs)
    return KeyValueProfile(probability, hit, recorded(seed))


def single_words(tokenizer: Any) -> list[str]:
    """Words, with the space before them, that are one token each and different tokens."""
    found = {tuple(ids): f" {word}" for word in _WORDS if len(ids := _ids(tokenizer, f" {word}")) == 1}
    if len(found) < 8:
        raise SphereflowError("the vocabulary of this model has too few whole words for the key-value task.")
    return list(found.values())


def fitted(profile: KeyValueProfile, curve: Callable[[np.ndarray], np.ndarray]) -> FittedCurve:
    """Least squares of the mean probability on a curve of theory, up to an offset and a scale of at least 0."""
    measured, theory = profile.probability.mean(axis=0), np.asarray(curve(profile.places), dtype=float)
    centred = theory - theory.mean()
    scale = max(0.0, float(centred @ measured / max(float(centred @ centred), 1e-300)))
    values = measured.mean() + scale * centred
    total = float(np.sum((measured - measured.mean()) ** 2))
    return FittedCurve(values, 1 - float(np.sum((measured - values) ** 2)) / max(total, 1e-300), scale)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]
