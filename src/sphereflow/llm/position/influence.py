r"""What each position of a prompt does to the last token: gradients, and attention rolled out.

With $x_i$ the input embedding of token i, $h$ the residual stream of the last token after some layer and r a random
unit vector, the influence of i is

$$\Big|\frac{\partial\,\langle r,h\rangle}{\partial x_i}\Big|\,|x_i|,\qquad\text{and rollout is the last row of}\quad
  \prod_{l}\tfrac12(I+\bar A_l),$$

$\bar A_l$ the attention of layer l averaged over heads. Theory speaks of independent tokens, so tokens drawn at random
are its fair test. The first token (a sink as a rule) and the last three stand apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, one_of, whole_number
from sphereflow.llm.model.anatomy import attention_places, input_device
from sphereflow.llm.model.loading import LanguageModel, require_torch
from sphereflow.llm.model.source import loaded_model, named_model, source, text_digest, tokenizer_of
from sphereflow.llm.model.texts import windows
from sphereflow.progress import Progress, reporting
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = ("gradient", "rollout")
APART = 3
BINS = 24
_BATCH = 4


@dataclass(frozen=True, eq=False, repr=False)
class InfluenceProfile(Result):
    """Influence on the last token by prompt, depth (after so many layers) and position; position 0 is the first token.

    `source` names the model, its files, the texts by digest (or "random tokens") and the software.
    """

    gradient: Float[np.ndarray, "prompts depths positions"]
    rollout: Float[np.ndarray, "prompts depths positions"]
    depths: tuple[int, ...]
    source: dict[str, Any]

    @property
    def n(self) -> int:
        """Tokens after the first one."""
        return int(self.gradient.shape[2]) - 1

    def rows(
        self, measure: str = "gradient", *, depth: int | None = None, bins: int = BINS, apart: int = APART
    ) -> Float[np.ndarray, "prompts bins"]:
        """One row per prompt: geometric means in bins of positions, relative to the geometric mean of all of them.

        Without the first token and the last `apart`; what `retrieval.u_shape` and `fit_profile` take. `depth` is one
        of `depths`, the last by default.
        """
        table = getattr(self, one_of("measure", measure, MEASURES))
        wanted = self.depths[-1] if depth is None else depth
        if wanted not in self.depths:
            raise SphereflowError(f"depth must be one of {', '.join(map(str, self.depths))}, got {wanted}.")
        kept = self._bins(bins, apart)
        numbers = table[:, self.depths.index(wanted)].astype(float)
        if not (numbers[:, np.concatenate(kept)] > 0).all():
            raise SphereflowError(
                f"some positions have no {measure} influence at depth {wanted} (a sliding window hides them, say): "
                "geometric means need all of them."
            )
        logs = np.log(np.maximum(numbers, np.finfo(float).tiny))
        whole = logs[:, np.concatenate(kept)].mean(axis=1)
        return np.stack([np.exp(logs[:, at].mean(axis=1) - whole) for at in kept], axis=1)

    def places(self, bins: int = BINS, apart: int = APART) -> Float[np.ndarray, " bins"]:
        """Relative positions of the bins: means of (i - 1/2)/n."""
        return np.array([np.mean((at - 0.5) / self.n) for at in self._bins(bins, apart)])

    def first_share(self, measure: str = "rollout") -> Float[np.ndarray, "prompts depths"]:
        """The part of all influence that the first token has."""
        table = getattr(self, one_of("measure", measure, MEASURES))
        return np.asarray(table[..., 0] / table.sum(axis=-1))

    def _bins(self, bins: int, apart: int) -> list[np.ndarray]:
        whole_number("apart", apart, least=0, most=self.n - 2)
        whole_number("bins", bins, least=2, most=self.n - apart)
        return np.array_split(np.arange(1, self.n + 1 - apart), bins)

    def variables(self) -> Variables:
        dims = ("prompt", "depth", "position")
        return {
            "gradient": (dims, self.gradient),
            "rollout": (dims, self.rollout),
            "depth": ("depth", np.array(self.depths)),
        }

    def facts(self) -> list[str]:
        bins = min(BINS, self.n - APART)
        rows = self.rows(bins=bins).mean(axis=0)
        low = 1 + int(np.argmin(rows[1:-1])) if bins > 2 else 0
        return [
            f"{self.source['model']}, {len(self.gradient)} prompts of {self.n} {self.source['tokens']}: gradient "
            f"influence after {self.depths[-1]} layers, relative to its mean, {rows[0]:.2f} in the first of {bins} "
            f"bins, {rows[low]:.2f} in the lowest inside, {rows[-1]:.2f} in the last",
            f"the first token holds {self.first_share()[:, -1].mean():.3f} of the rollout, "
            f"{self.first_share('gradient')[:, -1].mean():.3f} of the gradient",
        ]

    def plot(self) -> Figure:
        """Gradient and rollout against the position of the source, for every depth."""
        from sphereflow.llm.position.pictures import draw_influence

        return draw_influence(self)


@named_model
@recorded_call
def influence_profile(
    model: Any,
    texts: str | None = None,
    *,
    n: int = 128,
    prompts: int = 32,
    depths: Sequence[int] | None = None,
    seed: Seed = 0,
    progress: Progress = None,
) -> InfluenceProfile:
    """The influence of every position on the last token of a causal language model.

    **Arguments:** `model` is what `load_model` gives, a name for it, or a bare model of transformers with eager
    attention; `texts` a text whose windows are the prompts, None for tokens drawn uniformly from the vocabulary;
    `n` the tokens after the first one; `depths` after how many layers the last token is read (quarters of the depth
    by default).

    ```python
    found = sf.llm.influence_profile("smollm2", n=64, prompts=4)
    print(sf.retrieval.u_shape(found.rows()).summary())
    ```
    """
    rng = rng_from(seed)
    require_torch("an influence profile")
    whole_number("n", n, least=8)
    whole_number("prompts", prompts, least=2)
    asked = loaded_model(model)
    places = attention_places(asked.model)
    layers = len(places)
    chosen = tuple(sorted({max(1, layers * k // 4) for k in (1, 2, 3, 4)})) if depths is None else tuple(depths)
    if not chosen or list(chosen) != sorted(set(chosen)):
        raise SphereflowError(f"depths must be increasing whole numbers, got {chosen}.")
    for depth in chosen:
        whole_number("depths", depth, most=layers)
    tokens = _random_tokens(asked, prompts, n, rng) if texts is None else _windows(asked, texts, prompts, n)
    width = asked.model.get_input_embeddings().weight.shape[1]
    probes = rng.normal(size=(len(tokens), len(chosen), width))
    probes /= np.linalg.norm(probes, axis=-1, keepdims=True)
    found: list[tuple[np.ndarray, np.ndarray]] = []
    with reporting("prompts", progress) as report:
        for at in range(0, len(tokens), _BATCH):
            report(at / len(tokens), f"prompt {at + 1} of {len(tokens)}")
            found.append(_influences(asked, places, tokens[at : at + _BATCH], chosen, probes[at : at + _BATCH]))
        report(1.0, "")
    gradient, rollout = (np.concatenate(parts).astype(np.float32) for parts in zip(*found, strict=True))
    told: dict[str, Any] = (
        {"tokens": "random tokens"} if texts is None else {"tokens": "tokens of a text", "texts": text_digest(texts)}
    )
    return InfluenceProfile(gradient, rollout, chosen, source(asked, **told))


def _influences(
    asked: LanguageModel, places: list[Any], tokens: np.ndarray, depths: tuple[int, ...], probes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(gradient, rollout) of a batch, by prompt, depth and position."""
    import torch

    model = asked.model
    device = input_device(model)
    states: dict[int, Any] = {}
    attention: dict[int, Any] = {}

    def left(index: int) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            states[index + 1] = (output[0] if isinstance(output, tuple) else output)[:, -1]

        return hook

    def attended(index: int) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            if not isinstance(output, tuple) or len(output) < 2 or output[1] is None:
                raise SphereflowError(
                    f"the layer {places[index].name} does not hand out attention weights: load the model with "
                    "attn_implementation='eager'."
                )
            attention[index] = output[1].detach().mean(dim=1).double()

        return hook

    with ExitStack() as hooks, torch.enable_grad():
        for place in places:
            hooks.callback(place.decoder_layer.register_forward_hook(left(place.index)).remove)
            hooks.callback(place.attention.register_forward_hook(attended(place.index)).remove)
        ids = torch.as_tensor(tokens, device=device)
        inputs = model.get_input_embeddings()(ids).detach().requires_grad_(True)
        model.base_model(inputs_embeds=inputs, use_cache=False)
        sizes = inputs.detach().double().norm(dim=-1)
        gradients, rollouts = [], []
        for k, depth in enumerate(depths):
            along = torch.as_tensor(probes[:, k]).to(states[depth])
            (slope,) = torch.autograd.grad((states[depth] * along).sum(), inputs, retain_graph=True)
            gradients.append((slope.double().norm(dim=-1) * sizes).cpu().numpy())
            row = torch.zeros(ids.shape, dtype=torch.float64, device=device)
            row[:, -1] = 1.0
            for index in range(depth - 1, -1, -1):
                row = (row + torch.einsum("bi,bij->bj", row, attention[index].to(device))) / 2
            rollouts.append(row.cpu().numpy())
    return np.stack(gradients, axis=1), np.stack(rollouts, axis=1)


def _random_tokens(asked: LanguageModel, prompts: int, n: int, rng: np.random.Generator) -> Int[np.ndarray, "p L"]:
    """Independent tokens, none of them special, behind the token that begins a text where there is one."""
    tokenizer = asked.tokenizer
    config = asked.model.config.get_text_config()
    special = {getattr(config, "pad_token_id", None), *getattr(tokenizer, "all_special_ids", ())} - {None}
    plain = np.setdiff1d(np.arange(config.vocab_size), sorted(special))
    tokens = plain[rng.integers(len(plain), size=(prompts, n + 1))]
    if tokenizer is not None and tokenizer.bos_token_id is not None:
        tokens[:, 0] = tokenizer.bos_token_id
    return tokens


def _windows(asked: LanguageModel, text: str, prompts: int, n: int) -> Int[np.ndarray, "p L"]:
    if not isinstance(text, str) or not text:
        raise SphereflowError("texts must be a text that is not empty, or None for random tokens.")
    found = windows(text, tokenizer_of(asked), window=n + 1, documents=prompts)
    if len(found) < prompts:
        raise SphereflowError(
            f"the text has room for {len(found)} prompts of {n + 1} tokens, {prompts} were asked for."
        )
    return found
