r"""Attention plus perceptron as one energy of probability measures on the sphere.

$$\mathsf E[\mu]=\frac1{2\beta}\iint k(x,y)\,d\mu(x)d\mu(y)+\frac12\int v\,d\mu,\qquad
  v(x)=\sum_{j=1}^J\omega_j\,\varphi(\langle a_j,x\rangle+b_j),\quad\varphi'=2\sigma.$$

Two conventions are in use: $k=e^{\beta(\langle x,y\rangle-1)}$ ("peak") and $k=e^{\beta\langle x,y\rangle}$ ("raw").
They describe the same landscape once the outer weights are converted,

$$\omega_{\mathrm{peak}}=e^{-\beta}\omega_{\mathrm{raw}},\qquad
  \mathsf E_{\mathrm{raw}}=e^{\beta}\,\mathsf E_{\mathrm{peak}},\qquad t_{\mathrm{peak}}=e^{\beta}t_{\mathrm{raw}},$$

and everything is computed in the peak convention; the factor e^beta is applied last.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sphereflow.dynamics import Perceptron
from sphereflow.dynamics.activations import ACTIVATIONS
from sphereflow.errors import SphereflowError, enough_memory, one_of, real_number, whole_number
from sphereflow.kernels import KERNEL_SCALES
from sphereflow.landscape.activation import Activation, Function, OwnPerceptron
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike

WEIGHT_LAWS = ("normal", "signs")

# Beyond this, kernels are narrower than what the solver resolves.
LARGEST_BETA = 1e6
# e^beta and everything multiplied by it must stay finite.
LARGEST_RAW_BETA = 600.0

# Inner weights are parallel when their part across the common axis is below this, relative to their length.
_PARALLEL = 1e-13


@dataclass(frozen=True, eq=False)
class Problem:
    r"""The energy of attention plus perceptron.

    **Arguments:**

    - `beta`: inverse temperature, above 0.
    - `outer`: the numbers $\omega_j$, shape (J,); `inner`: the vectors $a_j$, shape (J, d); `bias`: $b_j$, or None.
    - `activation`: relu, leaky_relu, linear, gelu, tanh or softplus; or a function, or an `Activation` that says where
      its kinks are.
    - `kernel_scale`: "peak" or "raw", the convention of the weights and of all energies that are returned.
    """

    beta: float
    outer: Float[np.ndarray, " J"]
    inner: Float[np.ndarray, "J d"]
    bias: Float[np.ndarray, " J"]
    activation: str | Activation
    kernel_scale: str

    def __init__(
        self,
        beta: float,
        outer: ArrayLike,
        inner: ArrayLike,
        bias: ArrayLike | None = None,
        activation: str | Activation | Function = "relu",
        kernel_scale: str = "peak",
    ):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("beta", real_number("beta", beta, above=0, most=LARGEST_BETA))
        put("activation", _activation(activation))
        put("kernel_scale", one_of("kernel_scale", kernel_scale, KERNEL_SCALES))
        put("outer", _numbers("the outer weights", outer, 1))
        put("inner", _numbers("the inner weights", inner, 2))
        put("bias", np.zeros(len(self.outer)) if bias is None else _numbers("the biases", bias, 1))
        if len(self.outer) != len(self.inner) or len(self.bias) != len(self.outer):
            raise SphereflowError(
                f"a problem needs as many outer weights as inner weights and biases, got {len(self.outer)}, "
                f"{len(self.inner)} and {len(self.bias)}."
            )
        if self.d < 2:
            raise SphereflowError(f"the inner weights must have dimension d of at least 2, got {self.d}.")
        if self.kernel_scale == "raw" and self.beta > LARGEST_RAW_BETA:
            raise SphereflowError(
                f"energies with the raw kernel overflow beyond beta = {LARGEST_RAW_BETA:g}, got {self.beta:g}; "
                "use kernel_scale='peak'."
            )

    @classmethod
    def random(
        cls,
        beta: float,
        d: int = 2,
        neurons: int | None = None,
        *,
        seed: Seed = 0,
        scale: float = 1.0,
        law: str = "normal",
        activation: str | Activation | Function = "relu",
        kernel_scale: str = "peak",
    ) -> Problem:
        r"""Directions $a_j$ uniform on the sphere; outer weights N(0, scale^2) ("normal") or +-scale ("signs")."""
        whole_number("d", d, least=2)
        count = d if neurons is None else whole_number("neurons", neurons, least=0)
        one_of("law", law, WEIGHT_LAWS)
        real_number("scale", scale, least=0)
        enough_memory(2 * 8 * count * d, f"{count} neurons in dimension {d}")
        rng = rng_from(seed)
        inner = unit(rng.standard_normal((count, d)))
        outer = scale * (rng.standard_normal(count) if law == "normal" else rng.choice([-1.0, 1.0], count))
        return cls(beta, outer, inner, None, activation, kernel_scale)

    @property
    def d(self) -> int:
        return self.inner.shape[1]

    @property
    def neurons(self) -> int:
        return len(self.outer)

    @property
    def factor(self) -> float:
        r"""What multiplies energies of the peak form: 1, or $e^\beta$ in the raw convention."""
        return math.exp(self.beta) if self.kernel_scale == "raw" else 1.0

    def converted(self, kernel_scale: str) -> Problem:
        """The same landscape in the other convention: outer weights times e^beta or e^-beta."""
        one_of("kernel_scale", kernel_scale, KERNEL_SCALES)
        if kernel_scale == self.kernel_scale:
            return self
        exponent = self.beta if kernel_scale == "raw" else -self.beta
        if exponent > LARGEST_RAW_BETA:
            raise SphereflowError(f"weights of the raw convention overflow at beta = {self.beta:g}; stay with 'peak'.")
        outer = self.outer * math.exp(exponent)
        return Problem(self.beta, outer, self.inner, self.bias, self.activation, kernel_scale)

    def replaced(self, **changes: Any) -> Problem:
        """The same problem with some arguments changed."""
        now = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Problem(**(now | changes))

    @property
    def active(self) -> Int[np.ndarray, " k"]:
        """Which neurons act at all: those with a nonzero outer weight and a nonzero direction."""
        return np.flatnonzero((self.outer != 0) & np.any(self.inner != 0, axis=1))

    @property
    def axis(self) -> Float[np.ndarray, "d"] | None:
        """The unit vector along all active directions, if they are parallel: then the minimiser is zonal about it."""
        rows = self.inner[self.active]
        if len(rows) == 0:
            return np.eye(1, self.d)[0]
        axis = unit(rows[0])
        across = rows - np.outer(rows @ axis, axis)
        return axis if np.abs(across).max() <= _PARALLEL * np.abs(rows).max() else None

    @property
    def perceptron(self) -> Perceptron:
        """The perceptron block as a vector field, in the convention of the problem."""
        if isinstance(self.activation, Activation):
            return OwnPerceptron(self.outer, self.inner, self.bias, self.activation)
        return Perceptron(self.outer, self.inner, self.bias, self.activation)

    def __repr__(self) -> str:
        return (
            f"Problem(beta={self.beta:g}, d={self.d}, {self.neurons} neuron{'s' * (self.neurons != 1)}, "
            f"{self.activation}, {self.kernel_scale})"
        )


def _activation(given: str | Activation | Function) -> str | Activation:
    if isinstance(given, Activation):
        return given
    return Activation(given) if callable(given) else one_of("activation", given, ACTIVATIONS)


def _numbers(name: str, values: ArrayLike, axes: int) -> np.ndarray:
    array = real_array(name, values)
    if array.ndim != axes:
        raise SphereflowError(f"{name} must be an array with {axes} axes, got shape {array.shape}.")
    if np.abs(array).max(initial=0.0) > 1e100:
        raise SphereflowError(f"{name} must be within [-1e100, 1e100].")
    array.setflags(write=False)
    return array
