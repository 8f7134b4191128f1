r"""Smooth maps that a user writes as functions: derivative, volume, inverse, and the law of an image under them.

$$\rho_\varphi(y)=\frac{\rho(x)}{\det D\varphi(x)},\qquad x=\varphi^{-1}(y),$$

with the derivative by central differences and the inverse by Newton's method.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.seeds import Seed
from sphereflow.transport.euclidean.laws import Law

_STEP = 1e-5  # central differences are then right to about ten digits
_NEWTON = 50


@dataclasses.dataclass(frozen=True)
class SmoothMap:
    """A map of R^d given by `forward`, a function of arrays (n, d); `backward`, its inverse, only if it is known."""

    forward: Callable[[Any], Any]
    backward: Callable[[Any], Any] | None = None

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        y = np.asarray(self.forward(x), dtype=float)
        if y.shape != x.shape:
            raise SphereflowError(f"the map must send an array {x.shape} to one of the same shape, it gave {y.shape}.")
        if not np.isfinite(y).all():
            raise SphereflowError("the map gave NaN or infinity at a point where it is needed.")
        return y

    def derivative(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d d"]:
        """D phi, entry (i, j) the derivative of coordinate i along axis j."""
        columns = [(self(x + _STEP * e) - self(x - _STEP * e)) / (2 * _STEP) for e in np.eye(x.shape[1])]
        return np.stack(columns, axis=-1)

    def det(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return np.linalg.det(self.derivative(x))

    def inverse(self, y: Float[np.ndarray, "n d"], start: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """x with phi(x) = y, by Newton's method with steps halved while they do not help; NaN where it fails."""
        if self.backward is not None:
            return np.asarray(self.backward(y), dtype=float)
        x = np.array(start, dtype=float)
        active = np.arange(len(x))
        size = 1 + np.linalg.norm(y, axis=1)
        for _ in range(_NEWTON):
            gap = self(x[active]) - y[active]
            worst = np.linalg.norm(gap, axis=1)
            left = worst > 1e-12 * size[active]
            active, gap, worst = active[left], gap[left], worst[left]
            if not active.size:
                break
            step = np.linalg.solve(self.derivative(x[active]), gap[..., None])[..., 0]
            share = np.ones((len(active), 1))
            for _ in range(6):
                bad = np.linalg.norm(self(x[active] - share * step) - y[active], axis=1) > worst
                if not bad.any():
                    break
                share[bad] /= 2
            x[active] -= share * step
        missed = np.linalg.norm(self(x) - y, axis=1) > 1e-8 * size
        x[missed] = np.nan
        return x


class ImageLaw(Law):
    """The law of phi(X) for X of the law `base`: density by the change of variables, samples by carrying samples."""

    def __init__(self, base: Law, phi: SmoothMap, second_moment: float | None = None):
        self.base, self.phi, self.d = base, phi, base.d
        images = phi(base.sample(4000, 0))
        # A map that is known by its values only: its image's tails are those of the samples.
        self.second_moment = float((images**2).sum(axis=1).mean()) if second_moment is None else second_moment
        self.gaussian_tails = base.gaussian_tails and math.isfinite(self.second_moment)
        self._starts = (images, base.sample(4000, 0))

    def log_density(self, x: Any) -> Any:
        from scipy.spatial import cKDTree

        points = np.asarray(x, dtype=float)
        flat = points.reshape(-1, self.d)
        images, sources = self._starts
        nearest = cKDTree(images).query(flat)[1]
        back = self.phi.inverse(flat, sources[nearest])
        lost = ~np.isfinite(back).all(axis=1)
        back[lost] = 0.0
        with np.errstate(divide="ignore"):
            values = self.base.log_density(back) - np.log(self.phi.det(back))
        return np.where(lost, -math.inf, values).reshape(points.shape[:-1])

    def sample(self, n: int, seed: Seed = 0) -> Float[np.ndarray, "n d"]:
        return self.phi(self.base.sample(n, seed))
