"""The phase diagram of dense associative memory: what becomes of a stored pattern at each load and temperature."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sphereflow.explorer.kit import ListControl
from sphereflow.explorer.tabs.charts import (
    BLUE,
    CARD,
    GREEN,
    INK,
    ORANGE,
    PINK,
    axis,
    chart,
    draw,
    line,
    on_place_click,
    pairs,
    tooltip,
)
from sphereflow.explorer.tabs.frame import TabFrame
from sphereflow.explorer.tabs.inputs import Amount, Limits
from sphereflow.explorer.tabs.surroundings import ALONE, Surroundings
from sphereflow.explorer.tabs.words import short

TITLE = "Memory"
_WORDS = (
    "A dense associative memory stores $M=e^{\\alpha N}$ random patterns on a sphere in $N$ dimensions: exponentially "
    "many. A state at temperature $T$ stays near a stored pattern, with overlap $\\varphi$, as long as the pattern "
    "outweighs the noise of all the others. Choose a point of the plane with the pointer, or type a load and a "
    "temperature: the page says what happens there."
)
_OVERLAP = r"\varphi^\mu=\frac{\langle x,\xi^\mu\rangle}N"
_FORMULAS = {
    "lse": (
        r"E(x)=-\frac1\beta\ln\sum_{\mu=1}^Me^{-\beta N(1-\varphi^\mu)}",
        _OVERLAP,
        r"\varphi(T)=\frac12\left(\sqrt{T^2+4}-T\right)",
    ),
    "lsr": (
        r"E(x)=-\frac Nb\ln\sum_{\mu=1}^M[1-b(1-\varphi^\mu)]_+",
        _OVERLAP,
        r"\varphi=1-y,\quad(bT+1)y^2-(2+T+bT)y+T=0",
    ),
}
KERNELS = {"lse": "Gaussian (LSE)", "lsr": "compact (LSR)"}
SHARPNESS = {
    "lse": Limits("Sharpness β", 0.2, 20, 1, logarithmic=True),
    "lsr": Limits("Sharpness b", 1.3, 20, 3.414, logarithmic=True),
}
TOP = 2.0
LOAD = Limits("Load α", 0.005, 3, 0.2, logarithmic=True)
TEMPERATURE = Limits("Temperature T", 0.01, TOP, 0.3)
# The size for which an escape time is shown.
SIZE = 100

# What each region means for someone who stored a pattern; the names are those of the library.
_MEANINGS = {
    "lse": (
        "There is no retrieval state: a state that starts at a pattern is carried away by the noise of the others.",
        "Retrieval is metastable: the pattern is kept for a time that grows exponentially with N, but it is not the "
        "equilibrium.",
        "Retrieval is the equilibrium, by the union of basins: no single pattern outweighs the noise, all of them "
        "together do.",
        "One basin outweighs the noise: the stored pattern alone is deeper than everything else.",
    ),
    "lsr": (
        "Retrieval is lost: a typical state sees exponentially many patterns, at every temperature.",
        "Retrieval is the equilibrium, but neighbouring patterns are within reach and the state may move to them.",
        "No neighbour is within reach: the state stays with its pattern.",
    ),
}
# The lines that bound the regions, from the outermost inwards, and those drawn beside them.
_BOUNDS = {"lse": ("spinodal", "static line", "equal depth"), "lsr": ("threshold", "absolute stability")}
_BESIDE = {"lse": ("critical line",), "lsr": ("line from the noise floor",)}
_COLOURS = {
    "spinodal": ORANGE,
    "threshold": ORANGE,
    "static line": INK,
    "absolute stability": INK,
    "equal depth": GREEN,
    "critical line": PINK,
    "line from the noise floor": PINK,
}
_SHADES = {
    "lse": tuple(f"var(--tab-region-{k})" for k in range(4)),
    "lsr": ("var(--tab-region-0)", "var(--tab-region-2)", "var(--tab-region-3)"),
}
_POLYGON = """(params, api) => ({
  type: 'polygon',
  shape: {points: corners[params.dataIndex].map(p => api.coord(p))},
  style: {fill: fills[params.dataIndex]},
  emphasisDisabled: true,
})"""


@dataclass(frozen=True, eq=False)
class Plane:
    """The lines of a kernel over the temperature, and the largest load that is shown."""

    kernel: str
    temperatures: np.ndarray
    lines: dict[str, np.ndarray]
    capacity: float
    widest: float


@dataclass(frozen=True)
class Place:
    """What holds at one point: the region, the overlap of the retrieval state, and the escape time at N = SIZE."""

    region: int
    name: str
    meaning: str
    overlap: float
    log_escape: float


@lru_cache(maxsize=256)
def plane(kernel: str, sharpness: float) -> Plane:
    """All lines of the kernel, from closed forms."""
    from sphereflow.memory.lines import named_lines

    temperatures = np.concatenate([np.geomspace(1e-4, 0.02, 40), np.linspace(0.02, TOP, 240)[1:]])
    lines = {each.name: np.asarray(each.loads) for each in named_lines(kernel, sharpness, temperatures)}
    capacity = float(lines["capacity" if kernel == "lse" else "threshold"][0])
    return Plane(kernel, temperatures, lines, capacity, (1.25 if kernel == "lse" else 1.6) * capacity)


@lru_cache(maxsize=4096)
def place(kernel: str, sharpness: float, load: float, temperature: float) -> Place:
    """The phase at one point of the plane, by the library's own diagram of that single point."""
    from sphereflow.memory.phases import REGIONS, phase_diagram
    from sphereflow.memory.state import lse_overlap, lsr_overlap

    diagram = phase_diagram(
        kernel, sharpness, loads=np.array([load]), temperatures=np.array([temperature]), sizes=(SIZE,)
    )
    region = int(diagram.region[0, 0])
    overlap = lse_overlap(temperature) if kernel == "lse" else lsr_overlap(temperature, sharpness)
    log_escape = float(diagram.log_escape[SIZE][0, 0])
    return Place(region, REGIONS[kernel][region], _MEANINGS[kernel][region], float(overlap), log_escape)


