"""A model however it is named, and what a file of derived numbers says about where they come from."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from jaxtyping import Int

from sphereflow.errors import SphereflowError
from sphereflow.llm.model.loading import LanguageModel, load_model
from sphereflow.llm.model.texts import windows
from sphereflow.provenance import digest, version
from sphereflow.results import Result

P = ParamSpec("P")
R = TypeVar("R", bound=Result)


def loaded(model: Any) -> LanguageModel:
    """What `load_model` gives as it is; a name is loaded; a bare model of transformers has no tokenizer."""
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, (str, Path)):
        return load_model(model)
    if not hasattr(model, "base_model"):
        raise SphereflowError(f"model must be a language model or the name of one, got {type(model).__name__}.")
    return LanguageModel(type(model).__name__, model, None)


def tokenizer_of(model: LanguageModel) -> Any:
    """The tokenizer, which must be there."""
    if model.tokenizer is None:
        raise SphereflowError(f"{model.name} has no tokenizer, which this measurement needs: give one of load_model.")
    return model.tokenizer


def source(model: LanguageModel, **more: Any) -> dict[str, Any]:
    """Shape of the model, digests of its weights and files, software, and whatever else is given."""
    weights = hashlib.sha256()
    for name, weight in sorted(model.model.state_dict().items()):
        weights.update(f"{name} {tuple(weight.shape)} {weight.dtype};".encode())
        weights.update(weight.detach().cpu().float().contiguous().numpy().tobytes())
    return (
        model.shape
        | {
            "weights": f"sha256:{weights.hexdigest()[:32]}",
            "files": {path.name: _file_digest(path) for path in model.files},
            "software": {name: version(name) or "" for name in ("torch", "transformers")},
        }
        | more
    )


def token_documents(
    model: LanguageModel, texts: str | Int[np.ndarray, "documents window"], window: int, documents: int
) -> tuple[Int[np.ndarray, "documents window"], str]:
    """Documents of tokens, and the digest of what was given."""
    if isinstance(texts, str):
        return windows(texts, tokenizer_of(model), window=window, documents=documents), text_digest(texts)
    tokens = np.asarray(texts)
    if tokens.ndim != 2 or len(tokens) < 1 or tokens.shape[1] < 8 or tokens.dtype.kind not in "iu":
        raise SphereflowError(
            "texts must be a text, or whole numbers by document and position, at least 8 positions; got "
            f"{tokens.dtype} of shape {tokens.shape}."
        )
    known = model.model.config.get_text_config().vocab_size
    if tokens.min() < 0 or tokens.max() >= known:
        raise SphereflowError(f"tokens must lie from 0 to {known - 1}, got {tokens.min()} to {tokens.max()}.")
    return tokens, digest(tokens)


def text_digest(text: str) -> str:
    """A text told by its digest."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def named_model(verb: Callable[P, R]) -> Callable[P, R]:
    """The verb, with the name of the model and digests of texts in the recorded call: a small file holds no book."""

    @functools.wraps(verb)
    def called(*args: P.args, **given: P.kwargs) -> R:
        result = verb(*args, **given)
        told: dict[str, Any] = result.source  # type: ignore[attr-defined]
        result.parameters.update(model=told["model"])
        if "texts" in result.parameters:
            result.parameters.update(texts=told.get("texts"))
        return result

    return called


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
