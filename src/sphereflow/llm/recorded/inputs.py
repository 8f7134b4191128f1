"""What is recorded from: a model by any of its names, texts cut into documents, and where both come from."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.llm.model.capture import capture
from sphereflow.llm.model.loading import LanguageModel, load_model
from sphereflow.llm.model.texts import windows
from sphereflow.provenance import digest, version
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


def loaded_model(model: Any) -> LanguageModel:
    """What `load_model` gives, from it, from a name, or from a bare model."""
    if isinstance(model, LanguageModel):
        return model
    if isinstance(model, (str, Path)):
        return load_model(model)
    if not hasattr(model, "base_model"):
        raise SphereflowError(f"model must be a language model or the name of one, got {type(model).__name__}.")
    return LanguageModel(type(model).__name__, model, None)


def token_windows(loaded: LanguageModel, texts: Any, window: int, documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents of tokens, and the number of the text that each comes from."""
    if isinstance(texts, np.ndarray):
        tokens, text = texts, np.zeros(len(texts), dtype=int)
    else:
        given = [texts] if isinstance(texts, str) else list(texts)
        if not given or not all(isinstance(each, str) for each in given):
            raise SphereflowError(
                "texts must be a text, several texts, or an array of tokens by document and position."
            )
        cut = [windows(each, loaded.tokenizer, window=window, documents=documents) for each in given]
        tokens, text = np.concatenate(cut), np.repeat(np.arange(len(cut)), [len(each) for each in cut])
    if tokens.ndim != 2 or len(tokens) < 1 or tokens.shape[1] < 8 or tokens.dtype.kind not in "iu":
        raise SphereflowError(
            f"tokens must be whole numbers by document and position, at least 8 positions; got {tokens.dtype} of shape "
            f"{tokens.shape}."
        )
    known = loaded.model.config.get_text_config().vocab_size
    if tokens.min() < 0 or tokens.max() >= known:
        raise SphereflowError(f"tokens must lie from 0 to {known - 1}, got {tokens.min()} to {tokens.max()}.")
    longest = _learned_positions(loaded.model)
    if longest is not None and tokens.shape[1] > longest:
        raise SphereflowError(f"{loaded.name} has {longest} positions; documents of {tokens.shape[1]} do not fit.")
    return tokens, text


def _learned_positions(model: Any) -> int | None:
    """How many positions a model with a table of them has."""
    names = ("position_embeddings", "wpe", "embed_positions")
    tables = [part for name, part in model.named_modules() if name.split(".")[-1] in names]
    counts = [part.num_embeddings for part in tables if hasattr(part, "num_embeddings")]
    return min(counts) if counts else None


def source_of(loaded: LanguageModel, texts: Any, tokens: np.ndarray) -> dict[str, Any]:
    """The model, its weights, files and texts by digest, and the software."""
    weights = hashlib.sha256()
    for name, weight in sorted(loaded.model.state_dict().items()):
        weights.update(f"{name} {tuple(weight.shape)} {weight.dtype};".encode())
        weights.update(weight.detach().cpu().float().contiguous().numpy().tobytes())
    told: dict[str, Any] = {"tokens": digest(tokens)}
    if not isinstance(texts, np.ndarray):
        given = [texts] if isinstance(texts, str) else list(texts)
        told["characters"] = [len(each) for each in given]
        told["digests"] = [f"sha256:{hashlib.sha256(each.encode()).hexdigest()[:32]}" for each in given]
    return loaded.shape | {
        "weights": f"sha256:{weights.hexdigest()[:32]}",
        "files": {path.name: _file_digest(path) for path in loaded.files},
        "texts": told,
        "software": {name: version(name) or "" for name in ("torch", "transformers")},
    }


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
