r"""The layered mean-field equation for prompts that are not uniform, and the influence of a source on top of it.

$$\partial_tf=-\partial_\theta(f\,V),\qquad
  V(t,\sigma,\theta)=\int_0^\sigma k_\lambda(\sigma,\sigma')(w_\beta'*f)(t,\sigma',\theta)\,d\sigma' .$$

The position sigma is a label: tokens of one layer move in the field of the layers before. Each layer is followed along
its characteristics: nodes $\theta_q$ with fixed masses, which serve smooth laws (spectrally accurate) and codewords
alike. To first order in 1/N a source at $\sigma_0$, weighed by a function phi of its start, displaces the
nodes of later layers by $\eta/N$,

$$\dot\eta=\partial_\theta V\,\eta
    +\int_{\sigma_0}^\sigma k_\lambda(w_\beta'*C)\,d\sigma'+k_\lambda(\sigma,\sigma_0)\,w_\beta'*A_\varphi,\qquad
  \int h\,C=\int h'\eta\,f,\quad \int h\,A_\varphi=\int h\,(\varphi-\bar\varphi)\,f|_{\sigma_0},$$

which is the equation of the two-time covariance C in Lagrangian form. In $y=\log\frac{e^{\lambda\sigma}-1}\lambda$ the
integral over layers is $\int e^{-(y-y')}\,dy'$: layers are Chebyshev nodes of panels in y, exact for polynomials,
and it is carried from panel to panel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.dynamics import Dynamics, Traits
from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.interaction.expansion import circle_coefficients
from sphereflow.numerics.chebyshev import interpolation
from sphereflow.numerics.quadrature import interval
from sphereflow.reading import density_values, real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.retrieval.bessel import graphon, log_mass, position
from sphereflow.retrieval.circle import force_modes
from sphereflow.solving import FORWARD, solve

_FIRST = 1e-6  # layers before this position are taken to be alike
_PANEL = 1.5  # longest panel in y
_NODES = 8  # layers per panel


@dataclass(frozen=True)
class Prompt:
    """The law of the token at every position: nodes on the circle, and masses (len(sigma), nodes) summing to one."""

    nodes: Float[np.ndarray, " q"]
    masses: Callable[[np.ndarray], np.ndarray]
    jumps: tuple[float, ...] = ()

    def rows(self, sigma: Float[np.ndarray, " p"]) -> Float[np.ndarray, "p q"]:
        """The masses at these positions, refused unless each row is a law."""
        masses = real_array("the masses of a prompt", self.masses(sigma), shape=(len(sigma), len(self.nodes)))
        if masses.min(initial=0.0) < 0 or not np.allclose(masses.sum(axis=1), 1, atol=1e-9):
            raise SphereflowError("the masses of a prompt must not be negative, and sum to one at every position.")
        return masses


def density_prompt(
    density: Callable[[np.ndarray, np.ndarray], np.ndarray], nodes: int = 64, jumps: tuple[float, ...] = ()
) -> Prompt:
    r"""A density $f_0(\sigma,\theta)$ with respect to $d\theta/2\pi$, with its jumps in sigma, if any."""
    theta = 2 * np.pi * np.arange(whole_number("nodes", nodes)) / nodes

    def masses(sigma: np.ndarray) -> np.ndarray:
        values = density_values("density", density, sigma[:, None], theta[None, :])
        total = values.sum(axis=1, keepdims=True)
        if total.min() <= 0:
            raise SphereflowError("density must have a positive mean at every position, but it is zero at one.")
        return np.asarray(values / total)

    return Prompt(theta, masses, jumps)


def codeword_prompt(
    probabilities: Callable[[np.ndarray], np.ndarray], vocab: int, jumps: tuple[float, ...] = ()
) -> Prompt:
    """Codewords 2 pi m/M drawn with probabilities (len(sigma), M) that depend on the position."""
    return Prompt(2 * np.pi * np.arange(whole_number("vocab", vocab)) / vocab, probabilities, jumps)


@dataclass(frozen=True, eq=False, repr=False)
class LayeredFlow(Result):
    """Layers at time t: their positions, masses and nodes, and the displacements by a source, if one was given.

    `displacements[i]` belongs to phi = cos(n theta) for the i-th wave, those after the waves to phi = sin(n theta).
    """

    t: float
    sigma: Float[np.ndarray, " p"]
    masses: Float[np.ndarray, "p q"]
    start: Float[np.ndarray, " q"]
    angles: Float[np.ndarray, "p q"]
    waves: tuple[int, ...]
    displacements: Float[np.ndarray, "m p q"]

    def mean(self, h: Callable[[np.ndarray], np.ndarray]) -> Float[np.ndarray, " p"]:
        """The average of h(theta) in every layer at time t."""
        return np.sum(self.masses * h(self.angles), axis=1)

    def wave(self, n: int) -> Float[np.ndarray, " p"]:
        """The average of cos(n theta) in every layer at time t."""
        return self.mean(lambda theta: np.cos(n * theta))

    def two_time_covariance(self) -> Float[np.ndarray, "w p"]:
        r"""$N\,\mathrm{Re}\,\mathrm{Cov}(e^{in\theta_\sigma(t)},e^{in\theta_{\sigma_0}(0)})$ by wave n and layer."""
        rows = []
        for i, n in enumerate(self.waves):
            by_cos, by_sin = self.displacements[i], self.displacements[len(self.waves) + i]
            slope = n * (np.cos(n * self.angles) * by_sin - np.sin(n * self.angles) * by_cos)
            rows.append(np.sum(self.masses * slope, axis=1))
        return np.array(rows)

    def variables(self) -> Variables:
        grid = ("sigma", "node")
        variables: Variables = {
            "sigma": ("sigma", self.sigma),
            "mean_cosine": ("sigma", self.wave(1)),
            "angle": (grid, self.angles),
            "mass": (grid, self.masses),
            "start": ("node", self.start),
        }
        if self.waves:
            variables["covariance"] = (("sigma", "wave"), self.two_time_covariance().T)
            variables["wave"] = ("wave", np.array(self.waves))
        return variables

    def facts(self) -> list[str]:
        first, last = self.wave(1)[[0, -1]]
        return [
            f"{len(self.sigma)} layers of {len(self.start)} nodes at t = {self.t:g}",
            f"mean cosine {first:.6g} at the first position, {last:.6g} at the last",
        ]


@recorded_call
def layered_flow(
    prompt: Prompt,
    t: float,
    *,
    beta: float,
    slope: float,
    source: float | None = None,
    waves: Sequence[int] = (1, 2, 3),
    tol: float = 1e-10,
    panel: float = _PANEL,
    modes: int | None = None,
) -> LayeredFlow:
    """Follow all layers to time t; with a `source` position in (0, 1) also its influence on later layers."""
    t, beta = real_number("t", t, above=0), real_number("beta", beta, above=0)
    slope = real_number("the slope", slope)
    if source is not None:
        source = real_number("source", source, above=0, most=1)
    sigma, past, influenced = _layers(slope, source, prompt.jumps, panel)
    masses = prompt.rows(sigma)
    used = tuple(whole_number("waves", n) for n in waves) if source is not None else ()
    first = int(np.argmax(influenced)) if source is not None else 0
    phi = np.array([f(n * prompt.nodes) for f in (np.cos, np.sin) for n in used]).reshape(-1, len(prompt.nodes))
    charges = masses[first] * (phi - phi @ masses[first][:, None])
    reach = graphon(sigma, source, slope) * influenced if source is not None else np.zeros_like(sigma)
    model = _Layers(
        jnp.asarray(beta),
        jnp.asarray(masses),
        jnp.asarray(past),
        jnp.asarray(reach),
        jnp.asarray(charges),
        first,
        force_modes(beta) if modes is None else modes,
    )
    start = np.zeros((len(sigma), 1 + len(charges), len(prompt.nodes)))
    start[:, 0] = prompt.nodes
    flat = start.reshape(len(sigma), -1)
    final = solve(model, flat, np.array([0.0, t]), tol=real_number("tol", tol, above=0), adjoint=FORWARD).final
    state = np.asarray(final).reshape(start.shape)
    return LayeredFlow(t, sigma, masses, prompt.nodes, state[:, 0], used, state[:, 1:].swapaxes(0, 1))


class _Layers(Dynamics):
    """Nodes and displacements of all layers as one vector field on arrays (layers, (1 + functions) nodes)."""

    traits = Traits(space="euclidean")

    beta: Float[Array, ""]
    masses: Float[Array, "p q"]
    past: Float[Array, "p p"]
    reach: Float[Array, " p"]
    charges: Float[Array, "m q"]
    first: int = eqx.field(static=True)
    modes: int = eqx.field(static=True)

    def field(self, t: Float[Array, ""], x: Float[Array, "p z"]) -> Float[Array, "p z"]:
        layers, nodes = self.masses.shape
        state = x.reshape(layers, -1, nodes)
        theta, eta = state[:, 0], state[:, 1:]
        n = jnp.arange(1, self.modes + 1, dtype=x.dtype)[:, None, None]
        factor = -2 * n[:, 0, 0] * jnp.exp(self.beta) * circle_coefficients(self.modes, self.beta)[1:]
        c, s = jnp.cos(n * theta), jnp.sin(n * theta)
        c_past = jnp.einsum("ab,kbq,bq->ka", self.past, c, self.masses)
        s_past = jnp.einsum("ab,kbq,bq->ka", self.past, s, self.masses)
        velocity = jnp.einsum("k,kpq,kp->pq", factor, s, c_past) - jnp.einsum("k,kpq,kp->pq", factor, c, s_past)
        turned = factor * n[:, 0, 0]
        stretch = jnp.einsum("k,kpq,kp->pq", turned, c, c_past) + jnp.einsum("k,kpq,kp->pq", turned, s, s_past)
        # The cosines and sines of the covariance C, integrated over layers (it vanishes before the source), and of A.
        c_cov = jnp.einsum("ab,kbq,bq,bmq->kam", self.past, -n * s, self.masses, eta)
        s_cov = jnp.einsum("ab,kbq,bq,bmq->kam", self.past, n * c, self.masses, eta)
        c_all = c_cov + self.reach[None, :, None] * (c[:, self.first] @ self.charges.T)[:, None]
        s_all = s_cov + self.reach[None, :, None] * (s[:, self.first] @ self.charges.T)[:, None]
        push = jnp.einsum("k,kpq,kpm->pmq", factor, s, c_all) - jnp.einsum("k,kpq,kpm->pmq", factor, c, s_all)
        moved = jnp.concatenate([velocity[:, None], stretch[:, None] * eta + push], axis=1)
        return moved.reshape(x.shape)


def _layers(
    slope: float, source: float | None, jumps: tuple[float, ...], longest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of the layers, the matrix of the integral over earlier layers, and which lie after the source."""
    breaks = sorted({_FIRST, 1.0, *jumps, *([] if source is None else [source])})
    if breaks[0] < _FIRST or breaks[-1] > 1:
        raise SphereflowError(f"positions must lie between {_FIRST:g} and 1, got {breaks}.")
    edges = [float(log_mass(b, slope)) for b in breaks]
    unit = (1 - np.cos(np.pi * np.arange(_NODES) / (_NODES - 1))) / 2
    positions: list[float] = []
    rows: list[np.ndarray] = []
    influenced: list[bool] = []
    carried: np.ndarray | None = None
    for left, right, at in zip(edges[:-1], edges[1:], breaks[:-1], strict=True):
        panels = max(1, int(np.ceil((right - left) / longest)))
        ends = np.linspace(left, right, panels + 1)
        for a, b in pairwise(ends):
            y = a + (b - a) * unit
            inside = _running_average(y)
            before = len(positions)
            block = np.zeros((_NODES, before + _NODES))
            block[:, before:] = inside
            decay = np.exp(-(y - a))
            if carried is None:
                block[:, before] += decay  # all earlier layers are like the first
            else:
                block[:, :before] += decay[:, None] * carried[None, :]
            rows.extend(block)
            positions.extend(np.minimum(position(y, slope), 1.0))
            influenced.extend([source is not None and at >= source] * _NODES)
            carried = block[-1]
    size = len(positions)
    past = np.array([np.pad(row, (0, size - len(row))) for row in rows])
    return np.array(positions), past, np.array(influenced, dtype=float)


def _running_average(y: np.ndarray) -> np.ndarray:
    r"""The matrix of $\int_{y_0}^{y_i}e^{-(y_i-s)}\ell_j(s)\,ds$ with the polynomials $\ell_j$ of the nodes y."""
    rows = []
    for end in y:
        s, weights = interval(y[0], end, 24)
        rows.append((weights * np.exp(-(end - s))) @ interpolation(y, s))
    return np.array(rows)
