"""The head map of a language model: what every head of every layer does with the tokens it selects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from sphereflow.errors import MissingExtra
from sphereflow.explorer.kit import ListControl
from sphereflow.explorer.tabs import headmaps
from sphereflow.explorer.tabs.charts import CARD, INK, SOFT, axis, chart, draw, tooltip
from sphereflow.explorer.tabs.frame import TabFrame
from sphereflow.explorer.tabs.headmaps import HeadMap
from sphereflow.explorer.tabs.inputs import Amount, Limits
from sphereflow.explorer.tabs.surroundings import ALONE, Surroundings
from sphereflow.explorer.tabs.words import answer, say
from sphereflow.pictures import PALETTE

TITLE = "Heads"
_WORDS = (
    "Each head of a language model gives weights to the tokens before it. Take the four tokens of largest weight and "
    "the sum of their weighted values: do they form a ball around that sum which no other token enters? $F_4$ is 1 "
    "when they do. Heads that pick few, separable tokens are retrievers; those that rest on the first token and write "
    "almost nothing are resets; all others mix. Below, $S$ are the $N$ selected tokens, $D_i$ is the distance of token "
    "$i$ to their sum, $\\rho_{max}$ the largest of them in $S$ and $\\rho_{min}$ the smallest outside."
)
_FORMULAS = (
    r"P_N=\frac N{N+|\{j\notin S:D_j\le\rho_{max}\}|}",
    r"R_N=\frac{|\{i\in S:D_i<\rho_{min}\}|}N",
    r"F_N=\frac{2P_NR_N}{P_N+R_N}",
)
ARCHITECTURES = (
    "llama",
    "llama, grouped",
    "mistral, window 8",
    "gemma 3, normed queries",
    "qwen 3",
    "gpt-2",
    "gpt-neox",
    "phi",
    "falcon, grouped",
    "bloom",
)
SEED = Limits("Seed", 0, 99, 0, whole=True)
DECAY = Limits("Decorrelation of tokens λ", 0.01, 2, 0.1, logarithmic=True)
# (name, unit of the colours, from, to, colours)
_SHOWN: dict[str, tuple[str, float, float, str]] = {
    "f4": ("F₄ of the selected tokens", 0, 1, "viridis"),
    "f4_random": ("F₄ of random tokens", 0, 1, "viridis"),
    "sink_mass": ("weight on the first token", 0, 1, "viridis"),
    "compression": ("length of the first value / median", 0, 2, "cividis"),
    "sink_cosine": ("cosine of the first value and the selected sum", -1, 1, "RdBu_r"),
    "effective_number": ("effective number of tokens", 1, 256, "magma"),
}
_NAMES = {"regime": "regime"} | {name: shown[0] for name, shown in _SHOWN.items()}
_REGIME_COLOURS = (PALETTE[0], PALETTE[4], PALETTE[1])

_HINT = "Point at a cell for its number; click it to read about the head."

_given: HeadMap | None = None


def measured(path: str | Path) -> None:
    """Show this measurement first; for the server, which has the path from its command line, never from the page."""
    global _given
    _given = headmaps.read(path)


def in_words(heads: HeadMap) -> str:
    """What the map says as a whole."""
    from sphereflow.llm import REGIMES

    kinds = np.bincount(heads.values["regime"].astype(int).ravel(), minlength=3) / heads.values["regime"].size
    shares = ", ".join(f"{100 * share:.0f} % {name}s" for name, share in zip(REGIMES, kinds, strict=True))
    own, control = heads.values["f4"], heads.values.get("f4_random")
    chance = ""
    if control is not None:
        above = 100 * np.mean(own > control)
        chance = f", {np.nanmean(control):.2f} for random tokens; {above:.0f} % of heads lie above chance"
    subject = f"{len(heads.rows)} layers of {len(heads.columns)} heads" if heads.row == "layer" else "a grid of sinks"
    who = f"{heads.name[0].upper()}{heads.name[1:]}"
    return f"{who}: {subject}. {shares}. $F_4$ is {np.nanmean(own):.2f} on average{chance}."


def head_in_words(heads: HeadMap, row: int, column: int) -> str:
    """One head in a sentence."""
    from sphereflow.llm import REGIMES

    at = {name: float(values[row, column]) for name, values in heads.values.items()}
    who = f"{heads.row} {heads.rows[row]}, {heads.column} {heads.columns[column]}"
    sink = (
        "the first token lies outside of its sliding window"
        if np.isnan(at["sink_mass"])
        else f"{100 * at['sink_mass']:.0f} % of its weight lies on the first token, whose value is "
        f"{at['compression']:.2f} times as long as the median"
    )
    chance = f" (random ones {at['f4_random']:.2f})" if "f4_random" in at else ""
    return (
        f"{who[0].upper()}{who[1:]}: a {REGIMES[int(at['regime'])]} head. The four tokens it selects have "
        f"$F_4$ = {at['f4']:.2f}{chance}; {sink}; it attends to "
        f"{at['effective_number']:.1f} tokens in effect."
    )


def picture(heads: HeadMap, quantity: str) -> dict[str, Any]:
    """One coloured cell per head, layers downwards."""
    values = heads.values[quantity].astype(float)
    rows, columns = np.indices(values.shape).reshape(2, -1)
    cells = [
        [int(j), int(i), None if np.isnan(v) else float(f"{v:.5g}")]
        for i, j, v in zip(rows, columns, values.ravel(), strict=True)
    ]
    named = {"axisLabel": {"color": SOFT, "fontSize": 11}, "splitLine": {"show": False}, "type": "category"}
    return {
        "grid": {"left": 58, "right": 14, "top": 8, "bottom": 50},
        "xAxis": axis(heads.column, data=list(heads.columns), nameGap=28) | named,
        "yAxis": axis(heads.row, data=list(heads.rows), inverse=True, nameGap=36) | named,
        "visualMap": _scale(quantity, values) | {"show": False},
        "tooltip": tooltip(trigger="item", **{":formatter": _label(heads, quantity)}),
        "series": [
            {
                "type": "heatmap",
                "name": "heads",
                "data": cells,
                "animation": False,
                "itemStyle": {"borderColor": CARD, "borderWidth": 1.5, "borderRadius": 3},
                "emphasis": {"itemStyle": {"borderColor": INK, "borderWidth": 2}},
            }
        ],
    }


def build(around: Surroundings = ALONE) -> None:
    """Fill the current container."""
    given = _given
    sources = {"given": given.name} if given is not None else {}
    sources |= headmaps.RECORDED
    sources |= {"tiny": "tiny model, random weights", "synthetic": "synthetic heads"}
    frame = TabFrame(TITLE, _WORDS, *_FORMULAS, around=around)
    with frame.controls:
        source = ListControl("Heads of", sources, next(iter(sources)))
        quantity = ListControl("Colour shows", _NAMES, "f4")
        architecture = ListControl("Architecture", {name: name for name in ARCHITECTURES}, ARCHITECTURES[0])
        decay = Amount(DECAY)
        seed = Amount(SEED)
    with frame.charts:
        shown = chart("Map of heads: layers by heads")
        one = answer()
    present: list[HeadMap] = []

    async def refresh() -> str | None:
        architecture.set_visible(source.value == "tiny")
        decay.set_visible(source.value == "synthetic")
        seed.set_visible(source.value in ("tiny", "synthetic"))
        trouble = None
        if source.value == "given" and given is not None:
            heads = given
        elif source.value == "tiny":
            try:
                heads = await frame.work(headmaps.tiny, architecture.value, int(seed.value))
            except MissingExtra as missing:
                trouble = f"{missing} The synthetic heads below need nothing."
                heads = await frame.work(headmaps.synthetic, decay.value, int(seed.value))
        elif source.value == "synthetic":
            heads = await frame.work(headmaps.synthetic, decay.value, int(seed.value))
        else:
            heads = await frame.work(headmaps.recorded, source.value)
        if present != [heads]:
            present[:] = [heads]
            say(one, _HINT)
        shown.style(f"height: {60 + max(18, min(40, 480 // len(heads.rows))) * len(heads.rows)}px")
        colour = quantity.value
        if colour not in heads.values:
            trouble, colour = "Recordings have no random tokens beside; the map shows the selected ones.", "f4"
        draw(shown, picture(heads, colour))
        frame.say(in_words(heads))
        frame.list_colours(_colours(heads, colour))
        frame.list_facts(_numbers(heads))
        return trouble

    def clicked(event: Any) -> None:
        if present and event.series_type == "heatmap":
            column, row = (int(value) for value in event.value[:2])
            if 0 <= row < len(present[0].rows) and 0 <= column < len(present[0].columns):
                say(one, head_in_words(present[0], row, column))

    shown.on_point_click(clicked)
    frame.watch(refresh, source=source, quantity=quantity, architecture=architecture, decay=decay, seed=seed)


def _numbers(heads: HeadMap) -> list[tuple[str, str]]:
    """Medians over heads, of those that see the first token where it is about that."""
    named = (
        ("f4", "$F_4$"),
        ("sink_mass", "weight on the first token"),
        ("compression", "length of the first value"),
        ("effective_number", "effective number of tokens"),
    )
    known = {name: heads.values[name][np.isfinite(heads.values[name])] for name, _ in named}
    return [
        (f"{words}, median", f"{np.median(known[name]):.3g}" if known[name].size else "out of sight")
        for name, words in named
    ]


def _scale(quantity: str, values: np.ndarray) -> dict[str, Any]:
    """Which number has which colour."""
    if quantity == "regime":
        return {"type": "piecewise", "pieces": [{"value": k, "color": each} for k, each in enumerate(_REGIME_COLOURS)]}
    _, low, high, name = _SHOWN[quantity]
    if quantity == "effective_number":
        high = float(max(2.0, np.nanmax(values)))
    colours = [to_hex(c) for c in colormaps[name](np.linspace(0, 1, 24))]
    return {"type": "continuous", "min": low, "max": high, "inRange": {"color": colours}}


def _colours(heads: HeadMap, quantity: str) -> list[tuple[str, str, str]]:
    """The same as a legend."""
    from sphereflow.llm import REGIMES

    if quantity == "regime":
        return [(colour, "box", name) for colour, name in zip(_REGIME_COLOURS, REGIMES, strict=True)]
    scale = _scale(quantity, heads.values[quantity])
    bar = f"linear-gradient(to right, {', '.join(scale['inRange']['color'])})"
    return [(bar, "bar", f"{_NAMES[quantity]}, from {scale['min']:.3g} to {scale['max']:.3g}")]


def _label(heads: HeadMap, quantity: str) -> str:
    """JavaScript: the text of the box at a cell."""
    from sphereflow.llm import REGIMES

    text = f"{json.dumps(REGIMES)}[p.value[2]]" if quantity == "regime" else "Number(p.value[2]).toPrecision(3)"
    return (
        f"p => `{heads.row} ${{{json.dumps(heads.rows)}[p.value[1]]}}, {heads.column} "
        f"${{{json.dumps(heads.columns)}[p.value[0]]}}<br>{_NAMES[quantity]}: ${{{text}}}`"
    )
