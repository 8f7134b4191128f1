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
from sphereflow.llm.model.anatomy import stored
from sphereflow.llm.model.loading import LanguageModel, load_model
from sphereflow.llm.model.texts import windows
from sphereflow.provenance import digest, version
from sphereflow.results import Result

P = ParamSpec("P")
R = TypeVar("R", bound=Result)


def loaded_model(model: Any) -> LanguageModel:
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
    modules = dict(model.model.named_modules())
    for name, weight in sorted(model.model.state_dict().items()):
        if weight.is_meta:
            module, _, own = name.rpartition(".")
            weight = stored(modules[module], own)
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


def token_windows(
    model: LanguageModel, texts: Any, window: int, documents: int, least: int = 8
) -> tuple[Int[np.ndarray, "documents window"], Int[np.ndarray, " documents"]]:
    """Documents of at least so many tokens, and the number of the text that each comes from."""
    if isinstance(texts, np.ndarray):
        tokens, text = texts, np.zeros(len(texts), dtype=int)
    else:
        given = [texts] if isinstance(texts, str) else list(texts)
        if not given or not all(isinstance(each, str) for each in given):
            raise SphereflowError(
                "texts must be a text, several texts, or an array of tokens by document and position."
            )
        cut = [windows(each, model.tokenizer, window=window, documents=documents) for each in given]
        tokens, text = np.concatenate(cut), np.repeat(np.arange(len(cut)), [len(each) for each in cut])
    if tokens.ndim != 2 or len(tokens) < 1 or tokens.shape[1] < least or tokens.dtype.kind not in "iu":
        raise SphereflowError(
            f"tokens must be whole numbers by document and position, at least {least} positions; got {tokens.dtype} of "
            f"shape {tokens.shape}."
        )
    known = model.model.config.get_text_config().vocab_size
    if tokens.min() < 0 or tokens.max() >= known:
        raise SphereflowError(f"tokens must lie from 0 to {known - 1}, got {tokens.min()} to {tokens.max()}.")
    longest = _learned_positions(model.model)
    if longest is not None and tokens.shape[1] > longest:
        raise SphereflowError(f"{model.name} has {longest} positions; documents of {tokens.shape[1]} do not fit.")
    return tokens, text


def _learned_positions(model: Any) -> int | None:
    """How many positions a model with a table of them has."""
    names = ("position_embeddings", "wpe", "embed_positions")
    tables = [part for name, part in model.named_modules() if name.split(".")[-1] in names]
    counts = [part.num_embeddings for part in tables if hasattr(part, "num_embeddings")]
    return min(counts) if counts else None


def given_digest(texts: Any, tokens: Int[np.ndarray, "documents window"]) -> str:
    """A text told by its digest; several, or tokens that were given, by that of the tokens."""
    return text_digest(texts) if isinstance(texts, str) else digest(tokens)


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
