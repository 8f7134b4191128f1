"""A Transformer that was trained elsewhere, from the arrays it was saved as.

Three ways of naming them are known: `torch.nn.TransformerEncoder`, GPT-2 (also nanoGPT) and Llama. Every entry is used
or named in an error. What arrays do not show (heads, activation, where the norm sits) must be given.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Array

from sphereflow.dynamics.blocks import Block, Network
from sphereflow.dynamics.families import FAMILIES, Configuration, Family
from sphereflow.dynamics.sublayers import needed
from sphereflow.dynamics.weight_files import named_arrays
from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.interaction import Mask
from sphereflow.parameters import known

_ROLES = ("embedding", "positions", "final_norm", "unembedding")
_MOST_NAMES = 8  # in one sentence


def from_state_dict(
    state: Mapping[str, Any] | str | Path,
    *,
    heads: int,
    activation: str | None = None,
    norm_first: bool | None = None,
    eps: float | None = None,
    rotary: float | None = None,
    causal: bool | None = None,
    mask: Mask | None = None,
    embedding: str | None = None,
    positions: str | None = None,
    final_norm: str | None = None,
    unembedding: str | None = None,
    ignore: Iterable[str] = (),
) -> Network:
    r"""The `Network` whose weights are in `state`: names to arrays of NumPy, torch or JAX, or a file.

    Files are .npz, .safetensors, or .pt of torch (if torch is installed). Names are those of one of

    - `torch.nn.TransformerEncoder` or of `TransformerEncoderLayer`, alone or inside of a module. `activation` ("relu",
      "gelu", ...) and `norm_first` must be given; causal only if asked.
    - GPT-2 as in transformers, or nanoGPT. `activation` is "gelu_tanh" for the first and must be given for the second.
    - Llama as in transformers, with any number of key/value heads. `rotary`, the base of rotary positions
      (`rope_theta`), and `eps` (`rms_norm_eps`) must be given; `activation` is "silu". Beware of other models that have
      the same names but other equations: scaled rotary positions, windows (give a `mask`), Gemma's norms.

    **Arguments:**

    - `heads`: the number of heads, of queries. `eps`: that of the norms, 1e-5 where it need not be given.
    - `causal`, `mask`: which tokens see which; GPT-2 and Llama are causal unless given otherwise.
    - `embedding`, `positions`, `final_norm`, `unembedding`: the names of these weights where a module of one's own
      holds them. A name may serve twice: `unembedding="wte.weight"`. A bias beside a final norm or an unembedding
      ("head.bias" beside "head.weight") is used with it.
    - `ignore`: names of entries that are not to be used; `*` stands for anything.
    """
    entries = _Entries(named_arrays(state), ignore)
    family, stack, prefixes = entries.stack()
    for name, value in (("norm_first", norm_first), ("rotary", rotary)):
        if name in family.unused and value is not None:
            raise SphereflowError(f"{name} has no meaning for weights named as in {family.title}.")
    small = None if eps is None else real_number("eps", eps, least=0)
    config = Configuration(whole_number("heads", heads), activation, norm_first, small, rotary, causal, mask)
    entries.complete(family, prefixes)
    blocks = [_block(entries, family, prefix, config) for prefix in prefixes]
    given = dict(zip(_ROLES, (embedding, positions, final_norm, unembedding), strict=True))
    tables = entries.tables(family, stack, prefixes, given)
    scale = entries.take(tables["final_norm"], "d")
    network = Network(
        blocks,
        embedding=entries.take(tables["embedding"], "words d"),
        positions=entries.take(tables["positions"], "length d"),
        final_norm=None if scale is None else family.norm(scale, entries.bias(tables["final_norm"]), config),
        unembedding=entries.take(tables["unembedding"], "words d"),
        unembedding_bias=entries.bias(tables["unembedding"]),
    )
    entries.finish()
    return network


def _block(entries: _Entries, family: Family, prefix: str, config: Configuration) -> Block:
    vectors = {name: "d" for group in family.biases for name in group}
    weights = {name: entries.take(prefix + name, shape) for name, shape in (family.weights | vectors).items()}
    try:
        block = family.build({name: w for name, w in weights.items() if w is not None}, config)
    except SphereflowError as error:
        raise SphereflowError(f"in the layer '{prefix}': {error}" if prefix else str(error)) from None
    for name, is_expected in family.buffers.items():
        buffer = entries.constant(prefix + name)
        if buffer is not None and not is_expected(buffer, block):
            raise SphereflowError(
                f"'{prefix}{name}' is not what it must be in this network: attention would be another."
            )
    return block


class _Entries:
    """The arrays by name, and which of them have been used."""

    def __init__(self, arrays: dict[str, Any], ignore: Iterable[str]):
        self._arrays, self._used = dict(arrays), set[str]()
        for pattern in [ignore] if isinstance(ignore, str) else ignore:
            names = fnmatch.filter(arrays, pattern)
            if not names:
                raise SphereflowError(f"ignore names '{pattern}', which is not in the state.")
            for name in names:
                self._arrays.pop(name, None)

    def take(self, name: str | None, shape: str) -> Array | None:
        """The entry, checked and marked as used; None where there is none."""
        if name is None or name not in self._arrays:
            return None
        self._used.add(name)
        return needed(name, self._arrays[name], shape)

    def bias(self, name: str | None) -> Array | None:
        """The bias beside a weight."""
        return None if name is None else self.take(_bias_of(name), "d")

    def constant(self, name: str) -> np.ndarray | None:
        """An entry that is no weight, as it is; None where there is none or it cannot be looked at."""
        if name not in self._arrays:
            return None
        self._used.add(name)
        return np.asarray(self._arrays[name]) if known(self._arrays[name]) else None

    def stack(self) -> tuple[Family, str, list[str]]:
        """The family, the name of the stack of layers, and what stands before the names of each layer, in order."""
        names = [(family, name) for family in FAMILIES for name in self._arrays if name.endswith(family.key)]
        heads = [(family, name.removesuffix(family.key)) for family, name in names]
        if not heads:
            keys = ", ".join(f"{family.key} ({family.title})" for family in FAMILIES)
            raise SphereflowError(f"state has no entry that ends in {keys}; it has {_listed(self._arrays)}.")
        layers: dict[int, str] = {}
        stacks = set()
        for family, head in heads:
            numbered = re.fullmatch(r"((?:.*\.)?)(\d+)\.", head)
            stacks.add((family.title, numbered[1] if numbered else head))
            layers[int(numbered[2]) if numbered else 0] = head
        if len(stacks) > 1:
            choices = ", ".join(sorted(f"'{stack}' ({title})" for title, stack in stacks))
            raise SphereflowError(f"state must have one stack of layers, got {choices}: name the others in ignore.")
        absent = sorted(set(range(max(layers))) - set(layers))
        if absent:
            raise SphereflowError(f"state has a layer {max(layers)}, but no layer {absent[0]} before it.")
        return heads[0][0], next(iter(stacks))[1], [layers[i] for i in sorted(layers)]

    def complete(self, family: Family, prefixes: list[str]) -> None:
        """Every weight of every layer is there; of biases, each group as a whole in all layers, or nowhere."""
        wanted = [prefix + name for prefix in prefixes for name in family.weights]
        for group in family.biases:
            names = [prefix + name for prefix in prefixes for name in group]
            wanted += names if any(name in self._arrays for name in names) else []
        self._need(wanted, f"{family.title} has it")

    def tables(
        self, family: Family, stack: str, prefixes: list[str], given: dict[str, str | None]
    ) -> dict[str, str | None]:
        """The names of what is around the layers: those given, else those of the family that are there."""
        self._need([name for name in given.values() if name is not None], "it was asked for")
        base = stack.removesuffix(family.stack)
        root = base.removesuffix(family.inner)
        usual = {role: name.format(base=base, root=root) for role, name in family.tables.items()}
        names = {role: given[role] or usual.get(role) for role in given}
        whole = stack.endswith(family.stack)  # else it is one layer, or a list in a module of one's own
        wanted = [given[role] or usual[role] for role in family.needed if whole]
        norm = names["final_norm"]
        if norm in self._arrays and family.norm_bias and prefixes[0] + family.norm_bias in self._arrays:
            wanted.append(_bias_of(norm))  # norms have biases everywhere, or nowhere
        self._need(wanted, f"{family.title} has it")
        return names

    def finish(self) -> None:
        """One sentence if an entry was not used."""
        left = [name for name in self._arrays if name not in self._used]
        if left:
            raise SphereflowError(
                f"state has entries that were not used: {_listed(left)}; name them in ignore, or as embedding, "
                "positions, final_norm or unembedding."
            )

    def _need(self, names: list[str], why: str) -> None:
        absent = [name for name in names if name not in self._arrays]
        if absent:
            raise SphereflowError(f"state lacks {_listed(absent)}; {why}.")


def _bias_of(name: str) -> str:
    return name.removesuffix("weight") + "bias"


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
    return ", ".join(f"'{name}'" for name in listed[:_MOST_NAMES]) + more
