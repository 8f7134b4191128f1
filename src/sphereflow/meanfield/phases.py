r"""What V and B say beforehand about the three phases of a law at low temperature.

Let V and B be symmetric and commute, with eigenvalues $v_i$, $b_i$ in a common basis, $\lambda_i=v_ib_i$ those of
$VB^\top$, the largest belonging to E, of dimension k, e in E. In a direction j outside E a cluster near e

- contracts at $c_j=v_e-v_jb_j/b_e$ while attention resolves it, until $t_j^*=\frac1{2c_j}\log\beta+O(1)$;
- has a mean that moves at $g_j=v_j-v_e$ afterwards, away if that is positive, and a width that contracts at $v_e$.

Mass $e^{-kc_Ut}$ is still near the divide $\{P_Ex=0\}$, $c_U=(\lambda_1-\lambda_2)/b_2$. Hence, for $W_p$,

$$c=\min\big(\min_jc_j,\ kc_U/p\big),\qquad C_{\min}=\max_{g_j>0}\frac{c_jg_j}{c_j+g_j},\qquad
  t_{exit}\approx\frac{\log\beta}{2C_{\min}},\qquad
  t_{best}\approx\tau\log\beta,\ \tau=\min_{g_j>0}\frac{1+g_j/c_j}{2(c+g_j)},\qquad \min_tW_p\propto\beta^{-c\tau}.$$

No bound $\sqrt{\log(\beta+1)/\beta}\,e^{Ct}+e^{-ct}$ with a smaller C than $C_{\min}$ can hold for all beta. In the
terminal phase clusters are points and follow $\dot x=P_xVx$: the tangent of the angle to the leading eigenspace of V
falls at $v_{(1)}-v_{(2)}$. From a reduction to Gaussian clusters: orders and rates, not constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike

_SAME = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class PhasePrediction(Result):
    """Rates and orders of the three phases.

    `contraction` and `growth` have one entry per eigendirection outside E, given by the columns of `directions`; `k` is
    the dimension of E, `escape` the rate $c_U$, `terminal_rate` the gap of V.
    """

    k: int
    directions: Float[np.ndarray, "d m"]
    contraction: Float[np.ndarray, " m"]
    growth: Float[np.ndarray, " m"]
    escape: float
    terminal_rate: float

    def rate(self, p: float = 2.0) -> float:
        r"""The c of $W_p$: how fast the law concentrates at zero temperature."""
        return min(float(self.contraction.min()), self.k * self.escape / real_number("p", p, least=1))

    @property
    def departs(self) -> bool:
        """Whether V pulls the law away from E in the end."""
        return bool((self.growth > 0).any())

    @property
    def least_growth(self) -> float:
        r"""$C_{\min}$; 0 if nothing departs."""
        c, g = self._unstable()
        return float(np.max(c * g / (c + g), initial=0.0))

    @property
    def exit_slope(self) -> float:
        r"""The growth of the exit time with $\log\beta$; infinite if nothing departs."""
        return 1 / (2 * self.least_growth) if self.departs else math.inf

    def best_slope(self, p: float = 2.0) -> float:
        r"""$\tau$: the growth of the best time with $\log\beta$; infinite if nothing departs."""
        c, g = self._unstable()
        return float(np.min((1 + g / c) / (2 * (self.rate(p) + g)), initial=math.inf))

    def best_exponent(self, p: float = 2.0) -> float:
        r"""$-c\tau$: the exponent of $\beta$ in the smallest $W_p$."""
        return -self.rate(p) * self.best_slope(p)

    def _unstable(self) -> tuple[np.ndarray, np.ndarray]:
        away = self.growth > 0
        return self.contraction[away], self.growth[away]

    derived = ("departs", "least_growth", "exit_slope")

    def variables(self) -> Variables:
        return {
            "direction": (("component", "mode"), self.directions),
            "contraction": ("mode", self.contraction),
            "growth": ("mode", self.growth),
        }

    def facts(self) -> list[str]:
        first = f"concentration on dimension {self.k} at the rate {self.rate():.4g} in W_2, {self.rate(1):.4g} in W_1"
        if not self.departs:
            return [first, "V holds it there"]
        best = f"best at {self.best_slope():.4g} log beta, of order beta^{self.best_exponent():.4g}"
        last = f"left at {self.exit_slope:.4g} log beta (C at least {self.least_growth:.4g})"
        return [first, best, last, f"terminal rate {self.terminal_rate:.4g}"]


@recorded_call
def predict_phases(value: ArrayLike, form: ArrayLike | None = None) -> PhasePrediction:
    r"""The rates of concentration, rest and departure for symmetric V and B that commute. B is 1 by default."""
    v = real_array("value", value)
    b = np.eye(len(v)) if form is None else real_array("form", form)
    if v.ndim != 2 or v.shape[0] != v.shape[1] or b.shape != v.shape or len(v) < 2:
        raise SphereflowError(f"value and form must be square matrices of one size, got {v.shape} and {b.shape}.")
    size = max(float(np.abs(v).max()), float(np.abs(b).max()), 1e-300) ** 2
    if max(_apart(v, v.T), _apart(b, b.T)) > _SAME * math.sqrt(size) or _apart(v @ b, b @ v) > _SAME * size:
        raise SphereflowError("value and form must be symmetric and commute: only then do they share eigenvectors.")
    # A generic combination of two commuting matrices separates what they have in common.
    basis = np.linalg.eigh(v / max(_norm(v), 1e-300) + math.sqrt(2) / 3 * b / max(_norm(b), 1e-300))[1]
    vs, bs = (np.einsum("ia,ij,ja->a", basis, matrix, basis) for matrix in (v, b))
    products = vs * bs
    top = products > products.max() - _SAME * size
    if top.all():
        raise SphereflowError("V B^T is a multiple of the identity: every law stays where it is at zero temperature.")
    if bs[top].min() <= 0 or np.abs(bs).min() < _SAME * math.sqrt(size):
        raise SphereflowError("form must be invertible, and positive on the leading eigenspace of V B^T.")
    rest = ~top
    contraction = np.min(vs[top][:, None] - products[rest] / bs[top][:, None], axis=0)
    growth = np.max(vs[rest] - vs[top][:, None], axis=0)
    following = rest & (products > products[rest].max() - _SAME * size)
    escape = (products.max() - products[rest].max()) / float(np.abs(bs[following]).max())
    values = np.sort(vs)[::-1]
    below = values[values < values[0] - _SAME * math.sqrt(size)]
    terminal = float(values[0] - below[0]) if below.size else 0.0
    return PhasePrediction(int(top.sum()), basis[:, rest], contraction, growth, float(escape), terminal)


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


def _norm(a: np.ndarray) -> float:
    return float(np.linalg.norm(a, 2))
