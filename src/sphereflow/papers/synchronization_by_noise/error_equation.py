r"""Errors of two tokens on the circle with attention, without sampling: what one layer does wrong, carried to the end.

The angle between the tokens is $\varphi$; $K(\varphi)=\kappa(\cos\varphi)$, $q=K\cos\varphi$, $k=\kappa(1)$,
$p=1/(1+e^{\beta(1-\cos\varphi)})$, $\psi=p\sin\varphi$. Angular errors obey
$de_i=U'(\theta_i)e_i-v\psi'(e_i-e_j)dt+dn_i$, U the tangential noise, dn of variance $C_{ij}(\varphi)dt$.
The mean of $\frac12(e_1^2+e_2^2)$ is w where

$$\begin{aligned}a_t&=La-2q'a'-q''(0)a+2v\psi'(c-a),\qquad c_t=Lc-2q'c'-q''c-2v\psi'(c-a),\\
  w_t&=Lw+2aC_{11}+2cC_{12},\qquad L=(k-q)\partial_\varphi^2-2v\psi\,\partial_\varphi,\qquad a=\tfrac12,\ c=w=0
  \text{ at first}.\end{aligned}$$
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import expm

Array = np.ndarray


class Kernel(NamedTuple):
    r"""$K(\varphi)=\sum_j\kappa_j\cos j\varphi$ by its orders and weights."""

    orders: Array
    weights: Array

    def derivative(self, phi: Array, times: int = 0) -> Array:
        """The derivative of K of order 0, 1 or 2."""
        turned = np.outer(phi, self.orders)
        table = (np.cos(turned), -np.sin(turned), -np.cos(turned))[times]
        return np.asarray(table @ (self.weights * self.orders**times))


def relu_modes(most: int) -> Kernel:
    r"""$\kappa_0=2/\pi^2$, $\kappa_1=1/4$, $\kappa_{2i}=(4/\pi^2)/(4i^2-1)^2$, up to the order `most`."""
    even = np.arange(2, most + 1, 2)
    weights = np.array([2 / np.pi**2, 0.25, *(4 / np.pi**2 / (even**2 - 1.0) ** 2)])
    return Kernel(np.array([0, 1, *even]), weights)


def depth_noise(kernel: Kernel, phi: Array) -> tuple[Array, Array]:
    r"""$C_{ij}/h$ of a layer against the limit, $\tfrac12[\cos^2\varphi(K^2-KK'')-\sin2\varphi\,KK']$, at 0 and phi.

    Exact minus layer is $\int b_gd\tau+\int b_rdb_g$ with tangential, radial and derived parts of the field.
    """

    def local(phi: Array) -> Array:
        zero, one, two = (kernel.derivative(phi, k) for k in range(3))
        return np.asarray((np.cos(phi) ** 2 * (zero**2 - zero * two) - np.sin(2 * phi) * zero * one) / 2)

    return local(0 * phi), local(phi)


def return_noise(kernel: Kernel, phi: Array) -> tuple[Array, Array]:
    r"""$C_{ij}/h=K^2\cos2\varphi$ of a layer against a step along the great circle, $b_gb_r$, at 0 and phi."""
    k = kernel.derivative(np.zeros(1))[0]
    return k**2 + 0 * phi, kernel.derivative(phi) ** 2 * np.cos(2 * phi)


def width_noise(phi: Array) -> tuple[Array, Array]:
    r"""$m\,C_{ij}$ of ReLU layers of width m coupled by the optimal map: $E[XKX]$ where $XK+KX=\hat K-K$.

    In the basis $\sigma_\pm=(\sigma_1\pm\sigma_2)/\sqrt2$ of K, $X_{ab}=\Delta_{ab}/(\lambda_a+\lambda_b)$, moments of
    $\sigma_1=R\cos_+\theta$, $\sigma_2=R\cos_+(\theta-\varphi)$ by quadrature over the directions of the weights.
    """
    x, weight = np.polynomial.legendre.leggauss(60)
    ends = np.stack([-np.pi / 2 + 0 * phi, phi - np.pi / 2, np.pi / 2 + 0 * phi, phi + np.pi / 2])  # phi in (0, pi)
    theta = (ends[1:, :, None] + ends[:-1, :, None] + (ends[1:] - ends[:-1])[..., None] * x) / 2
    measure = (ends[1:] - ends[:-1])[..., None] * weight / (4 * np.pi)
    one, two = np.maximum(np.cos(theta), 0), np.maximum(np.cos(theta - phi[:, None]), 0)
    plus, minus = (one + two) / np.sqrt(2), (one - two) / np.sqrt(2)

    def average(values: Array) -> Array:
        return np.asarray(np.sum(values * measure, axis=(0, 2)))

    square = {"++": 2 * average(plus**2), "--": 2 * average(minus**2)}  # E R^2 = 2, E R^4 = 8
    both = 8 * average(plus**2 * minus**2)
    spread = {"++": 8 * average(plus**4) - square["++"] ** 2, "--": 8 * average(minus**4) - square["--"] ** 2}
    first, second = (
        spread[name] / (4 * square[name]) + square[other] * both / (square[name] + square[other]) ** 2
        for name, other in (("++", "--"), ("--", "++"))
    )
    return (first + second) / 2, (first - second) / 2 * np.cos(phi)


def angles(modes: int = 36) -> Array:
    """The nodes of the collocation."""
    return np.asarray(np.pi * (np.arange(modes) + 0.5) / modes)


def mean_square(kernel: Kernel, noise: tuple[Array, Array], v: float, beta: float, time: float) -> float:
    """The mean square error of a token at the end, for two independent uniform tokens."""
    modes = len(noise[0])
    phi, j = angles(modes), np.arange(modes)
    s, c = np.sin(phi), np.cos(phi)
    zero, one, two = (kernel.derivative(phi, k) for k in range(3))
    at_zero, bend = (float(kernel.derivative(np.zeros(1), k)[0]) for k in (0, 2))
    q, dq, ddq = c * zero, c * one - s * zero, c * two - 2 * s * one - c * zero
    p = 1 / (1 + np.exp(beta * (1 - c)))
    slope = p * c - beta * s**2 * p * (1 - p)
    value = np.cos(np.outer(phi, j))
    back = np.linalg.inv(value)
    first, second = (-j * np.sin(np.outer(phi, j))) @ back, (-(j**2) * value) @ back
    motion = (at_zero - q)[:, None] * second - (2 * v * p * s)[:, None] * first
    along, eye = motion - 2 * dq[:, None] * first, np.eye(modes)
    shift = (2 * v * slope)[:, None] * eye
    nothing = 0 * eye
    system = np.block(
        [
            [along + (at_zero - bend) * eye - shift, shift, nothing],
            [shift, along - ddq[:, None] * eye - shift, nothing],
            [2 * np.diag(noise[0]), 2 * np.diag(noise[1]), motion],
        ]
    )
    start = np.concatenate([np.full(modes, 0.5), np.zeros(2 * modes)])
    return float((back @ (expm(system * time) @ start)[2 * modes :])[0])
