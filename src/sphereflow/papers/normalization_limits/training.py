r"""Training at low temperature: a network of the GPT-2 architecture trained with eight normalisers.

The Jacobian of softmax has norm at most $1/(2T)$, and the paper infers that training is hard at low temperature.
Whether gradients grow like $1/T$ is another matter: weights are free to make logits smaller as T falls. `training.npz`
holds the losses and the norms of the gradient, before clipping, of 31 runs of a network of 10.8 million parameters on
10 million bytes of Python's sources; `benchmarks/normaliser_training.py` made it on a GPU, in eight minutes. The
temperatures .1 to 3 and the quantile were fixed before any run; .03 was added when the others had shown no growth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from sphereflow.claims import Check, Run, basis
from sphereflow.papers.normalization_limits import PAPER
from sphereflow.pictures import PALETTE, blank, look
from sphereflow.reading import file_bytes, packed_arrays

TEMPERATURES = (0.1, 0.3, 1.0, 3.0)
LOWEST = 0.03
QUANTILE = 0.99


@dataclass(frozen=True)
class Training:
    """What is kept of the runs of one normaliser: a row per seed."""

    loss: Float[np.ndarray, "seed step"]
    gradient_norm: Float[np.ndarray, "seed step"]
    held_out: Float[np.ndarray, " seed"]
    logit_size: Float[np.ndarray, " seed"]

    @property
    def large_norm(self) -> Float[np.ndarray, " seed"]:
        """The norm of the gradient that one step in a hundred exceeds."""
        return np.quantile(self.gradient_norm, QUANTILE, axis=1)


@cache
def runs() -> tuple[dict[str, Training], dict[str, Any]]:
    """All runs by normaliser ("softmax .3" is temperature .3), and where they come from."""
    data = packed_arrays(file_bytes(Path(__file__).parent / "training.npz"))
    names = list(dict.fromkeys(data["variant"].tolist()))
    found = {}
    for name in names:
        rows = np.flatnonzero(data["variant"] == name)
        rows = rows[np.argsort(data["seed"][rows])]
        last = data["held_out"][rows, -1]
        loss, norm = (data[part][rows].astype(float) for part in ("loss", "gradient_norm"))
        found[name] = Training(loss, norm, last[:, 0].astype(float), last[:, 1].astype(float))
    return found, json.loads(str(data["source"]))


def softmax_at(temperature: float) -> Training:
    return runs()[0][f"softmax {temperature:g}".replace("0.", ".")]


def growth_exponent() -> tuple[float, float, int]:
    r"""a of $|g|=b_{seed}T^{-a}$ over the temperatures .1 to 3 by least squares, its error and degrees of freedom."""
    logs = np.log([softmax_at(t).large_norm for t in TEMPERATURES])
    place = -np.log(TEMPERATURES)
    place = place - place.mean()
    exponent = float((place @ logs).mean() / (place @ place))
    rest = logs - logs.mean(axis=0) - exponent * place[:, None]
    freedom = logs.size - logs.shape[1] - 1
    return exponent, float(np.sqrt((rest**2).sum() / freedom / (place @ place) / logs.shape[1])), freedom


@PAPER.claim(
    "training-at-low-temperature",
    says="In training, the gradient does not follow the bound $1/T$ of the normaliser. From $T=3$ down to .1 the norm "
    "that one gradient in a hundred exceeds stays the same and the loss falls: the weights undo the temperature. At "
    "$T=.03$ they cannot: in each of five seeds such gradients are larger than at $T=1$, and so is the loss.",
    basis=basis.Extension(
        "the abstract asserts that the sensitivity of softmax makes training at low temperature hard; trained here"
    ),
    formula=r"$|\nabla\ell|_{.99}\propto T^{-a},\quad a=0$",
)
def training_at_low_temperature(run: Run) -> Check:
    _, source = runs()
    check = Check(
        parameters={"parameters": source["parameters"], "steps": 600, "seeds": 5},
        note="Temperature .03 was added after the others had been seen.",
    )
    exponent, error, freedom = growth_exponent()
    growth = "exponent of the gradient's 99 % quantile in 1/T, T from .1 to 3"
    check.row(
        growth,
        predicted=0.0,
        measured=exponent,
        error=error,
        repeats=freedom + 1,
        tolerance=0.1,
        because="over a factor of 30 in T the norm changes by less than 1.4; scatter of 20 runs about the fit",
    )
    gain, loss = "seeds whose gradient at T = .03 is over that at T = 1", "seeds whose loss at T = .03 is over it"
    better = "seeds whose loss at T = 1 is over that at T = .3"
    hot, warm, reference = softmax_at(LOWEST), softmax_at(0.1), softmax_at(1.0)
    every = "a count of five seeds that share weights at the start and windows"
    for row, above, below in (
        (gain, hot.large_norm, reference.large_norm),
        (loss, hot.held_out, reference.held_out),
        (better, reference.held_out, softmax_at(0.3).held_out),
    ):
        check.same(row, predicted=5, measured=int(np.sum(above > below)), because=every)
    check.rival("the gradient grows like the bound, 1/T", {growth: 1.0})
    check.rival("the gradient grows like the square root of the bound", {growth: 0.5})
    others = {gain: warm.large_norm > reference.large_norm, loss: warm.held_out > reference.held_out}
    check.null("T = .1 in place of .03", {row: int(np.sum(each)) for row, each in others.items()})
    check.null("T = 3 in place of .3", {better: int(np.sum(reference.held_out > softmax_at(3.0).held_out))})
    return check


@PAPER.figure(
    "training",
    caption="A network of the GPT-2 architecture trained with eight normalisers. Left: norm of the gradient that one "
    "step in a hundred exceeds (dots: seeds), against the temperature of softmax, with the slope of the bound 1/T. "
    "Middle: held-out loss; softmax at temperature .03 ends near 2, above the panel. Right: training loss, first seed, "
    "running means of 20 steps.",
    shows=("training-at-low-temperature",),
)
def training(run: Run) -> Figure:
    found, _ = runs()
    shown = [name for name in found if name.startswith("softmax")]
    shown += [name for name in found if name not in shown]
    with look():
        figure = blank(10.0, 3.6)
        left, middle, right = figure.subplots(1, 3)
        for t in (LOWEST, *TEMPERATURES):
            row = softmax_at(t)
            left.loglog(np.full(len(row.large_norm), t), row.large_norm, "o", color=PALETTE[0], ms=4, alpha=0.7)
        line = np.array([LOWEST, 3.0])
        left.loglog(line, 5.0 / line, color="0.5", ls="--", lw=1, label=r"$\propto 1/T$")
        left.set(xlabel="temperature $T$", ylabel="99 % quantile of $|g|$")
        left.legend()
        for k, name in enumerate(shown):
            colour, style = PALETTE[k % 5], "-" if k < 5 else "--"
            middle.plot(np.full(len(found[name].held_out), k), found[name].held_out, "o", color=colour, ms=4, alpha=0.7)
            smooth = np.convolve(found[name].loss[0], np.ones(20) / 20, "valid")
            right.plot(np.arange(20, 601), smooth, color=colour, ls=style, lw=1, label=name)
        middle.set_xticks(range(len(shown)), shown, rotation=50, ha="right", fontsize=7)
        middle.set(ylabel="held-out loss, nats per byte", ylim=(0.86, 1.06))
        right.set(xlabel="step", ylabel="training loss", ylim=(0.7, 3.2))
        right.legend(fontsize=6, ncols=2)
    return figure
