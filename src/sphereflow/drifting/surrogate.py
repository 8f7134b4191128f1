r"""Two generated particles about one target: the smallest system in which drifting fails to converge.

Both particles at distance $a$ from the target, on opposite sides. The unnormalised field, each left out of its own
mean, has the radial component

$$ V(a)=-a\,k(a)+2a\,k(2a),\qquad a_{t+1}=a_t+\eta\,V(a_t) , $$

positive (repulsive) up to a root $a^*$ fixed by the width of the kernel: $\tau\ln2$ (Laplace), $\sigma\sqrt{(2\ln2)/3}$
(Gaussian). Extended oddly, $V(-a)=-V(a)$, because friction can push a particle through the target.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sphereflow.errors import one_of, real_number, whole_number
from sphereflow.reading import real_array

KERNELS = ("laplace", "gaussian")


def surrogate_field(a: ArrayLike, kernel: str = "laplace", width: float = 1.0) -> np.ndarray:
    """V(a), odd in a.

    ```python
    from sphereflow.drifting import surrogate_field
    surrogate_field(0.5)         # 0.0646: repulsive below tau ln 2
    ```
    """
    one_of("kernel", kernel, KERNELS)
    width = real_number("width", width, above=0)
    a = real_array("a", a)
    u = np.abs(a) / width
    if kernel == "laplace":
        return np.asarray(a * (2 * np.exp(-2 * u) - np.exp(-u)))
    return np.asarray(a * (2 * np.exp(-2 * u**2) - np.exp(-(u**2) / 2)))


def surrogate_repulsion(a: ArrayLike, kernel: str = "laplace", width: float = 1.0) -> np.ndarray:
    """2 a k(2a): what one particle of the pair does to the other, odd in a; the rest of V(a) is attraction."""
    one_of("kernel", kernel, KERNELS)
    a = real_array("a", a)
    u = 2 * np.abs(a) / real_number("width", width, above=0)
    return np.asarray(2 * a * np.exp(-u if kernel == "laplace" else -(u**2) / 2))


def spurious_scale(kernel: str = "laplace", width: float = 1.0) -> float:
    """The distance a* at which attraction and repulsion cancel."""
    factor = {"laplace": np.log(2), "gaussian": np.sqrt(2 * np.log(2) / 3)}[one_of("kernel", kernel, KERNELS)]
    return float(real_number("width", width, above=0) * factor)


def slope_at_scale(kernel: str = "laplace") -> float:
    r"""$V'(a^*)$: $-\frac12\ln2$ (Laplace), $-3u^2e^{-u^2/2}$ at $u=a^*/\sigma$ (Gaussian); multiplier $1+\eta V'$."""
    if one_of("kernel", kernel, KERNELS) == "laplace":
        return float(-np.log(2) / 2)
    u2 = 2 * np.log(2) / 3
    return float(-3 * u2 * np.exp(-u2 / 2))


def iterate(a0: ArrayLike, step: ArrayLike, count: int, kernel: str = "laplace", width: float = 1.0) -> np.ndarray:
    """The distances a_0 ... a_count, along a new first axis; `a0` and `step` broadcast."""
    a = np.broadcast_arrays(np.asarray(a0, float), np.asarray(step, float))[0].copy()
    path = [a]
    for _ in range(whole_number("count", count, least=0)):
        a = a + np.asarray(step) * surrogate_field(a, kernel, width)
        path.append(a)
    return np.stack(path)


def attractor(steps: ArrayLike, visited: int = 200, discarded: int = 2000, start: float = 0.05) -> np.ndarray:
    """Distances visited after the transient for every step size: columns of a bifurcation diagram."""
    steps = np.asarray(steps, float)
    a = np.full_like(steps, start)
    values = []
    for t in range(discarded + visited):
        a = a + steps * surrogate_field(a)
        if t >= discarded:
            values.append(a)
    return np.stack(values)
