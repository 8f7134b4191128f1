"""What is recorded from: a model by any of its names, texts cut into documents, and where both come from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sphereflow.llm.model.capture import capture
from sphereflow.llm.model.loading import LanguageModel
from sphereflow.llm.model.source import source, text_digest
from sphereflow.provenance import digest
from sphereflow.results import Result

R = TypeVar("R", bound=Result)


def texts_by_digest(verb: Callable[..., R]) -> Callable[..., R]:
    """The verb, with a digest of the texts in the recorded call: a small file holds no book."""

    @functools.wraps(verb)
    def called(*args: Any, **given: Any) -> R:
        result = verb(*args, **given)
        source = getattr(result, "source", {})
        result.parameters.update(model=str(source["model"]), texts=source["texts"])
        return result

    return called


def is_encoder(model: Any) -> bool:
    """Whether tokens see those after them: asked of the model on two tokens."""
    ahead: list[bool] = []
    start = np.array([[1, 1, 1]])
    capture(model, start, lambda layer: ahead.append(bool(layer.visible[0, 0, 2])), queries=np.array([[1]]))
    return any(ahead)


def source_of(model: LanguageModel, texts: Any, tokens: np.ndarray) -> dict[str, Any]:
    """The model, its weights, files and texts by digest, and the software."""
    told: dict[str, Any] = {"tokens": digest(tokens)}
    if not isinstance(texts, np.ndarray):
        given = [texts] if isinstance(texts, str) else list(texts)
        told["characters"] = [len(each) for each in given]
        told["digests"] = [text_digest(each) for each in given]
    return source(model, texts=told)
