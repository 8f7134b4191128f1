r"""How near the tokens of a real architecture are to each other at initialisation, layer by layer, and what helps.

The network is run with fresh weights (`initial_network`), beside the recursion of a wide one (`gram_recursion`) and the
logistic curve of homogenisation, which knows neither the mask nor the MLP and asks for small steps. Where tokens are
too near at the last layer, the recursion says by how much a scale must change, and the changed network is run as well.

In a pre-norm network only ratios matter: embeddings times c are the same as projections into the residual stream
divided by c, up to the $\epsilon$ of the norm.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, enough_memory, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.progress import Progress, reporting
from sphereflow.random_transformers.blocks import Blocks, read_blocks
from sphereflow.random_transformers.gram_recursion import gram_path, logistic
from sphereflow.random_transformers.initial_network import run_cosines, weight_deviations
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, checked, following

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_NORMALS = 2e10
_SMALLEST = 1e-3  # the smallest factor that is tried
_HALVINGS = 12


class Advice(NamedTuple):
    """A change of one scale: the cosine at the last layer that the recursion gives it, and that of changed networks."""

    change: str
    factor: float
    predicted: float
    measured: Estimate


@dataclass(frozen=True, eq=False, repr=False)
class InitialCollapse(Result):
    """Mean cosines of different tokens by depth: `measured` (network, depth), and three predictions (depth).

    `recursion` is that of a wide network, `flat` the same with flat attention, `logistic` homogenisation's curve at the
    diffusive times `times`. `advice` holds changes that were run.
    """

    blocks: Blocks
    n: int
    level: float
    measured: Float[np.ndarray, "network depth"]
    recursion: Float[np.ndarray, " depth"]
    flat: Float[np.ndarray, " depth"]
    logistic: Float[np.ndarray, " depth"]
    times: Float[np.ndarray, " depth"]
    advice: tuple[Advice, ...]

    def cosine(self, layer: int = -1) -> Estimate:
        """The mean cosine after a layer, over networks."""
        return mean(self.measured[:, layer])

    def variables(self) -> Variables:
        return {
            "depth": ("depth", np.arange(len(self.recursion))),
            "measured": (("depth", "network"), self.measured.T),
            "recursion": ("depth", self.recursion),
            "flat": ("depth", self.flat),
            "logistic": ("depth", self.logistic),
            "time": ("depth", self.times),
        }

    def facts(self) -> list[str]:
        b, last = self.blocks, self.cosine()
        away = np.max(np.abs(self.measured.mean(axis=0) - self.recursion))
        facts = [
            f"{b.family}, width {b.width}, {b.layers} layers, {self.n} tokens: mean cosine {last} after the last layer",
            f"recursion {self.recursion[-1]:.3f} (at most {away:.3f} away at any layer), with flat attention "
            f"{self.flat[-1]:.3f}, homogenised logistic {self.logistic[-1]:.3f} at time {self.times[-1]:.3g}",
        ]
        if b.score_deviation > 1:
            facts.append(
                f"logits have deviation {b.score_deviation:.2f}: above 1 the recursion's expansion of attention is "
                "not to be trusted"
            )
        facts += [
            f"{a.change} x {a.factor:.3g}: {a.measured} measured, {a.predicted:.3f} predicted" for a in self.advice
        ]
        return facts

    def plot(self) -> Figure:
        """Cosines by depth: networks, recursion, logistic curve; advised changes at the last layer."""
        from sphereflow.pictures import styled_figure

        depth = np.arange(len(self.recursion))
        with styled_figure(5.6, 3.6) as figure:
            axes = figure.subplots()
            axes.plot(depth, self.measured.T, color="0.7", lw=0.7)
            for name, style in (("recursion", "-"), ("flat", ":"), ("logistic", "--")):
                axes.plot(depth, getattr(self, name), style, lw=1.4, label=name)
            for each in self.advice:
                value, error = (float(v) for v in each.measured)
                axes.errorbar([depth[-1]], [value], [error], fmt="o", ms=4, label=f"{each.change} x {each.factor:.2g}")
            axes.set(xlabel="layer", ylabel="mean cosine of two tokens", ylim=(-0.02, 1.02))
            axes.legend(frameon=False, fontsize="small")
        return figure


@recorded_call
def initial_collapse(
    config: str | Path | dict[str, Any] = "gpt2",
    *,
    n: int = 32,
    layers: int | None = None,
    width: int | None = None,
    scale: float = 1.0,
    causal: bool = True,
    mlp: bool = True,
    level: float = 0.5,
    repeats: int = 4,
    seed: Seed = 0,
    progress: Progress = None,
) -> InitialCollapse:
    """Cosines of n different tokens through a network of a real architecture with fresh weights, and tested advice.

    **Arguments:** `config` is "gpt2", "llama", the path or the content of a config.json of transformers (also Mistral
    and Qwen 2); `layers` (to 200 and beyond), `width` and `scale` (of the projections into the residual stream) replace
    what it says; `causal` and `mlp` switch the mask and the MLPs off; advice is to keep the mean cosine at or below
    `level` after the last layer.
    """
    blocks = dataclasses.replace(read_blocks(config, layers=layers, width=width, scale=scale), causal=causal, mlp=mlp)
    whole_number("n", n, least=2, most=128)
    whole_number("repeats", repeats, least=2)
    real_number("level", level, above=0, most=1)
    seed = checked(seed, most=2**62)
    columns = sum(count for count, _ in weight_deviations(blocks).values())
    enough_memory(8 * 6 * n * columns, f"{n} tokens in a network of width {blocks.width}")
    cost = float(n * columns) * blocks.layers * repeats
    if cost > _MOST_NORMALS:
        raise SphereflowError(
            f"{repeats} networks of {blocks.layers} layers would draw {cost:.1e} random numbers, at most "
            f"{_MOST_NORMALS:.0e} are allowed: ask for fewer layers, tokens or repeats."
        )
    recursion, times = gram_path(blocks, n)
    advice: list[Advice] = []
    changes = _changes(blocks, n, level) if recursion[-1] > level else []
    with reporting("networks", progress) as report:
        measured = _measured(blocks, n, repeats, seed)
        for place, (name, factor, changed) in enumerate(changes, start=1):
            report(place / (1 + len(changes)), name)
            ran = _measured(changed, n, repeats, following(seed, place))
            advice.append(Advice(name, factor, float(gram_path(changed, n)[0][-1]), mean(ran[:, -1])))
        report(1.0, "")
    flat = gram_path(blocks, n, order=0)[0]
    return InitialCollapse(blocks, n, level, measured, recursion, flat, logistic(times, n), times, tuple(advice))


def _measured(blocks: Blocks, n: int, repeats: int, seed: Seed) -> Float[np.ndarray, "network depth"]:
    return np.array([run_cosines(blocks, n, following(seed, 1000 * (k + 1))) for k in range(repeats)])


def _changes(blocks: Blocks, n: int, level: float) -> list[tuple[str, float, Blocks]]:
    """Changes of one scale that bring the recursion to the level at the last layer, or as near as they can."""
    both = _factor(lambda c: blocks.scaled(attention=c, mlp=c), n, level)
    alone = _factor(lambda c: blocks.scaled(attention=c), n, level)
    changes = [
        ("residual projections", both, blocks.scaled(attention=both, mlp=both)),
        ("embeddings", 1 / both, blocks.scaled(embedding=1 / both)),
        ("attention projections alone", alone, blocks.scaled(attention=alone)),
    ]
    if blocks.family == "llama":
        rule = 1 / math.sqrt(2 * blocks.layers)
        changes.append(("residual projections, GPT-2's rule", rule, blocks.scaled(attention=rule, mlp=rule)))
    return changes if blocks.mlp else [each for each in changes if "alone" not in each[0]]


def _factor(changed: Callable[[float], Blocks], n: int, level: float) -> float:
    """The largest factor below one that keeps the last cosine at the level; the smallest tried where none does."""
    low, high = math.log(_SMALLEST), 0.0
    if gram_path(changed(_SMALLEST), n)[0][-1] > level:
        return _SMALLEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if gram_path(changed(math.exp(middle)), n)[0][-1] <= level else (low, middle)
    return math.exp(low)
