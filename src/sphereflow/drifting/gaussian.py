r"""Gaussian data, Gaussian samples, Gaussian kernel: the whole flow in closed form.

$$ V(x)=\sigma^2\big[(S+\sigma^2I)^{-1}(x-m)-(S_p+\sigma^2I)^{-1}(x-m_p)\big], $$

the gradient of $\sigma^2\log\frac{p*k_\sigma}{q*k_\sigma}$; a step $x+\eta V(x)$ is affine and samples
stay Gaussian.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number
from sphereflow.reading import real_array


def gaussian_field(
    x: Float[np.ndarray, "k D"],
    data: tuple[Float[np.ndarray, " D"], Float[np.ndarray, "D D"]],
    generated: tuple[Float[np.ndarray, " D"], Float[np.ndarray, "D D"]],
    width: float,
) -> Float[np.ndarray, "k D"]:
    """V at the rows of x, for data and generated laws given as (mean, covariance)."""
    linear, shift = _affine(data, generated, width)
    return real_array("x", x, shape=("k", len(shift))) @ linear.T + shift


def gaussian_step(
    data: tuple[np.ndarray, np.ndarray], generated: tuple[np.ndarray, np.ndarray], width: float, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the generated law after one step."""
    linear, shift = _affine(data, generated, width)
    step = real_number("step", step)
    mean, covariance = (np.asarray(part, dtype=float) for part in generated)
    jacobian = np.eye(len(mean)) + step * linear
    return mean + step * (linear @ mean + shift), jacobian @ covariance @ jacobian.T


def _affine(
    data: tuple[np.ndarray, np.ndarray], generated: tuple[np.ndarray, np.ndarray], width: float
) -> tuple[np.ndarray, np.ndarray]:
    """V(x) = A x + b."""
    width = real_number("width", width, above=0, most=1e100)
    (centre, spread), (middle, extent) = (_law(*law) for law in (_pair(data), _pair(generated)))
    if len(centre) != len(middle):
        raise SphereflowError(f"both laws must be of one dimension, got {len(centre)} and {len(middle)}.")
    smooth = width**2 * np.eye(len(centre))
    towards, away = np.linalg.inv(spread + smooth), np.linalg.inv(extent + smooth)
    return width**2 * (away - towards), width**2 * (towards @ centre - away @ middle)


def _pair(law: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(law, (tuple, list)) or len(law) != 2:
        raise SphereflowError("a law must be a pair: its mean and its covariance.")
    return law[0], law[1]


def _law(mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    centre = real_array("a mean", mean, shape=("D",))
    spread = real_array("a covariance", covariance, shape=(len(centre), len(centre)))
    slack = 1e-10 * np.abs(spread).max()
    if np.abs(spread - spread.T).max() > slack or np.linalg.eigvalsh(spread)[0] < -slack:
        raise SphereflowError("a covariance must be symmetric, and no variance negative.")
    return centre, spread
