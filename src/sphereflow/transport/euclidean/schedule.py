r"""`Schedule`, the kind of schedule in R^d: ReLU perceptrons of width one,
 $x'=w_k\,(a_k\cdot x+b_k)_+$ for a time $\tau_k$, whose flow, inverse and log-determinant are exact.

```python
import numpy as np
from sphereflow.transport import Schedule
half = Schedule(w=[[1.0, 0.0]], a=[[0.0, 1.0]], b=[0.0])   # shears the upper half plane
there_and_back = half + half.inverse()
there_and_back.apply(np.eye(2))
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.reading import real_array
from sphereflow.shapes import AnyArray, ArrayLike
from sphereflow.transport.abstract import AbstractSchedule
from sphereflow.transport.euclidean import flow

if TYPE_CHECKING:
    from sphereflow.transport.euclidean.laws import Law, Pushed

# Beyond this the factor e^(lambda tau) of a piece leaves the floating-point numbers.
_LARGEST_STRETCH = 700.0


class Schedule(AbstractSchedule):
    r"""Pieces $x'=w_k\,(a_k\cdot x+b_k)_+$ for times $\tau_k$ in R^d, k = 1..K, run one after another.

    **Arguments:** `w`, `a` of shape (K, d); `b`, `tau` of shape (K,), durations 1 unless given.

    Sign of the log-determinant: `log_det(x)` is $L(x)=\log\det D\phi(x)$ at the starting point, so that the density of
    the image is $\rho(\phi(x))=\rho_B(x)\,e^{-L(x)}$; `pullback(y)` returns $x=\phi^{-1}(y)$ with this same $L(x)$.
    """

    space: ClassVar[str] = "euclid"

    w: Float[AnyArray, "k d"]
    a: Float[AnyArray, "k d"]
    b: Float[AnyArray, " k"]
    tau: Float[AnyArray, " k"]

    def __init__(self, w: ArrayLike, a: ArrayLike, b: ArrayLike, tau: ArrayLike | None = None):
        given = (w, a, b, np.ones(np.shape(b)) if tau is None else tau)
        if any(isinstance(value, jax.core.Tracer) for value in given):
            self.w, self.a, self.b, self.tau = (jnp.asarray(value) for value in given)
        else:
            self.w, self.a, self.b, self.tau = _checked(*given)

    @classmethod
    def empty(cls, d: int) -> Schedule:
        """The identity, with no piece at all."""
        return cls(np.zeros((0, d)), np.zeros((0, d)), np.zeros(0), np.zeros(0))

    @classmethod
    def join(cls, parts: Sequence[Schedule]) -> Schedule:
        """One after another, all at once; quicker than `+` for many."""
        if len({part.d for part in parts}) != 1:
            dimensions = ", ".join(str(part.d) for part in parts) or "no schedule at all"
            raise SphereflowError(f"schedules can follow each other only in one dimension, got {dimensions}.")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("w", "a", "b", "tau")))

    @property
    def d(self) -> int:
        return self.w.shape[1]

    @property
    def stretch(self) -> Float[AnyArray, " k"]:
        r"""$\lambda_k\tau_k=a_k\cdot w_k\,\tau_k$: the log-determinant of each piece where it acts."""
        return (self.a * self.w).sum(axis=1) * self.tau

    def arrays(self) -> dict[str, np.ndarray]:
        named = {"dt": self.tau, "w": self.w, "a": self.a, "b": self.b}
        return {name: np.asarray(value) for name, value in named.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], d: int) -> Schedule:
        if len(arrays["dt"]) == 0:
            return cls.empty(d)
        return cls(arrays["w"], arrays["a"], arrays["b"], arrays["dt"])

    def carry(self, x: ArrayLike) -> tuple[Float[AnyArray, "... d"], Float[AnyArray, "..."]]:
        """(image, log-determinant) of the points, both at once; NumPy in, NumPy out, and so for JAX."""
        points = self._points(x)
        moved, log_det = flow.carry(self.w, self.a, self.b, self.tau, points.reshape(-1, self.d))
        moved, log_det = moved.reshape(points.shape), log_det.reshape(points.shape[:-1])
        return (jnp.asarray(moved), jnp.asarray(log_det)) if isinstance(x, jax.Array) else (moved, log_det)

    def apply(self, x: ArrayLike) -> Float[AnyArray, "... d"]:
        return self.carry(x)[0]

    def log_det(self, x: ArrayLike) -> Float[AnyArray, "..."]:
        return self.carry(x)[1]

    def pullback(self, y: ArrayLike) -> tuple[Float[AnyArray, "... d"], Float[AnyArray, "..."]]:
        """(x, L(x)) with x the point that is carried to y: minus what the inverse schedule accumulates."""
        x, log_det = self.inverse().carry(y)
        return x, -log_det

    def inverse(self) -> Schedule:
        return Schedule(-self.w[::-1], self.a[::-1], self.b[::-1], self.tau[::-1])

    def __add__(self, other: Any) -> Schedule:
        return Schedule.join([self, other]) if isinstance(other, Schedule) else NotImplemented

    def __getitem__(self, chosen: slice) -> Schedule:
        """Some of the pieces, in the order of the slice."""
        return Schedule(self.w[chosen], self.a[chosen], self.b[chosen], self.tau[chosen])

    def between(self, start: float, stop: float) -> Schedule:
        index = np.arange(self.n_pieces)
        share = np.clip(np.minimum(stop, index + 1) - np.maximum(start, index), 0, 1)
        kept = share > 0
        return Schedule(self.w[kept], self.a[kept], self.b[kept], self.tau[kept] * share[kept])

    def density(self, base: Law) -> Pushed:
        r"""The law of $\phi(X)$ for X of law `base`: $\log\rho(y)=\log\rho_B(x)-L(x)$, $x=\phi^{-1}(y)$; exact."""
        from sphereflow.transport.euclidean.laws import Pushed

        return Pushed(self, base)

    def normal_form(self, duration: float = 1.0) -> Schedule:
        """The same map with unit a (or a = 0, b = 1) and equal durations; pieces that never act keep w = 0."""
        size = np.linalg.norm(self.a, axis=1)
        flat = size == 0
        unit = np.where(flat, 1.0, size)
        tau = np.full(self.n_pieces, duration / max(self.n_pieces, 1))
        push = np.where(flat, np.maximum(self.b, 0.0), unit)
        with np.errstate(divide="ignore", invalid="ignore"):
            w = self.w * np.where(tau > 0, push * self.tau / tau, 0.0)[:, None]
        return Schedule(w, self.a / unit[:, None], np.where(flat, 1.0, self.b / unit), tau)

    def sup_norm(self) -> float:
        """Largest weight (w, a or b, entry by entry) in the normal form of duration 1."""
        named = self.normal_form().arrays()
        return float(max((np.abs(named[name]).max(initial=0.0) for name in ("w", "a", "b")), default=0.0))

    def simplify(self) -> Schedule:
        """The same map with fewer pieces: idle ones dropped, neighbours with the same (a, b) and parallel w merged."""
        normal = self.normal_form(float(max(self.n_pieces, 1)))
        kept: list[tuple[np.ndarray, np.ndarray, float]] = []
        for w, a, b in zip(normal.w, normal.a, normal.b, strict=True):
            if kept and np.array_equal(kept[-1][1], a) and kept[-1][2] == b and _parallel(kept[-1][0], w, a):
                w = kept.pop()[0] + w
            if np.abs(w).max() > 1e-14:
                kept.append((w, a, float(b)))
        if not kept:
            return Schedule.empty(self.d)
        return Schedule(*(np.array(column) for column in zip(*kept, strict=True)))

    def _points(self, x: Any) -> Any:
        points = x if isinstance(x, (jax.Array, np.ndarray)) else np.asarray(x, dtype=float)
        if points.ndim == 0 or points.shape[-1] != self.d:
            raise SphereflowError(
                f"points must have {self.d} coordinates in their last axis, as the schedule does; got {points.shape}."
            )
        return points


def _parallel(first: np.ndarray, second: np.ndarray, a: np.ndarray) -> bool:
    """Whether the flows of w = first and w = second on the same half-space add up: always along one line."""
    largest = np.abs(first).max() * np.abs(second).max()
    along = np.abs(np.outer(first, second) - np.outer(second, first)).max() <= 1e-15 * largest
    shears = a @ first == 0 and a @ second == 0
    return bool(along or shears)


def _checked(w: Any, a: Any, b: Any, tau: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The arrays as float64 that cannot be written to, or one sentence."""
    w, a, b, tau = (real_array(name, value) for name, value in (("w", w), ("a", a), ("b", b), ("tau", tau)))
    if any(np.abs(value).max(initial=0.0) > 1e100 for value in (w, a, b, tau)):
        raise SphereflowError("the weights of a schedule must be within [-1e100, 1e100].")
    if w.ndim != 2 or w.shape[1] == 0 or a.shape != w.shape or b.shape != w.shape[:1] or tau.shape != b.shape:
        raise SphereflowError(
            "a schedule of K pieces in d dimensions has w and a of shape (K, d), b and tau of shape (K,); "
            f"got {w.shape}, {a.shape}, {b.shape} and {tau.shape}."
        )
    if not all(np.isfinite(value).all() for value in (w, a, b, tau)):
        raise SphereflowError("the weights of a schedule must be finite.")
    if (tau < 0).any():
        raise SphereflowError(f"durations must not be negative, got {tau.min():g}; use inverse() to run backwards.")
    worst = np.abs((a * w).sum(axis=1) * tau).max(initial=0.0)
    if worst > _LARGEST_STRETCH:
        raise SphereflowError(
            f"one piece stretches space by e^{worst:.4g}, beyond the range of numbers; make it weaker or shorter."
        )
    for value in (w, a, b, tau):
        value.flags.writeable = False
    return w, a, b, tau
