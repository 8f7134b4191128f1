"""Products of laws on the line in an orthonormal frame: the laws of R^d that schedules meet axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.reading import real_array
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import ArrayLike
from sphereflow.transport.euclidean.laws import Law


class ProductLaw(Law):
    r"""The law of $\sum_kX_ku_k$ with independent $X_k$ on the line and orthonormal $u_k$, the rows of `frame`.

    **Arguments:** `factors`, one law on the line per axis; `frame` (d, d), the identity unless given.
    """

    def __init__(self, factors: Sequence[Law], frame: ArrayLike | None = None):
        self.factors = tuple(factors)
        self.d = len(self.factors)
        if self.d < 2 or any(not isinstance(law, Law) or law.d != 1 for law in self.factors):
            raise SphereflowError("the factors of a product are laws on the line, at least two.")
        self.frame = np.eye(self.d) if frame is None else real_array("frame", frame, shape=(self.d, self.d))
        if np.abs(self.frame @ self.frame.T - np.eye(self.d)).max() > 1e-10:
            raise SphereflowError("the rows of the frame of a product must be orthonormal.")
        self.second_moment = float(sum(law.second_moment for law in self.factors))
        self.gaussian_tails = all(law.gaussian_tails for law in self.factors)

    def log_density(self, x: ArrayLike) -> Any:
        xp: Any = jnp if isinstance(x, jax.Array) else np
        along = xp.asarray(x) @ self.frame.T
        return sum(law.log_density(along[..., k : k + 1]) for k, law in enumerate(self.factors))

    def sample(self, n: int, seed: Seed = 0) -> Float[np.ndarray, "n d"]:
        seeds = rng_from(seed).integers(2**31, size=self.d)
        parts = [law.sample(n, int(s)) for law, s in zip(self.factors, seeds, strict=True)]
        return np.concatenate(parts, axis=1) @ self.frame
