r"""Linear stability: of the uniform law in closed form, and of any stationary measure.

Uniform law of S^{d-1}, harmonics of degree l (waves $e^{\pm il\theta}$ for d = 2), peak kernel:

$$\lambda_l=\frac{l(l+d-2)}\beta\,\Lambda_l\ \text{(USA)},\qquad
  \lambda_l=\frac{l(l+d-2)}\beta\,\frac{\Lambda_l}{\Lambda_0}\ \text{(SA)},\qquad
  \frac{\Lambda_l}{\Lambda_{l-1}}=\frac{I_{l+d/2-1}(\beta)}{I_{l+d/2-2}(\beta)}.$$

A stationary measure $\mu$, given by points with masses (atoms, or the nodes of a density): a displacement
$\eta$ of its points moves by

$$\dot\eta(x)=D_xv[\mu](x)\,\eta(x)+\int D_yk(x,y)\,\eta(y)\,\mu(dy).$$

Points that share an atom may also part: displacements with mean zero in every atom see no change of the field, and grow
at the eigenvalues of $D_xv[\mu]$ at that atom, its splitting rates. A measure is stable when both spectra are negative,
rotations aside.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from sphereflow.dynamics import Dynamics, attention_name
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.interaction.expansion import bessel_ratios, zonal_coefficients
from sphereflow.kernels import KERNEL_SCALES, uniform_mean
from sphereflow.numerics.unit_vectors import tangent_frames
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike
from sphereflow.sphere import normalise, tokens

# Largest speed, relative to the largest rate, of points that are taken to be at rest.
_AT_REST = 1e-6


def growth_rates(
    beta: float, model: str | Dynamics = "sa", *, d: int = 2, count: int = 20, kernel_scale: str = "peak"
) -> Float[np.ndarray, " count"]:
    """How fast harmonics of degree 1, 2, ..., `count` grow on the uniform law; any d, any beta >= 0."""
    beta = real_number("beta", beta, least=0)
    d, count = whole_number("d", d, least=2), whole_number("count", count)
    name = attention_name(model, beta)
    one_of("kernel_scale", kernel_scale, KERNEL_SCALES)
    degree = np.arange(1, count + 1)
    if beta == 0:  # Z = 1 and v = P_x mean: only the first harmonic moves
        return np.where(degree == 1, (d - 1) / d, 0.0)
    ratios = np.asarray(bessel_ratios(d / 2 - 1, count, jnp.asarray(beta)))
    rates = degree * (degree + d - 2) / beta * np.cumprod(ratios)
    if name == "sa":
        return rates
    uniform = uniform_mean(2, beta) if d == 2 else float(zonal_coefficients(d, beta, 0)[0])
    return rates * uniform * (np.exp(beta) if kernel_scale == "raw" else 1.0)


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(Result):
    """Linear stability of a stationary measure.

    `rates`: eigenvalues of the motion of its points, largest real part first, with `directions[:, i]` the displacement
    of rate i in orthonormal tangent coordinates. `splitting`: (points, d-1) rates at which mass at one point parts, the
    largest first. `speed`: the largest velocity of a point, zero for a stationary measure.
    """

    rates: Complex[np.ndarray, " m"]
    directions: Complex[np.ndarray, "m m"]
    splitting: Float[np.ndarray, "n r"]
    speed: float
    symmetries: int

    @property
    def unstable(self) -> int:
        """Number of growing displacements of the points as wholes."""
        return int(np.sum(self.rates.real > self._zero))

    @property
    def stable(self) -> bool:
        """Nothing grows: neither displacements nor splittings; as many neutral displacements as rotations."""
        neutral = int(np.sum(np.abs(self.rates) <= self._zero))
        return self.unstable == 0 and bool(self.splitting.max() < -self._zero) and neutral <= self.symmetries

    @property
    def _zero(self) -> float:
        return 1e-9 * max(1.0, float(np.abs(self.rates).max()))

    derived = ("stable", "unstable")

    def variables(self) -> Variables:
        return {
            "rate": ("direction", self.rates),
            "displacement": (("coordinate", "direction"), self.directions),
            "splitting": (("point", "rank"), self.splitting),
        }

    def facts(self) -> list[str]:
        return [
            "stable" if self.stable else "not stable",
            f"largest rate {self.rates.real.max():.6g}, {self.unstable} growing of {len(self.rates)}",
            f"largest splitting rate {self.splitting.max():.6g}",
            f"speed {self.speed:.1e}",
        ]


@recorded_call
def stability(model: Dynamics, x: ArrayLike, masses: ArrayLike | None = None, *, at_rest: bool = True) -> Spectrum:
    """The linear stability spectrum of a stationary measure of `model`: points x of shape (n, d) with masses.

    Give the atoms of a discrete measure, or the nodes of a density (`from_angles(flow.angles[-1])` with
    `flow.grid.weights`). `at_rest=False` accepts points that still move.
    """
    points = tokens(x, "x")
    if points.ndim != 2:
        raise SphereflowError(f"x must have shape (n, d), got {points.shape}.")
    n, d = points.shape
    if model.traits.jump_times is not None or model.traits.space != "sphere":
        raise SphereflowError("stability is that of one field on the sphere: give a piece of a schedule, not all.")
    w = np.full(n, 1 / n) if masses is None else real_array("masses", masses)
    if w.shape != (n,) or w.min() < 0 or abs(w.sum() - 1) > 1e-9:
        raise SphereflowError(f"masses must be {n} numbers, not negative, that sum to one.")
    frames = tangent_frames(np.asarray(points))
    # A second copy of every point without mass: its derivative is that of the field in a fixed measure.
    doubled = model.with_masses(np.concatenate([w, np.zeros(n)]))
    jacobian, probes, velocity = _linearise(doubled, points, jnp.asarray(frames))
    size = n * (d - 1)
    values, vectors = np.linalg.eig(np.asarray(jacobian).reshape(size, size))
    order = np.argsort(-values.real)
    split = np.sort(np.linalg.eigvals(np.asarray(probes)).real, axis=1)[:, ::-1]
    speed = float(np.linalg.norm(np.asarray(velocity), axis=1).max())
    if at_rest and speed > _AT_REST * max(1.0, float(np.abs(values).max())):
        raise SphereflowError(f"these points are not at rest: the largest speed is {speed:.1e}; at_rest=False accepts.")
    return Spectrum(values[order].astype(complex), vectors[:, order].astype(complex), split, speed, d * (d - 1) // 2)


@eqx.filter_jit
def _linearise(model: Dynamics, x: Float[Array, "n d"], frames: Float[Array, "n d r"]) -> tuple[Array, Array, Array]:
    """The covariant derivative of the motion of all points, and of probes in a fixed measure, in the frames given."""
    n = x.shape[0]
    now = jnp.zeros(())

    def moved(points: Array, probes: Array) -> Array:
        return model.field(now, normalise(jnp.concatenate([points, probes])))

    def as_points(step: Array) -> Array:
        return jnp.einsum("nda,nd->na", frames, moved(x + jnp.einsum("nda,na->nd", frames, step), x)[:n])

    def as_probes(step: Array) -> Array:
        return jnp.einsum("nda,nd->na", frames, moved(x, x + jnp.einsum("nda,na->nd", frames, step))[n:])

    rest = jnp.zeros((n, frames.shape[2]))
    jacobian = jax.jacfwd(as_points)(rest)
    # Probes do not see each other: one pass per tangent direction gives all of them.
    directions = jnp.eye(frames.shape[2])
    push = jax.vmap(lambda e: jax.jvp(as_probes, (rest,), (jnp.broadcast_to(e, rest.shape),))[1], out_axes=-1)
    return jacobian, push(directions), moved(x, x)[:n]
