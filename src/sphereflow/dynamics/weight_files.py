"""Arrays by name, from what a training program saved: .npz, .safetensors, or torch's .pt.

Nothing in a file is executed: no pickle is opened but torch's own, and that with `weights_only=True`.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.errors import MissingExtra, SphereflowError, ending_in
from sphereflow.reading import brief, file_bytes, packed_arrays, plain_data, regular_file

_TORCH = (".pt", ".pth", ".bin")
_KINDS = {"F64": "f8", "F32": "f4", "F16": "f2", "BF16": jnp.bfloat16, "BOOL": "?"} | {
    f"{kind.upper()}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)
}


def named_arrays(state: Mapping[str, Any] | str | Path) -> dict[str, np.ndarray | jax.Array]:
    """The arrays of a mapping or a file, each under its name."""
    if isinstance(state, (str, Path)):
        state = _file(Path(state))
    if not isinstance(state, Mapping):
        hint = ": give model.state_dict()" if hasattr(state, "state_dict") else ""
        raise SphereflowError(
            f"state must be a mapping of names to arrays or a file, got {type(state).__name__}{hint}."
        )
    if not state:
        raise SphereflowError("state is empty: there are no weights in it.")
    return {str(name): _array(str(name), value) for name, value in state.items()}


def _array(name: str, value: Any) -> np.ndarray | jax.Array:
    if hasattr(value, "detach"):  # a tensor of torch; its bfloat16 is unknown to NumPy
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if not isinstance(value, (np.ndarray, jax.Array)):
        raise SphereflowError(f"state must hold arrays, but '{name}' is a {type(value).__name__}.")
    return value


def _file(path: Path) -> Mapping[str, Any]:
    kind = ending_in("state", path, (".npz", ".safetensors", *_TORCH)).suffix.lower()
    if kind in _TORCH:
        return _torch_file(path)
    try:
        return packed_arrays(file_bytes(path)) if kind == ".npz" else _safetensors(file_bytes(path))
    except SphereflowError:
        raise
    except ValueError as error:
        raise SphereflowError(f"{path} is not a whole {kind} file: {brief(error)}.") from None


def _torch_file(path: Path) -> Mapping[str, Any]:
    regular_file(path)
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra("torch", "llm", f"reading {path.name} (.npz and .safetensors files need no package)")
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever its parts do, and explains itself at length
        raise SphereflowError(f"{path} is not a file of weights that torch can read: {brief(error)}.") from None
    if not isinstance(content, Mapping):
        raise SphereflowError(f"{path} holds a {type(content).__name__}: save model.state_dict() instead.")
    return content


def _safetensors(content: bytes) -> dict[str, np.ndarray]:
    """Eight bytes that give the length of a header in JSON, the header, and the numbers one after another."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > len(content) - 8:
        raise ValueError("it is cut, or something else")
    header, numbers = plain_data(content[8 : 8 + length]), memoryview(content)[8 + length :]
    if not isinstance(header, dict):
        raise ValueError("its header is not a table")
    header.pop("__metadata__", None)
    return {name: _tensor(name, entry, numbers) for name, entry in header.items()}


def _tensor(name: str, entry: Any, numbers: memoryview) -> np.ndarray:
    try:
        kind, shape = np.dtype(_KINDS[entry["dtype"]]), [int(length) for length in entry["shape"]]
        begin, end = (int(place) for place in entry["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"its header does not describe '{name}'") from None
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(numbers):
        raise ValueError(f"'{name}' is cut")
    if end - begin != math.prod(shape) * kind.itemsize:
        raise ValueError(f"'{name}' does not have the size that its header states")
    return np.frombuffer(numbers[begin:end], kind).reshape(shape).copy()
