r"""Friction that grows during training, in five readings, and what it bounds.

With $\lambda_t=\lambda_0+(\lambda_1-\lambda_0)\,t/T$ for the steps $t=0,\dots,T-1$:

$$ \begin{aligned}
\text{gain:}\quad & x_{t+1}=x_t+\eta(1-\lambda_t)V(x_t),\\
\text{restoring:}\quad & x_{t+1}=x_t+\eta\,(V(x_t)-\lambda_t(x_t-x^{ref})),\\
\text{repulsion:}\quad & x_{t+1}=x_t+\eta\,(V(x_t)-\lambda_tR(x_t)),\\
\text{viscous:}\quad & v_{t+1}=(1-\lambda_t)v_t+\eta V(x_t),\quad x_{t+1}=x_t+v_{t+1},\ v_0=0,\\
\text{opposing:}\quad & x_{t+1}=x_t+\eta V(x_t)-\lambda_t(x_t-x_{t-1}),\quad x_{-1}=x_0 .
\end{aligned} $$

R is the part of V that pushes apart. The text that defines the paper's friction was not available: no reading is called
the paper's. Networks are trained with the first two, particles move by all.

"gain" multiplies every gradient by $1-\lambda_t$: with plain gradient descent it is a learning-rate schedule and
nothing else, and with Adam the factor all but cancels. Compare with the matched schedule before claiming an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.shapes import ArrayLike

MODES = ("none", "gain", "restoring", "repulsion", "viscous", "opposing")
TRAINED = ("none", "gain", "restoring")

# Extremes of u g(u), g(u) = 2 exp(-2u) - exp(-u): how far one step of size one can move, outwards and inwards.
OUTWARD, INWARD = 0.10867727863, 0.19941176421


@dataclass(frozen=True)
class Friction:
    """A mode with its linear schedule over a horizon of T steps."""

    mode: str = "gain"
    start: float = 0.0
    end: float = 1.0
    horizon: int = 1000

    def __post_init__(self) -> None:
        one_of("friction", self.mode, MODES)
        real_number("start", self.start, least=0)
        real_number("end", self.end, least=0)
        whole_number("horizon", self.horizon)

    def at(self, t: Any) -> Any:
        r"""$\lambda_t$; zero in mode "none". The last step, $T-1$, does not reach `end`."""
        return 0.0 * t if self.mode == "none" else self.start + (self.end - self.start) * t / self.horizon

    def gain(self, t: Any) -> Any:
        """The factor of the drift in the target of the regression: 1 unless the mode is "gain"."""
        return 1.0 - self.at(t) if self.mode == "gain" else 1.0 + 0.0 * t

    def follow(
        self,
        x0: np.ndarray,
        field: Callable[[np.ndarray], np.ndarray],
        step: float,
        reference: ArrayLike = 0.0,
        repulsion: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Move particles for the whole horizon; positions at t = 0 ... T along a new first axis.

        `reference` is where "restoring" pulls to, `repulsion` the part R of the field that "repulsion" weakens.
        """
        if self.mode == "repulsion" and repulsion is None:
            raise SphereflowError('friction "repulsion" needs `repulsion`, the part of the field that pushes apart.')
        x, v = np.array(x0, float), np.zeros_like(np.asarray(x0, float))
        path = [x]
        for t in range(self.horizon):
            force, level = field(x), self.at(t)
            if self.mode == "viscous":
                v = (1 - level) * v + step * force
            elif self.mode == "opposing":
                v = step * force - level * v
            elif self.mode == "restoring":
                v = step * (force - level * (x - reference))
            elif repulsion is not None and self.mode == "repulsion":
                v = step * (force - level * repulsion(x))
            else:
                v = step * self.gain(t) * force
            x = x + v
            path.append(x)
        return np.stack(path)


def friction_scale(mode: str, level: float, width: float = 1.0) -> float:
    r"""The distance from the target at which a pair of the Laplace surrogate rests, at constant friction $\lambda$.

    $\tau\ln2$ without friction and for every reading that acts on the motion alone; restoring
    $\tau\ln\frac4{1+\sqrt{1+8\lambda}}$, 0 from $\lambda=1$; repulsion $\tau\ln(2(1-\lambda))$, 0 from
    $\lambda=\frac12$.

    ```python
    from sphereflow.drifting import friction_scale
    friction_scale("restoring", 0.5)  # 0.2120
    ```
    """
    one_of("mode", mode, MODES)
    level = real_number("level", level, least=0, most=1)
    factor = 2.0
    if mode == "restoring":
        factor = 4 / (1 + np.sqrt(1 + 8 * level))
    elif mode == "repulsion":
        factor = 2 * (1 - level)
    return float(real_number("width", width, above=0) * np.log(max(factor, 1.0)))


def adam_effective_gain(friction: Friction, fast: float = 0.9, slow: float = 0.999) -> np.ndarray:
    r"""What Adam leaves of gain friction, step by step: $\hat m_t/\sqrt{\hat v_t}$ for gradients $1-\lambda_t$.

    Both moments are weighted means over the past, so the common factor cancels but for their lag. A learning rate
    multiplied by this is what friction does to a run whose gradients keep their size.
    """
    gains = np.asarray(friction.gain(np.arange(friction.horizon)), float)
    left, m, v = np.empty_like(gains), 0.0, 0.0
    for t, gain in enumerate(gains):
        m, v = fast * m + (1 - fast) * gain, slow * v + (1 - slow) * gain**2
        left[t] = (m / (1 - fast ** (t + 1))) / np.sqrt(v / (1 - slow ** (t + 1)))
    return left


def gain_bound(a0: ArrayLike, step: ArrayLike, width: float = 1.0) -> np.ndarray:
    r"""$a_t\le\max(a_0,\ \tau\ln2+0.108678\,\eta\tau)$ for all $t$, mode "gain", $\eta\le8$, Laplace surrogate."""
    highest = width * (np.log(2) + OUTWARD * np.asarray(step, float))
    return np.asarray(np.maximum(np.asarray(a0, float), highest))


def gain_movement_bound(step: ArrayLike, horizon: ArrayLike, width: float = 1.0) -> np.ndarray:
    r"""$\sum_t|a_{t+1}-a_t|\le0.199412\,\eta\tau\,(T+1)/2$ for $\lambda_t=t/T$: half of the bound without friction."""
    return np.asarray(INWARD * np.asarray(step, float) * width * (np.asarray(horizon) + 1) / 2)


def restoring_bound(a0: float, step: float, friction: Friction) -> np.ndarray:
    r"""$|a_t|\le a_0\prod_{s<t}(1+\eta(1-\lambda_s))$, mode "restoring", if $\eta\lambda_1\le1$ and $\eta\le8$."""
    factors = 1 + step * (1 - friction.at(np.arange(friction.horizon)))
    return a0 * np.concatenate([[1.0], np.cumprod(factors)])
