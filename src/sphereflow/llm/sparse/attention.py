r"""`sparse_attention`: a model of transformers whose heads keep only some of their keys.

$$z=\frac{\sum_{i\in S}\alpha_iv_i}{\sum_{i\in S}\alpha_i}$$
replaces $\sum_i\alpha_iv_i$ in every head of every layer, S chosen by a rule. The function that transformers calls for
attention is exchanged inside a `with` block and comes back afterwards; weights of the model are not touched. Before
anything is measured, the exchanged function with all keys kept must give the model's own states.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sphereflow.errors import SphereflowError
from sphereflow.llm.model.anatomy import AttentionPlace, attention_places, input_device, stored
from sphereflow.llm.sparse.rules import GEOMETRIC, LayerRule

NAME = "sphereflow_sparse"
_ALLOWED = {"float32": 1e-4, "float64": 1e-6, "float16": 2e-2, "bfloat16": 1e-1}


@dataclass
class Usage:
    """How many keys were kept and seen since the block began, at the queries that count."""

    start: int = 0
    kept: float = 0.0
    seen: float = 0.0
    rows: float = 0.0

    @property
    def mean_kept(self) -> float:
        """Keys kept by a query of a head, on average."""
        return self.kept / self.rows if self.rows else float("nan")

    @property
    def share(self) -> float:
        """Kept keys of those that are visible."""
        return self.kept / self.seen if self.seen else float("nan")


@dataclass
class _Layer:
    """One attention module while its model is sparse."""

    rule: LayerRule | None
    gram: Any  # W_O^T W_O by head: |W_O v|^2 = v^T gram v
    usage: Usage
    generator: Any
    gather: bool
    values: Any = field(default=None)  # the last value whose size is known
    sizes: Any = field(default=None)

    def key_sizes(self, weights: Any, value: Any) -> Any:
        """What the rule multiplies weights by, broadcast over (b, h, q, L); None where it looks at weights only."""
        if self.gram is None or self.rule is None:
            return None
        self.gram = self.gram.to(value.device)  # weights that are kept elsewhere come to where they are used
        sizes = self.value_sizes(value, weights.shape[2])[:, :, None]
        if self.rule.rule == "contribution":
            return sizes
        mixed = weights @ value.float()
        projected = mixed @ self.gram
        crossed = projected @ value.float().transpose(2, 3)
        own = (projected * mixed).sum(dim=-1, keepdim=True)
        return (sizes**2 - 2 * crossed + own).clamp(min=0).sqrt()

    def value_sizes(self, value: Any, fresh: int) -> Any:
        """|W_O v| for values (b, h, L, d), of which the last `fresh` are new: the others are remembered."""
        import torch

        old = value.shape[2] - fresh
        known = old > 0 and self.sizes is not None and self.sizes.shape == (*value.shape[:2], old)
        known = known and bool((self.values == value[:, :, old - 1]).all())
        new = value[:, :, old:] if known else value
        found = ((new.float() @ self.gram) * new.float()).sum(dim=-1).clamp(min=0).sqrt()
        self.sizes = torch.cat([self.sizes, found], dim=-1) if known else found
        self.values = value[:, :, -1].clone()
        return self.sizes


_ACTIVE: WeakKeyDictionary[Any, _Layer] = WeakKeyDictionary()


@contextmanager
def exchanged(
    model: Any,
    rules: list[LayerRule] | None,
    *,
    start: int = 0,
    gather: bool = True,
    number: int = 0,
) -> Iterator[Usage]:
    """The model with these rules, layer by layer; None keeps all keys. Queries before `start` are not counted."""
    import torch
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    places = attention_places(model)
    if any(place.attention in _ACTIVE for place in places):
        raise SphereflowError("this model keeps only some of its keys already: leave the other block first.")
    if rules is not None and len(rules) != len(places):
        raise SphereflowError(f"the plan is for {len(rules)} layers, the model has {len(places)}.")
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, eager_mask)
    generator = torch.Generator().manual_seed(number)
    usage = Usage(start)
    before = model.config._attn_implementation
    try:
        for place in places:
            rule = None if rules is None else rules[place.index]
            gram = output_gram(place, model) if rule is not None and rule.rule in GEOMETRIC else None
            _ACTIVE[place.attention] = _Layer(rule, gram, usage, generator, gather)
        model.set_attn_implementation(NAME)
        yield usage
    finally:
        for place in places:
            _ACTIVE.pop(place.attention, None)
        model.set_attn_implementation(before)


def output_gram(place: AttentionPlace, model: Any) -> Any:
    """$W_O^TW_O$ of every head, (h, d, d); a projection of GPT-2 is stored the other way round."""
    weight = stored(place.output_projection).detach().float()
    weight = weight.T if hasattr(place.output_projection, "nf") else weight
    heads = model.config.get_text_config().num_attention_heads
    parts = weight.reshape(weight.shape[0], heads, -1).permute(1, 0, 2)
    return parts.transpose(1, 2) @ parts


def vocabulary_logits(model: Any, states: Any) -> Any:
    """Scores of the next token from the states after the last layer."""
    import torch

    logits = model.get_output_embeddings()(states)
    cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    return logits if cap is None else torch.tanh(logits / cap) * cap


def faithful(model: Any) -> None:
    """Refuse a model whose scores are not reproduced by the exchanged attention when it keeps all keys."""
    import torch

    known = model.config.get_text_config().vocab_size
    tokens = torch.as_tensor(np.arange(1, 13)[None] % known, device=input_device(model))
    try:
        with torch.no_grad():
            own = model(input_ids=tokens, use_cache=False).logits.float()
            with exchanged(model, None) as usage:
                ours = vocabulary_logits(model, model.base_model(input_ids=tokens, use_cache=False)[0]).float()
    except (KeyError, TypeError, AttributeError) as error:
        raise SphereflowError(f"the attention of {type(model).__name__} cannot be exchanged: {error}.") from None
    missed = float((ours - own).abs().max() / own.abs().max().clamp(min=1e-30))
    allowed = _ALLOWED[str(model.dtype).removeprefix("torch.")]
    wanted = len(attention_places(model)) * 12 * model.config.get_text_config().num_attention_heads
    if not missed <= allowed or usage.rows != wanted:
        raise SphereflowError(
            f"the attention of {type(model).__name__} is of a kind that is not understood: with all keys kept its "
            f"scores are off by {missed:.2g} (allowed: {allowed:g})."
        )


def _attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **_: Any,
) -> tuple[Any, Any]:
    """Attention as transformers calls it: heads before positions, an additive mask, (output, weights) back."""
    import torch

    layer = _ACTIVE[module]
    length = query.shape[2]
    if attention_mask is None and length > 1:
        raise SphereflowError(
            "a model without a mask of attention cannot be made sparse: its visible keys are unknown."
        )
    if query.shape[1] != key.shape[1]:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = (query @ key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32)
    if layer.rule is None:
        kept = weights > 0
    else:
        kept = layer.rule.kept(weights, layer.key_sizes(weights, value), layer.generator)
    _count(layer.usage, kept, weights, key.shape[2])
    weights = torch.where(kept, weights, 0.0)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    if length == 1 and layer.gather and layer.rule is not None:
        most = int(kept.sum(dim=-1).max())
        weights, at = weights[:, :, 0].topk(most, dim=-1)
        picked = value.gather(2, at[..., None].expand(*at.shape, value.shape[-1]))
        mixed = weights[:, :, None].to(value.dtype) @ picked
        return mixed.transpose(1, 2).contiguous(), None
    weights = weights.to(query.dtype)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def _count(usage: Usage, kept: Any, weights: Any, total: int) -> None:
    first = max(usage.start - (total - kept.shape[2]), 0)
    counted = kept[:, :, first:]
    usage.kept += float(counted.sum())
    usage.seen += float((weights[:, :, first:] > 0).sum())
    usage.rows += float(np.prod(counted.shape[:3]))
