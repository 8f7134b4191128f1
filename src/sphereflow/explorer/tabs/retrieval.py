"""Lost in the middle: how well a causal decoder retrieves a token, by its position, in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sphereflow.explorer.tabs.charts import BLUE, CARD, ORANGE, POWERS, SOFT, axis, chart, draw, line, tooltip
from sphereflow.explorer.tabs.frame import TabFrame
from sphereflow.explorer.tabs.inputs import Amount, Limits
from sphereflow.explorer.tabs.surroundings import ALONE, Surroundings
from sphereflow.explorer.tabs.words import power, short

TITLE = "Lost in the middle"
_WORDS = (
    "A decoder reads a long text and is asked for one token of it. The last position has seen every token through many "
    "layers of attention that look only backwards, with a weight that fades with distance as in ALiBi. Tokens at the "
    "start have been passed on most often, tokens at the end are the nearest: what lies between is retrieved worst. "
    "In deep models the advantage of the end disappears. The position $\\sigma_0$ runs from 0 at the start to 1 at the "
    "end."
)
_FORMULAS = (
    r"N\,(\mathrm{accuracy}-\mathrm{chance})"
    r"=\frac{\sqrt{2\pi}}M\sum_{n\ge1}e^{-\pi^2n^2/2M^2}\,k_\lambda(1,\sigma_0)\,\psi_{a_nt}(Y)",
    r"a_n=n^2I_n(\beta),\quad\psi_c(y)=\sqrt{c/y}\,I_1(2\sqrt{cy})",
    r"k_\lambda(1,\sigma_0)=\frac{\lambda e^{-\lambda(1-\sigma_0)}}{1-e^{-\lambda}},"
    r"\quad Y=\ln\frac{e^\lambda-1}{e^{\lambda\sigma_0}-1}",
)

BETA = Limits("Inverse temperature β", 0.1, 2.5, 1, logarithmic=True)
SLOPE = Limits("Positional slope λ", 0, 10, 1)
TIME = Limits("Depth t", 0.05, 10, 1, logarithmic=True)
VOCAB = Limits("Codewords M", 2, 64, 8, whole=True)

_SHAPES = {"1 well": "a well and a hump"}
_FIRST = 0.005
# Where the curve spans more than this factor, its height is shown on a logarithmic scale.
_WIDE = 60.0


@dataclass(frozen=True, eq=False)
class Curve:
    """The profile with its minima; `critical` and `proved` are times, None where the slope is not positive."""

    position: np.ndarray
    excess: np.ndarray
    minima: tuple[tuple[float, float], ...]
    shape: str
    baseline: float
    t: float
    critical: float | None
    proved: float | None

    @property
    def worst(self) -> tuple[float, float] | None:
        """Position and excess of the lowest minimum, if no end of the text is worse."""
        lowest = min(self.minima, key=lambda pair: pair[1], default=None)
        return lowest if lowest is not None and lowest[1] < self.excess[-1] else None

    @property
    def logarithmic(self) -> bool:
        return bool(self.excess.min() > 0 and self.excess.max() > _WIDE * self.excess.min())


@lru_cache(maxsize=512)
def curve(beta: float, slope: float, t: float, vocab: int) -> Curve:
    """The closed form on a grid that is finer towards the start."""
    from sphereflow.retrieval.closed_form import critical_time, profile, theorem_time

    closed_form = profile(beta, slope, t, vocab)
    position = np.concatenate([np.geomspace(_FIRST, 0.1, 150), np.linspace(0.1, 1, 250)[1:]])
    lowest = [turn.sigma0 for turn in closed_form.turns() if turn.kind == "minimum"]
    minima = tuple((sigma0, float(closed_form.excess(sigma0))) for sigma0 in lowest)
    positive = slope > 0
    return Curve(
        position,
        closed_form.excess(position),
        minima,
        closed_form.shape,
        closed_form.baseline,
        t,
        critical_time(beta, slope, vocab) if positive else None,
        theorem_time(beta, slope) if positive else None,
    )


def in_words(profile: Curve) -> str:
    """Where the worst position is, and whether recency survives at this depth."""
    end = float(profile.excess[-1])
    if profile.worst is not None:
        place, value = profile.worst
        said = (
            f"The profile is {profile.shape}: retrieval is worst {_place(place)} of the way through the text, where "
            f"the excess over chance is {power(value, 4)}; at the end it is {power(end, 4)}."
        )
    elif profile.shape == "decreasing":
        said = "The earlier a token, the better it is retrieved: the profile falls all the way to the end."
    elif profile.shape == "increasing":
        said = "The later a token, the better it is retrieved: the profile rises all the way."
    else:
        dips = ", ".join(_place(place) for place, _ in profile.minima)
        said = (
            f"The profile has a dip {dips} of the way through the text and a hump behind it, but is worst at the end."
        )
    if profile.critical is None:
        return f"{said} Without a positional slope the end never has an advantage."
    critical = short(profile.critical, 4)
    if profile.t >= profile.critical:
        return f"{said} This depth is beyond $t$ = {critical}, where the advantage of the end is lost."
    said = f"{said} The end keeps an advantage until $t$ = {critical}"
    proved = profile.proved or 0.0
    return f"{said}; at this depth the U-shape is a theorem." if profile.t <= proved else f"{said}."


def picture(profile: Curve) -> dict[str, Any]:
    """Excess over chance against the position of the token, its minima marked."""
    scale: dict[str, Any] = {"scale": True, "splitNumber": 5}
    if profile.logarithmic:
        low = 10.0 ** math.floor(math.log10(profile.excess.min()))
        scale = {"type": "log", "min": low, "axisLabel": {"color": SOFT, "fontSize": 12, ":formatter": POWERS}}
    dots = [pair for pair in profile.minima if pair[0] >= _FIRST]
    what = "worst" if profile.worst else "dip"
    marks = [
        {
            "value": [place, value],
            "label": {
                "show": True,
                "formatter": f"{what} at {100 * place:.1f} %",
                "position": "top",
                "distance": 10,
                "color": ORANGE,
                "fontSize": 13,
                "fontWeight": 600,
                "backgroundColor": CARD,
                "padding": [3, 5],
                "borderRadius": 4,
                "align": "left" if place < 0.2 else "right" if place > 0.8 else "center",
            },
        }
        for place, value in dots
    ]
    main = line("excess", profile.position, profile.excess, BLUE) | {"silent": False}
    return {
        "grid": {"left": 70, "right": 20, "top": 20, "bottom": 56},
        "xAxis": axis("position of the token in the text", min=0, max=1, nameGap=32)
        | {"axisLabel": {"color": SOFT, "fontSize": 12, ":formatter": "v => `${Math.round(100 * v)} %`"}},
        "yAxis": axis("N × (accuracy − chance)", nameGap=52, **scale),
        "tooltip": tooltip(
            trigger="axis",
            axisPointer={"type": "line", "lineStyle": {"color": SOFT}},
            **{":formatter": "p => `at ${(100 * p[0].value[0]).toFixed(1)} %: ${p[0].value[1].toPrecision(4)}`"},
        ),
        "series": [
            main,
            {
                "type": "scatter",
                "name": "minimum",
                "data": marks,
                "symbolSize": 12,
                "silent": True,
                "z": 5,
                "itemStyle": {"color": ORANGE, "borderColor": CARD, "borderWidth": 2, "opacity": 1},
                "tooltip": {"show": False},
            },
        ],
    }


def build(around: Surroundings = ALONE) -> None:
    """Fill the current container."""
    frame = TabFrame(TITLE, _WORDS, *_FORMULAS, around=around)
    with frame.controls:
        beta = Amount(BETA)
        slope = Amount(SLOPE, "0: every earlier token counts the same")
        t = Amount(TIME, "time of the last layer")
        vocab = Amount(VOCAB)
    with frame.charts:
        shown = chart("Retrieval by the position of the token", "wide")
    frame.list_colours(
        [
            (BLUE, "line", "excess over chance, times the length $N$ of the text"),
            (ORANGE, "dot", "lowest point inside the text"),
        ],
    )

    async def refresh() -> None:
        profile = await frame.work(curve, beta.value, slope.value, t.value, int(vocab.value))
        draw(shown, picture(profile))
        frame.say(in_words(profile))
        frame.list_facts(
            [
                ("worst position", "an end of the text" if profile.worst is None else short(profile.worst[0], 6)),
                ("shape", _SHAPES.get(profile.shape, profile.shape)),
                ("end has an advantage until $t$", "never" if profile.critical is None else short(profile.critical, 6)),
                ("U-shape proved until $t$", "not proved" if profile.proved is None else short(profile.proved, 6)),
                ("chance", short(profile.baseline, 4)),
            ],
        )

    frame.watch(refresh, beta=beta, slope=slope, t=t, vocab=vocab)


def _place(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 1e-3 else f"{power(100 * share)} %"
