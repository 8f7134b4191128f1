r"""The limit on the sphere that the spectra suggest (`predict_limit(space="sphere")`), against runs.

$$\dot x_i=P_{x_i}\sum_jP_{ij}Vx_j:\qquad \lambda_1(V)>0\text{ simple},\ \langle Q\varphi_1,K\varphi_1\rangle>0,\qquad
  x_i\to\pm\varphi_1\text{ as a rule.}$$

Runs are written out: Runge-Kutta steps of order four, many sets of matrices at once. Some rest for long on the way.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import fraction
from sphereflow.evolution import PredictedLimit, predict_limit
from sphereflow.papers.mathematical_perspective.paper import PAPER

Array = np.ndarray
_STEP, _AT_REST, _NEAR = 0.1, 1e-6, 1e-3
BESIDE = np.array([[0.3, 0.6], [-1.4, 1.9]])  # positive along e_1, and yet a token can rest beside the axis


def speeds(x: Float[Array, "r n d"], form: Float[Array, "r d d"], value: Float[Array, "r d d"]) -> Array:
    """Velocities of the tokens, softmax and projection in full."""
    scores = (x @ form) @ x.swapaxes(1, 2)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    pull = (weights / weights.sum(axis=2, keepdims=True)) @ x @ value.swapaxes(1, 2)
    return np.asarray(pull - np.sum(pull * x, axis=2, keepdims=True) * x)


def follow(x: Float[Array, "r n d"], form: Float[Array, "r d d"], value: Float[Array, "r d d"], t1: float) -> Array:
    for _ in range(round(t1 / _STEP)):
        a = speeds(x, form, value)
        b = speeds(x + _STEP / 2 * a, form, value)
        c = speeds(x + _STEP / 2 * b, form, value)
        x = x + _STEP / 6 * (a + 2 * b + 2 * c + speeds(x + _STEP * c, form, value))
        x = x / np.linalg.norm(x, axis=2, keepdims=True)
    return x


def draws(rng: np.random.Generator, d: int, count: int) -> tuple[Array, Array, list[PredictedLimit]]:
    """Gaussian matrices with leading eigenvalue 1, the others at least 0.2 behind, for which a pair is predicted."""
    forms, values = [], []
    limits: list[PredictedLimit] = []
    while len(limits) < count:
        q, k, v = rng.normal(size=(3, d, d))
        v = v / np.abs(np.linalg.eigvals(v).real.max())
        limit = predict_limit(q, k, v, space="sphere")
        if limit.kind == "antipodal points" and limit.gap > 0.2:
            forms.append(q.T @ k)
            values.append(v)
            limits.append(limit)
    return np.array(forms), np.array(values), limits


def starts(rng: np.random.Generator, *shape: int) -> Array:
    x = rng.normal(size=shape)
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))


def apart(axes: list[Array], limits: list[PredictedLimit]) -> float:
    """The largest sine of the angle between other axes and the predicted ones."""
    cosines = [
        float(limit.coordinates[0] @ axis) / np.linalg.norm(axis) for axis, limit in zip(axes, limits, strict=True)
    ]
    return float(np.sqrt(1 - np.min(np.square(cosines))))


def both_ends(x: Array, limits: list[PredictedLimit]) -> Array:
    """Whether tokens are at both ends of the predicted axis."""
    sides = np.stack([tokens @ limit.coordinates[0] > 0 for tokens, limit in zip(x, limits, strict=True)])
    return np.asarray(sides.any(axis=1) & ~sides.all(axis=1))


def standing_token(form: Array) -> float:
    r"""The sine s of a token $a=(-c,s)$ that three at $e_1$ hold at rest when $V=\mathrm{diag}(1,0)$.

    Its average must have no first coordinate: $3e^{\langle a,B(e_1-a)\rangle}=c$.
    """

    def balance(angle: float) -> float:
        at = np.array([-np.cos(angle), np.sin(angle)])
        return float(np.log(3 / np.cos(angle)) + at @ form @ (np.array([1.0, 0.0]) - at))

    return float(np.sin(brentq(balance, 0.05, 0.8)))


@PAPER.claim(
    "spectrum-decides-the-limit-on-the-sphere",
    says="For Gaussian $Q$, $K$, $V$ whose value matrix has a simple real leading eigenvalue, with "
    "$\\langle Q\\varphi_1,K\\varphi_1\\rangle>0$, tokens end on the two points of its right eigenvector: in all draws "
    "with scores a tenth as large, in most as they are, in some of them on both; with $-Q$ in the place of $Q$ on one "
    "at most. It is no theorem: with $V=\\mathrm{diag}(1,0)$ three tokens can hold a fourth beside the axis.",
    basis=basis.Extension("the limits that predict_limit(space='sphere') reads from spectra"),
    formula=r"V\varphi_1=\lambda_1\varphi_1,\ \langle Q\varphi_1,K\varphi_1\rangle>0:\quad x_i\to\pm\varphi_1",
)
def spectrum_on_the_sphere(run: Run) -> Check:
    rng = np.random.default_rng([run.seed, 11])
    cases = ((3, 8, 24, 150.0),) if run.quick else ((3, 8, 300, 400.0), (6, 16, 100, 400.0))
    check = Check(parameters={"d, n, draws, t": [list(case) for case in cases]})
    axes: dict[str, dict[str, float]] = {name: {} for name in ("left", "symmetric", "score")}
    ends: dict[str, float] = {}
    signs: dict[str, float] = {}
    for d, n, count, t1 in cases:
        form, value, limits = draws(rng, d, count)
        x0 = starts(rng, count, n, d)
        flat, x, other = (follow(x0, factor * form, value, t1) for factor in (0.1, 1.0, -1.0))
        warm, misses, turned = (
            np.array([limit.miss(tokens) for limit, tokens in zip(limits, each, strict=True)])
            for each in (flat, x, other)
        )
        name = f"largest distance from the axis, flat scores, d={d}"
        because = f"exp(-0.2 t) at t = {t1:g}, and the rounding of a sine"
        check.row(name, predicted=0.0, measured=warm.max(), tolerance=1e-6, because=because)
        rest = np.abs(speeds(x, form, value)).max(axis=(1, 2)) < _AT_REST
        most, share = "most: some rest elsewhere for long, a few for ever", fraction(misses < _NEAR)
        row = f"share of the runs on the axis, d={d}"
        check.at_least(row, bound=0.7, measured=share.value, error=share.error, because=most)
        both, crossed = f"runs with tokens at both ends, d={d}", f"the same with -Q, d={d}"
        pairs = both_ends(x, limits) & (misses < _NEAR)
        check.at_least(both, bound=1, measured=pairs.sum(), because="a count: opposite clusters can be stable")
        crossing = both_ends(other, limits) & (turned < _NEAR)
        check.same(crossed, predicted=0, measured=crossing.sum(), because="a count: each end is pulled to the other")
        for rival, matrices in (
            ("left", value.swapaxes(1, 2)),
            ("symmetric", value + value.swapaxes(1, 2)),
            ("score", form + form.swapaxes(1, 2)),
        ):
            axes[rival][name] = apart([_leading(matrix) for matrix in matrices], limits)
        ends[both], signs[crossed] = 0.0, float(pairs.sum())
        check.note += f"d={d}: {np.sum(rest & (misses > _NEAR))} of {rest.sum()} runs at rest are beside the axis. "
    beside = "sine of the fourth token"
    tokens = np.array([[[1.0, 0.0], [1.0, 0.05], [1.0, -0.05], [-0.8, 0.6]]])
    tokens /= np.linalg.norm(tokens, axis=2, keepdims=True)
    last = follow(tokens, BESIDE[None], np.diag([1.0, 0.0])[None], 100.0)[0]
    check.row(beside, predicted=standing_token(BESIDE), measured=last[3, 1], tolerance=1e-8, because="both converge")
    check.rival("the left eigenvector", axes["left"])
    check.rival("the leading eigenvector of the symmetric part of V", axes["symmetric"])
    check.rival("the direction of the largest score", axes["score"])
    check.null("one point, as for V = 1", ends)
    check.rival("a pair whatever the sign of the scores", signs)
    check.rival("always the axis", {beside: 0.0})
    return check


def _leading(matrix: Array) -> Array:
    values, vectors = np.linalg.eig(matrix)
    return np.asarray(vectors[:, np.argmax(values.real)].real)
