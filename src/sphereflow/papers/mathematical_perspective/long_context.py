r"""The long-context transition: attention must sharpen like log n.

One attention layer on n tokens with common inner product $\rho$, at $\beta=g\log n$, gives output directions with

$$\lim_{n\to\infty}\langle\theta_i,\theta_j\rangle=1\ \ (g<g_c),\qquad\frac{4\rho}{1+3\rho}\ \ (g=g_c),\qquad
  \rho\ \ (g>g_c),\qquad g_c=\frac{1}{1-\rho}.$$
"""

from __future__ import annotations

import equinox as eqx
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA
from sphereflow.papers.mathematical_perspective import sources
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


TRANSITION = basis.Theorem("long-context transition", via=sources.SURVEY)


@PAPER.claim(
    "one-layer-exact",
    says="The inner product of two outputs of one attention layer on 50 equiangular tokens has its closed form, for "
    "three pairs of overlap and $\\beta$.",
    basis=basis.Derived("softmax weights of equiangular tokens"),
    formula=r"\langle\theta_i,\theta_j\rangle=\frac{\langle y_i,y_j\rangle}{|y|^2}",
)
def one_layer_exact(run: Run) -> Check:
    check, alone, wide = Check(), {}, {}
    for n, rho, beta in ((50, 0.4, 3.0), (50, 0.4, 8.0), (50, 0.8, 20.0)):
        row = f"n={n}, rho={rho:g}, beta={beta:g}"
        measured = layer_output_inner(n, rho, beta)
        check.row(row, predicted=output_inner(n, rho, beta), measured=measured, tolerance=1e-12, because="rounding")
        wide[row] = output_inner(n + 1, rho, beta)
        rest = 1 / (n - 1)
        square = rest * (1 + (n - 2) * rho)
        alone[row] = ((n - 2) / (n - 1) ** 2 * (1 - rho) + rho) / square
    check.rival("a layer without the token itself", alone)
    check.rival("one token more", wide)
    return check


@PAPER.claim(
    "long-context-transition",
    says="With $\\beta=g\\log n$ one layer on $10^{100}$ equiangular tokens averages everything if $g$ is 10 % below "
    "$1/(1-\\rho)$, is the identity if 10 % above, and has its own value at the critical one, for three overlaps.",
    basis=TRANSITION,
    formula=r"\lim\langle\theta_i,\theta_j\rangle=1,\ \frac{4\rho}{1+3\rho},\ \rho"
    r"\quad\mathrm{for}\ g<,=,>\frac1{1-\rho}",
)
def long_context_transition(run: Run) -> Check:
    n, check = 1e100, Check()
    earlier, middle = {}, {}
    for rho in (0.2, 0.4, 0.8):
        for relative in (0.9, 1.0, 1.1):
            row = f"rho={rho:g}, g={relative:g} g_c"
            check.row(
                row,
                predicted=limit_inner(rho, relative),
                measured=output_inner(n, rho, relative / (1 - rho) * np.log(n)),
                tolerance=1e-9,
                because="at n = 1e100 corrections are of order n^(-|g/g_c - 1|) = 1e-10, or 1/n at the critical value",
            )
            if relative == 0.9:
                earlier[row] = rho
            if relative == 1:
                middle[row] = (1 + rho) / 2
    check.rival("critical sharpness at g = 1", earlier)
    check.rival("half way at the critical value", middle)
    return check
