r"""The stochastic Fokker-Planck equation on the sphere in three dimensions, in harmonics, by its own generator.

For the law $\mu$ of a token given the weights (d = 3, diffusive clock $\tau$, Gaussian values) and every function
$\varphi$ on the sphere
$$d\langle\mu,\varphi\rangle=\tfrac1{2d}\langle\mu,s_\mu(x,x)\,\Delta\varphi\rangle\,d\tau
  +\langle\mu,\nabla\varphi\cdot d\xi\rangle,\qquad d\xi(x)=P_x\,dB\,m_A(x),\quad dB_{ab}\sim N(0,d\tau/d)\quad
  \text{(Ito)},$$
$m_A(x)$ the attention average of the query $\beta Ax$ over $\mu$ and $s_\mu(x,x)=E_A|m_A(x)|^2$. With $\varphi=Y_{lm}$,
$\Delta Y_{lm}=-l(l+1)Y_{lm}$, these are equations for the harmonics $c_{lm}=\langle\mu,Y_{lm}\rangle$. A is drawn
afresh at every step of every path. At $\beta=0$ attention is the mean of the law and harmonics are coupled to their
neighbours only; otherwise averages are sums over points of the sphere. Mass is never touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import sparse

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.numerics.harmonics import degrees, harmonics, sphere_points
from sphereflow.progress import Progress
from sphereflow.random_transformers.random_laws import RandomLaws, follow, save_times
from sphereflow.random_transformers.weight_laws import SCORE_NAMES
from sphereflow.reading import density_values, real_array
from sphereflow.results import Variables, recorded_call
from sphereflow.seeds import Seed

_EXTRA = 6  # degrees that integrals resolve beyond a product of two harmonics
_CHUNK = 400_000  # pairs of points, of all paths, that are in the cache together


@dataclass(frozen=True, eq=False, repr=False)
class SphereDensityPaths(RandomLaws):
    r"""Random laws on the sphere: `harmonics` $c_{lm}$ of every path at all times (R, S, $(L+1)^2$)."""

    harmonics: Float[np.ndarray, "R S N"]

    @property
    def degree(self) -> int:
        """The last degree L."""
        return math.isqrt(self.harmonics.shape[2]) - 1

    def powers(self, degree: int = 1) -> Float[np.ndarray, "R S"]:
        r"""$\sum_mc_{lm}^2=\iint P_l(\langle x,y\rangle)\,d\mu\,d\mu$ of every path; l = 1: the squared mean."""
        whole_number("degree", degree, least=0, most=self.degree)
        return np.asarray(np.sum(self.harmonics[:, :, degree**2 : (degree + 1) ** 2] ** 2, axis=2))

    def squares(self, degree: int = 1) -> Estimate:
        r"""$E\sum_mc_{lm}^2$ at the saved times."""
        return mean(self.powers(degree))

    def density(self, points: Float[np.ndarray, "p 3"]) -> Float[np.ndarray, "R S p"]:
        """The density of every path at unit vectors, with respect to the uniform law."""
        x = real_array("points", points)
        if x.ndim != 2 or x.shape[1] != 3 or not np.allclose(np.sum(x**2, axis=1), 1, atol=1e-6):
            raise SphereflowError(f"points must be unit vectors in three dimensions, got an array of shape {x.shape}.")
        return np.asarray((self.harmonics * (2 * degrees(self.degree) + 1)) @ harmonics(x, self.degree)[0].T)

    def variables(self) -> Variables:
        known = [self.squares(order) for order in range(self.degree + 1)]
        return {
            "time": ("time", self.times),
            "square": (("time", "degree"), np.stack([each.value for each in known], axis=1)),
            "square_error": (("time", "degree"), np.stack([each.error for each in known], axis=1)),
            "harmonics": (("time", "repeat", "harmonic"), np.swapaxes(self.harmonics, 0, 1)),
        }

    def facts(self) -> list[str]:
        end = f"squares of degree 1 and 2: {self._end([self.squares(1), self.squares(2)])}"
        return [end, f"{len(self.harmonics)} paths, degree {self.degree}", *self._resolved("degree", "harmonics")]


@recorded_call
def solve_sphere_density(
    density: Callable[..., np.ndarray] | Sequence[float] | np.ndarray,
    *,
    beta: float,
    t1: float,
    score: str = "product",
    saveat: int | Sequence[float] | np.ndarray = 2,
    repeats: int = 1000,
    steps: int | None = None,
    degree: int = 8,
    nodes: int = 1,
    seed: Seed = 0,
    progress: Progress = None,
) -> SphereDensityPaths:
    r"""Paths of the law of infinitely many tokens on the sphere in three dimensions, from your own law at time 0.

    **Arguments:**

    - `density`: a function of the coordinates x, y, z, positive and up to a factor, or the tokens (n, 3) of a law.
    - `beta`: inverse temperature; `score`: law of A in the scaling of `weights` (d = 3).
    - `t1`: diffusive time $\eta^2L/H$ of the end; `saveat`: number of frames from 0 to t1, or their times.
    - `repeats`: paths; `steps`: of the whole run (50 per unit of time unless given), of weak order 1.
    - `degree`: the last degree L of the harmonics. `nodes`: independent draws of A that share a step.

    ```python
    from sphereflow import random_transformers
    paths = random_transformers.solve_sphere_density(lambda x, y, z: 1 + z, beta=0.0, t1=1.0, repeats=200)
    paths.squares(1)  # of the mean of the law, with error bars
    ```
    """
    degree = whole_number("degree", degree, least=2, most=40)
    beta, t1 = real_number("beta", beta, least=0, most=50), real_number("t1", t1, above=0, most=1e3)
    one_of("score", score, SCORE_NAMES)
    repeats, nodes = whole_number("repeats", repeats, least=2), whole_number("nodes", nodes, most=4096)
    times, move = save_times(t1, saveat), SphereStep(beta, score, degree, nodes)
    start, remedy = starting_harmonics(density, degree), f"or a degree below {degree}"
    saved, largest = follow(
        move, start, times, t1, steps, repeats=repeats, chunk=move.chunk, remedy=remedy, seed=seed, progress=progress
    )
    tail = float(np.sqrt(np.mean(np.sum(saved[:, -1, degree**2 :] ** 2, axis=1))))
    return SphereDensityPaths(times=times, harmonics=saved, largest=largest, tail=tail)


def starting_harmonics(density: Callable[..., np.ndarray] | Sequence[float] | np.ndarray, degree: int) -> np.ndarray:
    """The harmonics of a density, or of tokens."""
    if callable(density):
        x, weights = sphere_points(6 * degree + 40)
        weights = weights * density_values("density", density, *x.T)
        return np.asarray(weights / weights.sum() @ harmonics(x, degree)[0])
    x = real_array("density", density)
    if x.ndim != 2 or x.shape[1] != 3 or not len(x) or not np.allclose(np.sum(x**2, axis=1), 1, atol=1e-6):
        raise SphereflowError(f"density must be a function of x, y, z, or tokens of the shape (n, 3), got {x.shape}.")
    return np.asarray(harmonics(x, degree)[0].mean(axis=0))


class SphereStep:
    r"""One Ito step of the harmonics; `second` multiplies the second-order term (1 in the equation)."""

    def __init__(self, beta: float, score: str, degree: int, nodes: int = 1, second: float = 1.0):
        self.beta, self.score, self.degree, self.nodes = beta, score, degree, nodes if beta else 1
        order = degrees(degree)
        self.decay, self.height = second * order * (order + 1) / 6, 2.0 * order + 1
        self.x, self.weights = sphere_points(2 * degree + (_EXTRA if beta else 1))
        self.values, self.slopes = harmonics(self.x, degree)
        self.half = len(self.x) // 2
        self.chunk = max(1, _CHUNK // (self.half**2 * self.nodes)) if beta else 10**6
        if not beta:
            # At beta = 0 the noise is a common vector v, and <mu, v . grad Y> is a sparse map of the harmonics.
            along = [(self.slopes[:, a].T * self.weights) @ (self.values * self.height) for a in range(3)]
            stacked = np.concatenate(along)
            self.along = sparse.csr_array(np.where(np.abs(stacked) > 1e-12, stacked, 0.0))

    def __call__(self, rng: np.random.Generator, c: np.ndarray, h: float) -> np.ndarray:
        b = rng.standard_normal((len(c), self.nodes, 3, 3)) * math.sqrt(h / (3 * self.nodes))
        if not self.beta:
            # The harmonics of degree 1 are, in their order, the coordinates 3, 1, 2 of the mean.
            centre = c[:, [2, 3, 1]]
            v = np.einsum("rab,rb->ra", b[:, 0], centre)
            beside = (self.along @ c.T).reshape(3, -1, len(c))
            own = np.sum(centre**2, axis=1)[:, None]
            return np.asarray(c - h * self.decay * own * c + np.einsum("ra,akr->rk", v, beside))
        mass = _rows(c * self.height, self.values.T) * self.weights
        m = self.attention(mass, self._matrices(rng, len(c)))
        own = np.mean(np.sum(m**2, axis=3), axis=1)
        noise = np.einsum("rqab,rqgb->rga", b, m) * mass[:, :, None]
        moved = _rows(noise.reshape(len(c), -1), self.slopes.reshape(-1, c.shape[1]))
        return np.asarray(c - h * self.decay * _rows(own * mass, self.values) + moved)

    def attention(
        self, mass: Float[np.ndarray, "r n"], a: Float[np.ndarray, "r q 3 3"]
    ) -> Float[np.ndarray, "r q n 3"]:
        r"""$\int e^{\beta\langle Ax,y\rangle}y\,\mu(dy)\big/\int e^{\beta\langle Ax,y\rangle}\mu(dy)$ at all points x.

        Points come in antipodal pairs, so one exponential and its inverse serve four pairs (x, y). A truncated density
        may be negative where there is little mass, which a rare large A would see alone: there it counts as zero.
        """
        y, mass = self.x[: self.half], np.maximum(mass, 0.0)
        rise = np.exp((self.beta * (y @ a.swapaxes(2, 3))) @ y.T)
        fall = 1 / rise
        first, second = mass[:, : self.half], mass[:, self.half :]
        moments = [np.concatenate([part[..., None], part[..., None] * y], axis=-1)[:, None] for part in (first, second)]
        moments[1][..., 1:] *= -1
        sums = np.concatenate([rise @ moments[0] + fall @ moments[1], fall @ moments[0] + rise @ moments[1]], axis=2)
        return np.asarray(sums[..., 1:] / sums[..., :1])

    def _matrices(self, rng: np.random.Generator, paths: int) -> np.ndarray:
        """Fresh matrices A of every path."""
        shape = (paths, self.nodes, 3, 3)
        if self.score == "product":
            first, second = rng.standard_normal((2, *shape)) * 3**-0.25
            return np.asarray(first @ second.swapaxes(2, 3))
        if self.score == "gaussian":
            return rng.standard_normal(shape)
        if self.score == "identity":
            return np.broadcast_to(np.eye(3), shape)
        q, r = np.linalg.qr(rng.standard_normal(shape))
        return np.asarray(math.sqrt(3) * q * np.sign(np.einsum("...ii->...i", r))[..., None, :])


def _rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product ab, one row of a at a time: whole matrices of this size wake threads that wait for each other."""
    return np.asarray((a[:, None, :] @ b)[:, 0])
