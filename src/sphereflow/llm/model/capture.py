r"""What attention does inside a language model, read by hooks while the model runs unchanged.

Per layer, at chosen queries t: probabilities $\alpha_{ti}$ (after rotation, scaling, capping, masking and softmax),
values $v_i$ (after the value projection, before the output projection, which rotary embeddings never touch), the
visible positions, and the slice of the input of the output projection that each head must equal,
$z_t=\sum_i\alpha_{ti}v_i$. This identity is checked at every layer.

Everything is copied when it is captured and handed over layer by layer: the full attention matrix of a layer is never
kept, only the rows of the chosen queries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.llm.model.anatomy import AttentionPlace, attention_places, expand, input_device, sharing

# Relative error of the identity that single precision explains; half precision rounds each weight and value.
_TOLERANCE = {"float32": 1e-4, "float64": 1e-6, "float16": 2e-2, "bfloat16": 1e-1}


@dataclass(frozen=True)
class LayerCapture:
    """One layer at the chosen queries, as float32 arrays that belong to the receiver.

    `rows[b, h, q]` are the probabilities of query `queries[b, q]` over all positions, `visible[b, q]` the positions it
    may see, `values[b, g]` the values of key/value head g, `outputs[b, h, q]` the output of each head.
    `state` is the residual stream that enters the layer, `step` the size |attention output|/|state| of its update,
    averaged over visible tokens.
    """

    index: int
    name: str
    queries: Int[np.ndarray, "b q"]
    rows: Float[np.ndarray, "b h q L"]
    visible: Bool[np.ndarray, "b q L"]
    values: Float[np.ndarray, "b g L d"]
    outputs: Float[np.ndarray, "b h q d"]
    state: Float[np.ndarray, "b L D"]
    step: float

    @property
    def heads(self) -> int:
        return self.rows.shape[1]

    def identity_at(self, query: int) -> float:
        r"""Largest $|\sum_i\alpha_iv_i-z|$ at one query of each document, relative to the largest |z|."""
        # Not a matrix product: one this small, on all threads of a busy machine, would mostly wait.
        rows = sharing(self.rows[:, :, query], self.values.shape[1])
        outputs = self.outputs[:, :, query]
        made = np.einsum("bgrl,bgld->bgrd", rows, self.values).reshape(outputs.shape)
        return float(np.abs(made - outputs).max() / max(np.abs(outputs).max(), 1e-30))

    @property
    def identity_error(self) -> float:
        """The worst of all captured queries."""
        return max(self.identity_at(query) for query in range(self.rows.shape[2]))

    def head_rows(self, document: int, query: int = -1) -> tuple[np.ndarray, np.ndarray]:
        """(weights, values) of all heads at one query, over its visible positions only: the sink comes first."""
        weights, values = self.shared_rows(document, query)
        return weights.reshape(self.heads, -1), expand(values[None, :, 0], self.heads)[0]

    def shared_rows(self, document: int, query: int = -1) -> tuple[np.ndarray, np.ndarray]:
        """The same, heads that share their values together: (g, r, L) and (g, 1, L, d)."""
        seen = self.visible[document, query]
        values = self.values[document][:, None, seen]
        return sharing(self.rows[document, :, query][:, seen], len(values)), values


def capture(
    model: Any,
    tokens: Int[np.ndarray, "b L"],
    observe: Callable[[LayerCapture], None],
    *,
    queries: Int[np.ndarray, "b q"] | None = None,
    attention_mask: Int[np.ndarray, "b L"] | None = None,
    final_state: Callable[[np.ndarray], None] | None = None,
) -> None:
    """Run the model on a batch and hand every layer to `observe` while it passes.

    **Arguments:** `queries` are positions per document (default: the last token that is not padding);
    `attention_mask` is 1 at tokens and 0 at padding, on either side; `final_state` receives the residual stream after
    the last layer.
    """
    import torch

    tokens = np.asarray(tokens)
    if tokens.ndim != 2 or tokens.shape[1] < 2:
        raise SphereflowError(f"tokens must be documents by positions, at least two of these; got {tokens.shape}.")
    mask = np.ones(tokens.shape, dtype=int) if attention_mask is None else np.asarray(attention_mask)
    last = tokens.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    chosen = last[:, None] if queries is None else np.asarray(queries)
    if (chosen < 0).any() or (chosen >= tokens.shape[1]).any():
        raise SphereflowError(f"queries must be positions from 0 to {tokens.shape[1] - 1}.")
    places = attention_places(model)
    device = input_device(model)
    with ExitStack() as hooks, torch.no_grad():
        for place in places:
            _Listener(place, chosen, mask, observe).listen(hooks)
        if final_state is not None:
            told = final_state

            def ended(module: Any, args: Any, output: Any) -> None:
                told(_copied(output[0] if isinstance(output, tuple) else output))

            hooks.callback(places[-1].decoder_layer.register_forward_hook(ended).remove)
        body = model.base_model  # the vocabulary head is not needed, and its logits are large
        body(
            input_ids=torch.as_tensor(tokens, device=device),
            attention_mask=None if mask.all() else torch.as_tensor(mask, device=device),
            use_cache=False,
        )


class _Listener:
    """The hooks of one layer: state in, values, input of the output projection, probabilities out."""

    def __init__(
        self, place: AttentionPlace, queries: np.ndarray, mask: np.ndarray, observe: Callable[[LayerCapture], None]
    ):
        self._place, self._queries, self._mask, self._observe = place, queries, mask, observe
        self._at = functools.cache(functools.partial(_index, queries))
        self._forget()

    def _forget(self) -> None:
        self._projected = self._mixed = self._state = np.empty(0)

    def listen(self, hooks: ExitStack) -> None:
        place = self._place
        for handle in (
            place.decoder_layer.register_forward_pre_hook(self._entered, with_kwargs=True),
            place.value_source.register_forward_hook(self._valued),
            place.output_projection.register_forward_pre_hook(self._mixing),
            place.attention.register_forward_hook(self._attended, with_kwargs=True),
        ):
            hooks.callback(handle.remove)

    def _entered(self, module: Any, args: Any, kwargs: Any) -> None:
        self._state = _copied(args[0] if args else kwargs["hidden_states"])

    def _valued(self, module: Any, args: Any, output: Any) -> None:
        self._projected = _copied(output).reshape(*output.shape[:2], -1)

    def _mixing(self, module: Any, args: Any) -> None:
        self._mixed = _copied(args[0][self._at(args[0].device)])

    def _attended(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if weights is None or weights.ndim != 4:
            raise SphereflowError(
                f"the layer {self._place.name} does not hand out attention weights: load the model with "
                f"attn_implementation='eager'."
            )
        # (b, q, h, L) to (b, h, q, L)
        rows = _swapped(_copied(weights.transpose(1, 2)[self._at(weights.device)]))
        heads, width = rows.shape[1], self._mixed.shape[-1]
        outputs = _swapped(self._mixed.reshape(*self._mixed.shape[:2], heads, width // heads))
        update = output[0].detach().float().norm(dim=-1).cpu().numpy()
        size = update / np.maximum(np.linalg.norm(self._state, axis=-1), 1e-30)
        layer = LayerCapture(
            index=self._place.index,
            name=self._place.name,
            queries=self._queries,
            rows=rows,
            visible=_visible(self._queries, self._mask, rows, args, kwargs),
            values=self._place.split(self._projected, width, heads),
            outputs=outputs,
            state=self._state,
            step=float(size[self._mask.astype(bool)].mean()),
        )
        allowed = _TOLERANCE[str(weights.dtype).removeprefix("torch.")]
        missed = layer.identity_at(-1)
        if not missed <= allowed:
            raise SphereflowError(
                f"the attention of {self._place.name} is of a kind that is not understood: weights times values miss "
                f"the head output by {missed:.2g} (allowed: {allowed:g})."
            )
        self._forget()  # the layer is handed over; nothing of it stays here while the others run
        self._observe(layer)


def _visible(queries: np.ndarray, mask: np.ndarray, rows: np.ndarray, args: tuple, kwargs: dict) -> np.ndarray:
    """Which positions each query may see: from the mask the layer was given, or causal if there is none.

    An encoder is known by the weight that its queries have on later tokens.
    """
    length = mask.shape[1]
    given = kwargs.get("attention_mask")
    if given is None:
        given = next((a for a in args if getattr(a, "ndim", 0) == 4 and a.shape[-1] == length), None)
    tokens = np.broadcast_to(mask[:, None, :].astype(bool), (*queries.shape, length))
    earlier = np.arange(length) <= queries[..., None]
    weighted = rows.max(axis=1) > 0  # by some head
    ahead = (weighted & tokens & ~earlier).any()
    reach = tokens if ahead else tokens & earlier
    if given is None or getattr(given, "ndim", 0) != 4:
        return reach
    picked = given.expand(len(queries), *given.shape[1:])[:, 0][_index(queries, given.device)]
    if picked.dtype.is_floating_point:
        # An additive mask is a very negative number where nothing is to be seen.
        picked = picked > -1e4
    seen = picked.cpu().numpy().astype(bool)
    # Some models mark what is hidden instead of what is seen; weight outside the visible set tells them apart.
    return (~seen if (weighted & ~seen).any() else seen) & reach


def _index(queries: np.ndarray, device: Any) -> tuple[Any, Any]:
    """Indices that pick the rows of the chosen queries, document by document."""
    import torch

    at = torch.as_tensor(np.asarray(queries), device=device)
    return torch.arange(len(queries), device=device)[:, None], at


def _swapped(array: np.ndarray) -> np.ndarray:
    """The second and third axes exchanged, in memory too: matrix products are slow on views."""
    return np.ascontiguousarray(np.swapaxes(array, 1, 2))


def _copied(tensor: Any) -> np.ndarray:
    """A float32 array of its own: later layers may write over the tensor."""
    import torch

    return tensor.detach().to(device="cpu", dtype=torch.float32, copy=True).numpy()
