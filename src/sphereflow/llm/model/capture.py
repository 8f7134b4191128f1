r"""What attention does inside a language model, read by hooks while the model runs unchanged.

Per layer, at chosen queries t: probabilities $\alpha_{ti}$ (after rotation, scaling, capping, masking and softmax),
values $v_i$ (after the value projection, before the output projection, which rotary embeddings never touch), the
visible positions, and the slice of the input of the output projection that each head must equal,
$z_t=\sum_i\alpha_{ti}v_i$. This identity is checked at every layer.

Everything is copied when it is captured and handed over layer by layer: the full attention matrix of a layer is never
kept, only the rows of the chosen queries. `capture` hands over arrays in main memory, `capture_tensors` tensors where
the layer computed them.
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
from sphereflow.llm.heads.arrays import PORTION_BYTES, to_host
from sphereflow.llm.model.anatomy import AttentionPlace, attention_places, expand, input_device, sharing
from sphereflow.llm.model.tensors import LayerTensors, visible

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

    def received(layer: LayerTensors) -> None:
        observe(_checked(layer))

    def ended(state: Any) -> None:
        if final_state is not None:
            final_state(to_host(state))

    capture_tensors(
        model,
        tokens,
        received,
        queries=queries,
        attention_mask=attention_mask,
        final_state=None if final_state is None else ended,
    )


def capture_tensors(
    model: Any,
    tokens: Int[np.ndarray, "b L"],
    receive: Callable[[LayerTensors], None],
    *,
    queries: Int[np.ndarray, "b q"] | None = None,
    attention_mask: Int[np.ndarray, "b L"] | None = None,
    final_state: Callable[[Any], None] | None = None,
) -> None:
    """The same with tensors, which the receiver has to check with `refuse_misread`."""
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
        asked = _Queries(chosen)
        for place in places:
            _Listener(place, asked, mask, receive).listen(hooks)
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


def refuse_misread(name: str, kind: str, missed: float) -> None:
    """Weights times values must be what enters the output projection, up to the precision of the model."""
    allowed = _TOLERANCE[kind]
    if not missed <= allowed:
        raise SphereflowError(
            f"the attention of {name} is of a kind that is not understood: weights times values miss "
            f"the head output by {missed:.2g} (allowed: {allowed:g})."
        )


def _checked(layer: LayerTensors) -> LayerCapture:
    """The layer in main memory, if its attention is understood."""
    state = to_host(layer.state)
    size = to_host(layer.update) / np.maximum(np.linalg.norm(state, axis=-1), 1e-30)
    found = LayerCapture(
        index=layer.index,
        name=layer.name,
        queries=layer.queries,
        rows=to_host(layer.rows),
        visible=visible([layer])[0],
        values=to_host(layer.values),
        outputs=to_host(layer.outputs),
        state=state,
        step=float(size[layer.mask.astype(bool)].mean()),
    )
    refuse_misread(layer.name, layer.kind, found.identity_at(-1))
    return found


class _Queries:
    """The chosen queries of each document, and what they pick of tensors, on any device."""

    def __init__(self, positions: Int[np.ndarray, "b q"]):
        self.positions = positions
        self._at = functools.cache(functools.partial(_index, positions))
        self._shown: dict[int, tuple[Any, Any]] = {}

    def of(self, tensor: Any) -> Any:
        """The rows of the queries, document by document; a tensor of its own."""
        return tensor[self._at(tensor.device)]

    def shown(self, mask: Any) -> Any:
        """What a mask of four axes names at the queries, computed once for all layers that share the mask."""
        known = self._shown.get(id(mask))
        if known is None:
            picked = self.of(mask.expand(len(self.positions), *mask.shape[1:])[:, 0])
            if picked.dtype.is_floating_point:
                # An additive mask is a very negative number where nothing is to be seen.
                picked = picked > -1e4
            # The mask is kept with it: another one could get its number once it is gone.
            known = self._shown[id(mask)] = mask, picked.bool()
        return known[1]


class _Listener:
    """The hooks of one layer: state in, values, input of the output projection, probabilities out."""

    def __init__(
        self, place: AttentionPlace, queries: _Queries, mask: np.ndarray, receive: Callable[[LayerTensors], None]
    ):
        self._place, self._queries, self._mask, self._receive = place, queries, mask, receive
        self._forget()

    def _forget(self) -> None:
        self._projected: Any = None
        self._mixed: Any = None
        self._state: Any = None

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
        self._mixed = _owned(self._queries.of(args[0]))

    def _attended(self, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
        if weights is None or weights.ndim != 4:
            raise SphereflowError(
                f"the layer {self._place.name} does not hand out attention weights: load the model with "
                f"attn_implementation='eager'."
            )
        # (b, q, h, L) to (b, h, q, L), in memory too: matrix products are slow on views.
        rows = _owned(self._queries.of(weights.transpose(1, 2))).transpose(1, 2).contiguous()
        heads, width = rows.shape[1], self._mixed.shape[-1]
        given = _given_mask(args, kwargs, self._mask.shape[1])
        layer = LayerTensors(
            index=self._place.index,
            name=self._place.name,
            kind=str(weights.dtype).removeprefix("torch."),
            queries=self._queries.positions,
            mask=self._mask,
            rows=rows,
            values=self._place.split(self._projected, width, heads).contiguous(),
            outputs=self._mixed.reshape(*self._mixed.shape[:2], heads, width // heads).transpose(1, 2).contiguous(),
            state=self._state,
            update=_owned(output[0].detach().float().norm(dim=-1)),
            weighted=rows.amax(dim=1) > 0,  # by some head
            shown=None if given is None else self._queries.shown(given).to(rows.device),
        )
        self._forget()  # the layer is handed over; nothing of it stays here while the others run
        self._receive(layer)


def _given_mask(args: tuple, kwargs: dict, length: int) -> Any:
    """The mask of four axes that a layer was given; None if there is none."""
    given = kwargs.get("attention_mask")
    if given is None:
        given = next((a for a in args if getattr(a, "ndim", 0) == 4 and a.shape[-1] == length), None)
    return given if getattr(given, "ndim", 0) == 4 else None


def _index(queries: np.ndarray, device: Any) -> tuple[Any, Any]:
    """Indices that pick the rows of the chosen queries, document by document."""
    import torch

    at = torch.as_tensor(np.asarray(queries), device=device)
    return torch.arange(len(queries), device=device)[:, None], at


def _copied(tensor: Any) -> Any:
    """A float32 tensor of its own: later layers may write over the first."""
    import torch

    return tensor.detach().to(device=_device(tensor), dtype=torch.float32, copy=True)


def _owned(tensor: Any) -> Any:
    """The same of one that is its own already."""
    import torch

    return tensor.detach().to(device=_device(tensor), dtype=torch.float32)


def _device(tensor: Any) -> Any:
    """Where a tensor is computed with: it stays where it lies, unless there is no double precision there."""
    return tensor.device if tensor.device.type in PORTION_BYTES else "cpu"
