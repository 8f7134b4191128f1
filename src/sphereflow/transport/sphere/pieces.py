r"""Pieces of a Transformer with constant weights, as flows of a measure on the sphere.

$$\dot x = P_x^\perp\big(V A_B[\mu](x) + W(Ux+b)_+\big), \qquad
A_B[\mu](x) = \frac{\int e^{\langle Bx,x'\rangle}x'\,\mu(dx')}{\int e^{\langle Bx,x'\rangle}\mu(dx')} .$$

`Drift`, `Gate` and `RankOne` have closed flow maps, `Gathering` and `TransformerBlock` are integrated to rounding.
Layer normalisation is the projection $P_x^\perp$. A piece lasts `duration`; `speed` multiplies V and W. The inverse of
a piece has V and W with the other sign. Particles carry masses; a mass of zero makes a particle a passive tracer.
"""

from __future__ import annotations

import abc
import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.numerics.unit_vectors import unit
from sphereflow.reading import real_array
from sphereflow.transport.sphere.flows import attention_shift, gate, gate_value, placed, polar

Points = Float[np.ndarray, "n d"]
Masses = Float[np.ndarray, "n"]
Vector = Float[np.ndarray, "d"]
Matrix = Float[np.ndarray, "d d"]

_LARGEST = 1e12  # of durations, speeds and weights: beyond it their products mean nothing
_UNIT = 1e-8  # how far the norm of a direction may be from one
_ROWS_AT_ONCE = 1024  # of the attention matrix
# A piece that gathers particles by a factor 1e4 is undone by its inverse to 1e-9 only if it was solved to 1e-14. The
# kinks of a perceptron make such steps tiny, so that blocks with one are solved to 1e-10.
_SMOOTH: dict[str, Any] = {"method": "DOP853", "rtol": 2.5e-14, "atol": 1e-15}
_KINKED: dict[str, Any] = {"method": "DOP853", "rtol": 1e-10, "atol": 1e-11}


@dataclass(frozen=True, eq=False, kw_only=True)
class Piece(abc.ABC):
    """Constant weights for a while: `flow` carries a measure, `inverse` is the piece that takes it back."""

    duration: float
    speed: float = 1.0
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Directions are unit vectors, everything is finite and of one dimension; lists become arrays."""
        real_number("duration", self.duration, least=0, most=_LARGEST)
        dimension: int | str = "d"
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in ("speed", "beta", "sign"):
                real_number(field.name, value, least=-_LARGEST, most=_LARGEST)
            elif field.name == "d":
                whole_number("d", value, least=2, most=10**4)
            elif field.name != "duration" and (value is not None or field.default is dataclasses.MISSING):
                shape = (dimension,) * (2 if field.name.isupper() else 1)
                array = real_array(field.name, value, shape=shape)
                dimension = array.shape[-1]
                if np.abs(array).max(initial=0.0) > _LARGEST:
                    raise SphereflowError(f"{field.name} must be within [-{_LARGEST:g}, {_LARGEST:g}].")
                if len(set(array.shape)) > 1:
                    raise SphereflowError(f"{field.name} must be a square matrix, got the shape {array.shape}.")
                if field.name in ("omega", "alpha") and abs(np.linalg.norm(array) - 1) > _UNIT:
                    raise SphereflowError(
                        f"{field.name} must be a unit vector, but its norm is {np.linalg.norm(array):.6g}."
                    )
                object.__setattr__(self, field.name, array)

    def flow(self, x: Points, masses: Masses) -> Points:
        """The particles after the piece."""
        return self.flow_and_log_det(x, masses)[0]

    @abc.abstractmethod
    def flow_and_log_det(self, x: Points, masses: Masses) -> tuple[Points, Masses]:
        """The particles after the piece, and the logarithm of the factor by which area around each has grown."""

    @abc.abstractmethod
    def inverse(self) -> Piece:
        """The piece that undoes this one."""

    @abc.abstractmethod
    def matrices(self) -> dict[str, np.ndarray]:
        """V, B, W, U and b of the Transformer block."""

    def timed(self, duration: float, speed: float) -> Piece:
        return dataclasses.replace(self, duration=duration, speed=speed)

    @property
    def steering(self) -> float:
        """duration times speed: what the flow depends on."""
        return self.duration * self.speed

    def row(self) -> dict[str, Any]:
        """What tells this piece from others of its kind."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}


