"""Random depth: how fast tokens collapse in a network with random weights, predicted and measured beside it."""

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
from sphereflow.random_transformers import Architecture, collapse, measure, predict

TITLE = "Depth"
_WORDS = (
    "A Transformer at initialisation has fresh random weights in every layer, the same for all tokens. Layer by layer "
    "they are thrown about together, and their directions become alike: the mean cosine $R$ of two tokens rises to 1. "
    "For small steps and many layers the average over networks follows a closed equation in the time $\\tau$ below, "
    "which knows no single weight. Networks of finite width scatter around it; all of them are measured here, layer by "
    "layer."
)
_FORMULAS = (
    r"\tau=\frac{\ell\,(h\,v)^2}{H}",
    r"R=\frac2{n(n-1)}\sum_{i<j}\langle x_i,x_j\rangle",
)
BETA = Limits("Sharpness of attention β", 0, 8, 1)
STEP = Limits("Step h of a layer", 0.1, 1, 0.3, logarithmic=True)
LAYERS = Limits("Layers", 20, 400, 240, whole=True)
SEED = Limits("Seed", 0, 99, 0, whole=True)
TOKENS = {str(n): str(n) for n in (4, 8, 16, 32)}
WIDTHS = {str(d): str(d) for d in (16, 32, 64)}
HEADS = {str(h): str(h) for h in (1, 2, 4, 8)}
_NETWORKS = 8


@lru_cache(maxsize=256)
def predicted(network: Architecture) -> tuple[np.ndarray, np.ndarray]:
    """(layers, mean cosine): the equation."""
    depths = np.linspace(0, network.layers, 121)
    return depths, collapse.predicted_overlap(network, depths)


@lru_cache(maxsize=256)
def depths_of(network: Architecture) -> tuple[float, float]:
    """After how many layers the equation has a mean cosine of 0.5 and of 0.9."""
    half, most = predict(network).depths[:2]
    return half, most


@lru_cache(maxsize=64)
def measured(network: Architecture, seed: int) -> collapse.Measured:
    """A few networks with weights of their own."""
    return measure(network, _NETWORKS, seed=seed, progress=False)


def in_words(network: Architecture, half: float, networks: collapse.Measured | None) -> str:
    """When the cosine is a half, by the equation and by the networks."""
    predicted_half = f"The equation has a mean cosine of 0.5 after {half:.0f} layers"
    if networks is None:
        return f"{predicted_half}. The networks are being measured."
    end = networks.overlap_at_end()
    last = float(networks.depths[-1])
    known = float(np.interp(last, *predicted(network)))
    return (
        f"{predicted_half}. After {last:.0f} layers it has {known:.3f}, and {len(networks.overlap)} networks have "
        f"{float(end.value):.3f} ± {float(end.error):.3f}."
    )


def picture(network: Architecture, networks: collapse.Measured | None) -> dict[str, Any]:
    """The mean cosine against the layer: the equation, every network, and their mean with two standard errors."""
    depths, curve = predicted(network)
    series: list[dict[str, Any]] = []
    if networks is not None:
        for one in networks.overlap:
            thin = {"color": SOFT, "width": 1, "opacity": 0.45}
            series.append(line("network", networks.depths, one, SOFT) | {"lineStyle": thin, "z": 2})
        mean = networks.overlap.mean(axis=0)
        error = 2 * networks.overlap.std(axis=0, ddof=1) / np.sqrt(len(networks.overlap))
        around = np.concatenate([mean - error, (mean + error)[::-1]])
        corners = pairs(np.concatenate([networks.depths, networks.depths[::-1]]), around)
        polygon = "type: 'polygon', style: {fill: 'var(--tab-blue)', opacity: 0.18}"
        render = f"(params, api) => ({{{polygon}, shape: {{points: {corners}.map(p => api.coord(p))}}}})"
        series.append({"type": "custom", "data": [[0, 0]], "clip": True, "silent": True, "z": 1, ":renderItem": render})
        series.append(line("mean", networks.depths, mean, BLUE))
    series.append(line("equation", depths, curve, ORANGE) | {"lineStyle": {"color": ORANGE, "width": 2.6}})
    return {
        "grid": {"left": 58, "right": 20, "top": 16, "bottom": 52},
        "xAxis": axis("layer", min=0, max=network.layers),
        "yAxis": axis("mean cosine of two tokens", min=min(-0.1, _lowest(networks)), max=1, nameGap=40),
        "tooltip": tooltip(trigger="axis", formatter=""),
        "series": series,
    }


def build(around: Surroundings = ALONE) -> None:
    """Fill the current container."""
    frame = TabFrame(TITLE, _WORDS, *_FORMULAS, around=around)
    with frame.controls:
        beta = Amount(BETA, "standard deviation of a logit")
        step = Amount(STEP)
        layers = Amount(LAYERS)
        n = ListControl("Tokens n", TOKENS, "16")
        d = ListControl("Width d", WIDTHS, "64")
        heads = ListControl("Heads H", HEADS, "4")
        seed = Amount(SEED)
    with frame.charts:
        shown = chart("Mean cosine of two tokens against the layer", "wide")
    frame.list_colours(
        [
            (ORANGE, "line", "the equation, without any network"),
            (BLUE, "line", f"mean of {_NETWORKS} networks, with two standard errors"),
            (SOFT, "line", "each network"),
        ],
    )

    async def refresh() -> None:
        network = Architecture(
            d=int(d.value),
            n=int(n.value),
            layers=int(layers.value),
            heads=int(heads.value),
            step=step.value,
            beta=beta.value,
        )
        await frame.work(predicted, network)
        half, most = await frame.work(depths_of, network)
        draw(shown, picture(network, None))
        frame.say(in_words(network, half, None))
        frame.drawn()
        networks = await frame.work(measured, network, int(seed.value))
        draw(shown, picture(network, networks))
        frame.say(in_words(network, half, networks))
        frame.list_facts(
            [
                ("layers until cosine 0.5, predicted", f"{half:.0f}"),
                ("the same, measured", _passage(networks)),
                ("layers until cosine 0.9, predicted", f"{most:.0f}"),
                ("layers in a unit of $\\tau$", short(network.layers_per_time, 4)),
            ],
        )

    frame.watch(refresh, beta=beta, step=step, layers=layers, n=n, d=d, heads=heads, seed=seed)


def _passage(networks: collapse.Measured) -> str:
    passage, share = networks.passages[0], networks.arrived[0]
    if share < 1:
        return f"only {100 * share:.0f} % arrive"
    return f"{float(passage.value):.0f} ± {float(passage.error):.0f}"


def _lowest(networks: collapse.Measured | None) -> float:
    return 0.0 if networks is None else float(np.floor(10 * networks.overlap.min()) / 10)
