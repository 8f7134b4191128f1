r"""Rotation-invariant densities on S^{d-1}, in any dimension: shells of constant height.

$$Z(t)=\sum_lp_l\,q_l\,R_l(t),\quad q_l=\int R_l\,d\mu,\qquad
  \dot t=(1-t^2)\,\frac{Z'(t)}\beta\ \text{(USA)},\qquad \dot t=(1-t^2)\,\frac{Z'(t)}{\beta Z(t)}\ \text{(SA)},$$

with $t=\langle x,e\rangle$ the height over the axis e, $R_l$ the Gegenbauer polynomials with $R_l(1)=1$, and $p_l\ge0$
the coefficients of the kernel, which sum to one. Shells are followed by their polar angle $\phi=\arccos t$, so that
they stay on the sphere. A smooth density starts from Gauss nodes with masses; finitely many shells are exact as they
are. The cost is (shells) x (degrees) whatever d is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics import Dynamics, Traits, attention_name
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.interaction.expansion import zonal_coefficients, zonal_degree
from sphereflow.meanfield.circle_density import save_times
from sphereflow.numerics.quadrature import jacobi
from sphereflow.reading import density_values, real_array
from sphereflow.results import Result, Variables, recorded_call, span
from sphereflow.shapes import ArrayLike
from sphereflow.solving import FORWARD, SOLVERS, solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of Z, absolutely: its terms are at most one and sum to at most one; the kernel is cut where its tail is as small.
_ROUNDING = 1e-15
_WORST_RATIO = 1e-5  # relative error of a softmax denominator beyond which a run is refused


Four = tuple[Array, Array, Array, Array]  # R and R' of two neighbouring degrees


def gegenbauer(d: int, degree: int, t: Float[Array, " n"]) -> tuple[Float[Array, "L n"], Float[Array, "L n"]]:
    r"""$R_l(t)$ and $R_l'(t)$ for l <= `degree`, by $(l+2\nu-1)R_l=2(l+\nu-1)tR_{l-1}-(l-1)R_{l-2}$, $\nu=(d-2)/2$."""
    nu = (d - 2) / 2

    def up(state: Four, order: Array) -> tuple[Four, tuple[Array, Array]]:
        r, r_before, s, s_before = state
        a, b, c = 2 * (order + nu - 1), order - 1, order + 2 * nu - 1
        r, r_before, s, s_before = (a * t * r - b * r_before) / c, r, (a * (r + t * s) - b * s_before) / c, s
        return (r, r_before, s, s_before), (r, s)

    one, zero = jnp.ones_like(t), jnp.zeros_like(t)
    orders = jnp.arange(2, degree + 1, dtype=t.dtype)
    _, (values, slopes) = jax.lax.scan(up, (t, one, one, zero), orders)
    return jnp.concatenate([jnp.stack([one, t]), values]), jnp.concatenate([jnp.stack([zero, one]), slopes])


_polynomials = jax.jit(gegenbauer, static_argnums=(0, 1))