def _moebius(x: Points, omega: Vector, tau: float) -> tuple[Points, Masses]:
    y, e = polar(x, omega)
    moved = placed(y - tau, e, omega)
    return moved, (x.shape[1] - 1) * (_log_cosh(y) - _log_cosh(y - tau))


def _log_cosh(y: np.ndarray) -> np.ndarray:
    return np.logaddexp(y, -y) - np.log(2)


@dataclass(frozen=True, eq=False, kw_only=True)
class Drift(Piece):
    r"""$\dot x = P_x^\perp\omega$: everything moves towards omega. W = omega 1^T / d, U = 0, b = 1."""

    omega: Vector
    kind: ClassVar[str] = "drift"

    def flow_and_log_det(self, x: Points, masses: Masses) -> tuple[Points, Masses]:
        return _moebius(x, self.omega, self.steering)

    def inverse(self) -> Drift:
        return dataclasses.replace(self, omega=-self.omega)

    def matrices(self) -> dict[str, np.ndarray]:
        d = len(self.omega)
        return _weights(d, W=self.speed * np.outer(self.omega, np.ones(d)) / d, b=np.ones(d))


@dataclass(frozen=True, eq=False, kw_only=True)
class Gate(Piece):
    r"""$\dot x = (\langle a,x\rangle+\beta)_+P_x^\perp\omega$: only what lies in the cap moves, towards omega.

    The cap of radius R about z is a = z, beta = -cos R (so U = 1 z^T, b = -cos(R) 1; with both signs turned around,
    as Lemma B.2 of the paper prints them, the gate is open outside the ball).
    """

    a: Vector
    beta: float
    omega: Vector
    kind: ClassVar[str] = "gate"

    def flow(self, x: Points, masses: Masses) -> Points:
        return gate(x, self.a, self.beta, self.omega, self.steering)

    def flow_and_log_det(self, x: Points, masses: Masses) -> tuple[Points, Masses]:
        # Along a great circle the map is the flow of one variable, whose derivative is the ratio of its speeds.
        moved = self.flow(x, masses)
        before, after = gate_value(x, self.a, self.beta), gate_value(moved, self.a, self.beta)
        active = before > 0
        grown = (x.shape[1] - 1) * (_log_cosh(polar(x, self.omega)[0]) - _log_cosh(polar(moved, self.omega)[0]))
        grown += np.log(np.maximum(after, 1e-300) / np.where(active, before, 1.0))
        return moved, np.where(active, grown, 0.0)

    def inverse(self) -> Gate:
        return dataclasses.replace(self, omega=-self.omega)

    def matrices(self) -> dict[str, np.ndarray]:
        d = len(self.omega)
        ones = np.ones(d)
        return _weights(d, W=self.speed * np.outer(self.omega, ones) / d, U=np.outer(ones, self.a), b=self.beta * ones)


@dataclass(frozen=True, eq=False, kw_only=True)
class RankOne(Piece):
    r"""$\dot x = \pm\langle\alpha,m(\mu)\rangle P_x^\perp\alpha$: attention with V = ± alpha alpha^T and B = 0.

    A measure whose mean is orthogonal to alpha does not move at all.
    """

    alpha: Vector
    sign: float = 1.0
    kind: ClassVar[str] = "rank-one attention"

    def flow(self, x: Points, masses: Masses) -> Points:
        y, e = polar(x, self.alpha)
        return placed(y - attention_shift(y, masses, self.sign, self.steering), e, self.alpha)

    def flow_and_log_det(self, x: Points, masses: Masses) -> tuple[Points, Masses]:
        y, _ = polar(x, self.alpha)
        return _moebius(x, self.alpha, attention_shift(y, masses, self.sign, self.steering))

    def inverse(self) -> RankOne:
        return dataclasses.replace(self, sign=-self.sign)

    def matrices(self) -> dict[str, np.ndarray]:
        return _weights(len(self.alpha), V=self.speed * self.sign * np.outer(self.alpha, self.alpha))


