"""The metastable staircase: clusters merge one by one, after rests that are exponentially long in beta."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sphereflow.explorer.kit import ListControl
from sphereflow.explorer.tabs.charts import BLUE, ORANGE, SOFT, axis, chart, draw, line, pairs, tooltip
from sphereflow.explorer.tabs.frame import TabFrame
from sphereflow.explorer.tabs.inputs import Amount, Limits
from sphereflow.explorer.tabs.surroundings import ALONE, Surroundings
from sphereflow.explorer.tabs.words import short
from sphereflow.metastability import MergeHistory, coarsen_to_one
from sphereflow.metastability.staircases import limit
from sphereflow.sphere import draw as draw_tokens

TITLE = "Staircase"
_WORDS = (
    "Two clusters at distance $r$ attract each other with a force that is exponentially small in $\\beta$. So tokens "
    "gather, rest for a time of order $e^{c\\beta}$, merge, and rest again, until one is left. Against the logarithm "
    "of time, on a logarithmic axis, the number of clusters and the energy are a staircase. The dashed stairs are the "
    "limit of large $\\beta$: repeated merging of the closest pair, without any simulation. The computation goes on to "
    "times that no computer could reach step by step."
)
_FORMULAS = (
    r"\dot x_i=P_{x_i}\sum_{j=1}^n\frac{e^{\beta\langle x_i,x_j\rangle}}{Z_i}\,x_j",
    r"\frac{\log t_k}{\beta}\ \to\ \max_{l\le k}\,(1-\cos g_l)",
)
BETA = Limits("Inverse temperature β", 5, 400, 60, logarithmic=True)
TOKENS = Limits("Tokens n", 2, 16, 8, whole=True)
SEED = Limits("Seed", 0, 99, 1, whole=True)
MODELS = {"sa": "Softmax attention (SA)", "usa": "Unnormalised attention (USA)"}
HEIGHTS = {"clusters": "number of clusters", "energy": "energy, 1 for a single cluster"}
CLOCKS = {"loglog": "log t, on a logarithmic axis", "log": "log t", "scaled": "log t / β"}
DIMENSIONS = {"2": "circle", "3": "sphere"}


def start(n: int, d: int, seed: int) -> np.ndarray:
    """The first tokens."""
    return np.asarray(draw_tokens("uniform", n, d, seed), dtype=float)


@lru_cache(maxsize=128)
def stairs(model: str, n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(heights, levels): limits of log t / beta at the mergers, and of the energy after each."""
    return limit(start(n, d, seed), model)


@lru_cache(maxsize=128)
def history(model: str, n: int, d: int, beta: float, seed: int) -> MergeHistory:
    """The run to a single cluster."""
    return coarsen_to_one(model, start(n, d, seed), beta, errors=False, seed=seed, progress=False)


def in_words(run: MergeHistory) -> str:
    """The number of mergers, the longest rest, and the last time."""
    logs = np.array([merge.log_time for merge in run.merges])
    if len(logs) < 2:
        return f"The two tokens meet at $\\log t$ = {short(float(logs[0]), 4)}."
    longest = int(np.argmax(np.diff(logs)))
    left, begun, ended = run.n - 1 - longest, _time(logs[longest]), _time(logs[longest + 1])
    return (
        f"{run.n} tokens become one in {len(logs)} mergers, the last at $t$ = {_time(logs[-1])}. The longest rest, "
        f"seen on $\\log t$, is that of {left} clusters: from $t$ = {begun} to {ended}."
    )


