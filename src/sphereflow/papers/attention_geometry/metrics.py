"""The metrics themselves: a worked example, a brute-force count, the bounds by inversions, the singleton."""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run
from sphereflow.llm.heads.geometry import random_control, separation
from sphereflow.papers.attention_geometry import PAPER
from sphereflow.papers.attention_geometry.sources import INVERSIONS, METRICS, SINGLETON


@PAPER.claim(
    "worked-example",
    says=r"Four tokens in the plane, two selected: $P=2/3$, $R=1/2$, $F=4/7$, one inversion, margin "
    r"$\sqrt{0.145}-1/2$.",
    basis=METRICS,
    formula=r"D^2=(0.09,\,0.25,\,0.145,\,0.3925),\quad\gamma_2=\sqrt{0.145}-0.5",
)
def worked_example(run: Run) -> Check:
    found = separation(np.array([0.5, 0.3, 0.15, 0.05]), np.array([[1.0, 0], [0, 1], [1, 1], [-1, 0]]), (2,))
    check = Check()
    for name, right, got in (
        ("P", 2 / 3, found.precision),
        ("R", 1 / 2, found.recall),
        ("F", 4 / 7, found.f),
        ("inversions", 1.0, found.inversions),
        ("margin", np.sqrt(0.145) - 0.5, found.margin),
    ):
        check.row(name, predicted=right, measured=got[0], tolerance=1e-12, because="arithmetic by hand; rounding")
    # s / 0.8 = (0.625, 0.375): the selected tokens are at sqrt(0.15625) and sqrt(0.39625), the nearest other at
    # sqrt(0.275625); with the values themselves s = (0.5, 0.3) is at distance sqrt(0.34), sqrt(0.74), sqrt(0.74).
    check.rival("the sum divided by the selected mass", {"margin": np.sqrt(0.275625) - np.sqrt(0.39625)})
    check.rival("values instead of contributions", {"margin": 0.0, "R": 1 / 2, "P": 2 / 3})
    return check


