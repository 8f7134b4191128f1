"""Transport by a Transformer: drag the targets, and blocks are built that carry every cloud to its own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from nicegui import ui

from sphereflow.explorer.kit import ListControl
from sphereflow.explorer.tabs.charts import BLUE, CARD, GREEN, LINE, ORANGE, SOFT, chart, draw, pairs, tooltip
from sphereflow.explorer.tabs.frame import TabFrame
from sphereflow.explorer.tabs.inputs import Amount, Limits
from sphereflow.explorer.tabs.surroundings import ALONE, Surroundings
from sphereflow.explorer.tabs.words import power, short
from sphereflow.numerics.unit_vectors import unit
from sphereflow.transport import Interpolation, interpolate

TITLE = "Transport"
_WORDS = (
    "A Transformer is a flow on clouds of tokens, and one choice of weights moves all clouds at once. Still there is a "
    "schedule of piecewise constant weights under which each of several clouds ends in a target of its own. It is "
    "built here, block by block, and then run again from the start: the distance below is that of the run to its "
    "target, not a bound. Drag a ring to move a target; the slider moves the clouds through the blocks."
)
_FORMULAS = (
    r"\dot x=P_x\big(V_t\,\mathcal A_{B_t}[\mu_t](x)+W_t(U_tx+b_t)_+\big)",
    r"W_2(\mu^i_T,\delta_{y^i})\le\varepsilon",
)
CLOUDS = {"2": "2", "3": "3"}
SHARE = Limits("Share of the blocks that were run, %", 0, 100, 100, whole=True)
SPREAD = Limits("Width of the clouds", 0.05, 0.6, 0.3)
SEED = Limits("Seed", 0, 99, 1, whole=True)
TOL = 1e-5
_POINTS = 40
_DRAWN_WAYS = 10
_COLOURS = (BLUE, ORANGE, GREEN)
_PLACES = ((0.55, 0.55), (-0.65, 0.35), (0.1, -0.7))
_RIM = 0.97  # a target stays on the side that is seen


def target(x: float, y: float) -> np.ndarray:
    """The point of the sphere above a place of the disc; places beyond the rim are moved to it."""
    flat = np.array([x, y])
    flat *= min(1.0, _RIM / max(float(np.linalg.norm(flat)), 1e-9))
    return np.append(flat, np.sqrt(1 - flat @ flat))


@lru_cache(maxsize=64)
def clouds(count: int, spread: float, seed: int) -> tuple[np.ndarray, ...]:
    """Clouds around random points of the side that is seen."""
    rng = np.random.default_rng(seed)
    turns = rng.uniform(0, 2 * np.pi) + 2 * np.pi * np.arange(count) / count
    centres = np.stack([0.6 * np.cos(turns), 0.6 * np.sin(turns), np.full(count, 0.8)], axis=1)
    return tuple(unit(centre + spread * rng.normal(size=(_POINTS, 3))) for centre in centres)


@lru_cache(maxsize=128)
def schedule(count: int, spread: float, seed: int, places: tuple[tuple[float, float], ...]) -> Interpolation:
    """The schedule for these clouds and targets."""
    goals = [target(*place) for place in places[:count]]
    return interpolate(list(clouds(count, spread, seed)), goals, tol=TOL, margins=False, seed=seed)


def in_words(moved: Interpolation) -> str:
    """How far every cloud ends from its target."""
    return (
        f"{moved.schedule.n_pieces} blocks carry {len(moved.w2)} clouds of {_POINTS} tokens to targets. Run again "
        f"from the start, the farthest cloud ends at distance $W_2$ = {power(float(moved.w2.max()))} from its own."
    )


def picture(
    start: tuple[np.ndarray, ...], moved: Interpolation | None, places: tuple[tuple[float, float], ...], share: float
) -> dict[str, Any]:
    """The sphere from the front: tokens behind it are pale, rings are targets."""
    angle = np.linspace(0, 2 * np.pi, 121)
    rim = {"type": "line", "showSymbol": False, "silent": True, "lineStyle": {"color": SOFT, "width": 1.2}, "z": 1}
    series: list[dict[str, Any]] = [rim | {"data": pairs(np.cos(angle), np.sin(angle))}]
    for height in (-0.5, 0.0, 0.5):
        wide = np.sqrt(1 - height**2)
        series.append(
            rim
            | {
                "data": pairs(np.array([-wide, wide]), np.array([height, height])),
                "lineStyle": {"color": LINE, "width": 1},
            }
        )
    piece = 0 if moved is None else round(share / 100 * moved.schedule.n_pieces)
    now = start if moved is None else [stages[piece] for stages in moved.stages]
    for k, (before, points) in enumerate(zip(start, now, strict=True)):
        colour = _COLOURS[k]
        series.append(_dots(f"start {k + 1}", before, colour, 5, 0.22))
        if moved is not None:
            series.append(_ways(np.stack(moved.stages[k][: piece + 1]), colour))
        series.append(_dots(f"cloud {k + 1}", points[points[:, 2] >= 0], colour, 9, 0.9))
        series.append(_dots(f"behind {k + 1}", points[points[:, 2] < 0], colour, 7, 0.3))
        ring = {"color": "transparent", "borderColor": colour, "borderWidth": 3}
        goal = target(*places[k])
        series.append(
            {"type": "scatter", "name": f"target {k + 1}", "data": pairs(goal[:1], goal[1:2]), "symbolSize": 26}
            | {"itemStyle": ring, "z": 6, "cursor": "grab"}
        )
    hidden = {"type": "value", "min": -1.06, "max": 1.06, "show": False}
    return {
        "grid": {"left": 6, "right": 6, "top": 6, "bottom": 6},
        "xAxis": hidden,
        "yAxis": hidden,
        "backgroundColor": CARD,
        "tooltip": tooltip(trigger="item", formatter="{a}"),
        "series": series,
    }


def build(around: Surroundings = ALONE) -> None:
    """Fill the current container."""
    frame = TabFrame(TITLE, _WORDS, *_FORMULAS, around=around)
    with frame.controls:
        count = ListControl("Clouds", CLOUDS, "3")
        share = Amount(SHARE, "0: before the first block, 100: after the last")
        spread, seed = Amount(SPREAD), Amount(SEED)
        with ui.expansion("Targets by numbers").props("dense").classes("tab-more"):
            places = [
                (Amount(Limits(f"Target {k + 1}, x", -1, 1, x)), Amount(Limits(f"Target {k + 1}, y", -1, 1, y)))
                for k, (x, y) in enumerate(_PLACES)
            ]
    with frame.charts:
        shown = chart("The sphere from the front, with clouds and their targets; drag a ring", "disc")
    pale = "pale: where a cloud began, and tokens on the far side"
    frame.list_colours([(SOFT, "dot", pale), (BLUE, "line", "ring: a target, to drag; thin lines: ways of tokens")])

    async def refresh() -> None:
        many = int(count.value)
        for k, pair in enumerate(places):
            for amount in pair:
                amount.set_visible(k < many)
        here = tuple((x.value, y.value) for x, y in places)
        who = (many, spread.value, int(seed.value))
        start = clouds(*who)
        if not _known(shown):
            draw(shown, picture(start, None, here, share.value))
            frame.say("The clouds and their targets; the schedule is being built.")
            frame.drawn()
        result = await frame.work(schedule, *who, here[:many])
        await frame.work(lambda: result.w2)
        draw(shown, picture(start, result, here, share.value))
        frame.say(in_words(result))
        frame.list_facts(
            [
                ("blocks", str(result.schedule.n_pieces)),
                ("switches of the weights", str(result.schedule.n_switches)),
                ("largest $W_2$ to a target", short(float(result.w2.max()), 2)),
                ("asked for", short(result.tol, 2)),
            ],
        )

    async def moved(event: Any) -> None:
        try:
            which, x, y = int(event.args[0]), float(event.args[1]), float(event.args[2])
        except (TypeError, ValueError, IndexError):
            return
        if 0 <= which < int(count.value) and np.isfinite([x, y]).all():
            for amount, value in zip(places[which], target(x, y)[:2], strict=True):
                amount.set(round(float(value), 3))
            await renew()

    named = {f"{axis}{k + 1}": amount for k, pair in enumerate(places) for axis, amount in zip("xy", pair, strict=True)}
    renew = frame.watch(refresh, clouds=count, share=share, spread=spread, seed=seed, **named)
    shown.on("pointerdown", moved, js_handler=_drag(shown.id, "down"))
    shown.on("pointermove", moved, js_handler=_drag(shown.id, "move"), throttle=0.12)
    shown.on("pointerup", moved, js_handler=_drag(shown.id, "up"))


def _ways(stages: np.ndarray, colour: str) -> dict[str, Any]:
    """The ways of a few tokens so far, as one broken line."""
    some = stages[:, :: max(1, stages.shape[1] // _DRAWN_WAYS)]
    way = {"color": colour, "width": 1.2, "opacity": 0.4}
    data: list[Any] = []
    for k in range(some.shape[1]):
        data += [*pairs(some[:, k, 0], some[:, k, 1]), None]
    return {"type": "line", "showSymbol": False, "silent": True, "lineStyle": way, "z": 2, "data": data}


def _drag(element: int, what: str) -> str:
    """JavaScript: the ring that was taken follows the pointer; the server gets its place."""
    return f"""e => {{
      const chart = getElement({element}).chart;
      const box = chart.getDom().getBoundingClientRect();
      const [x, y] = chart.convertFromPixel({{gridIndex: 0}}, [e.clientX - box.left, e.clientY - box.top]);
      if ('{what}' === 'down') {{
        const rings = chart.getOption().series.filter(s => s.name?.startsWith('target'));
        const far = rings.map(s => Math.hypot(s.data[0][0] - x, s.data[0][1] - y));
        const nearest = far.indexOf(Math.min(...far));
        chart.taken = far[nearest] < 0.16 ? nearest : undefined;
        if (chart.taken !== undefined) e.target.setPointerCapture?.(e.pointerId);
        return;
      }}
      if (chart.taken === undefined) return;
      emit(chart.taken, x, y);
      if ('{what}' === 'up') chart.taken = undefined;
    }}"""


def _known(shown: Any) -> bool:
    return bool(shown.options.get("xAxis"))


def _dots(name: str, points: np.ndarray, colour: str, size: float, opacity: float) -> dict[str, Any]:
    look = {"color": colour, "opacity": opacity}
    plain = {"type": "scatter", "z": 3, "silent": True, "symbolSize": size}
    return plain | {"name": name, "data": pairs(points[:, 0], points[:, 1]), "itemStyle": look}
