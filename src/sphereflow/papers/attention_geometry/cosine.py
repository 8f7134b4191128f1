r"""The cosine distance beside the Euclidean one: for independent values its law is exact.

$$s=\sum_{i\in S}\alpha_iv_i,\qquad \cos(v_j,s)\sim f(t)\propto(1-t^2)^{(d-3)/2}\ (j\notin S),\qquad
  \cos(v_1,s)=\frac{\alpha_1+\alpha_2t}{\sqrt{\alpha_1^2+\alpha_2^2+2\alpha_1\alpha_2t}}\ (N=2),$$

t with the same density f. The weights of tokens that are not selected play no part, and given the selected values all
others are independent: precision, recall, F and inversions of two selected tokens are integrals over t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betainc
from scipy.stats import binom

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.llm.heads.geometry import separations
from sphereflow.llm.heads.synthetic import geometric, power_law, random_directions
from sphereflow.papers.attention_geometry import PAPER
from sphereflow.papers.attention_geometry.reference import inversions_of_two, precision, recall

NAMES = ("P", "R", "F", "inversions")
MANY = 8


class Case(NamedTuple):
    """Weights of a kind on so many tokens; the last weights stay far above the number 1e-12 in the denominator."""

    name: str
    weights: np.ndarray
    d: int

    def __str__(self) -> str:
        return f"{self.name} weights, d={self.d}"


CASES = (Case("power-law", power_law(300), 16), Case("geometric", geometric(100), 16))


def below(t: np.ndarray, d: int) -> np.ndarray:
    """Pr(a coordinate of a uniform unit vector is below t)."""
    tail = betainc((d - 1) / 2, 0.5, 1 - t * t) / 2
    return np.where(t > 0, 1 - tail, tail)


def law_of_two(a: float, b: float, others: int, d: int) -> np.ndarray:
    """Mean (P, R, F, inversions) of two selected tokens of these weights among so many others."""
    x, weight = np.polynomial.legendre.leggauss(300)
    angle = np.pi * (x + 1) / 2
    weight, t = weight * np.sin(angle) ** (d - 2), np.cos(angle)
    size = np.sqrt(a * a + b * b + 2 * a * b * t)
    cosines = np.stack([(a + b * t) / size, (b + a * t) / size])
    near, far = below(cosines.max(axis=0), d), below(cosines.min(axis=0), d)  # others behind each of the two
    k = np.arange(others + 1)[:, None]
    intruders = binom.pmf(k, others, 1 - far)
    # One of the two is recalled if all intruders are behind it: k of them, of all who are behind it.
    one = near**others * binom.pmf(k, others, np.where(near > 0, 1 - far / np.maximum(near, 1e-300), 0.0))
    found = np.stack(
        [
            np.sum(2 / (2 + k) * intruders, axis=0),
            (near**others + far**others) / 2,
            one[0] + np.sum(4 / (6 + k[1:]) * one[1:], axis=0),
            others * (2 - near - far),
        ]
    )
    return np.asarray(found @ weight / weight.sum())


def law_given_selected(case: Case, n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Mean (P, R, inversions) of others that are independent, for draws of the n selected values: (draws, 3)."""
    v = random_directions(rng, draws, n, case.d)
    s = np.einsum("i,kid->kd", case.weights[:n], v)
    cosines = np.einsum("kid,kd->ki", v, s) / np.linalg.norm(s, axis=-1, keepdims=True)
    behind, others = below(cosines, case.d), len(case.weights) - n
    k = np.arange(others + 1)
    share = binom.pmf(k, others, 1 - behind.min(axis=1, keepdims=True)) @ (n / (n + k))
    return np.stack([share, np.mean(behind**others, axis=1), others * np.sum(1 - behind, axis=1)], axis=1)


@PAPER.claim(
    "cosine-distance",
    says="In the cosine distance, for independent uniform values: mean precision, recall, F and inversions of two "
    "selected tokens are those of an exact integral, those of eight follow from the selected values alone, and none "
    "depends on the weights of the tokens that are not selected.",
    basis=basis.Derived("the cosine distance of the definitions, for values with independent uniform directions"),
    formula=r"E\,R_2=\tfrac12\sum_{i=1}^2E\,F\big(\cos(v_i,s)\big)^{L-2},\qquad F(t)=\Pr(\langle u,e\rangle<t)",
)
def cosine_distance(run: Run) -> Check:
    heads = 500 if run.quick else 10_000
    check = Check(parameters={"heads": heads})
    fixed: dict[str, float] = {}
    euclidean: dict[str, float] = {}
    changed = {"cosine": 0, "euclidean": 0}
    for k, case in enumerate(CASES):
        rng = np.random.default_rng([run.seed, 7, k])
        alpha, length = case.weights, len(case.weights)
        values = random_directions(rng, heads, length, case.d)
        weights = np.broadcast_to(alpha, (heads, length))
        found = separations(weights, values, (2, MANY))
        exact = law_of_two(alpha[0], alpha[1], length - 2, case.d)
        sample = _table(found["cosine"], 0)
        check.series(
            [f"{case}: {name}, N=2" for name in NAMES],
            predicted=exact,
            measured=mean(sample).value,
            error=mean(sample).error,
            repeats=heads,
            because="the error bar over heads",
        )
        square = float(np.sum(alpha[:2] ** 2))
        sure = below(alpha[:2] / np.sqrt(square), case.d) ** (length - 2)
        fixed[f"{case}: R, N=2"] = float(sure.mean())
        euclidean |= {
            f"{case}: P, N=2": precision(alpha, 2, case.d),
            f"{case}: R, N=2": recall(alpha, 2, case.d),
            f"{case}: inversions, N=2": inversions_of_two(alpha, case.d),
        }
        theory = mean(law_given_selected(case, MANY, heads, rng))
        sample = _table(found["cosine"], 1)[:, [0, 1, 3]]
        rows = [f"{case}: {name}, N={MANY}" for name in ("P", "R", "inversions")]
        check.series(
            rows,
            predicted=theory.value,
            measured=mean(sample).value,
            error=np.hypot(mean(sample).error, theory.error),
            repeats=heads,
            because="the error bars of heads and of the selected values drawn for the prediction",
        )
        euclidean[rows[1]] = recall(alpha, MANY, case.d)
        # Other weights for those that are not selected: smaller than the least selected one still.
        other = np.array(weights)
        other[:, MANY:] = alpha[MANY - 1] * rng.uniform(0.05, 1, (heads, length - MANY))
        again = separations(other, values, (MANY,))
        for distance in changed:
            first, second = _table(found[distance], 1), _table(again[distance], 0)
            changed[distance] += int(np.sum(np.any(first != second, axis=1)))
    same = "heads of which a metric changes with the weights of others"
    check.same(same, predicted=0, measured=changed["cosine"], because="the order of cosines does not see them")
    check.null("the Euclidean distance on the same heads", {same: changed["euclidean"]})
    check.rival("the law of the Euclidean distance", euclidean)
    check.rival("selected cosines without fluctuation, weight over the root of A", fixed)
    return check


def _table(found: object, k: int) -> np.ndarray:
    """(heads, metric) at the k-th number of selected tokens."""
    return np.stack([getattr(found, name)[:, k] for name in ("precision", "recall", "f", "inversions")], axis=1)
