r"""The long-context transition: attention must sharpen like log n.

One attention layer on n tokens with common inner product $\rho$, at $\beta=g\log n$, gives output directions with

$$\lim_{n\to\infty}\langle\theta_i,\theta_j\rangle=1\ \ (g<g_c),\qquad\frac{4\rho}{1+3\rho}\ \ (g=g_c),\qquad
  \rho\ \ (g>g_c),\qquad g_c=\frac{1}{1-\rho}.$$
"""

from __future__ import annotations

import equinox as eqx
import numpy as np

from sphereflow.claims import Measurement, Run, agreement
from sphereflow.dynamics import SA
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.sphere import equiangular_frame

_pull = eqx.filter_jit(lambda model, x: model.pull(x))


def output_inner(n: float, rho: float, beta: float) -> float:
    r"""$\langle\theta_i,\theta_j\rangle$ after one layer, exactly, for any n (as large as floating point allows).

    With $w_1=1/(1+(n-1)e^{-\beta(1-\rho)})$ on itself and $w=(1-w_1)/(n-1)$ on each other token,
    $|y|^2=w_1^2+2w_1(n-1)w\rho+w^2(n-1)(1+(n-2)\rho)$ and
    $\langle y_i,y_j\rangle=w_1^2\rho+2w_1w(1+(n-2)\rho)+w^2((n-2)+((n-1)^2-(n-2))\rho)$.
    """
    own = 1 / (1 + np.exp(np.log(n - 1) - beta * (1 - rho)))
    other = (1 - own) / (n - 1)
    # (n-1) w is of order one: products are formed in that scale so that n = 1e100 is no problem.
    rest = (n - 1) * other
    square = own**2 + 2 * own * rest * rho + rest**2 * (1 + (n - 2) * rho) / (n - 1)
    mixed = 2 * own * rest * (1 + (n - 2) * rho) / (n - 1)
    inner = own**2 * rho + mixed + rest**2 * ((n - 2) / (n - 1) ** 2 * (1 - rho) + rho)
    return float(inner / square)


def limit_inner(rho: float, relative: float) -> float:
    """The limit for g = relative times the critical value."""
    if relative == 1:
        return 4 * rho / (1 + 3 * rho)
    return 1.0 if relative < 1 else rho


def layer_output_inner(n: int, rho: float, beta: float) -> float:
    """The same number from n tokens passed through one attention layer."""
    y = np.asarray(_pull(SA(beta), equiangular_frame(n, n, rho)))
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    return float(y[0] @ y[1])


@PAPER.claim(
    "one-layer-exact",
    statement="Inner product of outputs after one attention layer on equiangular tokens, in closed form.",
    source="Survey, theorem on the long-context transition, at finite n",
    formula=r"\langle\theta_i,\theta_j\rangle=\frac{\langle y_i,y_j\rangle}{|y|^2}",
)
def one_layer_exact(run: Run) -> Measurement:
    cases = [(50, 0.4, 3.0), (50, 0.4, 8.0), (50, 0.8, 20.0)]
    predicted = [0.98789170881, *(output_inner(*case) for case in cases[1:])]
    return agreement(
        predicted,
        [layer_output_inner(*case) for case in cases],
        absolute=[6e-12, 1e-12, 1e-12],
        because="rounding; the first reference value is given to eleven decimals",
        labels=tuple(f"n={n} rho={rho:g} beta={beta:g}" for n, rho, beta in cases),
    )


@PAPER.claim(
    "long-context-transition",
    statement="With beta = g log n, one layer averages everything (g below critical), or is the identity (above).",
    source="Survey, theorem on the long-context transition",
    formula=r"\lim\langle\theta_i,\theta_j\rangle=1,\ \frac{4\rho}{1+3\rho},\ \rho"
    r"\quad\mathrm{for}\ g<,=,>\frac1{1-\rho}",
    falsifier="A temperature that need not grow with the context length.",
)
def long_context_transition(run: Run) -> Measurement:
    cases = [(rho, relative) for rho in (0.2, 0.4, 0.8) for relative in (0.9, 1.0, 1.1)]
    n = 1e100
    measured = [output_inner(n, rho, relative / (1 - rho) * np.log(n)) for rho, relative in cases]
    return agreement(
        [limit_inner(*case) for case in cases],
        measured,
        absolute=1e-9,
        because="at n = 1e100 corrections are of order n^(-|g/g_c - 1|) = 1e-10, or 1/n at the critical value",
        labels=tuple(f"rho={rho:g} g={relative:g} g_c" for rho, relative in cases),
    )


@PAPER.claim(
    "long-context-finite",
    statement="The transition at finite context length (rho = 0.4): slow away from the critical value.",
    source="Survey, theorem on the long-context transition; reference values from an independent calculation",
    formula=r"\beta=g\log n",
)
def long_context_finite(run: Run) -> Measurement:
    lengths = (1e2, 1e4, 1e8, 1e16)
    known = {
        0.9: (0.8215, 0.8916, 0.9727, 0.9991),
        1.0: (0.7315, 0.7273, 0.7273, 0.7273),
        1.1: (0.6427, 0.5658, 0.4722, 0.4120),
    }
    rho = 0.4
    measured = [output_inner(n, rho, relative / (1 - rho) * np.log(n)) for relative in known for n in lengths]
    return agreement(
        np.ravel(list(known.values())),
        measured,
        absolute=6e-5,
        because="reference values are given to four decimals",
        labels=tuple(f"g={relative:g} g_c n={n:.0e}" for relative in known for n in lengths),
    )
