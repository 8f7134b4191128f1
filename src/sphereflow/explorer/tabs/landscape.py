"""The landscape of attention plus perceptron on the circle: its global minimiser, with a proof of how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from nicegui import ui

from sphereflow.dynamics.activations import ACTIVATIONS
from sphereflow.explorer.kit import ListControl
from sphereflow.explorer.tabs.charts import (
    BLUE,
    GREEN,
    INK,
    LINE,
    ORANGE,
    PINK,
    POWERS,
    SOFT,
    axis,
    chart,
    draw,
    line,
    pairs,
    tooltip,
)
from sphereflow.explorer.tabs.frame import TabFrame
from sphereflow.explorer.tabs.inputs import Amount, Limits
from sphereflow.explorer.tabs.surroundings import ALONE, Surroundings
from sphereflow.explorer.tabs.words import power, short

TITLE = "Landscape"
_WORDS = (
    "Attention pushes tokens apart when it minimises its energy, and a perceptron adds a potential $v$ that makes some "
    "directions cheaper. Together they have exactly one best arrangement of mass on the circle. It is found here with "
    "a certificate: a proved bound on how much lower any other arrangement could be. Contact of the lower curve with "
    "zero marks the places where mass may sit."
)
_FORMULAS = (
    r"\mathsf E[\mu]=\frac1{2\beta}\iint e^{\beta(\langle x,y\rangle-1)}\,d\mu(x)\,d\mu(y)+\frac12\int v\,d\mu",
    r"v(x)=\sum_{j=1}^J\omega_j\,\varphi(\langle a_j,x\rangle),\quad\varphi^{\prime}=2\sigma",
)

BETA = Limits("Inverse temperature β", 0.1, 60, 8, logarithmic=True)
NEURONS = Limits("Neurons J", 0, 24, 3, whole=True)
STRENGTH = Limits("Strength", 0.001, 2, 0.05, logarithmic=True)
SEED = Limits("Seed", 0, 99, 1, whole=True)

_POINTS = 721
_NAMED_ATOMS = 4
_ANGLES = "v => ['0', 'π/2', 'π', '3π/2', '2π'][Math.round(v / 90)] ?? ''"


@dataclass(frozen=True, eq=False)
class Landscape:
    """The minimiser and the curves of the picture; angles in degrees."""

    kind: str
    angles: np.ndarray
    masses: np.ndarray
    energy: float
    gap: float
    stiffness: float
    theta: np.ndarray
    half_potential: np.ndarray
    above: np.ndarray
    floor: float
    neuron_angles: np.ndarray
    neuron_weights: np.ndarray


@lru_cache(maxsize=256)
def solution(beta: float, neurons: int, activation: str, strength: float, seed: int) -> Landscape:
    """The certified minimiser of the random problem with these numbers."""
    from sphereflow.landscape import Problem, minimise

    problem = Problem.random(beta, 2, neurons, seed=seed, scale=strength, activation=activation)
    minimiser = minimise(problem)
    # The atoms are among the points, so that every contact is drawn down to the floor.
    theta = np.union1d(np.linspace(0, 2 * np.pi, _POINTS), minimiser.angles)
    points = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    above = minimiser.first_variation(points) - minimiser.multiplier
    floor = max(1e-6 * float(np.abs(above).max()), 1e-14)
    return Landscape(
        minimiser.kind,
        np.degrees(minimiser.angles),
        minimiser.masses,
        minimiser.energy,
        minimiser.gap,
        float(minimiser.spectrum[0]),
        np.degrees(theta),
        minimiser.space.half_potential(points).value,
        np.maximum(above, floor),
        floor,
        np.degrees(np.arctan2(problem.inner[:, 1], problem.inner[:, 0])),
        problem.outer,
    )


def in_words(landscape: Landscape) -> str:
    """What was found, and what is proved about it."""
    count = len(landscape.masses)
    if landscape.kind == "density":
        what = (
            "The best arrangement is spread over the whole circle; the dots are one of many equivalent lists of atoms."
        )
    elif landscape.kind == "unresolved":
        what = f"The best arrangement is close to these {count} atoms, whose positions could not be refined further."
    elif count == 1:
        what = f"All mass sits in one atom, at the angle {landscape.angles[0]:.2f}°."
    else:
        shares = [f"{100 * m:.1f} % at {a:.2f}°" for a, m in zip(landscape.angles, landscape.masses, strict=True)][
            :_NAMED_ATOMS
        ]
        more = f", and {count - _NAMED_ATOMS} more" if count > _NAMED_ATOMS else ""
        what = f"The mass sits in {count} atoms: {', '.join(shares)}{more}."
    gap = power(landscape.gap)
    return f"{what} Proved: no arrangement on the circle has an energy that is lower by more than {gap}."


def circle(landscape: Landscape) -> dict[str, Any]:
    """The circle with its atoms, the potential as a height above it, and the neurons as arrows inside."""
    height = landscape.half_potential - landscape.half_potential.min()
    height = height / height.max() if height.max() > 0 else height
    radius = np.ones_like(landscape.theta)
    series: list[dict[str, Any]] = [
        _around("circle", radius, landscape.theta, SOFT, 1.2),
        _around("potential", 1.08 + 0.3 * height, landscape.theta, BLUE, 2),
    ]
    largest = np.abs(landscape.neuron_weights).max(initial=1e-300)
    for name, sign, colour in (("positive", 1, GREEN), ("negative", -1, PINK)):
        arrows: list[Any] = []
        for angle, weight in zip(landscape.neuron_angles % 360, landscape.neuron_weights, strict=True):
            if sign * weight > 0:
                reach = float(0.3 + 0.5 * abs(weight) / largest)
                tip = {"value": [reach, float(angle)], "symbol": "circle", "symbolSize": 7}
                arrows += [{"value": [0, float(angle)], "symbol": "none"}, tip, None]
        series.append(_around(name, np.array([]), np.array([]), colour, 2) | {"data": arrows, "showSymbol": True})
    atoms = [
        {"value": [1, float(a)], "symbolSize": float(8 + 30 * np.sqrt(m)), "name": f"{100 * m:.2f} % at {a:.3f}°"}
        for a, m in zip(landscape.angles, landscape.masses, strict=True)
    ]
    series.append(
        {
            "type": "scatter",
            "coordinateSystem": "polar",
            "name": "atoms",
            "data": atoms,
            "z": 5,
            "itemStyle": {"color": ORANGE, "opacity": 0.85, "borderColor": "var(--tab-card)", "borderWidth": 1.5},
            "emphasis": {"disabled": True},
        }
    )
    hidden = {"axisLine": {"show": False}, "axisTick": {"show": False}, "axisLabel": {"show": False}}
    return {
        "polar": {"center": ["50%", "50%"], "radius": "86%"},
        "radiusAxis": {"type": "value", "min": 0, "max": 1.4, "splitLine": {"show": False}, **hidden},
        "angleAxis": {
            "type": "value",
            "min": 0,
            "max": 360,
            "interval": 90,
            "startAngle": 0,
            "clockwise": False,
            "axisLine": {"show": False},
            "axisTick": {"show": False},
            "axisLabel": {"color": SOFT, "fontSize": 12, ":formatter": _ANGLES},
            "splitLine": {"lineStyle": {"color": LINE}},
        },
        "tooltip": tooltip(trigger="item", formatter="{b}"),
        "series": series,
    }


def curves(landscape: Landscape) -> dict[str, Any]:
    """Over the angle: the potential with the masses as stems, and how far the first variation lies above its least."""
    angle = {"type": "value", "min": 0, "max": 360, "interval": 90}
    label = {"color": SOFT, "fontSize": 12, ":formatter": _ANGLES}
    stems: list[Any] = []
    for a, m in zip(landscape.angles.tolist(), landscape.masses.tolist(), strict=True):
        stems += [{"value": [a, 0], "symbol": "none"}, {"value": [a, m], "symbol": "circle", "symbolSize": 9}, None]
    plain = {"splitLine": {"show": False}}
    fine = {"color": SOFT, "fontSize": 11}
    return {
        "grid": [
            {"left": 64, "right": 56, "top": 26, "height": "36%"},
            {"left": 64, "right": 56, "bottom": 46, "height": "36%"},
        ],
        "xAxis": [
            axis("", gridIndex=0, **angle) | {"axisLabel": {"show": False}},
            axis("angle θ", gridIndex=1, **angle) | {"axisLabel": label, "nameGap": 26},
        ],
        "yAxis": [
            axis("potential v/2", gridIndex=0, scale=True, nameGap=46, splitNumber=3, axisLabel=fine)
            | {"nameTextStyle": {"color": BLUE, "fontSize": 13}},
            axis("mass", gridIndex=0, position="right", min=0, nameGap=36, splitNumber=3, axisLabel=fine, **plain)
            | {"nameTextStyle": {"color": ORANGE, "fontSize": 13}},
            axis("g − λ", gridIndex=1, type="log", min=landscape.floor, nameGap=46)
            | {"axisLabel": fine | {":formatter": POWERS}},
        ],
        "series": [
            line("potential", landscape.theta, landscape.half_potential, BLUE, xAxisIndex=0, yAxisIndex=0),
            line("mass", np.array([]), np.array([]), ORANGE, xAxisIndex=0, yAxisIndex=1)
            | {"data": stems, "showSymbol": True, "lineStyle": {"color": ORANGE, "width": 1.6}},
            line("first variation", landscape.theta, landscape.above, INK, xAxisIndex=1, yAxisIndex=2)
            | {"lineStyle": {"color": INK, "width": 1.6}},
            {
                "type": "scatter",
                "xAxisIndex": 1,
                "yAxisIndex": 2,
                "symbolSize": 9,
                "silent": True,
                "clip": False,
                "data": pairs(landscape.angles, np.full(len(landscape.angles), landscape.floor)),
                "itemStyle": {"color": ORANGE, "opacity": 1},
                "z": 5,
            },
        ],
    }


def build(around: Surroundings = ALONE) -> None:
    """Fill the current container."""
    frame = TabFrame(TITLE, _WORDS, *_FORMULAS, around=around)
    with frame.controls:
        beta = Amount(BETA, "large: tokens interact with near neighbours only")
        neurons = Amount(NEURONS)
        activation = ListControl("Activation σ", {name: name.replace("_", " ") for name in ACTIVATIONS}, "relu")
        strength = Amount(STRENGTH, "of the perceptron: standard deviation of ω")
        seed = Amount(SEED)
    with frame.charts, ui.element("div").classes("tab-pair"):
        round_chart = chart("The circle with the atoms of the minimiser", "square")
        flat_chart = chart("Potential, masses and first variation over the angle", "wide")
    frame.list_colours(
        [
            ("var(--tab-orange)", "dot", "atoms, area by mass"),
            ("var(--tab-blue)", "line", "potential $v/2$"),
            ("var(--tab-green)", "line", "neuron with $\\omega_j>0$: its side is costly"),
            ("var(--tab-pink)", "line", "neuron with $\\omega_j<0$: its side is cheap"),
        ],
    )

    async def refresh() -> None:
        landscape = await frame.work(
            solution, beta.value, int(neurons.value), activation.value, strength.value, int(seed.value)
        )
        draw(round_chart, circle(landscape))
        draw(flat_chart, curves(landscape))
        frame.say(in_words(landscape))
        frame.list_facts(
            [
                ("energy $\\mathsf E$", f"{landscape.energy:.10g}"),
                ("gap (proved)", short(landscape.gap, 2)),
                ("atoms", str(len(landscape.masses))),
                ("smallest eigenvalue of the Hessian", short(landscape.stiffness)),
            ],
        )

    frame.watch(refresh, beta=beta, neurons=neurons, activation=activation, strength=strength, seed=seed)


def _around(name: str, radius: np.ndarray, angle: np.ndarray, colour: str, width: float) -> dict[str, Any]:
    return line(name, radius, angle, colour) | {
        "coordinateSystem": "polar",
        "lineStyle": {"color": colour, "width": width},
        "z": 2,
        "itemStyle": {"color": colour},
    }
