r"""The Gaussian field of infinitely wide layers as a finite sum, so that one path of it can be met again and again.

$$\xi(x)=W\phi(x),\qquad W\in\mathbb R^{d\times p}\ \text{normal},\qquad
  \langle\phi(x),\phi(y)\rangle=\kappa(\langle x,y\rangle).$$

On the circle $\kappa(\cos f)=\sum_j\kappa_j\cos jf$ gives $\phi=(\sqrt{\kappa_j}\cos j\theta,\sqrt{\kappa_j}\sin
j\theta)_j$ for every activation; so do on the sphere in three dimensions the harmonics $\phi=(\sqrt{\kappa_l}Y_{lm})$,
$\kappa(r)=\sum_l\kappa_lP_l(r)$. In higher dimensions $\kappa(r)=\sum_kc_k^2r^k$ gives the tensor powers
$\phi=(c_kx^{\otimes k})_k$, which are finitely many for polynomial activations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev, legendre

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.numerics.harmonics import harmonic_values
from sphereflow.numerics.quadrature import interval
from sphereflow.synchronisation.covariance import Covariance

Array = np.ndarray

_ANGLES = 1024
_DEGREE = 3
_HARMONICS = 32  # the highest degree in three dimensions: a thousand features
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class NoiseModes:
    r"""Orders j (d = 2), degrees l (d = 3), powers k of the modes; their weights $\kappa_j$, $\kappa_l$, $c_k^2$."""

    d: int
    orders: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def count(self) -> int:
        """p, the length of the vector of features."""
        return sum({2: 2, 3: 2 * j + 1}.get(self.d, self.d**j) for j in self.orders)

    @property
    def at_one(self) -> float:
        r"""$\kappa(1)$ of the modes that are kept."""
        return sum(self.weights)

    @property
    def slope_at_one(self) -> float:
        r"""$\kappa'(1)$ of the modes kept: $\sum j^2\kappa_j$, $\sum\frac{l(l+1)}2\kappa_l$ or $\sum kc_k^2$."""
        steep = {2: lambda j: j**2, 3: lambda j: j * (j + 1) / 2}.get(self.d, lambda j: j)
        return float(sum(w * steep(j) for j, w in zip(self.orders, self.weights, strict=True)))

    def features(self, x: Float[Array, "... d"]) -> Float[Array, "... p"]:
        r"""$\phi(x)$: on the circle cosine and sine of each order side by side (of order 0 a one and a nought)."""
        if self.d == 2:
            powers = unit_powers(x[..., 0] + 1j * x[..., 1], max(self.orders))
            chosen = powers[..., list(self.orders)] * np.sqrt(self.weights)
            return np.ascontiguousarray(chosen).view(float)
        if self.d == 3:
            places = np.concatenate([np.arange(j**2, (j + 1) ** 2) for j in self.orders])
            scales = np.sqrt(np.repeat(self.weights, 2 * np.array(self.orders) + 1))
            return harmonic_values(x, max(self.orders))[..., places] * scales
        parts, power = [], np.ones((*x.shape[:-1], 1))
        for k in range(max(self.orders) + 1):
            if k in self.orders:
                parts.append(np.sqrt(self.weights[self.orders.index(k)]) * power)
            power = (power[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1)
        return np.concatenate(parts, axis=-1)


def unit_powers(z: Array, most: int) -> Array:
    """z^0, ..., z^most along a new last axis, by doubling."""
    table = np.empty((*z.shape, most + 1), dtype=complex)
    table[..., 0] = 1
    if most:
        table[..., 1] = z
    done = 1
    while done < most:
        more = min(done, most - done)
        np.multiply(table[..., 1 : more + 1], table[..., done : done + 1], out=table[..., done + 1 : done + more + 1])
        done += more
    return table


def noise_modes(law: Covariance, d: int, *, modes: int = 32) -> NoiseModes:
    r"""The field of this covariance: cosines (d = 2) or harmonics (d = 3) up to the order `modes`, else powers to r^3.

    What is cut off is missing from $\kappa(1)$ and $\kappa'(1)$ of the result too (ReLU on the circle, order 32: 1e-6
    and 1.2 %). In three dimensions there are $(L+1)^2$ harmonics up to the degree L, and `modes` above 32 count as 32.
    """
    d, modes = whole_number("d", d, least=2), whole_number("modes", modes, least=1, most=_ANGLES // 2)
    if float(law.b) != 0:
        raise SphereflowError("modes are known for covariances kappa(r) I only, not for symmetric layers.")
    if d == 2:
        angle = np.pi * (np.arange(_ANGLES) + 0.5) / _ANGLES
        table = 2 / _ANGLES * np.cos(np.outer(np.arange(modes + 1), angle)) @ np.asarray(law(np.cos(angle)))
        table[0] /= 2
    elif d == 3:
        nodes, measure = interval(-1, 1, _ANGLES // 4)
        degree = min(modes, _HARMONICS)
        polynomials = legendre.legvander(nodes, degree)
        table = (np.arange(degree + 1) + 0.5) * ((measure * np.asarray(law(nodes))) @ polynomials)
    else:
        nodes = chebyshev.chebpts1(_DEGREE + 9)
        fit = chebyshev.chebfit(nodes, np.asarray(law(nodes)), _DEGREE + 8)
        if np.abs(fit[_DEGREE + 1 :]).sum() > 1e-9 * float(law.at_one):
            raise SphereflowError(
                f"in d={d} one path of the noise is known for polynomial activations of degree at most {_DEGREE} only; "
                "use d=2 or 3 for others."
            )
        table = chebyshev.cheb2poly(fit[: _DEGREE + 1])
    orders = [j for j, weight in enumerate(table) if weight > _NEGLIGIBLE * float(law.at_one)]
    return NoiseModes(d, tuple(orders), tuple(float(table[j]) for j in orders))
