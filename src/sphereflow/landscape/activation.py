r"""Activations of the user's own: a function $\sigma$, its kinks, and everything else computed from it.

$$\varphi'=2\sigma,\qquad \psi=\tfrac12\varphi,\qquad
  \sigma\approx\sum_{k<N}c_kT_k\ \text{between kinks, to rounding}.$$

Primitive, slope and the suprema that certificates need are those of the polynomials. A polynomial of degree below N
sampled at 4N Chebyshev points is nowhere larger than its largest sample over cos(pi/8).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.polynomial import chebyshev
from scipy.fft import dct

from sphereflow.dynamics import Dynamics, Perceptron
from sphereflow.dynamics.traits import Kinks
from sphereflow.errors import SphereflowError, real_number
from sphereflow.shapes import ArrayLike

Function = Callable[[Any], Any]

_RESOLVED = 2e-14
_MOST_TERMS = 2048
# What a primitive of the user's may differ by, relative to its size: its own rounding.
_SAME = 1e-9


class Piece(NamedTuple):
    """Chebyshev series of psi, sigma, sigma', sigma'' on one stretch between kinks."""

    low: float
    high: float
    series: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

    def at(self, s: np.ndarray, which: int) -> np.ndarray:
        return np.asarray(
            chebyshev.chebval((2 * s - self.low - self.high) / (self.high - self.low), self.series[which])
        )

    def largest(self, which: int) -> float:
        count = 4 * len(self.series[which])
        nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
        return float(np.abs(chebyshev.chebval(nodes, self.series[which])).max() / math.cos(math.pi / 8))


