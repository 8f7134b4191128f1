r"""Attention followed by a perceptron, in the rescaled variables.

$$\dot z_i=W\sigma\Big(V\sum_jP_{ij}(z_j-z_i)\Big).$$

An injective $\sigma$ with $\sigma(0)=0$, as tanh, leaves the places of rest as they are when $W=1$. ReLU has a half
line of zeros: a token whose pull $V\sum_jP_{ij}(z_j-z_i)$ is negative in all coordinates does not move, and no
coordinate ever falls. So tokens that follow the upper leader gather; those that would follow the lower one stay, each
where it is. The paper is known to show drawn examples of this equation; its text was not available.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import EuclideanAttention, RescaledFeedForward
from sphereflow.papers.emergence_of_clusters import PAPER, reference_solver
from sphereflow.papers.emergence_of_clusters.flow import PLANAR, start
from sphereflow.papers.emergence_of_clusters.hyperplanes import distinct_values, left_eigenvector
from sphereflow.solving import CONSTANT, FORWARD, SOLVERS, solve

T1, _STEPS = 9.0, 18


def ends(activation: str, x0: np.ndarray, dt: float = 0.025) -> np.ndarray:
    """Rescaled tokens at equally spaced times up to t = 9, in fixed steps."""
    model = RescaledFeedForward(EuclideanAttention(PLANAR), 2, activation)
    times = np.linspace(0, T1, _STEPS + 1)
    found = solve(model, x0, times, solver=SOLVERS["tsit5"][0], controller=CONSTANT, first_step=dt, adjoint=FORWARD)
    return np.asarray(found.xs)


@PAPER.claim(
    "feed-forward-freezes-one-side",
    says="With a perceptron of ReLU behind attention ($W=1$), 20 tokens in the plane end on more than three lines of "
    "the left leading eigenvector: those that would follow the lower leader are frozen, each on its own line, those "
    "of the upper one gather, and no coordinate falls. With tanh they end on two lines, like without a perceptron.",
    basis=basis.Derived("ReLU vanishes on a half line, tanh only at 0; the paper shows drawn examples"),
    formula=r"\dot z_i=\sigma\Big(V\sum_jP_{ij}(z_j-z_i)\Big),\quad V\sum_jP_{ij}(z_j-z_i)\le0\Rightarrow\dot z_i=0",
)
def feed_forward_freezes(run: Run) -> Check:
    _, phi = left_eigenvector(PLANAR)
    sizes = (1.0,) if run.quick else (1.0, 2.0)
    check = Check(parameters={"n": 20, "d": 2, "t1": T1, "W": 1, "sizes": sizes})
    three: dict[str, float] = {}
    same: dict[str, float] = {}
    zero: dict[str, float] = {}
    for size in sizes:
        x0 = start(20, 2, size)
        alone = plain(x0, np.asarray) @ phi
        lower = alone < 0
        relu, tanh = ends("relu", x0), ends("tanh", x0)
        bent = plain(x0, np.tanh) @ phi
        count, falls = f"values with ReLU, size {size:g}", f"largest fall of a coordinate, size {size:g}"
        exact = distinct_values(plain(x0, lambda pull: np.maximum(pull, 0.0)) @ phi, 0.02 * size)
        found = distinct_values(relu[-1] @ phi, 0.02 * size)
        check.same(count, predicted=len(exact), measured=len(found), because="a count, by an independent solve")
        check.at_most(falls, bound=0.0, measured=(-np.diff(relu, axis=0)).max(), tolerance=1e-12, because="rounding")
        late = f"motion of the lower tokens after t = 4.5, size {size:g}"
        moved = np.abs(relu[-1] - relu[_STEPS // 2])[lower].max()
        check.at_most(late, bound=0.0, measured=moved, tolerance=1e-12, because="rounding: they do not move at all")
        for name, k in (("a", 0), ("b", -1)):
            row = f"{name} with tanh, size {size:g}"
            groups, solved = (distinct_values(v, 0.05 * size) for v in (tanh[-1] @ phi, bent))
            check.row(
                row, predicted=solved[k].mean(), measured=groups[k].mean(), tolerance=1e-5, because="steps of 0.025"
            )
            zero[row] = 0.0
            same[row] = float(distinct_values(alone, 0.05 * size)[k].mean())
        two = f"values with tanh, size {size:g}"
        check.same(two, predicted=2, measured=len(groups))
        three[count] = float(len(distinct_values(alone, 0.02 * size)))
        zero[count] = 1.0
    check.rival("the hyperplanes of attention alone, with ReLU", three)
    check.rival("the hyperplanes of attention alone, with tanh", same)
    check.rival("all tokens at 0", zero)
    return check


def plain(x0: np.ndarray, after: Callable[[np.ndarray], np.ndarray], steps: int = 450) -> np.ndarray:
    """Tokens at t = 9 by plain Runge-Kutta steps of order four, softmax and exponential written out."""
    rates, vectors = np.linalg.eig(PLANAR)
    inverse, h, z = np.linalg.inv(vectors), T1 / steps, x0

    def speed(t: float, z: np.ndarray) -> np.ndarray:
        x = z @ np.real((vectors * np.exp(t * rates)) @ inverse).T
        return after((reference_solver.attention(x) @ z - z) @ PLANAR.T)

    for step in range(steps):
        t = step * h
        a = speed(t, z)
        b = speed(t + h / 2, z + h / 2 * a)
        c = speed(t + h / 2, z + h / 2 * b)
        z = z + h / 6 * (a + 2 * b + 2 * c + speed(t + h, z + h * c))
    return z
