"""What the player shows: tokens at times, with their colours, a curve and words, from a run or from arrays."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError
from sphereflow.evolution.webpage.frames import Camera, Recorder

if TYPE_CHECKING:
    from sphereflow.evolution.trajectory import Trajectory

# A browser holds a page of this size without effort; beyond it fewer tokens or frames are shown.
_MOST_TOKENS = 5000
_MOST_BYTES = 24_000_000


@dataclass(frozen=True)
class Shown:
    """Tokens `xs` at times `ts`.

    `values` are drawn against time under the title `curve`, or nothing if that is empty. `colours` has a slot of the
    palette, 1 to 12, for each token instead of the colours of clusters. `bare`: these are no tokens on a sphere, and
    nothing is said of clusters and pairs. `note`: words inside the picture, unless the usual ones will do.
    """

    ts: Float[np.ndarray, " T"]
    xs: Float[np.ndarray, "T n d"]
    words: str
    values: Float[np.ndarray, " T"] | None = None
    curve: str = ""
    on_sphere: bool = True
    colours: Int[np.ndarray, " n"] | None = None
    bare: bool = False
    note: str | None = None

    @property
    def lead(self) -> str:
        """The words under the title, as HTML."""
        span = f"from t = {self.ts[0]:g} to {self.ts[-1]:g}"
        return f"<p>{html.escape(self.words)}, {span}. Drag to turn, space to pause.</p>"

    def encoded(self) -> tuple[dict[str, Any], list[bytes]]:
        """What the player is told, and the frames as bytes."""
        farthest = max(float(np.linalg.norm(x, axis=1).max()) for x in self.xs)
        recorder = Recorder(Camera.facing(self.xs[0], self.on_sphere, farthest))
        values = np.zeros(len(self.ts)) if self.values is None else self.values
        frames = [recorder.record(float(t), x, float(v)) for t, x, v in zip(self.ts, self.xs, values, strict=True)]
        more: dict[str, Any] = {} if self.colours is None else {"colours": self.colours.tolist()}
        more |= {} if self.note is None else {"note": self.note}
        return recorder.about(self.ts, curve=self.curve, words=self.words, bare=self.bare, **more), frames


def shown_of(run: Trajectory) -> Shown:
    """The first replica of a run; of many tokens every k-th is shown, and the words say so."""
    chosen = np.linspace(0, run.n - 1, min(run.n, _MOST_TOKENS)).astype(int)
    most_frames = max(2, _MOST_BYTES // (8 * len(chosen) + 104))
    moments = np.linspace(0, len(run) - 1, min(len(run), most_frames)).astype(int).tolist()
    values, curve = energy_or_order(run)
    xs = np.stack([run.frame(k).reshape((-1, run.n, run.d))[0][chosen].astype(float) for k in moments])
    among = "" if len(chosen) == run.n else f", of which {len(chosen)} are shown"
    words = f"{run.n} tokens in dimension {run.d}{among}"
    return Shown(run.ts[moments], xs, words, values[moments], curve, run.model.traits.space == "sphere")


def energy_or_order(run: Trajectory) -> tuple[np.ndarray, str]:
    """The energy of the model where it has one, else the length of the mean; and what it is called."""
    try:
        return run.energy.reshape(len(run), -1)[:, 0], "Energy"
    except SphereflowError:
        return run.order_parameter.reshape(len(run), -1)[:, 0], "Length of the mean of the tokens"
