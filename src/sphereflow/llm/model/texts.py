"""Documents for a language model: windows of tokens with one beginning-of-sequence token in front.

Windows for an encoder lie between the two tokens that its tokenizer puts around a text.

The default corpus is English prose that every CPython carries: the topics of its built-in help.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.reading import file_text

CORPORA = ("python-topics",)


def corpus(name: str = "python-topics") -> str:
    """The text of a corpus that needs no download."""
    one_of("the corpus", name, CORPORA)
    from pydoc_data.topics import topics

    return "\n\n".join(topics[key] for key in sorted(topics))


def read_text(path: str | Path) -> str:
    """A text file of the user."""
    return file_text(path)


def windows(
    text: str, tokenizer: Any, *, window: int = 1024, documents: int = 16
) -> Int[np.ndarray, "documents window"]:
    """Windows of the text, evenly spread over it and never overlapping.

    Each starts with one beginning-of-sequence token where the tokenizer has one, and for encoders lies between the
    class and the separator token. A text that has room for fewer
    windows than asked for gives as many as fit.
    """
    whole_number("the window", window, least=8)
    whole_number("the number of documents", documents)
    if tokenizer is None:
        raise SphereflowError("this model has no tokenizer: give tokens instead of a text.")
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    front, back = _around(tokenizer)
    length = window - len(front) - len(back)
    fit = len(ids) // length
    if fit < 1:
        raise SphereflowError(
            f"the text is shorter than the window: it has {len(ids)} tokens, a window of {window} needs {length}; "
            f"give a longer text or a smaller window."
        )
    chosen = np.unique(np.linspace(0, fit - 1, min(documents, fit)).round().astype(int))
    return np.array([front + ids[k * length : (k + 1) * length] + back for k in chosen])


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The tokens before and after a document."""
    first, last = (getattr(tokenizer, f"{role}_token_id", None) for role in ("cls", "sep"))
    if first is not None and last is not None:
        return [first], [last]
    return ([] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]), []
