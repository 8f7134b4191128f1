"""Pieces of ECharts options in the look of the page.

Charts are drawn as SVG, and every colour that depends on light or dark is a variable of the style sheet: a chart turns
dark with the page, without being drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from nicegui import ui

INK, SOFT, LINE, CARD = "var(--tab-ink)", "var(--tab-soft)", "var(--tab-line)", "var(--tab-card)"
BLUE, ORANGE, GREEN, PINK = "var(--tab-blue)", "var(--tab-orange)", "var(--tab-green)", "var(--tab-pink)"
_FONT = "inherit"

# JavaScript: the label of a power of ten on a logarithmic axis.
POWERS = "v => '10' + [...String(Math.round(Math.log10(v)))].map(c => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] ?? '⁻').join('')"


def chart(label: str, kind: str = "") -> ui.echart:
    """An empty chart with a text alternative; `kind` names its size in the style sheet."""
    made = ui.echart({"series": []}, renderer="svg")
    return made.classes(f"tab-chart {kind}").props(f'role=img aria-label="{label}"')


def draw(shown: ui.echart, options: dict[str, Any]) -> None:
    """Show these options instead of the present ones."""
    shown.options.clear()
    shown.options.update(
        {"animationDuration": 0, "animationDurationUpdate": 200, "textStyle": {"fontFamily": _FONT, "color": INK}}
        | options
    )
    shown.update()


def on_place_click(shown: ui.echart, handler: Callable[..., Any]) -> None:
    """Call the handler with the coordinates of the place that is clicked, whatever is drawn there."""
    place = f"getElement({shown.id}).chart.convertFromPixel({{gridIndex: 0}}, [e.offsetX, e.offsetY])"
    shown.on("click", handler, js_handler=f"e => emit(...{place})")


def axis(name: str, **more: Any) -> dict[str, Any]:
    """A value axis with its name along the middle."""
    plain = {
        "type": "value",
        "name": name,
        "nameLocation": "middle",
        "nameGap": 30,
        "nameTextStyle": {"color": INK, "fontSize": 13},
        "axisLine": {"show": True, "lineStyle": {"color": SOFT}},
        "axisTick": {"show": True, "lineStyle": {"color": SOFT}},
        "axisLabel": {"color": SOFT, "fontSize": 12},
        "splitLine": {"show": True, "lineStyle": {"color": LINE}},
    }
    return plain | more


def tooltip(**more: Any) -> dict[str, Any]:
    """The box that follows the pointer, kept within the chart."""
    plain = {
        "confine": True,
        "backgroundColor": CARD,
        "borderColor": LINE,
        "textStyle": {"color": INK, "fontSize": 13},
        "extraCssText": "box-shadow: 0 4px 16px rgb(0 0 0 / 18%); max-width: 20rem; white-space: normal;",
    }
    return plain | more


def line(name: str, x: np.ndarray, y: np.ndarray, colour: str, **more: Any) -> dict[str, Any]:
    """A curve without symbols."""
    plain = {
        "type": "line",
        "name": name,
        "data": pairs(x, y),
        "showSymbol": False,
        "silent": True,
        "color": colour,
        "lineStyle": {"color": colour, "width": 2.2},
        "emphasis": {"disabled": True},
        "z": 3,
    }
    return plain | more


def pairs(x: np.ndarray, y: np.ndarray) -> list[list[float | None]]:
    """Points for a series, six digits each; None where a value does not exist."""
    return [[_six(a), _six(b)] for a, b in zip(np.asarray(x).tolist(), np.asarray(y).tolist(), strict=True)]


def _six(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None