@dataclass(frozen=True, eq=False)
class Activation:
    r"""An activation given as a function, for `Problem(..., activation=Activation(...))`.

    **Arguments:**

    - `sigma`: takes and returns arrays (NumPy or JAX; flows of particles need JAX).
    - `primitive`: $\varphi$ with $\varphi'=2\sigma$; computed where it is not given, and refused where it is not one.
    - `kinks`: where $\sigma'$ jumps; $\sigma$ must be continuous, and smooth elsewhere.
    - `name`: what results call it.
    - `strip`: $\sigma$ takes complex arguments and is analytic up to this distance from the real line (0: not said);
      `obstruction` then finds harmonics far below rounding.
    """

    sigma: Function
    primitive: Function | None = None
    kinks: tuple[float, ...] = ()
    name: str = "own"
    strip: float = 0.0

    def __post_init__(self) -> None:
        if not callable(self.sigma) or not (self.primitive is None or callable(self.primitive)):
            raise SphereflowError("an activation needs functions of one array, sigma and possibly its primitive.")
        if not self.strip >= 0:
            raise SphereflowError(f"strip must be a distance from the real line, at least 0, got {self.strip}.")
        self._values(self.sigma, np.linspace(-1.0, 1.0, 5), "sigma")
        object.__setattr__(self, "kinks", tuple(sorted(real_number("kinks", kink) for kink in self.kinks)))

    def pieces(self, reach: float) -> tuple[Piece, ...]:
        """Series on [-reach, reach], or a little farther."""
        far = 2.0 ** math.ceil(math.log2(max(reach, 1.0)))
        known = _KNOWN.setdefault(self, {})
        if far not in known:
            ends = [-far, *(kink for kink in self.kinks if -far < kink < far), far]
            known[far] = self._joined([self._resolved(a, b) for a, b in pairwise(ends)])
        return known[far]

    def respond(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """psi, sigma, sigma' at all arguments; at a kink the slope from the left."""
        pieces = self.pieces(float(np.abs(s).max(initial=0.0)))
        out = tuple(np.empty(s.shape) for _ in range(3))
        for piece in pieces:
            here = (s > piece.low) & (s <= piece.high) if piece is not pieces[0] else s <= piece.high
            for which in range(3):
                out[which][here] = piece.at(s[here], which)
        return out[0], out[1], out[2]

    def largest(self, reach: float, which: int) -> float:
        """A bound of |psi|, |sigma|, |sigma'| or |sigma''| (which = 0 to 3) up to this argument."""
        return max(piece.largest(which) for piece in self.pieces(reach))

    def jumps(self, reach: float, *, signed: bool = False) -> list[tuple[float, float]]:
        """(place, jump of sigma') of each kink within reach; sizes of the jumps unless their sign is asked for."""
        jumps = []
        for left, right in pairwise(self.pieces(reach)):
            at = np.asarray(left.high)
            jump = float(right.at(at, 2) - left.at(at, 2))
            jumps.append((left.high, jump if signed else abs(jump)))
        return jumps

    def _values(self, function: Function, s: np.ndarray, what: str) -> np.ndarray:
        values = np.asarray(function(s))
        if values.shape != s.shape or values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            raise SphereflowError(f"the {what} of an activation must return one finite real number for each argument.")
        return values.astype(float)

    def _resolved(self, low: float, high: float) -> Piece:
        count = 16
        while count <= _MOST_TERMS:
            nodes = np.cos(np.pi * (np.arange(count) + 0.5) / count)
            values = self._values(self.sigma, low + (high - low) * (nodes + 1) / 2, "sigma")
            series = _transform(values)
            size = max(float(np.abs(values).max()), 1e-300)
            small = np.abs(series) > _RESOLVED * size
            last = int(np.flatnonzero(small)[-1]) + 1 if small.any() else 1
            if last <= count - 4:
                scale = 2 / (high - low)
                resolved = series[:last]
                slope = np.atleast_1d(chebyshev.chebder(resolved)) * scale if last > 1 else np.zeros(1)
                bend = np.atleast_1d(chebyshev.chebder(resolved, 2)) * scale**2 if last > 2 else np.zeros(1)
                return Piece(low, high, (chebyshev.chebint(resolved) / scale, resolved, slope, bend))
            count *= 2
        raise SphereflowError(
            f"sigma is not smooth on [{low:g}, {high:g}] as far as {_MOST_TERMS} terms show; "
            "name where its slope jumps in kinks=."
        )

    def _joined(self, pieces: list[Piece]) -> tuple[Piece, ...]:
        """The pieces with constants that make psi continuous and zero at zero, and the check of the primitive."""
        joined: list[Piece] = []
        for piece in pieces:
            start = piece.at(np.asarray(piece.low), 0)
            before = joined[-1].at(np.asarray(piece.low), 0) if joined else 0.0
            joined.append(_shifted(piece, float(before - start)))
        at_zero = next(piece for piece in joined if piece.low <= 0 <= piece.high).at(np.asarray(0.0), 0)
        result = tuple(_shifted(piece, -float(at_zero)) for piece in joined)
        for left, right in pairwise(result):
            gap = abs(float(left.at(np.asarray(left.high), 1) - right.at(np.asarray(left.high), 1)))
            if gap > _SAME * (1 + abs(float(left.at(np.asarray(left.high), 1)))):
                raise SphereflowError(f"sigma must be continuous, but jumps by {gap:.1e} at {left.high:g}.")
        if self.primitive is not None:
            self._check_primitive(result)
        return result

    def _check_primitive(self, pieces: tuple[Piece, ...]) -> None:
        assert self.primitive is not None
        for piece in pieces:
            s = np.linspace(piece.low, piece.high, 33)
            given = self._values(self.primitive, s, "primitive")
            ours = 2 * piece.at(s, 0)
            off = np.abs((given - given[0]) - (ours - ours[0]))
            worst = int(np.argmax(off))
            if off[worst] > _SAME * (1 + np.abs(given).max()):
                raise SphereflowError(
                    f"the primitive must be phi with phi' = 2 sigma, but from {s[0]:.3g} to {s[worst]:.3g} it grows by "
                    f"{given[worst] - given[0]:.6g} where the integral is {ours[worst] - ours[0]:.6g}."
                )

    def __str__(self) -> str:
        return self.name


# Series found so far, for each activation and reach; not part of an activation, which is kept in files.
_KNOWN: WeakKeyDictionary[Activation, dict[float, tuple[Piece, ...]]] = WeakKeyDictionary()


class OwnPerceptron(Perceptron):
    """A perceptron with an activation of the user's, for flows of particles."""

    own: Activation = eqx.field(static=True)

    def __init__(self, outer: ArrayLike, inner: ArrayLike, bias: ArrayLike, own: Activation):
        super().__init__(outer, inner, bias, "linear")
        self.own = own

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        return self._pull(x, self._hidden(self._input(x)))

    def kinks(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Kinks | None:
        return None

    def continued(self, t: Float[Array, ""], sides: Bool[Array, "n J"] | None) -> Dynamics:
        return self

    def potential(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        if self.own.primitive is None:
            raise SphereflowError("the energy of a flow needs the primitive of the activation: give primitive=.")
        return jnp.asarray(self.own.primitive(self._input(x))) @ self.outer.astype(x.dtype)

    def _hidden(self, s: Float[Array, "n J"]) -> Float[Array, "n J"]:
        try:
            return jnp.asarray(self.own.sigma(s))
        except jax.errors.JAXTypeError as trouble:
            raise SphereflowError("flows need an activation written with jax.numpy.") from trouble


def _transform(values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients from values at the zeros of T_N."""
    series = np.asarray(dct(values, type=2)) / len(values)
    series[0] /= 2
    return series


def _shifted(piece: Piece, constant: float) -> Piece:
    psi = piece.series[0].copy()
    psi[0] += constant
    return Piece(piece.low, piece.high, (psi, *piece.series[1:]))
