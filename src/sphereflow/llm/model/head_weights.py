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
from sphereflow.llm.model.anatomy import attention_places, stored

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
_EXTRA = ("q_norm", "k_norm", "v_norm")


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
    inner = getattr(model, "model", model) if hasattr(model, "tokenizer") else model
    places = attention_places(inner)
    place = places[whole_number("layer", layer, least=0, most=len(places) - 1)]
    parts = [getattr(place.attention, name, None) for name in _PROJECTIONS]
    norm = getattr(place.decoder_layer, "input_layernorm", None)
    kind = type(norm).__name__
    plain = all(hasattr(part, "weight") and getattr(part, "bias", None) is None for part in parts)
    if not plain or any(hasattr(place.attention, name) for name in _EXTRA) or not kind.endswith("RMSNorm"):
        raise SphereflowError(
            f"the heads of {type(inner).__name__} are not plain: separate projections without biases behind a "
            "root-mean-square norm, as in Llama, are needed."
        )
    if kind.startswith("Gemma"):
        raise SphereflowError(f"the norm of {type(inner).__name__} is not that of Llama.")
    query, key, value, output = (stored(part).detach().cpu().double().numpy() for part in parts)
    heads = inner.config.get_text_config().num_attention_heads
    head = whole_number("head", head, least=0, most=heads - 1)
    width = len(query) // heads
    group = head * (len(key) // width) // heads
    own, shared = slice(head * width, (head + 1) * width), slice(group * width, (group + 1) * width)
    gain = stored(norm).detach().cpu().double().numpy() * np.sqrt(query.shape[1])
    return query[own] * gain / np.sqrt(width), key[shared] * gain, (output[:, own] @ value[shared]) * gain
