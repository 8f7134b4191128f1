r"""Other matrices than the identity: random queries and keys, repulsion, a leading eigenvector of V.

$$\dot x_i=P_{x_i}\sum_jP_{ij}Vx_j,\qquad P_{ij}=\mathrm{softmax}_j\,\beta\langle x_i,Bx_j\rangle,\qquad B=Q^\top K .$$

Orthogonal tokens approach at the mean speed $\frac{2}{n-1}(1-\frac1n\mathrm{tr}P)$. The identity gives a token the
largest weight to itself; Gaussian B does not tell a token from the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.dynamics import SA, Attention
from sphereflow.estimates import mean
from sphereflow.evolution import phase_diagram
from sphereflow.papers.mathematical_perspective import sources
from sphereflow.papers.mathematical_perspective.equiangular import gamma
from sphereflow.papers.mathematical_perspective.high_dimension import tokens_in_span
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import follow, gaps, velocity

_DRAWS = 100_000


@PAPER.claim(
    "usa-in-high-dimension",
    says="Under USA with the raw kernel the mean inner product of 32 uniform tokens in dimension 8192 is that of "
    "its own scalar equation, at two times for $\\beta=1$ and $\\beta=3$.",
    basis=sources.CURVE,
    formula=r"\dot\gamma=\tfrac2n\,e^{\beta\gamma}(1-\gamma)((n-1)\gamma+1)",
)
def usa_in_high_dimension(run: Run) -> Check:
    n, d, repeats = 32, 8192, 12 if run.quick else 48
    check = Check(parameters={"n": n, "d": d, "starts": repeats})
    softmax, peak, flat = {}, {}, {}
    starts = tokens_in_span(np.random.default_rng([run.seed, 7]), repeats, n, d)
    for beta, times in ((1.0, np.array([1.0, 1.5])), (3.0, np.array([0.7, 0.9]))):
        inner = np.array([1 - gaps(follow("usa", beta, x0, times, tol=1e-8)).mean(axis=1) for x0 in starts])
        found = mean(inner)
        for i, t in enumerate(times):
            row = f"beta={beta:g}, t={t:g}"
            check.row(
                row,
                predicted=gamma(times, n, beta, "usa")[i],
                measured=found.value[i],
                error=found.error[i],
                repeats=repeats,
                because="the error bar over independent starts",
            )
            softmax[row] = gamma(times, n, beta, "sa")[i]
            peak[row] = gamma(times * np.exp(-beta), n, beta, "usa")[i]
            flat[row] = gamma(times, n, 0.0, "usa")[i]
    check.rival("the scalar equation of SA", softmax)
    check.rival("the kernel that is 1 at its peak", peak)
    check.rival("flat attention", flat)
    return check


def self_weight(beta: float, n: int, spread: float, seed: int) -> float:
    """Mean weight of the first of n Gaussian logits of standard deviation beta, the first with that times `spread`."""
    logits = beta * np.random.default_rng([seed, 3]).normal(size=(_DRAWS, n))
    logits[:, 0] *= spread
    return float(np.mean(1 / np.exp(logits - logits[:, :1]).sum(axis=1)))


@PAPER.claim(
    "random-form-speed",
    says="Eight uniform tokens in dimension 64 begin to approach one another at the speed $2/n$ whatever $\\beta$ "
    "is if $Q^\\top K$ is Gaussian, each replica with its own; at that of softmax weights with a self-logit of "
    "twice the variance if it is from the GOE; and at $2/(e^\\beta+n-1)$ if it is the identity. So random queries "
    "and keys have no plateau at large $\\beta$.",
    basis=basis.Derived("the speed of orthogonal tokens; matrices scaled as in phase-diagrams.py of the authors"),
    formula=r"\tfrac{d}{dt}\overline{\langle x_i,x_j\rangle}=\tfrac{2}{n-1}\,(1-\mathbb E\,P_{ii})",
)
def random_form_speed(run: Run) -> Check:
    n, d, repeats, step = 8, 64, 16 if run.quick else 2000, 0.02
    betas = np.array([0.0, 1.0, 2.0, 4.0])
    check = Check(
        "Speeds minus the one at beta = 0 of the same replica.", parameters={"n": n, "d": d, "replicas": repeats}
    )
    identity, same, nothing = {}, {}, {}
    for form in ("gaussian", "goe", "identity"):
        known: Any = {"n": n, "d": d, "matrices": form, "value": "form" if form == "identity" else "identity"}
        near, far = (
            phase_diagram([t], betas, observable="overlap", repeats=repeats, seed=run.seed, progress=False, **known)
            for t in (step, 2 * step)
        )
        # The start is the same at every beta, and drops out of the differences below.
        speed = (2 * near.samples[..., 0] - far.samples[..., 0] / 2) / step
        change = mean(speed - speed[:, :1])
        for b, beta in enumerate(betas[1:], start=1):
            plain = 2 / (np.exp(beta) + n - 1) - 2 / n
            weight = {"gaussian": 1 / n, "goe": self_weight(beta, n, np.sqrt(2), run.seed)}
            row = f"{form}, beta={beta:g}"
            check.row(
                row,
                predicted=plain if form == "identity" else 2 * (1 - weight[form]) / (n - 1) - 2 / n,
                measured=change.value[b],
                error=change.error[b],
                repeats=repeats,
                tolerance=0.6 / d,
                because="corrections of order 1/d for tokens that are not quite orthogonal, and the error bar",
            )
            if form == "identity":
                nothing[row] = 0.0
            else:
                identity[row] = plain
                same[row] = 2 * (1 - weight["goe" if form == "gaussian" else "gaussian"]) / (n - 1) - 2 / n
    check.rival("the speed of the identity", identity)
    check.rival("a speed without beta for the identity", nothing)
    if not run.quick:
        check.rival("Gaussian and GOE exchanged", same)
    return check


@PAPER.claim(
    "repulsion-finds-the-simplex",
    says="With $V=-Q^\\top K=-I$, eight uniform tokens in dimension 64 end as a regular simplex, all inner products "
    "$-1/(n-1)$, for $\\beta=1/2$ and 1: eight clusters, no pair closer than another. If $Q^\\top K$ has negative "
    "eigenvalues, the most negative one $-1$, $V=-Q^\\top K$ gathers them in one cluster, at $\\beta=1/2$ and 16.",
    basis=basis.Derived(
        "V = -Q^T K is descent of the energy (section 8, as transcribed), which the universally optimal configurations "
        "minimise for every beta (Cohn and Kumar); for n <= d + 1 that is the simplex; and with B = Q^T K "
        "indefinite the energy is least where all tokens are the eigenvector of its least eigenvalue"
    ),
    formula=r"\langle x_i,x_j\rangle\to-\frac1{n-1}",
)
def repulsion_finds_the_simplex(run: Run) -> Check:
    n, d, betas = 8, 64, [0.5, 1.0]
    check = Check(parameters={"n": n, "d": d, "t": 40})
    pairs: dict[str, float] = {}
    frame: dict[str, float] = {}
    attracted: dict[str, float] = {}

    def last(observable: str, threshold: float | None = None, sign: float = -1.0) -> np.ndarray:
        own = (np.eye(d), np.eye(d), sign * np.eye(d))
        return _ends(own, betas, 40.0, observable, threshold, run.seed)

    overlap, clusters, one = last("overlap"), last("clusters"), last("clusters", sign=1.0)
    above, below = (last("close", -1 / (n - 1) + shift) for shift in (0.01, -0.01))
    for b, beta in enumerate(betas):
        row = f"beta={beta:g}: mean inner product"
        far = np.abs(overlap[:, b] + 1 / (n - 1)).argmax()
        because = "the rate of approach is above 0.2, so by t = 40 what is left is below the tolerance of the solver"
        check.row(row, predicted=-1 / (n - 1), measured=overlap[far, b], tolerance=1e-4, because=because)
        frame[row] = 0.0
        for name, share, predicted, paired in (("above", above, 0.0, 6 / 7), ("below", below, 1.0, 6 / 7)):
            row = f"beta={beta:g}: share of pairs beyond 0.01 {name} it"
            check.same(row, predicted=predicted, measured=share[:, b].mean(), because="a share of pairs, every replica")
            pairs[row] = paired
        row = f"beta={beta:g}: clusters"
        check.same(row, predicted=n, measured=clusters[:, b].mean(), because="a count, every replica")
        attracted[row] = float(one[:, b].mean())
    rates = np.concatenate([[-1.0, -0.6], np.random.default_rng([run.seed, 6]).uniform(-0.5, 0.5, 62)])
    gathered = _ends((np.diag(rates), np.eye(d), -np.diag(rates)), [0.5, 16.0], 40.0, "clusters", 0.99, run.seed)
    row = "a negative eigenvalue, V = -Q^T K: most clusters"
    check.same(row, predicted=1, measured=gathered.max(), because="a count, every replica")
    check.rival("V = -Q^T K always repels", {row: float(n)})
    check.rival("an orthogonal frame", frame)
    check.rival("antipodal pairs along four axes", pairs)
    check.null("V = I", attracted)
    return check


def antipodal_matrix(share: float, strength: float, first: float, second: float) -> np.ndarray:
    r"""The linearised motion of two clusters at $\pm\varphi_1$ along $\varphi_2$, for shares p and 1-p of the tokens.

    $a'=\lambda_2(w_{++}a+w_{+-}c)-\lambda_1(w_{++}-w_{+-})a$ and the same for c, $w_{++}=p/(p+(1-p)e^{-2\beta b})$.
    """
    decay = np.exp(-2 * strength)
    plus, minus = share / (share + (1 - share) * decay), (1 - share) / (1 - share + share * decay)
    return np.array(
        [
            [second * plus - first * (2 * plus - 1), second * (1 - plus)],
            [second * (1 - minus), second * minus - first * (2 * minus - 1)],
        ]
    )


@PAPER.claim(
    "two-clusters-along-the-eigenvector",
    says="With $V=Q^\\top K=\\mathrm{diag}(1,0.6,\\dots)$ tokens on both ends of the leading axis drift at the "
    "rates of two linear equations, for three ways to share eight tokens. Two equal clusters are stable if "
    "$\\tanh\\beta>\\lambda_2/\\lambda_1$, else not: at $\\beta=0.3$ uniform tokens in dimension 64 end in one "
    "cluster in every replica, at $\\beta=16$ in at most two that are opposite, in some replicas in two.",
    basis=basis.Extension("the limit that predict_limit(space='sphere') expects, with its condition on beta"),
    formula=r"\tanh(\beta b_1)>\lambda_2/\lambda_1",
)
def two_clusters(run: Run) -> Check:
    first, second = 1.0, 0.6
    check = Check(parameters={"n": 8, "lambda_1": first, "lambda_2": second})
    cold, alone = {}, {}
    values = np.diag([first, second, 0.2])
    for plus in (4, 6, 7):
        sides = np.repeat([1.0, -1.0], [plus, 8 - plus])
        for beta in (0.3, 1.0, 2.0):
            model = SA(beta, query=values, value=values)
            found = np.array([_pushed(model, sides, side) for side in (1.0, -1.0)]).T
            row = f"{plus} and {8 - plus} tokens, beta={beta:g}"
            rate = np.linalg.eigvals(antipodal_matrix(plus / 8, beta, first, second)).real.max()
            because = "central differences of the field with step 1e-4"
            check.row(
                row, predicted=rate, measured=np.linalg.eigvals(found).real.max(), tolerance=1e-6, because=because
            )
            cold[row] = second - first
            alone[row] = second - first * np.tanh(beta)
    check.rival("attention to the own cluster only", cold)
    check.rival("as for two equal clusters", {row: rate for row, rate in alone.items() if not row.startswith("4")})
    rates = np.concatenate([[first, second], np.random.default_rng([run.seed, 5]).uniform(-0.5, 0.5, 62)])
    own = (np.diag(rates), np.eye(64), np.diag(rates))
    clusters, close, apart = (
        _ends(own, [0.3, 16.0], 40.0, observable, threshold, run.seed)
        for observable, threshold in (("clusters", 0.99), ("close", 0.99), ("close", -0.99))
    )
    check.same("most clusters at beta=0.3", predicted=1, measured=clusters[:, 0].max())
    check.same("most clusters at beta=16", predicted=2, measured=clusters[:, 1].max())
    between = np.abs(close - apart).max()
    check.same("pairs neither equal nor opposite", predicted=0, measured=between, because="a share of pairs")
    check.rival("one cluster, as for V = I", {"most clusters at beta=16": 1.0})
    check.rival("two clusters at any temperature", {"most clusters at beta=0.3": 2.0})
    return check


def _ends(
    matrices: tuple[np.ndarray, ...], betas: list[float], t1: float, observable: str, threshold: float | None, seed: int
) -> np.ndarray:
    """An observable of eight tokens in dimension 64 at t1, of 16 replicas: the shapes of the speeds above."""
    return phase_diagram(
        [t1],
        betas,
        n=8,
        d=64,
        matrices=matrices,
        observable=observable,
        threshold=threshold,
        repeats=16,
        seed=seed,
        progress=False,
    ).samples[..., -1]


def _pushed(model: Attention, sides: np.ndarray, side: float, step: float = 1e-4) -> list[float]:
    """Velocities along the second axis of both clusters, per displacement of one of them."""
    moved = []
    for sign in (1.0, -1.0):
        x = np.zeros((len(sides), 3))
        x[:, 0], x[:, 1] = sides, np.where(sides == side, sign * step, 0.0)
        moved.append(np.asarray(velocity(model, x / np.linalg.norm(x, axis=1, keepdims=True)))[:, 1])
    rates = (moved[0] - moved[1]) / (2 * step)
    return [float(rates[sides == which][0]) for which in (1.0, -1.0)]
