r"""When do the representations of a random Transformer collapse, and which knob delays it?

$$L(\gamma)=\frac{H}{\eta^2v^2}\int_0^\gamma\frac{d\gamma'}{D(\gamma')}:$$
the depth at which independent tokens reach the mean overlap gamma, with D of `simplex` and $v^2=d\sigma_V^2$. Flat
attention needs a time of order log n, cold attention a power of n. Once tokens are close, $1-R$ shrinks by e every
$\frac{d}{d-1}\frac H{\eta^2v^2}$ layers, at every temperature. The network itself is run beside the prediction.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError, enough_memory, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.progress import Progress
from sphereflow.random_transformers.depth_observables import effective_rank, first_passage, pair_overlap
from sphereflow.random_transformers.equiangular import overlap_path, time_between
from sphereflow.random_transformers.network import RandomNetwork, run
from sphereflow.random_transformers.time_scales import TimeScales, clock
from sphereflow.random_transformers.weight_laws import weights
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, checked, following, key_from
from sphereflow.sphere import uniform

LEVELS = (0.5, 0.9)
_SAVES = 60
_MOST_NORMALS = 2e9  # a measurement takes about a minute on two cores


@dataclass(frozen=True)
class Architecture:
    r"""A network at initialisation: `beta` times `weight_scale` is s, the standard deviation of a logit of unit tokens.

    $\sigma_A^2=$ `weight_scale`$/\sqrt d$ for $A=WW'^T$; `value_scale` is $v=\sigma_V\sqrt d$.
    """

    d: int
    n: int
    layers: int
    heads: int
    step: float
    beta: float
    weight_scale: float = 1.0
    value_scale: float = 1.0

    def __post_init__(self) -> None:
        whole_number("d", self.d, least=4)
        whole_number("n", self.n, least=2)
        whole_number("layers", self.layers)
        whole_number("heads", self.heads)
        real_number("step", self.step, above=0)
        real_number("beta", self.beta, least=0)
        real_number("weight scale", self.weight_scale, least=0)
        real_number("value scale", self.value_scale, above=0)
        real_number("step times value scale", self.step * self.value_scale, least=1e-100, most=1e100)
        enough_memory(8 * self.n * (2 * self.d + 512), f"a network of n={self.n} tokens of dimension d={self.d}")

    @property
    def sharpness(self) -> float:
        r"""$s=\beta\sigma_A^2\sqrt d$."""
        return self.beta * self.weight_scale

    @property
    def clock(self) -> TimeScales:
        return clock(self.d, self.layers, self.heads, self.step, value_scale=self.value_scale)

    @property
    def layers_per_time(self) -> float:
        """Layers in one unit of diffusive time."""
        return self.heads / (self.step * self.value_scale) ** 2

    def network(self) -> RandomNetwork:
        law = weights("product", d=self.d, score_scale=self.weight_scale, value_scale=self.value_scale)
        return RandomNetwork(law, self.beta, self.step, self.heads)


class Knob(NamedTuple):
    """A change of one number, and by what factor it multiplies the depth of collapse."""

    name: str
    before: float
    after: float
    factor: float


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Result):
    """Depths at which the mean overlap reaches the LEVELS, the e-folding depth of gaps then, the end, the knobs."""

    depths: tuple[float, ...]
    folding: float
    final_overlap: float
    knobs: tuple[Knob, ...]

    def variables(self) -> Variables:
        return {
            "level": ("level", np.array(LEVELS)),
            "depth": ("level", np.array(self.depths)),
            "knob": ("knob", np.array([knob.name for knob in self.knobs])),
            "factor": ("knob", np.array([knob.factor for knob in self.knobs])),
        }

    def facts(self) -> list[str]:
        reached = [f"{level:g} after {depth:.0f} layers" for level, depth in zip(LEVELS, self.depths, strict=True)]
        return [
            f"mean overlap {', '.join(reached)}, {self.final_overlap:.3f} after the last",
            f"then gaps shrink by e every {self.folding:.0f} layers",
            f"most delay: {self.knobs[0].name} (x {self.knobs[0].factor:.1f})",
        ]


def collapse_depth(architecture: Architecture, level: float) -> float:
    """Layers after which independent tokens have the mean overlap `level`."""
    a = architecture
    return a.layers_per_time * time_between(0.0, level, a.n, effective_sharpness(a.sharpness, a.n), a.d)


def effective_sharpness(s: float, n: int) -> float:
    """Far beyond the freezing point softmax is the argmax, which is computed without sampling."""
    return math.inf if s > 40 * math.sqrt(2 * math.log(max(n, 2))) else s


@recorded_call
def predict(architecture: Architecture) -> Prediction:
    """The closed-form side of the calculator, without noise; `collapse_time` has its delay and spread."""
    a = architecture
    half = collapse_depth(a, LEVELS[0])
    changes: list[tuple[str, str, Any]] = [
        ("step halved", "step", a.step / 2),
        ("values halved", "value_scale", a.value_scale / 2),
        ("heads doubled", "heads", a.heads * 2),
        ("beta doubled", "beta", a.beta * 2),
        ("context doubled", "n", a.n * 2),
        ("width doubled", "d", a.d * 2),
    ]
    knobs = [
        Knob(name, getattr(a, field), value, collapse_depth(dataclasses.replace(a, **{field: value}), LEVELS[0]) / half)
        for name, field, value in changes
    ]
    end = overlap_path(np.array([a.clock.tau]), a.n, effective_sharpness(a.sharpness, a.n), a.d)[0]
    return Prediction(
        (half, *(collapse_depth(a, level) for level in LEVELS[1:])),
        a.d / (a.d - 1) * a.layers_per_time,
        float(end),
        tuple(sorted(knobs, key=lambda knob: -knob.factor)),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Measured(Result):
    """The network itself: depths saved, overlaps (R, S), effective ranks (R, S), passages of the LEVELS and shares."""

    depths: Float[np.ndarray, " S"]
    overlap: Float[np.ndarray, "R S"]
    rank: Float[np.ndarray, "R S"]
    passages: tuple[Estimate, ...]
    arrived: tuple[float, ...]

    def overlap_at_end(self) -> Estimate:
        return mean(self.overlap[:, -1])

    def variables(self) -> Variables:
        return {
            "depth": ("depth", self.depths),
            "overlap": (("depth", "repeat"), self.overlap.T),
            "rank": (("depth", "repeat"), self.rank.T),
            "level": ("level", np.array(LEVELS)),
            "passage": ("level", np.array([float(each.value) for each in self.passages])),
            "passage_error": ("level", np.array([float(each.error) for each in self.passages])),
            "arrived": ("level", np.array(self.arrived)),
        }

    def facts(self) -> list[str]:
        known = [each for each in zip(LEVELS, self.passages, strict=True) if np.isfinite(each[1].value)]
        reached = [f"{level:g} after {passage} layers" for level, passage in known]
        return [
            f"mean overlap {self.overlap_at_end()} after {self.depths[-1]:.0f} layers",
            f"reaches {', '.join(reached) or 'neither level'} "
            f"(shares that arrive: {', '.join(f'{share:.2g}' for share in self.arrived)})",
            f"{len(self.overlap)} networks",
        ]


@recorded_call
def measure(
    architecture: Architecture,
    repeats: int = 16,
    *,
    seed: Seed = 0,
    progress: Progress = None,
) -> Measured:
    """Run the network on independent tokens to its last layer, or to well after the predicted collapse."""
    a = architecture
    whole_number("repeats", repeats, least=2)
    seed = checked(seed, most=2**62)
    network = a.network()
    last = min(a.layers, math.ceil(1.5 * collapse_depth(a, LEVELS[-1])))
    cost = float(sum(network.normals(a.n, a.d))) * repeats * last
    if cost > _MOST_NORMALS:
        fits = int(_MOST_NORMALS / cost * repeats * last / max(repeats, 1))
        raise SphereflowError(
            f"measuring {repeats} networks of {last} layers would draw {cost:.1e} random numbers; "
            f"ask for fewer realisations or at most {fits} layers, or leave the measurement out."
        )
    depths = np.unique(np.concatenate([[0.0], np.linspace(1, last, min(_SAVES, last)).round()]))
    x0 = uniform(key_from(following(seed, 1)), (repeats, a.n, a.d))

    def observe(x: Array) -> dict[str, Any]:
        return {"overlap": pair_overlap(x), "rank": effective_rank(x)}

    observed = run(network, x0, [int(v) for v in depths], observe=jax.jit(observe), seed=seed, progress=progress).values
    passages = [first_passage(depths, observed["overlap"], level) for level in LEVELS]
    return Measured(
        depths,
        observed["overlap"],
        observed["rank"],
        tuple(estimate for estimate, _ in passages),
        tuple(float(share) for _, share in passages),
    )


def predicted_overlap(architecture: Architecture, depths: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """The mean overlap at these depths from independent tokens."""
    a = architecture
    return overlap_path(
        np.asarray(depths, dtype=float) / a.layers_per_time, a.n, effective_sharpness(a.sharpness, a.n), a.d
    )
