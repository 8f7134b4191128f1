r"""The same expansions through the non-uniform fast Fourier transform, for many modes.

Moments are transforms from the tokens to the modes, $U_k=\sum_j c_j e^{-ik\theta_j}$, and sums are transforms back: the
time is $O(w^s n + K^s\log K)$ for s angles, w about 14, so that more modes cost next to nothing. Two real charges share
one complex transform. Needs the package jax-finufft (extra `fast`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Shaped

from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.modes import direction
from sphereflow.interaction.transforms import PRECISION, gather, spread


def available() -> bool:
    """Is jax-finufft installed?"""
    return find_spec("jax_finufft") is not None


@dataclass(frozen=True)
class CircleNufft(CircleModes):
    """Modes up to K on the circle by transforms in the angle."""

    whole = True

    def project(self, keys: Float[Array, "n 2"], columns: Float[Array, "n c"]) -> Float[Array, "2 k c"]:
        modes = _to_modes(self.modes, columns, _angle(keys))[:, self.modes :]
        return jnp.stack([modes.real, -modes.imag]).transpose(0, 2, 1)

    def evaluate(
        self, queries: Float[Array, "m 2"], weighed: Float[Array, "2 k c"], beta: Float[Array, ""]
    ) -> Float[Array, "m c"]:
        if self.any_query:
            return super().evaluate(queries, weighed, beta)
        positive = (weighed[0] - 1j * weighed[1]).T / 2
        modes = jnp.concatenate([jnp.conj(positive[:, :0:-1]), 2 * positive[:, :1].real, positive[:, 1:]], axis=1)
        return _to_tokens(modes, _angle(queries))

    def rounding(self, beta: Float[Array, "..."]) -> Float[Array, "..."]:
        return super().rounding(beta) + 4 * PRECISION[beta.dtype.name] * self.size(beta)[0]


@dataclass(frozen=True)
class SphereNufft(SphereModes):
    """Harmonics up to degree L on S^2 by transforms in both angles."""

    whole = True

    def project(self, keys: Float[Array, "n 3"], columns: Float[Array, "n c"]) -> Float[Array, "m k 2 c"]:
        size = self.degree + 1
        modes = _to_modes(self.degree, columns, *_two_angles(keys))[:, :, size - 1 :]
        up, down = modes[:, size - 1 :], modes[:, size - 1 :: -1]  # the modes k and -k of theta
        odd = jnp.arange(size) % 2 == 1
        both = jnp.where(odd, 0.5j * (up - down), 0.5 * (up + down))
        return jnp.stack([both.real, -both.imag]).transpose(3, 2, 0, 1)

    def evaluate(
        self, queries: Float[Array, "n 3"], weighed: Float[Array, "m k 2 c"], beta: Float[Array, ""]
    ) -> Float[Array, "n c"]:
        size = self.degree + 1
        charge = (weighed[:, :, 0] - 1j * weighed[:, :, 1]).transpose(2, 1, 0)  # (c, k, m)
        odd = jnp.arange(size) % 2 == 1
        up, down = jnp.where(odd, -0.5j * charge, 0.5 * charge), jnp.where(odd, 0.5j * charge, 0.5 * charge)
        theta = jnp.concatenate([down[:, :0:-1], up], axis=1).at[:, size - 1].add(down[:, 0])
        # A real function: the mode (-k, -m) is the conjugate of (k, m).
        mirrored = jnp.conj(theta[:, ::-1, ::-1])
        modes = jnp.concatenate([mirrored / 2, theta[:, :, 1:] / 2], axis=2)
        modes = modes.at[:, :, size - 1].add(theta[:, :, 0] / 2)
        return _to_tokens(modes, *_two_angles(queries))

    def rounding(self, beta: Float[Array, "..."]) -> Float[Array, "..."]:
        return super().rounding(beta) + 8 * PRECISION[beta.dtype.name] * self.size(beta)[0]


def _angle(tokens: Float[Array, "n 2"]) -> Float[Array, " n"]:
    return jnp.arctan2(tokens[:, 1], tokens[:, 0])


def _two_angles(tokens: Float[Array, "n 3"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    return jnp.arctan2(direction(tokens[:, :2])[1], tokens[:, 2]), _angle(tokens[:, :2])


def _to_modes(most: int, columns: Float[Array, "n c"], *angles: Float[Array, " n"]) -> Complex[Array, "c ..."]:
    r"""$\sum_j c_j e^{-i(k\cdot\theta_j)}$ for |k| <= `most` in every angle."""
    both = spread(_packed(columns.T), *angles, modes=most, sign=-1)
    mirrored = jnp.conj(jnp.flip(both, axis=range(1, both.ndim)))
    parts = jnp.stack([(both + mirrored) / 2, (both - mirrored) / 2j], axis=1)
    return parts.reshape(-1, *both.shape[1:])[: columns.shape[1]]


def _to_tokens(modes: Complex[Array, "c ..."], *angles: Float[Array, " n"]) -> Float[Array, "n c"]:
    r"""$\sum_k f_k e^{i(k\cdot\theta)}$ for modes of real functions."""
    c = modes.shape[0]
    both = gather(_packed(modes), *angles, sign=1)
    return jnp.stack([both.real, both.imag], axis=1).reshape(-1, both.shape[1])[:c].T


def _packed(rows: Shaped[Array, "c ..."]) -> Complex[Array, "h ..."]:
    """Rows two by two as real and imaginary parts (of functions, if the rows are modes)."""
    filled = jnp.pad(rows, ((0, rows.shape[0] % 2), *((0, 0),) * (rows.ndim - 1)))
    return filled[::2] + 1j * filled[1::2]
