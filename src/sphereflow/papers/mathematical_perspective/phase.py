r"""The (t, beta) phase diagram: the fraction of pairs of tokens with inner product above 0.999.

$$F(t,\beta)=\frac{1}{n(n-1)}\,\#\{i\ne j:\langle x_i(t),x_j(t)\rangle>0.999\},\ \text{averaged over starts}.$$

The tolerance is what the statistic needs: a pair crosses at distance 0.045, so an error of 1e-4 moves the crossing by a
fraction of a per cent.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import fraction, jackknife
from sphereflow.evolution import ClusterDiagram, phase_diagram
from sphereflow.evolution.diagrams import starting_tokens
from sphereflow.observables import rank_count
from sphereflow.papers.mathematical_perspective import sources
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import follow, uniform_tokens

THRESHOLD = 0.999
TOLERANCE = 1e-4


def diagram(run: Run, d: int, betas: np.ndarray | None = None) -> ClusterDiagram:
    """The diagram of a preset up to t = 30: the paper's 32 tokens, 90 temperatures and 200 times, or fewer.

    The paper averages 2048 starts on the circle; with 128 the standard error of a fraction is below 0.045.
    """
    if betas is None:
        betas = np.linspace(0.1, 9, 9 if run.quick else 90)
    return phase_diagram(
        np.linspace(0, 30, 31 if run.quick else 201),
        betas,
        n=32,
        d=d,
        threshold=THRESHOLD,
        repeats=16 if run.quick else 128,
        seed=run.seed,
        tol=TOLERANCE,
        progress=run.notify,
    )


def circle_close_history(theta0: np.ndarray, beta: float, times: np.ndarray) -> np.ndarray:
    r"""The same for one system on the circle, from its angles: $\dot\theta_i=-\sum_jP_{ij}\sin(\theta_i-\theta_j)$."""

    def field(t: float, theta: np.ndarray) -> np.ndarray:
        apart = theta[:, None] - theta[None, :]
        kernel = np.exp(beta * (np.cos(apart) - 1))
        return -np.sum(kernel * np.sin(apart), axis=1) / kernel.sum(axis=1)

    span = (0.0, float(times[-1]))
    angles = solve_ivp(field, span, theta0, method="DOP853", t_eval=times, rtol=1e-9, atol=1e-9).y.T
    n = len(theta0)
    close = np.cos(angles[:, :, None] - angles[:, None, :]) > THRESHOLD
    return (close.sum(axis=(1, 2)) - n) / (n * (n - 1))


@PAPER.claim(
    "phase-diagram-accuracy",
    says="On the circle the fractions of close pairs of 32 tokens that the phase diagram shows agree with a precise "
    "solve in angles up to $t=30$, at three temperatures; a change of $\\beta$ by 5 % is seen.",
    basis=sources.DIAGRAMS,
    formula=r"F(t,\beta)",
)
def phase_diagram_accuracy(run: Run) -> Check:
    starts = 4
    found = diagram(run, 2, np.array([0.1, 5.0, 5.25, 9.0, 9.45]))
    x0 = np.asarray(starting_tokens("uniform", 32, 2, len(found.samples), run.seed))[:starts]
    angles = [np.arctan2(x[:, 1], x[:, 0]) for x in x0]
    check, other = Check(parameters={"n": 32, "d": 2, "starts": starts}), {}
    for beta, row, off in ((0.1, 0, 0), (5.0, 1, 2), (9.0, 3, 4)):
        exact = np.mean([circle_close_history(theta, beta, found.times) for theta in angles], axis=0)
        seen, moved = (found.samples[:starts, index].mean(axis=0) for index in (row, off))
        name = f"largest difference, beta={beta:g}"
        because = "errors of 1e-4 move a crossing at distance 0.045 by a fraction of a per cent, so few pairs by any"
        check.row(name, predicted=0.0, measured=np.abs(seen - exact).max(), tolerance=0.005, because=because)
        if off > row:
            other[name] = float(np.abs(moved - exact).max())
    check.null("beta off by 5 %", other)
    return check


@PAPER.claim(
    "clusters-as-a-rank",
    says="The rank of the matrix of pairs with inner product above 0.9999, by which the authors count clusters, is "
    "never below the number of groups that a cut of the sorted angles finds, for 32 tokens on the circle at "
    r"$\beta=9$; it is the same in two thirds of the frames from $t=12$ on, and more than twice as large at $t=3$, "
    r"when groups are chains.",
    basis=basis.AuthorCode(*sources.REPOSITORY, "phase-diagrams.py"),
    formula=r"\mathrm{rank}\,[\langle x_i,x_j\rangle>0.9999]",
)
def clusters_as_a_rank(run: Run) -> Check:
    starts, times = 64, np.array([3.0, 12.0, 18.0, 24.0])
    ranks, groups = (np.zeros((starts, len(times)), dtype=int) for _ in range(2))
    for r, x0 in enumerate(uniform_tokens(run.seed, starts, 32, 2)):
        for i, x in enumerate(follow("sa", 9.0, x0, times, tol=1e-8)):
            ranks[r, i] = rank_count(x)
            turns = np.sort(np.arctan2(x[:, 1], x[:, 0]))
            steps = np.diff(turns, append=turns[0] + 2 * np.pi)
            groups[r, i] = max(int(np.sum(steps > 0.2)), 1)
    check = Check(parameters={"n": 32, "d": 2, "beta": 9, "starts": starts})
    least = np.min(ranks - groups)
    check.at_least("least excess of the rank", bound=0, measured=least, because="a block has rank one at least")
    row = "share of frames from t=12 on where they differ"
    because = "groups are tight then, but for those that merge at that moment; frames taken as independent"
    differ = fraction((ranks != groups)[:, 1:].ravel())
    check.at_most(row, bound=1 / 3, measured=differ.value, error=differ.error, because=because)
    chains = "rank divided by groups at t=3"
    early, late = (jackknife(lambda a, b: float(a.sum() / b.sum()), ranks[:, i], groups[:, i]) for i in (0, -1))
    because = "every link of a chain adds to the rank; jackknife over starts"
    check.at_least(chains, bound=2.0, measured=early.value, error=early.error, repeats=starts, because=because)
    check.null("frames at t=3", {row: np.mean(ranks[:, 0] != groups[:, 0])})
    check.null("frames at t=24", {chains: float(late.value)})
    return check
