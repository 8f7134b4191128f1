r"""Attention at infinite sharpness, solved exactly: every token follows the one it attends to most.

$$\dot z_i = V(z_{j(i)} - z_i),\qquad j(i) = \arg\max_j\, \langle e^{tV}z_i, B\,e^{tV}z_j\rangle,\qquad B = Q^\top K.$$

Logits grow like $e^{2\lambda t}$, so rescaled attention becomes this flow within $e^{-2\lambda t}$. It is linear while
the map j does not change. If B is symmetric positive semidefinite then j is a forest: going from each token to the one
it follows ends at a leader, which follows itself. With S the 0/1 matrix of j, $S^L=S^{L+1}$ for the depth L, and

$$z(t+s) = S^L z + \sum_{m<L} (S^m - S^L)\, z\, \Big(\tfrac{(sV)^m}{m!}\, e^{-sV}\Big)^{\!\top} .$$

So the only numerical work is to find the times at which j changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, real_number
from sphereflow.results import Result, Variables, recorded_call

# Candidate times for a change of the map: dense just after the last change, then a fraction of 1/|V| apart.
_NEAR = np.geomspace(1e-6, 3e-2, 20)
_FRACTION = 0.1
# With eigenvalues of both signs a token can be held between two others: the map then changes back and forth at once.
_CHATTER = 200
# Beyond this many e-foldings of the slowest direction, an exponentially decaying difference is below rounding.
_FOLDINGS = 40.0


@dataclass(frozen=True, eq=False, repr=False)
class HardmaxFlow(Result):
    """Where the tokens are, whom each follows, and the times at which some token changed whom it follows."""

    z: Float[np.ndarray, "n d"]
    follows: Int[np.ndarray, " n"]
    switches: Float[np.ndarray, " k"]

    def variables(self) -> Variables:
        tokens = ("token", "component")
        return {"z": (tokens, self.z), "follows": ("token", self.follows), "switch": ("change", self.switches)}

    def facts(self) -> list[str]:
        leaders = int(np.sum(self.follows == np.arange(len(self.z))))
        last = f", the last at t = {self.switches[-1]:.6g}" if len(self.switches) else ""
        return [
            f"{len(self.z)} tokens in dimension {self.z.shape[1]}, {leaders} of them follow themselves",
            f"{len(self.switches)} changes of whom a token follows{last}",
        ]


@recorded_call
def hardmax_flow(
    z: Float[np.ndarray, "n d"],
    t0: float,
    t1: float = math.inf,
    *,
    value: Float[np.ndarray, "d d"] | None = None,
    form: Float[np.ndarray, "d d"] | None = None,
) -> HardmaxFlow:
    r"""Rescaled tokens z(t1) from z(t0), exactly up to rounding; `t1=inf` gives the limits.

    **Arguments:** `value` is V and `form` is $B=Q^\top K$, symmetric positive semidefinite; None is the identity. For
    the limits all eigenvalues of V must have a positive real part: along the others z does not converge.
    """
    z = np.array(z, dtype=float)
    d = z.shape[1]
    v = np.eye(d) if value is None else np.asarray(value, dtype=float)
    if form is not None:
        _check_form(form)
    rates: np.ndarray = np.linalg.eigvals(v).real
    t = real_number("t0", t0)
    end = t1 if t1 == math.inf else real_number("t1", t1, least=t)
    if end == math.inf and rates.min() <= 0:
        raise SphereflowError("limits need a value matrix whose eigenvalues all have a positive real part; give t1.")
    horizon = t + _FOLDINGS / max(float(rates.min()), 1e-3) if end == math.inf else end
    flow = _Exponential(v)
    # The map j does not see a common factor of the tokens, which would overflow.
    score = _Score(_Exponential(v - rates.max() * np.eye(d)), form)
    spacing = _FRACTION / max(float(np.linalg.norm(v, 2)), 1e-12)
    switches: list[float] = []
    follows = _argmax(score(z, t))
    while t < horizon:
        piece = _Piece(z, follows, v, flow)
        after = _first_switch(piece, t, horizon, score, spacing)
        if after is None:
            z = piece.limit if end == math.inf else piece.at(end - t)
            break
        s, new = after
        z, t, follows = piece.at(s), t + s, new
        switches.append(t)
        if len(switches) >= _CHATTER and t - switches[-_CHATTER] < 1e-8 * max(1.0, t):
            raise SphereflowError(
                f"at t = {t:.6g} a token keeps dividing its attention between two others, which the hardmax flow "
                "cannot describe; start from a later time."
            )
    return HardmaxFlow(z, follows, np.asarray(switches))


class _Exponential:
    """z -> z e^{sV^T}, tokens being rows; by scaling coordinates where V is diagonal."""

    def __init__(self, value: np.ndarray):
        self._value = value
        self._diagonal = np.diag(value) if np.array_equal(value, np.diag(np.diag(value))) else None

    def __call__(self, s: float, z: np.ndarray) -> np.ndarray:
        if self._diagonal is not None:
            return z * np.exp(s * self._diagonal)
        return z @ scipy.linalg.expm(s * self._value).T


class _Score:
    """The inner products that attention compares, up to a common factor."""

    def __init__(self, growth: _Exponential, form: np.ndarray | None):
        self._growth, self._form = growth, form

    def __call__(self, z: np.ndarray, t: float) -> np.ndarray:
        x = self._growth(t, z)
        return x @ (x.T if self._form is None else self._form @ x.T)


class _Piece:
    """The exact linear flow while j is fixed."""

    def __init__(self, z: np.ndarray, follows: np.ndarray, value: np.ndarray, flow: _Exponential):
        self._flow = flow
        powers = [z]  # S^m z
        for _ in range(len(z) + 1):
            powers.append(powers[-1][follows])
            if np.array_equal(powers[-1], powers[-2]):
                break
        else:
            raise SphereflowError("tokens follow each other in a circle: the form must be symmetric and positive.")
        self.limit = powers[-1]
        self._terms = []  # (S^m - S^L) z (V^T)^m / m!
        factor = np.eye(z.shape[1])
        for m, power in enumerate(powers[:-2]):
            self._terms.append((power - self.limit) @ factor)
            factor = factor @ value.T / (m + 1)

    def at(self, s: float) -> np.ndarray:
        if not self._terms:
            return self.limit
        return self.limit + self._flow(-s, sum(s**m * term for m, term in enumerate(self._terms)))


def _first_switch(
    piece: _Piece, t: float, horizon: float, score: _Score, spacing: float
) -> tuple[float, np.ndarray] | None:
    """(time since t, new map) of the first change of whom somebody follows, or None before the horizon."""

    def products(s: float) -> np.ndarray:
        return score(piece.at(s), t + s)

    start = _argmax(products(0.0))
    before, length = 0.0, horizon - t
    regular = np.linspace(0, length, 1 + math.ceil(length / spacing))[1:]
    for s in np.union1d(_NEAR[length > _NEAR], regular):
        if _beats(products(float(s)), start):
            low, high = before, float(s)
            while high - low > 1e-14 * max(1.0, t + high):
                middle = (low + high) / 2
                low, high = (low, middle) if _beats(products(middle), start) else (middle, high)
            return high, _argmax(products(high))
        before = float(s)
    return None


def _argmax(products: np.ndarray) -> np.ndarray:
    """Whom each token follows; a tie within rounding is settled in favour of oneself, then of the first."""
    own = np.diag(products)
    best = products.max(axis=1)
    return np.where(own >= best - _rounding(products), np.arange(len(products)), products.argmax(axis=1))


def _beats(products: np.ndarray, follows: np.ndarray) -> bool:
    """Whether somebody is now followed better than the map says, by more than rounding."""
    followed = products[np.arange(len(products)), follows]
    return bool(np.any(products.max(axis=1) > followed + _rounding(products)))


def _rounding(products: np.ndarray) -> np.ndarray:
    return 64 * np.finfo(float).eps * np.abs(products).max(axis=1)


def _check_form(form: np.ndarray) -> None:
    scale = np.abs(form).max()
    if not np.allclose(form, form.T, rtol=0, atol=1e-12 * scale) or np.linalg.eigvalsh(form).min() < -1e-12 * scale:
        raise SphereflowError("the hardmax flow needs a form Q^T K that is symmetric and positive semidefinite.")
