r"""Low temperature as an expansion: attention sees the density only near the direction it prefers.

$$m_\beta(x)=u+\frac1{\beta|k|}\Big[-\frac{d-1}2u+P_u\nabla\log\rho(u)\Big]+O(\beta^{-2}),\qquad
  k=B^\top x,\ u=\frac k{|k|}.$$
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from scipy import special

from sphereflow.claims import Check, Run
from sphereflow.interaction import attend
from sphereflow.meanfield.zero_temperature import laplace_barycentre
from sphereflow.meanfield.zonal import gauss_nodes
from sphereflow.papers.low_temperature_concentration import PAPER
from sphereflow.papers.low_temperature_concentration.sources import LAPLACE
from sphereflow.sphere import from_angles

_NODES = 4096


def bump(theta: np.ndarray, order: int = 0) -> np.ndarray:
    """1 + 0.5 cos(theta - 0.3) and its derivatives."""
    return np.asarray((1.0 if order == 0 else 0.0) + 0.5 * np.cos(theta - 0.3 + order * np.pi / 2))


def barycentre(beta: float, theta: float, form: np.ndarray) -> np.ndarray:
    r"""$m_\beta$ at the angle theta, by the trapezoidal rule: exact to rounding once the kernel is resolved."""
    nodes = 2 * np.pi * np.arange(_NODES) / _NODES
    keys, weights = from_angles(jnp.asarray(nodes)), jnp.asarray(bump(nodes) / bump(nodes).sum())
    query = from_angles(jnp.asarray([theta])) @ jnp.asarray(form)
    return np.asarray(attend(query, keys, keys, beta, weights=weights, method="direct").average)[0]


def first_order(beta: float, theta: float, form: np.ndarray) -> np.ndarray:
    """The prediction up to 1/beta."""
    x = np.array([np.cos(theta), np.sin(theta)])
    key = form.T @ x
    at = float(np.arctan2(key[1], key[0]))
    gradient = bump(np.array(at), 1) / bump(np.array(at)) * np.array([-np.sin(at), np.cos(at)])
    return laplace_barycentre(beta, x, form, gradient)


def remainder(beta: float, theta: float, form: np.ndarray) -> float:
    """How far the average is from its first-order prediction."""
    return float(np.linalg.norm(barycentre(beta, theta, form) - first_order(beta, theta, form)))


def second_order_size(theta: float, curvature: float = 1 / 8) -> float:
    r"""$|(-\frac18-\frac{\rho''}{2\rho},\ \frac12(\rho''/\rho)')|$, the coefficient of $\beta^{-2}$ for B = 1."""
    rho, first, second, third = (float(bump(np.array(theta), order)) for order in range(4))
    return float(np.hypot(-curvature - second / (2 * rho), 0.5 * (third / rho - second * first / rho**2)))


@PAPER.claim(
    "laplace-expansion",
    says=r"The attention average is the preferred direction plus a correction of order $1/\beta$ that follows the "
    r"gradient of the log-density; the rest is of order $1/\beta^2$ with a known coefficient.",
    basis=LAPLACE,
    formula=r"m_\beta=u+\frac1{\beta|k|}\left[-\frac{d-1}2u+P_u\nabla\log\rho(u)\right]+O(\beta^{-2})",
)
def laplace_expansion(run: Run) -> Check:
    one = np.eye(2)
    check = Check(parameters={"density": "1 + 0.5 cos(theta - 0.3)"})
    flat, bare = {}, {}
    for theta in (1.0, 2.0, 4.0):
        for beta in (200.0, 800.0):
            name = rf"remainder times $\beta^2$ at angle {theta:g}, $\beta={beta:g}$"
            check.row(
                name,
                predicted=second_order_size(theta),
                measured=beta**2 * remainder(beta, theta, one),
                relative=1.5 / beta,
                because="the next order, 1/beta",
            )
            flat[name] = second_order_size(theta, 0.0)
            x = np.array([np.cos(theta), np.sin(theta)])
            bare[name] = beta**2 * float(np.linalg.norm(barycentre(beta, theta, one) - (1 - 0.5 / beta) * x))
    form = np.array([[0.6, 0.5], [0.0, 1.0]])
    general = [b**2 * remainder(b, 2.0, form) for b in (400.0, 800.0)]
    because = "the next order, 1/beta"
    check.row(
        "general $B$: at 800 over at 400",
        predicted=1.0,
        measured=general[1] / general[0],
        tolerance=0.01,
        because=because,
    )
    check.rival("without the curvature of the sphere, 1/8", flat)
    check.null("the first order without the gradient of the density", bare)
    check.rival(r"a remainder of order $\beta^{-3/2}$", {"general $B$: at 800 over at 400": 2**0.5})
    return check


@PAPER.claim(
    "uniform-average",
    says="For the uniform law the attention average is the preferred direction times a ratio of Bessel functions, "
    "in 2, 3 and 8 dimensions.",
    basis=LAPLACE,
    formula=r"m_\beta(x)=A_d(\beta|k|)\,u,\qquad A_d=I_{d/2}/I_{d/2-1}",
)
def uniform_average(run: Run) -> Check:
    check = Check()
    first: dict[str, float] = {}
    shifted: dict[str, float] = {}
    for d in (2, 3, 8):
        heights, masses = gauss_nodes(d, 400) if d > 2 else (np.cos(np.pi * (np.arange(400) + 0.5) / 400), np.ones(400))
        for b in (1.0, 20.0, 300.0):
            weights = masses * np.exp(b * (heights - 1))
            name = rf"$d={d}$, $\beta|k|={b:g}$"
            check.row(
                name,
                predicted=special.ive(d / 2, b) / special.ive(d / 2 - 1, b),
                measured=weights @ heights / weights.sum(),
                tolerance=1e-12,
                because="Gauss quadrature, to rounding",
            )
            first[name] = 1 - (d - 1) / (2 * b)
            shifted[name] = float(special.ive((d + 1) / 2, b) / special.ive((d - 1) / 2, b))
    check.rival("the first order of the expansion", first)
    check.rival("one dimension more", shifted)
    return check