def in_words(state: Place, load: float, temperature: float) -> str:
    """The phase in one or two sentences, with the overlap where there is a retrieval state."""
    meaning = state.meaning[0].lower() + state.meaning[1:]
    said = f"At load {short(load, 4)} and temperature {short(temperature, 4)}: {meaning}"
    if state.region == 0:
        return said
    return f"{said} The state keeps an overlap of {state.overlap:.4f} with its pattern."


def picture(diagram: Plane, load: float, temperature: float) -> dict[str, Any]:
    """Regions as areas, their borders as curves, and the chosen point."""
    widest = float(np.ceil(20 * max(diagram.widest, 1.05 * load)) / 20)
    t = diagram.temperatures
    # The outer region is the whole plane, and each further one lies on top of the one before.
    corners: list[Any] = [[[0, 0], [widest, 0], [widest, TOP], [0, TOP]]]
    for name in _BOUNDS[diagram.kernel]:
        edge = pairs(diagram.lines[name], t)
        corners.append([[0, 0], [edge[0][0], 0], *edge, [0, TOP]])
    fills = list(_SHADES[diagram.kernel])
    curves = [
        line(name, diagram.lines[name], t, _COLOURS[name])
        | {"lineStyle": {"color": _COLOURS[name], "width": 2, "type": style}}
        for names, style in ((_BESIDE[diagram.kernel], "dashed"), (_BOUNDS[diagram.kernel], "solid"))
        for name in names
    ]
    names = _region_names(diagram.kernel)
    return {
        "grid": {"left": 58, "right": 18, "top": 14, "bottom": 52},
        "xAxis": axis("load α = ln M / N", min=0, max=widest, splitLine={"show": False}),
        "yAxis": axis("temperature T", min=0, max=TOP, nameGap=36, splitLine={"show": False}),
        "tooltip": tooltip(trigger="item", **{":formatter": f"p => {json.dumps(names)}[p.dataIndex]"}),
        "series": [
            {
                "type": "custom",
                "name": "regions",
                "data": [[0, 0]] * len(corners),
                "clip": True,
                "z": 1,
                ":renderItem": f"((corners, fills) => {_POLYGON})({json.dumps(corners)}, {json.dumps(fills)})",
                "animation": False,
            },
            *curves,
            {
                "type": "scatter",
                "name": "chosen",
                "data": [[load, temperature]],
                "symbolSize": 15,
                "z": 6,
                "silent": True,
                "itemStyle": {"color": BLUE, "borderColor": CARD, "borderWidth": 3, "opacity": 1},
            },
        ],
    }


def build(around: Surroundings = ALONE) -> None:
    """Fill the current container."""
    frame = TabFrame(TITLE, _WORDS, *_FORMULAS["lse"], around=around)
    with frame.controls:
        kernel = ListControl("Kernel", KERNELS, "lse")
        sharpness = {name: Amount(limits) for name, limits in SHARPNESS.items()}
        load = Amount(LOAD)
        temperature = Amount(TEMPERATURE)
    with frame.charts:
        shown = chart("Phase diagram: load against temperature")

    async def refresh() -> None:
        for name, amount in sharpness.items():
            amount.set_visible(name == kernel.value)
        sharp = sharpness[kernel.value].value
        lines = await frame.work(plane, kernel.value, sharp)
        state = await frame.work(place, kernel.value, sharp, load.value, temperature.value)
        frame.set_formulas(*_FORMULAS[kernel.value])
        draw(shown, picture(lines, load.value, temperature.value))
        frame.say(in_words(state, load.value, temperature.value))
        frame.list_colours(_colours(kernel.value))
        frame.list_facts(
            [
                ("phase", state.name),
                ("overlap $\\varphi$ with the pattern", f"{state.overlap:.6f}" if state.region else "none"),
                ("capacity at $T=0$" if kernel.value == "lse" else "threshold", short(lines.capacity, 5)),
                (f"escape time at $N={SIZE}$" + ("" if kernel.value == "lse" else ", rate only"), _duration(state)),
            ],
        )

    async def chosen(event: Any) -> None:
        try:
            asked_load, asked_temperature = (float(value) for value in event.args)
        except (TypeError, ValueError):
            return
        load.set(round(asked_load, 4))
        temperature.set(round(asked_temperature, 4))
        await renew()

    renew = frame.watch(refresh, kernel=kernel, **sharpness, load=load, temperature=temperature)
    on_place_click(shown, chosen)


def _region_names(kernel: str) -> list[str]:
    from sphereflow.memory.phases import REGIONS

    return list(REGIONS[kernel])


def _colours(kernel: str) -> list[tuple[str, str, str]]:
    areas = [(shade, "box", name) for shade, name in zip(_SHADES[kernel], _region_names(kernel), strict=True)]
    lines = [(_COLOURS[name], "line", name) for name in _BOUNDS[kernel]]
    return [
        *areas,
        *lines,
        *((_COLOURS[name], "dashed", f"{name} (Gaussian approximation)") for name in _BESIDE[kernel]),
    ]


def _duration(state: Place) -> str:
    """The escape time as a power of ten, in the unit of the Langevin equation."""
    if state.region == 0:
        return "none"
    if np.isinf(state.log_escape):
        return "for ever"
    return f"about $10^{{{state.log_escape / np.log(10):.1f}}}$"