def picture(
    run: MergeHistory | None, limits: tuple[np.ndarray, np.ndarray], n: int, beta: float, height: str, clock: str
) -> dict[str, Any]:
    """The computed stairs and those of the limit; without a run the limit alone."""
    scale = 1.0 if clock == "scaled" else beta
    x, y = _limit_stairs(limits, n, height)
    series = [line("limit", scale * x, y, SOFT) | {"lineStyle": {"color": SOFT, "width": 1.8, "type": "dashed"}}]
    if run is not None:
        by = run.beta if clock == "scaled" else 1.0
        logs = np.array([merge.log_time for merge in run.merges]) / by
        if height == "clusters":
            series.append(line("run", *_steps(logs, run.n - np.arange(run.n)), BLUE))
            marks = run.n - 1.0 - np.arange(len(logs))
        else:
            rows = run.curve[np.isfinite(run.curve[:, 0])]
            series.append(line("run", rows[:, 0] / by, rows[:, 1], BLUE))
            marks = np.interp(logs, rows[:, 0] / by, rows[:, 1])
        dots = {"type": "scatter", "name": "mergers", "data": pairs(logs, marks), "symbolSize": 9, "z": 5}
        series.append(dots | {"itemStyle": {"color": ORANGE, "opacity": 1}})
    last = 1.08 * max([1.0, *(point[0] for each in series for point in each["data"] if point[0] is not None)])
    names = {"loglog": "log t (logarithmic axis)", "log": "log t", "scaled": "log t / β"}
    low = 1.0 if clock == "loglog" else 0.0
    floor = {"min": 0, "max": n} if height == "clusters" else {"min": 0, "max": 1}
    return {
        "grid": {"left": 58, "right": 20, "top": 16, "bottom": 52},
        "xAxis": axis(names[clock], type="log" if clock == "loglog" else "value", min=low, max=_round(last))
        | {"axisLabel": {"color": SOFT, "fontSize": 12, "showMaxLabel": False}},
        "yAxis": axis(HEIGHTS[height], nameGap=38, **floor),
        "tooltip": tooltip(trigger="item", **{":formatter": "p => `log t: ${p.value[0].toPrecision(4)}`"}),
        "series": [each | {"clip": True} for each in series],
    }


def build(around: Surroundings = ALONE) -> None:
    """Fill the current container."""
    frame = TabFrame(TITLE, _WORDS, *_FORMULAS, around=around)
    with frame.controls:
        beta = Amount(BETA, "the rests are exponentially long in it")
        n, seed = Amount(TOKENS), Amount(SEED)
        d = ListControl("Tokens lie on the", DIMENSIONS, "2")
        model = ListControl("Model", MODELS, "sa")
        height = ListControl("Height shows", HEIGHTS, "clusters")
        clock = ListControl("Time axis", CLOCKS, "loglog")
    with frame.charts:
        shown = chart("Number of clusters, or energy, against logarithmic time", "wide")
    frame.list_colours(
        [(BLUE, "line", "computed"), (ORANGE, "dot", "mergers"), (SOFT, "dashed", "limit of large $\\beta$")],
    )

    async def refresh() -> None:
        who = (model.value, int(n.value), int(d.value))
        limits = await frame.work(stairs, *who, int(seed.value))
        shape = (int(n.value), beta.value, height.value, clock.value)
        draw(shown, picture(None, limits, *shape))
        frame.say("The limit of large $\\beta$ is known at once; the run itself is computed.")
        frame.drawn()
        run = await frame.work(history, *who, beta.value, int(seed.value))
        draw(shown, picture(run, limits, *shape))
        frame.say(in_words(run))
        logs = [merge.log_time for merge in run.merges]
        frame.list_facts(
            [
                ("mergers", str(len(logs))),
                ("first merger at $\\log t$", short(logs[0], 4)),
                ("last merger at $\\log t$", short(logs[-1], 5)),
                ("limit of $\\log t/\\beta$ for the last", short(float(limits[0][-1]), 4)),
                ("found", f"{logs[-1] / run.beta:.4g}"),
            ],
        )

    frame.watch(refresh, beta=beta, n=n, seed=seed, d=d, model=model, height=height, clock=clock)


def _time(log: float) -> str:
    """A time by its logarithm, as a power of ten where it is large."""
    return short(float(np.exp(log))) if log < 7 else f"$10^{{{log / np.log(10):.1f}}}$"


def _limit_stairs(limits: tuple[np.ndarray, np.ndarray], n: int, height: str) -> tuple[np.ndarray, np.ndarray]:
    heights, levels = limits
    if height == "clusters":
        return _steps(heights, n - np.arange(n))
    return _steps(heights, np.concatenate([[1 / n], levels]))


def _steps(at: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners of stairs: `values[k]` until `at[k]`, and a little beyond the last."""
    beyond = 1.08 * float(at[-1]) if len(at) else 1.0
    x = np.concatenate([[0.0], np.repeat(at, 2), [beyond]])
    return x, np.repeat(np.asarray(values, dtype=float), 2)


def _round(value: float) -> float:
    return float(f"{value:.2g}")