@dataclass(frozen=True, eq=False, kw_only=True)
class TransformerBlock(Piece):
    """A whole Transformer block: attention (V, B) and perceptron (W, U, b) together, integrated to rounding."""

    V: Matrix
    B: Matrix
    W: Matrix | None = None
    U: Matrix | None = None
    b: Vector | None = None
    kind: ClassVar[str] = "block"

    @property
    def _precision(self) -> dict[str, Any]:
        return _SMOOTH if self.W is None or not self.W.any() else _KINKED

    def field(self, x: Points, masses: Masses) -> Points:
        """The velocity at each particle, tangent to the sphere."""
        pull = _force(self, x, masses, slopes=False)[0]
        return self.speed * (pull - np.sum(pull * x, axis=1, keepdims=True) * x)

    def divergence(self, x: Points, masses: Masses) -> Masses:
        """Divergence of the velocity on the sphere, at each particle."""
        pull, slopes = _force(self, x, masses, slopes=True)
        across = np.einsum("nij,ni,nj->n", slopes, x, x)
        return self.speed * (np.einsum("nii->n", slopes) - across - (x.shape[1] - 1) * np.sum(pull * x, axis=1))

    def flow(self, x: Points, masses: Masses) -> Points:
        def velocity(_: float, z: np.ndarray) -> np.ndarray:
            return self.field(unit(z.reshape(x.shape)), masses).ravel()

        return unit(solve_ivp(velocity, (0, self.duration), x.ravel(), **self._precision).y[:, -1].reshape(x.shape))

    def flow_and_log_det(self, x: Points, masses: Masses) -> tuple[Points, Masses]:
        def velocity(_: float, z: np.ndarray) -> np.ndarray:
            points = unit(z[: x.size].reshape(x.shape))
            return np.concatenate([self.field(points, masses).ravel(), self.divergence(points, masses)])

        start = np.concatenate([x.ravel(), np.zeros(len(x))])
        end = solve_ivp(velocity, (0, self.duration), start, **self._precision).y[:, -1]
        return unit(end[: x.size].reshape(x.shape)), end[x.size :]

    def inverse(self) -> TransformerBlock:
        return dataclasses.replace(self, V=-self.V, W=None if self.W is None else -self.W)

    def matrices(self) -> dict[str, np.ndarray]:
        given = {"V": self.speed * self.V, "B": self.B}
        if self.W is not None and self.U is not None and self.b is not None:
            given |= {"W": self.speed * self.W, "U": self.U, "b": self.b}
        return _weights(len(self.V), **given)


@dataclass(frozen=True, eq=False, kw_only=True)
class Gathering(Piece):
    """Attention with V = ± I and B = beta I: a measure in an open hemisphere shrinks to a point, or grows from it."""

    d: int
    beta: float = 0.0
    sign: float = 1.0
    kind: ClassVar[str] = "gathering"

    @property
    def block(self) -> TransformerBlock:
        identity = np.eye(self.d)
        return TransformerBlock(
            duration=self.duration, speed=self.speed, V=self.sign * identity, B=self.beta * identity
        )

    def flow(self, x: Points, masses: Masses) -> Points:
        return self.block.flow(x, masses)

    def flow_and_log_det(self, x: Points, masses: Masses) -> tuple[Points, Masses]:
        return self.block.flow_and_log_det(x, masses)

    def inverse(self) -> Gathering:
        return dataclasses.replace(self, sign=-self.sign)

    def matrices(self) -> dict[str, np.ndarray]:
        return self.block.matrices()


def _force(block: TransformerBlock, x: Points, masses: Masses, slopes: bool) -> tuple[Points, np.ndarray]:
    """V A_B + W(Ux+b)_+ before projection and, if asked, its Jacobian."""
    n, d = x.shape
    jacobian = np.zeros((n, d, d)) if slopes else np.empty(0)
    pull = np.empty_like(x)
    for first in range(0, n, _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        if block.B.any():
            logits = (x[rows] @ block.B.T) @ x.T
            weighted = masses * np.exp(logits - logits.max(axis=1, keepdims=True))
            share = weighted / weighted.sum(axis=1, keepdims=True)
            mean = share @ x
            if slopes:
                moment = np.einsum("nj,ja,jb->nab", share, x, x) - mean[:, :, None] * mean[:, None]
                jacobian[rows] = block.V @ moment @ block.B
        else:
            mean = np.broadcast_to(masses @ x, x[rows].shape)
        pull[rows] = mean @ block.V.T
    if block.W is not None and block.U is not None and block.b is not None:
        inner = x @ block.U.T + block.b
        pull += np.maximum(inner, 0) @ block.W.T
        if slopes:
            jacobian += np.einsum("ij,nj,jk->nik", block.W, (inner > 0).astype(float), block.U)
    return pull, jacobian


def _weights(d: int, **given: np.ndarray) -> dict[str, np.ndarray]:
    empty = {name: np.zeros((d, d)) for name in "VBWU"} | {"b": np.zeros(d)}
    return empty | given


KINDS: dict[str, type[Piece]] = {kind.kind: kind for kind in (Drift, Gate, RankOne, Gathering, TransformerBlock)}