@PAPER.claim(
    "brute-force",
    says="The library's metrics are those of counting every pair one by one, ties included.",
    basis=METRICS,
    formula=r"P_N=\frac{N}{N+|\{j\notin S:D_j\le\rho_{max}\}|},\quad R_N=\frac{|\{i\in S:D_i<\rho_{min}\}|}{N}",
)
def brute_force(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    heads = 100 if run.quick else 1000
    names = ("P", "R", "F", "inversions")
    other, ties, strict = np.zeros(4), np.zeros(4), np.zeros(4)
    for _ in range(heads):
        weights, values = tied_head(rng)
        size = int(rng.integers(1, len(weights) - 1))
        found = separation(weights, values, (size,))
        fast = np.array([found.precision[0], found.recall[0], found.f[0], found.inversions[0]])
        other += fast != counted(weights, values, size)
        ties += fast != counted(weights, values, size, first=-1)
        strict += fast != counted(weights, values, size, closed=False)
    check = Check(parameters={"heads": heads})
    for name, number in zip(names, other, strict=True):
        check.same(f"heads with another {name}", predicted=0, measured=number, because="small integers: all is exact")
    check.null("ties broken by the larger index", ties)
    check.null("an unselected token at the same distance does not count", strict)
    return check


@PAPER.claim(
    "inversion-bounds",
    says="Inversions bound precision and recall from below, both bounds are attained, and the margin is positive "
    "exactly when there are none, which is exactly when $P=R=F=1$.",
    basis=INVERSIONS,
    formula=r"P_N\ge\frac{N}{N+GInv},\quad R_N\ge\max\Big(0,1-\frac{GInv}{N}\Big),\quad"
    r"\gamma_N>0\iff GInv=0\iff P=R=F=1",
)
def inversion_bounds(run: Run) -> Check:
    rng = np.random.default_rng(run.seed + 1)
    heads = 2000 if run.quick else 10_000
    chosen = (1, 2, 3, 5, 8)
    sizes = np.array(chosen)
    weights = rng.integers(1, 8, (heads, 12)).astype(float)
    values = rng.integers(-2, 3, (heads, 12, 3)).astype(float)
    found = separation(weights, values, chosen)
    clean = found.inversions == 0
    some = ~clean

    def slack(fewer: int) -> tuple[float, float]:
        inversions, n = found.inversions[some] - fewer, np.broadcast_to(sizes, some.shape)[some]
        precision = found.precision[some] - n / (n + inversions)
        recall = found.recall[some] - np.maximum(0, 1 - inversions / n)
        return float(precision.min()), float(recall.min())

    check = Check(note=f"{np.mean(clean):.0%} of the cases have no inversion.", parameters={"heads": heads})
    names = ("least P above its bound, where there are inversions", "least R above its bound")
    for name, value in zip(names, slack(0), strict=True):
        check.row(name, predicted=0.0, measured=value, tolerance=1e-12, because="attained; rounding of a quotient")
    perfect = (found.precision == 1) & (found.recall == 1) & (found.f == 1)
    signs = "cases in which the margin and the inversions differ"
    check.same(signs, predicted=0, measured=float(np.sum(clean != (found.margin > 0))))
    check.same(
        "cases in which P = R = F = 1 and the inversions differ", predicted=0, measured=float(np.sum(clean != perfect))
    )
    check.null("one inversion less", dict(zip(names, slack(1), strict=True)))
    check.null("a margin of zero counts as separated", {signs: float(np.sum(clean != (found.margin >= 0)))})
    return check


@PAPER.claim(
    "singleton",
    says="One selected token has $F=1$ in the Euclidean distance even if it is drawn at random: $N=1$ says nothing, "
    "$N=2$ does.",
    basis=SINGLETON,
)
def singleton(run: Run) -> Check:
    rng = np.random.default_rng(run.seed + 2)
    weights, values = rng.random((50, 40)), rng.standard_normal((50, 40, 5))
    control = random_control(weights, values, (1, 2), seed=run.seed)
    check = Check(parameters={"heads": 50})
    name = "least F of random sets of one"
    check.same(name, predicted=1.0, measured=control.f[:, 0].min(), because="the sum is the token: distance 0")
    check.null("sets of two", {name: float(control.f[:, 1].min())})
    return check


def tied_head(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A head of small integers with repeated weights and repeated vectors: all arithmetic is exact."""
    length = int(rng.integers(4, 16))
    values = rng.integers(-2, 3, (length, 3)).astype(float)
    copies = rng.integers(0, length, length // 2)
    values[copies] = values[0]
    return rng.integers(0, 4, length).astype(float), values


def counted(weights: np.ndarray, values: np.ndarray, size: int, *, first: int = 1, closed: bool = True) -> np.ndarray:
    """(P, R, F, inversions) by counting squared distances in plain loops.

    Of equal weights the smaller index comes first, with `first=-1` the larger; an unselected token at the distance of
    a selected one counts as an intruder if `closed`.
    """
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], first * i))
    inside, outside = order[:size], order[size:]
    points = [[w * x for x in v] for w, v in zip(weights, values, strict=True)]
    total = [sum(points[i][k] for i in inside) for k in range(len(values[0]))]
    away = [sum((a - b) ** 2 for a, b in zip(p, total, strict=True)) for p in points]

    def before(j: int, i: int) -> bool:
        return bool(away[j] <= away[i] if closed else away[j] < away[i])

    furthest = max(inside, key=lambda i: away[i])
    precision = size / (size + sum(before(j, furthest) for j in outside))
    recall = sum(not any(before(j, i) for j in outside) for i in inside) / size
    inversions = sum(before(j, i) for i in inside for j in outside)
    return np.array([precision, recall, 2 * precision * recall / (precision + recall), inversions])
