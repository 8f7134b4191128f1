r"""The matrices of one attention head, as the particle picture has them.

A layer gives to the residual stream of a token x, with $y=x/|x|$ and head width k,

$$W_OW_V\sum_jP_{ij}Ny_j,\quad P_{ij}=\mathrm{softmax}_j\,\tfrac1{\sqrt k}\langle W_QNy_i,W_KNy_j\rangle,$$

$N=\sqrt D\,\mathrm{diag}(\gamma)$ being the root-mean-square norm before attention. So $Q=W_QN/\sqrt k$, $K=W_KN$ and
$V=W_OW_VN$, of shapes (k, D), (k, D), (D, D). Rotary positions turn queries and keys by an angle that depends on how
far apart two tokens are; here they are as for tokens at the same place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.llm.model.anatomy import AttentionPlace, attention_places, stored

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
_EXTRA = ("q_norm", "k_norm")
_WANTED = "separate projections without biases behind a root-mean-square norm, as in Llama"


def head_matrices(
    model: Any, layer: int, head: int
) -> tuple[Float[np.ndarray, "k D"], Float[np.ndarray, "k D"], Float[np.ndarray, "D D"]]:
    """Q, K and V of one head of a causal language model of the Llama family, numbered from 0.

    They are what `predict_limit` and `Attention(1.0, query=Q, key=K, value=V)` take, for tokens of unit length. The
    model is that of `load_model`, or one of transformers; other architectures (biases, normalised queries, other norms)
    are refused.

    ```python
    Q, K, V = sf.llm.head_matrices(sf.llm.load_model(), layer=3, head=1)
    print(sf.predict_limit(Q, K, V).summary())
    ```
    """
    inner, place, query, key, value, output, gain = _weights(model, layer)
    if any(hasattr(place.attention, name) for name in _EXTRA) or _after(place) is not None:
        raise SphereflowError(
            f"the heads of {type(inner).__name__} are not plain: {_WANTED}, and no other norms, are needed."
        )
    heads = inner.config.get_text_config().num_attention_heads
    head = whole_number("head", head, least=0, most=heads - 1)
    width = len(query) // heads
    group = head * (len(key) // width) // heads
    own, shared = slice(head * width, (head + 1) * width), slice(group * width, (group + 1) * width)
    return query[own] * gain / np.sqrt(width), key[shared] * gain, (output[:, own] @ value[shared]) * gain


def layer_values(model: Any, layer: int) -> Float[np.ndarray, "D D"]:
    r"""What a layer of attention hands on when all tokens have one direction, $\sum_hV_h$, whatever its weights are.

    Norms of queries and keys do not matter here. Where a norm follows attention (Gemma), the matrix is
    $\mathrm{diag}(\gamma')\sum_hV_h$: that norm also makes the sum one length, which turns nothing.
    """
    inner, place, query, _, value, output, gain = _weights(model, layer)
    heads = inner.config.get_text_config().num_attention_heads
    width = len(query) // heads
    by_group = value.reshape(-1, width, value.shape[1])
    whole = output @ np.repeat(by_group, heads // len(by_group), axis=0).reshape(-1, value.shape[1]) * gain
    after = _after(place)
    return whole if after is None else _gain(after)[:, None] * whole


def _weights(model: Any, layer: int) -> tuple[Any, ...]:
    """The bare model, the place of a layer, its four projections, and the gains of the norm before them."""
    inner = getattr(model, "model", model) if hasattr(model, "tokenizer") else model
    places = attention_places(inner)
    place = places[whole_number("layer", layer, least=0, most=len(places) - 1)]
    parts = [getattr(place.attention, name, None) for name in _PROJECTIONS]
    norm = getattr(place.decoder_layer, "input_layernorm", None)
    plain = all(hasattr(part, "weight") and getattr(part, "bias", None) is None for part in parts)
    if not plain or hasattr(place.attention, "v_norm") or not type(norm).__name__.endswith("RMSNorm"):
        raise SphereflowError(f"the heads of {type(inner).__name__} are not plain: {_WANTED} are needed.")
    query, key, value, output = (stored(part).detach().cpu().double().numpy() for part in parts)
    return inner, place, query, key, value, output, _gain(norm) * np.sqrt(query.shape[1])


def _gain(norm: Any) -> Float[np.ndarray, " D"]:
    """What a root-mean-square norm multiplies by: Gemma stores it less one."""
    weight = stored(norm).detach().cpu().double().numpy()
    return np.asarray(1 + weight if type(norm).__name__.startswith("Gemma") else weight)


def _after(place: AttentionPlace) -> Any:
    """The norm behind attention, where there is one; Llama's of the same name stands before the MLP."""
    layer = place.decoder_layer
    return getattr(layer, "post_attention_layernorm", None) if hasattr(layer, "pre_feedforward_layernorm") else None
