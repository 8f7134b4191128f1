"""Where the attention of a transformers model lies: value projection, output projection, decoder layer.

Names are matched, not classes: separate value projections (Llama, Mistral, Gemma, Qwen, Phi, OPT, GPT-J, ...) and
fused ones, whose output holds queries, keys and values either one after the other (GPT-2, Phi-3) or grouped by
key/value head (GPT-NeoX, Bloom, Falcon); encoders (BERT, RoBERTa, ELECTRA, ...) keep the two projections one level
deeper, as `self.value` and `output.dense`. A guess that is wrong cannot pass: the capture checks that weights times
values are what enters the output projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError

_OUTPUTS = ("o_proj", "out_proj", "c_proj", "dense", "wo", "output.dense")
_SEPARATE = ("v_norm", "v_proj", "wv", "self.value")
_IN_BLOCKS = ("c_attn", "qkv_proj", "Wqkv")
_GROUPED = ("query_key_value",)


@dataclass(frozen=True)
class AttentionPlace:
    """One attention module with its decoder layer; `fused` is "", "blocks" or "grouped"."""

    index: int
    name: str
    attention: Any
    decoder_layer: Any
    value_source: Any
    output_projection: Any
    fused: str

    def split(self, projected: Float[Any, "b L total"], width: int, heads: int) -> Float[Any, "b g L d"]:
        """Values by key/value head from the tensor the value source gave; `width` enters the output projection."""
        d = width // heads
        batch, length, total = projected.shape
        if not self.fused:
            values = projected.reshape(batch, length, -1, d)
        else:
            groups = (total - width) // (2 * d)
            if self.fused == "blocks":
                values = projected[..., total - groups * d :].reshape(batch, length, groups, d)
            else:
                values = projected.reshape(batch, length, groups, heads // groups + 2, d)[..., -1, :]
        return values.swapaxes(1, 2)


def input_device(model: Any) -> Any:
    """Where tokens have to be: with the embeddings, whatever lies on other devices.

    Weights that were moved out of memory are nowhere; what brings them back says where they will be.
    """
    embedding = model.get_input_embeddings()
    device = next(embedding.parameters()).device
    return embedding._hf_hook.execution_device if device.type == "meta" else device


def stored(module: Any, name: str = "weight") -> Any:
    """A weight of a module; one that was moved out of memory comes from where accelerate keeps it."""
    weight = getattr(module, name)
    if not weight.is_meta:
        return weight
    hook = getattr(module, "_hf_hook", None)
    kept = [getattr(each, "weights_map", None) for each in (hook, *getattr(hook, "hooks", ()))]
    found = next((each for each in kept if each is not None), None)
    if found is None:
        raise SphereflowError(f"the {name} of a {type(module).__name__} of this model is not loaded.")
    return found[name]


def attention_places(model: Any) -> list[AttentionPlace]:
    """All attention modules of a language model, causal or an encoder, in the order of the layers."""
    modules = dict(model.named_modules())
    found: list[AttentionPlace] = []
    for name, module in modules.items():
        children = _parts(module)
        output = next((children[key] for key in _OUTPUTS if key in children), None)
        if output is None:
            continue
        for names, fused in ((_SEPARATE, ""), (_IN_BLOCKS, "blocks"), (_GROUPED, "grouped")):
            source = next((children[key] for key in names if key in children), None)
            if source is not None:
                parent = modules.get(name.rpartition(".")[0]) if name else None
                found.append(AttentionPlace(len(found), name, module, parent, source, output, fused))
                break
    if not found:
        raise SphereflowError(
            f"no attention was found in {type(model).__name__}: no module has both a value and an output projection."
        )
    return found


def _parts(module: Any) -> dict[str, Any]:
    """The children of a module, and those of its children that encoders name `self` and `output`."""
    children = dict(module.named_children())
    if {"self", "output"} <= children.keys():
        for outer in ("self", "output"):
            children |= {f"{outer}.{name}": part for name, part in children[outer].named_children()}
    return children


def sharing(rows: Float[Any, "*b h L"], groups: int) -> Float[Any, "*b g r L"]:
    """Rows of query heads by the key/value head they share: head h uses head floor(h g / heads)."""
    heads = rows.shape[-2]
    if heads % groups:
        raise SphereflowError(f"{heads} query heads cannot share {groups} key/value heads.")
    return rows.reshape(*rows.shape[:-2], groups, heads // groups, rows.shape[-1])


def expand(values: Float[np.ndarray, "b g L d"], heads: int) -> Float[np.ndarray, "b h L d"]:
    """Values by query head, shared as in `sharing`: groups are repeated in place."""
    return np.repeat(values, heads // values.shape[1], axis=1)