class ZonalShells(Dynamics):
    """Polar angles (n, 1) of shells with fixed masses."""

    traits = Traits(space="euclidean")

    masses: Float[Array, " n"]
    kernel: Float[Array, " L"]  # p_l
    force: Float[Array, " L"]  # p_l / beta
    d: int = eqx.field(static=True)
    normalise: str = eqx.field(static=True)

    def potential(self, phi: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        r"""$Z$ and $Z'/\beta$ at the shells."""
        values, slopes = gegenbauer(self.d, len(self.kernel) - 1, jnp.cos(phi))
        moments = values @ self.masses
        return (self.kernel * moments) @ values, (self.force * moments) @ slopes

    def field(self, t: Float[Array, ""], x: Float[Array, "n 1"]) -> Float[Array, "n 1"]:
        z, pull = self.potential(x[:, 0])
        speed = -jnp.sin(x[:, 0]) * pull
        return (speed / z if self.normalise == "softmax" else speed)[:, None]


@dataclass(frozen=True, eq=False, repr=False)
class ZonalFlow(Result):
    """Polar angles (T, n) of shells at times `ts`, with their masses.

    `ratio_error` bounds the relative error of the softmax denominator over the whole run: the truncation of the kernel
    and its rounding over the smallest denominator met.
    """

    ts: Float[np.ndarray, " T"]
    polar: Float[np.ndarray, "T n"]
    masses: Float[np.ndarray, " n"]
    shells: ZonalShells
    beta: float
    ratio_error: float

    @property
    def d(self) -> int:
        return self.shells.d

    @property
    def heights(self) -> Float[np.ndarray, "T n"]:
        r"""$t=\langle x,e\rangle$ of every shell."""
        return np.cos(self.polar)

    def moments(self, most: int = 8) -> Float[np.ndarray, "T L"]:
        r"""$q_l=\int R_l\,d\mu$ for l = 0, ..., `most`."""
        most = max(most, 1)
        values = np.asarray(_polynomials(self.d, most, jnp.asarray(self.heights.ravel()))[0])
        return (values.reshape(most + 1, *self.heights.shape) @ self.masses).T

    @cached_property
    def energy(self) -> Float[np.ndarray, " T"]:
        r"""$E=\frac1{2\beta}\sum_lp_lq_l^2$ (peak kernel); at beta = 0 its limit without the constant, $q_1^2/2$."""
        moments = self.moments(len(self.shells.kernel) - 1)
        if self.beta == 0:
            return moments[:, 1] ** 2 / 2
        return moments**2 @ np.asarray(self.shells.kernel) / (2 * self.beta)

    derived = ("d",)

    def variables(self) -> Variables:
        return {
            "t": ("t", self.ts),
            "height": (("t", "shell"), self.heights),
            "mass": ("shell", self.masses),
            "energy": ("t", self.energy),
        }

    def plot(self) -> Figure:
        """Heights of the shells against time."""
        from sphereflow.meanfield.pictures import plot_zonal

        return plot_zonal(self)

    def facts(self) -> list[str]:
        return [
            f"{len(self.masses)} shells on the sphere in dimension {self.d}, beta = {self.beta:g}, {span(self.ts)}",
            f"{len(self.shells.kernel)} degrees, denominators to {self.ratio_error:.0e}",
            f"mean height {self.moments(1)[-1, 1]:.6f}",
        ]


@recorded_call
def evolve_zonal(
    d: int,
    beta: float,
    model: str | Dynamics = "sa",
    density: Callable[[np.ndarray], np.ndarray] | None = None,
    t1: float | None = None,
    *,
    shells: tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray] | None = None,
    nodes: int = 96,
    saveat: int | Sequence[float] | np.ndarray = 21,
    tol: float = 1e-9,
    solver: str = "dopri8",
) -> ZonalFlow:
    r"""Follow a rotation-invariant law on S^{d-1}, d >= 3, under SA or USA (peak kernel).

    **Arguments:**

    - `density`: a function of the height t with respect to the uniform law (normalised for you), on `nodes` Gauss
      nodes; or `shells`: (heights, masses) of finitely many shells.
    - `t1`: final time, 1 by default; `saveat`: as for `evolve_density`.
    - `tol`: the error aimed at in time. The kernel is expanded to rounding.

    Softmax denominators are resolved to 1e-15 of the largest value of the kernel: where all mass is far from all other
    (large beta in high dimension, with a smooth density) they are smaller than that, and the run is refused.
    """
    d = whole_number("d", d, least=3)
    beta = real_number("beta", beta, least=0)
    normalise = "softmax" if attention_name(model, beta) == "sa" else "mean"
    tol = real_number("tol", tol, least=1e-12, most=0.1)
    if (density is None) == (shells is None):
        raise SphereflowError("give either a density of the height, or shells = (heights, masses).")
    heights, masses = _shells(shells) if shells is not None else _gauss(d, density, nodes)
    dynamics = zonal_shells(d, beta, masses, normalise)
    times = save_times(t1, saveat)
    start = np.arccos(heights)
    _require_denominators(dynamics, start[None])
    method = SOLVERS[one_of("solver", solver, tuple(SOLVERS))][0]
    frames = solve(dynamics, start[:, None], times, tol=max(tol * 0.1, 1e-13), solver=method, adjoint=FORWARD)
    polar = np.asarray(frames.xs)[:, :, 0]
    if bool(frames.hit_limit) or not np.isfinite(polar).all():
        raise SphereflowError("the shells could not be followed to the end: try a smaller t1 or a larger tol.")
    return ZonalFlow(times, polar, masses, dynamics, beta, _require_denominators(dynamics, polar))


def _require_denominators(shells: ZonalShells, polar: Float[np.ndarray, "T n"]) -> float:
    """The relative error of the smallest denominator; an error for the user where softmax would divide noise."""
    least = min(float(_denominators(shells, jnp.asarray(row)).min()) for row in polar)
    error = 3 * _ROUNDING / least if least > 0 else np.inf
    if shells.normalise == "softmax" and error > _WORST_RATIO:
        raise SphereflowError(
            f"softmax denominators fall to {max(least, 0.0):.1e}, below what a series in double precision resolves; "
            f"use a smaller beta, USA, or a law with more mass near every shell."
        )
    return error


_denominators = eqx.filter_jit(lambda shells, phi: shells.potential(phi)[0])


def zonal_shells(d: int, beta: float, masses: Float[np.ndarray, " n"], normalise: str) -> ZonalShells:
    """The vector field of shells with the kernel expanded to rounding; degrees come in steps of eight."""
    degree = 8 * -(-max(zonal_degree(d, beta, _ROUNDING), 1) // 8) + 1
    kernel = zonal_coefficients(d, beta, degree)
    force = np.eye(1, degree + 1, 1)[0] if beta == 0 else kernel / beta
    return ZonalShells(jnp.asarray(masses), jnp.asarray(kernel), jnp.asarray(force), d, normalise)


def gauss_nodes(d: int, nodes: int) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    r"""Heights and masses of the Gauss rule for the uniform law of S^{d-1}, weight $(1-t^2)^{(d-3)/2}$."""
    return jacobi(nodes, (d - 3) / 2, (d - 3) / 2)


def _gauss(d: int, density: Callable[[np.ndarray], np.ndarray] | None, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    heights, masses = gauss_nodes(d, whole_number("nodes", nodes, least=2))
    masses = masses * density_values("density", density, heights)
    return heights, masses / masses.sum()


def _shells(shells: Sequence[ArrayLike]) -> tuple[np.ndarray, np.ndarray]:
    try:
        heights, masses = shells
    except (TypeError, ValueError):
        raise SphereflowError("shells must be (heights, masses), two rows of the same length.") from None
    heights, masses = real_array("heights of shells", heights), real_array("masses of shells", masses)
    if heights.ndim != 1 or heights.shape != masses.shape or not heights.size:
        raise SphereflowError("shells must be (heights, masses), two rows of the same length.")
    if np.abs(heights).max() > 1 or masses.min() < 0 or masses.sum() <= 0:
        raise SphereflowError("shells need heights between -1 and 1 and masses that are not negative.")
    return heights, masses / masses.sum()
