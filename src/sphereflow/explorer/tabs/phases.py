"""Phase diagrams over time and temperature: what tokens have become, averaged over starts; a click plays a run."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from sphereflow.evolution import ClusterDiagram, phase_diagram
from sphereflow.evolution.equiangular import collapse_time
from sphereflow.explorer.kit import ListControl
from sphereflow.explorer.settings import Settings
from sphereflow.explorer.tabs.charts import ORANGE, POWERS, SOFT, axis, chart, draw, line, on_place_click, tooltip
from sphereflow.explorer.tabs.frame import TabFrame
from sphereflow.explorer.tabs.inputs import Amount, Limits
from sphereflow.explorer.tabs.surroundings import ALONE, Surroundings
from sphereflow.explorer.tabs.words import short

TITLE = "Phases"
_WORDS = (
    "Every column is a time, every row an inverse temperature $\\beta$, and the colour says what tokens have become by "
    "then, on average over several starts. At small $\\beta$ all of them meet soon; at large $\\beta$ they stay in "
    "several clusters for a time that grows exponentially. On the line tokens that all have the same inner product "
    "would be within 0.001 of each other. Click a point to see a run with its $\\beta$ on the sphere."
)
_FORMULAS = (
    r"\dot x_i=P_{x_i}\sum_{j=1}^n\frac{e^{\beta\langle x_i,x_j\rangle}}{Z_i}\,x_j",
    r"i\sim j\ \text{if}\ \langle x_i,x_j\rangle>0.999",
)
SHOWN = {
    "clusters": "number of clusters",
    "close": "share of pairs that have met",
    "one": "probability of one cluster",
    "overlap": "mean inner product",
}
MODELS = {"sa": "Softmax attention (SA)", "usa": "Unnormalised attention (USA)"}
SIZES = {str(n): str(n) for n in (8, 16, 32, 64)}
DIMENSIONS = {str(d): str(d) for d in (2, 3, 8)}
LAST = Limits("Final time t₁", 3, 300, 30, logarithmic=True)
TOP = Limits("Largest β", 2, 60, 20, logarithmic=True)
SEED = Limits("Seed", 0, 99, 0, whole=True)

_TIMES, _ROWS, _COARSE, _REPEATS = 36, 16, 4, 8
_LOWEST = 0.5
_RECTANGLES = """(params, api) => {
  const [a, b] = [api.coord([api.value(0), api.value(3)]), api.coord([api.value(1), api.value(2)])];
  return {type: 'rect', style: {fill: fills[params.dataIndex]},
          shape: {x: a[0] - 0.3, y: a[1] - 0.3, width: b[0] - a[0] + 0.6, height: b[1] - a[1] + 0.6}};
}"""


@lru_cache(maxsize=64)
def diagram(
    observable: str, model: str, n: int, d: int, t1: float, top: float, seed: int, rows: int, report: Any = None
) -> ClusterDiagram:
    """The diagram with so many rows; coarse and fine ones share a program."""
    times = np.append(0.0, np.geomspace(t1 / 300, t1, _TIMES))
    return phase_diagram(
        times,
        np.geomspace(_LOWEST, top, rows),
        n=n,
        d=d,
        model=model,
        observable=observable,
        repeats=_REPEATS,
        seed=seed,
        tol=1e-4,
        progress=report or False,
    )


@lru_cache(maxsize=256)
def together(model: str, n: int, top: float) -> tuple[np.ndarray, np.ndarray]:
    """(times, betas): when tokens of equal inner products have met; needs no simulation."""
    betas = np.geomspace(_LOWEST, top, 40)
    return np.array([collapse_time(n, float(beta), model=model) for beta in betas]), betas


def in_words(phases: ClusterDiagram) -> str:
    """What the corners of the diagram say."""
    low, high, what = phases.value[0, -1], phases.value[-1, -1], SHOWN[phases.observable]
    return (
        f"At the end, $t$ = {short(float(phases.times[-1]))}, the {what} is {low:.3g} at $\\beta$ = "
        f"{short(float(phases.betas[0]))} and {high:.3g} at $\\beta$ = {short(float(phases.betas[-1]))}."
    )


def picture(
    phases: ClusterDiagram | None, line_of: tuple[np.ndarray, np.ndarray], t1: float, top: float
) -> dict[str, Any]:
    """Cells in colours, on logarithmic axes, and the line; without a diagram the line alone."""
    start = t1 / 300
    inside = line_of[0] <= t1
    series: list[dict[str, Any]] = []
    labels: list[str] = []
    if phases is not None:
        cells, fills, labels = _cells(phases)
        series.append(
            {
                "type": "custom",
                "name": "cells",
                "data": cells,
                "clip": True,
                "z": 1,
                "animation": False,
                ":renderItem": f"(fills => {_RECTANGLES})({json.dumps(fills)})",
            }
        )
    series.append(line("line", line_of[0][inside], line_of[1][inside], ORANGE))
    # The ends of a logarithmic axis are no powers, and what stands there would be wrong or in the way.
    inner = {"color": SOFT, "fontSize": 12, "showMinLabel": False, "showMaxLabel": False}
    logarithmic = {"axisLabel": inner | {":formatter": POWERS}, "splitLine": {"show": False}}
    plain = {"axisLabel": inner, "splitLine": {"show": False}}
    return {
        "grid": {"left": 58, "right": 18, "top": 14, "bottom": 52},
        "xAxis": axis("time t", type="log", min=start, max=t1) | logarithmic,
        "yAxis": axis("inverse temperature β", type="log", logBase=2, min=_LOWEST, max=top, nameGap=38) | plain,
        "tooltip": tooltip(trigger="item", **{":formatter": f"p => {json.dumps(labels)}[p.dataIndex] ?? ''"}),
        "series": series,
    }


def build(around: Surroundings = ALONE) -> None:
    """Fill the current container."""
    frame = TabFrame(TITLE, _WORDS, *_FORMULAS, around=around)
    with frame.controls:
        observable = ListControl("Colour shows", SHOWN, "clusters")
        model = ListControl("Model", MODELS, "sa")
        n = ListControl("Tokens n", SIZES, "32")
        d = ListControl("Dimension d", DIMENSIONS, "2")
        top, t1, seed = Amount(TOP), Amount(LAST), Amount(SEED)
    with frame.charts:
        shown = chart("Phase diagram: time against inverse temperature")

    async def refresh() -> None:
        asked = (observable.value, model.value, int(n.value), int(d.value), t1.value, top.value, int(seed.value))
        curve = await frame.work(together, model.value, int(n.value), top.value)
        draw(shown, picture(None, curve, t1.value, top.value))
        frame.say("The line is known at once; the colours are computed.")
        frame.drawn()
        for rows in (_COARSE, _ROWS):
            phases = await frame.work(diagram, *asked, rows, _Report(frame.report))
            draw(shown, picture(phases, curve, t1.value, top.value))
            coarse = f" Coarse so far: {rows} of {_ROWS} rows." if rows < _ROWS else ""
            frame.say(in_words(phases) + coarse)
            frame.list_colours(_colours(phases))
        frame.list_facts(
            [
                ("replicas of each cell", str(len(phases.samples))),
                ("largest standard error", short(float(np.nanmax(phases.error)), 2)),
                ("values of $\\beta$", str(len(phases.betas))),
                ("error of every token", "1e-4"),
            ],
        )

    def clicked(event: Any) -> None:
        try:
            beta = float(f"{float(event.args[1]):.3g}")
        except (TypeError, ValueError, IndexError):
            return
        if TOP.low / 10 <= beta <= TOP.high:
            chosen = Settings(
                model=model.value, n=int(n.value), d=int(d.value), beta=beta, t1=float(t1.value), seed=int(seed.value)
            )
            around.show_run(chosen)

    frame.watch(refresh, show=observable, model=model, n=n, d=d, top=top, t1=t1, seed=seed)
    on_place_click(shown, clicked)


class _Report:
    """Where progress is reported; all compare equal, so that a cache of results by arguments does not see it."""

    def __init__(self, report: Any) -> None:
        self._report = report

    def __call__(self, share: float, words: str) -> None:
        self._report(share, words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Report)

    def __hash__(self) -> int:
        return 0


def _edges(values: np.ndarray) -> np.ndarray:
    """Borders half way between values, on a logarithmic scale."""
    logs = np.log(values)
    middle = (logs[1:] + logs[:-1]) / 2
    return np.exp(np.concatenate([[logs[0]], middle, [logs[-1]]]))


def _range(phases: ClusterDiagram) -> tuple[float, float, str]:
    high = float(np.nanmax(phases.value)) if phases.observable == "clusters" else 1.0
    return (1.0 if phases.observable == "clusters" else 0.0), max(high, 1.0 + 1e-9), "viridis"


def _cells(phases: ClusterDiagram) -> tuple[list[list[float]], list[str], list[str]]:
    """Corners, colours and words of all cells."""
    low, high, name = _range(phases)
    t, b = _edges(phases.times[1:]), _edges(phases.betas)
    share = (phases.value[:, 1:] - low) / max(high - low, 1e-9)
    if phases.observable == "clusters":  # from one to many: equal factors are equal steps of colour
        share = np.log(np.maximum(phases.value[:, 1:], 1)) / np.log(max(high, 1.0 + 1e-9))
    palette = [to_hex(c) for c in colormaps[name](np.linspace(0, 1, 64))]
    cells, fills, labels = [], [], []
    for i, beta in enumerate(phases.betas):
        for j, time in enumerate(phases.times[1:]):
            value = phases.value[i, j + 1]
            cells.append([float(f"{each:.5g}") for each in (t[j], t[j + 1], b[i], b[i + 1])])
            fills.append(palette[int(np.clip(round(63 * share[i, j]), 0, 63))] if np.isfinite(value) else "transparent")
            labels.append(f"t = {time:.3g}, β = {beta:.3g}: {SHOWN[phases.observable]} {value:.3g}")
    return cells, fills, labels


def _colours(phases: ClusterDiagram) -> list[tuple[str, str, str]]:
    low, high, name = _range(phases)
    stops = ", ".join(to_hex(c) for c in colormaps[name](np.linspace(0, 1, 16)))
    scale = " (equal factors)" if phases.observable == "clusters" else ""
    return [
        (f"linear-gradient(to right, {stops})", "bar", f"{SHOWN[phases.observable]}, {low:.3g} to {high:.3g}{scale}"),
        (ORANGE, "line", "tokens of equal inner products have met"),
    ]
