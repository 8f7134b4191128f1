"""From settings to the objects of the library, and to the three lines of Python that make the same run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from sphereflow.dynamics import SA, USA, Dynamics, EuclideanAttention, Perceptron, RescaledAttention
from sphereflow.explorer.settings import INTERVALS, Settings
from sphereflow.interaction import DIRECT, Engine
from sphereflow.sphere import draw
from sphereflow.synchronisation import network, random_fields

TOL = 1e-5
MOST_DOUBLE = 1000
SOLVER = "tsit5"
NEURONS = 3
WIDTH = 8  # of the random layer shared by all tokens
_LEAST_STEPS = 4  # layers between two frames

# Summing every pair compiles in a third of the time that a fast expansion takes, and is as fast up to here.
_MOST_DIRECT = 2500
# Above, an expansion has as many modes as the first of these temperatures needs that is not below beta, so that moving
# beta compiles nothing again; beyond them every pair is summed.
_TEMPERATURES = (20.0, 100.0)


def single_precision(s: Settings) -> bool:
    """Whether tokens are float32: a crowd moves three times as fast with it, and no eye sees the difference."""
    return s.n > MOST_DOUBLE and s.model in ("sa", "usa", "causal", "perceptron")


def first_tokens(s: Settings) -> np.ndarray:
    """Tokens at time zero."""
    tokens = np.asarray(draw(s.start, s.n, s.d, s.seed))
    return tokens.astype(np.float32) if single_precision(s) else tokens


def dynamics(s: Settings) -> Dynamics:
    """The vector field; for noisy models its deterministic part."""
    if s.model == "usa":
        return USA(s.beta)
    if s.model == "causal":
        return SA(s.beta, causal=True)
    if s.model == "perceptron":
        # The neurons' directions have a seed of their own, so that they are not the first tokens.
        inner = draw("uniform", NEURONS, s.d, s.seed + 1)
        return USA(s.beta) + Perceptron(np.full(NEURONS, s.push), inner)
    if s.model == "euclid":
        identity = np.eye(s.d)
        return RescaledAttention(EuclideanAttention(identity, query=s.beta * identity), s.d)
    return SA(s.beta)


def engine(s: Settings) -> Engine:
    """How sums over tokens are done: one of few programs, whatever the continuous parameters are."""
    beta = next((beta for beta in _TEMPERATURES if s.beta <= beta), None)
    if s.n <= _MOST_DIRECT or beta is None or s.d not in (2, 3) or s.model not in ("sa", "usa", "perceptron"):
        return DIRECT
    return SA(beta).choice(s.n, s.d, TOL, "float32").engine


def energy_model(s: Settings) -> Dynamics:
    """Whose energy is drawn: the model's own, or that of attention where the model has none."""
    return dynamics(s) if s.model in ("sa", "usa", "perceptron") else SA(s.beta)


@dataclass(frozen=True)
class Layers:
    """Random layers: a law, the number of layers between two frames, and their step.

    `size` multiplies the first of the weights that the law draws: the scale of a law is a part of compiled programs.
    """

    field: random_fields.RandomField
    each: int
    step: float
    size: float

    @classmethod
    def of(cls, s: Settings) -> Layers:
        size = max(s.noise, 1e-6)
        law: random_fields.RandomField
        plain: random_fields.RandomField
        if s.model == "common":
            law, plain = (random_fields.RandomPerceptron("relu", WIDTH, scale=scale) for scale in (size, 1.0))
        else:
            law = plain = random_fields.Independent(random_fields.AffineField(size, 0.0))
        longest = network.advised_step(law, s.d, s.pull, s.beta)
        each = max(_LEAST_STEPS, math.ceil(s.t1 / INTERVALS / longest))
        return cls(plain, each, s.t1 / (INTERVALS * each), size if s.model == "common" else 1.0)


def python_lines(s: Settings) -> str:
    """Three lines of Python that make this run."""
    start = f'x0 = sf.draw("{s.start}", {s.n}, {s.d}, seed={s.seed})'
    start += '.astype("float32")' if single_precision(s) else ""
    if s.noisy:
        return "\n".join([_NOISE_IMPORT, start, f"frames = {_network_call(s)}[:, 0]"])
    if s.logarithmic:
        saved = f"saveat=np.append(0, np.geomspace({s.first_time!r}, {s.t1!r}, {INTERVALS}))"
    else:
        saved = f"saveat=np.linspace(0, {s.t1!r}, {INTERVALS + 1})"
    options = f'{saved}, tol={TOL:g}, solver="{SOLVER}"'
    return "\n".join(
        ["import numpy as np, sphereflow as sf", start, f"run = sf.evolve({_model_call(s)}, x0, {options})"]
    )


_NOISE_IMPORT = "import sphereflow as sf; from sphereflow.synchronisation import network, random_fields as rf"


def _model_call(s: Settings) -> str:
    beta = repr(s.beta)
    if s.model == "perceptron":
        inner = f'sf.draw("uniform", {NEURONS}, {s.d}, seed={s.seed + 1})'
        return f"sf.USA({beta}) + sf.Perceptron(np.full({NEURONS}, {s.push!r}), {inner})"
    if s.model == "euclid":
        return f"sf.RescaledAttention(sf.EuclideanAttention(np.eye({s.d}), query={beta} * np.eye({s.d})), {s.d})"
    return {"usa": f"sf.USA({beta})", "causal": f"sf.SA({beta}, causal=True)"}.get(s.model, f"sf.SA({beta})")


def _network_call(s: Settings) -> str:
    layers = Layers.of(s)
    size = repr(max(s.noise, 1e-6))
    law = (
        f'rf.RandomPerceptron("relu", {WIDTH}, scale={size})'
        if s.model == "common"
        else f"rf.Independent(rf.AffineField({size}, 0.0))"
    )
    attention = f"attention=sf.SA({s.beta!r}), strength={s.pull!r}, " if s.pull > 0 else ""
    depth = f"layers={INTERVALS * layers.each}, step={layers.step!r}, seed={s.seed}"
    return f"network.run_network({law}, x0[None], {depth}, {attention}saves={INTERVALS})"


def float64_scalar(value: Any) -> Any:
    """A number as an array whose type does not depend on what it meets, so that programs are compiled once."""
    return jnp.asarray(np.float64(value))
