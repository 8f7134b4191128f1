"""Exact statements: perfect separations, the half-space criterion, invariances, length, ranks, hand-made heads."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from sphereflow.claims import Check, Run, basis
from sphereflow.llm.heads.geometry import descending, separation
from sphereflow.llm.heads.regimes import REGIMES, head_features, regimes
from sphereflow.llm.heads.synthetic import textbook_heads
from sphereflow.papers.attention_geometry import PAPER, sources


@PAPER.claim(
    "exact-separation",
    says="Orthogonal values, values of one norm with one common cosine that is not negative, and multiples of one "
    "direction are separated perfectly for every $N$; values with a negative common cosine, in two groups, or "
    "multiples whose contributions are not ordered, need not be.",
    basis=basis.Derived(r"the sign of $D_j^2-D_i^2$ for these values"),
    formula=r"P_N=R_N=F_N=1\quad(1\le N<L)",
)
def exact_separation(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    length = 120
    weights = np.sort(rng.exponential(size=length) ** 3)[::-1]
    weights /= weights.sum()
    sizes = tuple(range(1, length))

    def least(values: np.ndarray) -> float:
        return float(separation(weights, values, sizes).f.min())

    check = Check(parameters={"L": length})
    line, stretch = np.outer(np.ones(length), rng.standard_normal(8)), rng.uniform(0.1, 3.0, length)
    for name, values in {
        "least F, orthogonal, any norms": np.diag(stretch),
        "least F, cosine 0.3": np.linalg.cholesky(0.3 + 0.7 * np.eye(length)),
        "least F, cosine 0.8": np.linalg.cholesky(0.8 + 0.2 * np.eye(length)),
        "least F, one direction": line,
    }.items():
        check.same(name, predicted=1, measured=least(values), because="P and R are counts: exactly 1")
    group = np.arange(length) % 2
    two_groups = least(np.linalg.cholesky(0.8 * (group[:, None] == group) + 0.2 * np.eye(length)))
    # A common cosine is at least -1/(L-1); contributions then nearly cancel in a sum over many.
    negative = -0.9 / (length - 1)
    opposed = least(np.linalg.cholesky(negative + (1 - negative) * np.eye(length)))
    check.null("a common cosine of nine tenths of the least one", {"least F, cosine 0.3": opposed})
    check.null("cosine 0.8 within two groups only", {"least F, cosine 0.8": two_groups})
    check.null("any norms along one direction", {"least F, one direction": least(stretch[:, None] * line)})
    return check


@PAPER.claim(
    "half-space",
    says="Where all unselected weights are negligible, a selected token is recalled exactly when its cosine with the "
    "sum exceeds half the ratio of their lengths.",
    basis=basis.Derived(r"$D_i<\|s\|$, and tokens of vanishing weight are at distance $\|s\|$"),
    formula=r"D_i<\|s\|\iff\cos(s,y_i)>\frac{\|y_i\|}{2\|s\|}",
)
def half_space(run: Run) -> Check:
    rng = np.random.default_rng(run.seed + 1)
    heads, size = 400, 6
    weights = np.concatenate([rng.exponential(size=(heads, size)), np.full((heads, 20), 1e-13)], axis=1)
    values = rng.standard_normal((heads, size + 20, 4))
    y = weights[:, :size, None] * values[:, :size]
    s = y.sum(axis=1, keepdims=True)
    cosine = np.sum(y * s, axis=-1) / (np.linalg.norm(y, axis=-1) * np.linalg.norm(s, axis=-1))
    bar = np.linalg.norm(y, axis=-1) / (2 * np.linalg.norm(s, axis=-1))
    recall = separation(weights, values, (size,)).recall[:, 0]

    def off(factor: float) -> float:
        return float(np.sum(np.abs(recall - np.mean(cosine > factor * bar, axis=1)) > 1e-12))

    check = Check(parameters={"heads": heads, "N": size, "d": 4})
    check.same("heads with another recall", predicted=0, measured=off(1.0), because="algebra; a count")
    check.null("any positive cosine is enough", off(0.0))
    check.null("the bar without the factor 1/2", off(2.0))
    check.null("the bar 10 % lower", off(0.9))
    return check


@PAPER.claim(
    "invariances",
    says="Rotating or scaling the values and permuting unselected tokens change nothing; translating the values does.",
    basis=basis.Derived("symmetries of distances; the sum is not renormalised"),
)
def invariances(run: Run) -> Check:
    rng = np.random.default_rng(run.seed + 2)
    weights = np.sort(rng.exponential(size=(60, 80)), axis=1)[:, ::-1].copy()
    values = rng.standard_normal((60, 80, 6))
    sizes = (2, 4, 8)
    base = separation(weights, values, sizes)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    shuffle = np.concatenate([np.arange(8), 8 + rng.permutation(72)])

    def change(alpha: np.ndarray, v: np.ndarray, scale: float = 1.0) -> float:
        found = separation(alpha, v, sizes)
        metrics = max(np.abs(getattr(found, m) - getattr(base, m)).max() for m in ("precision", "recall", "f"))
        return max(float(metrics), float(np.abs(found.margin / scale - base.margin).max()))

    check = Check(parameters={"heads": 60, "N": list(sizes)})
    for name, value in {
        "rotation": change(weights, values @ turn),
        "scaling by 3": change(weights, 3 * values, 3.0),
        "permutation of unselected tokens": change(weights[:, shuffle], values[:, shuffle]),
    }.items():
        check.row(f"change by {name}", predicted=0.0, measured=value, tolerance=1e-12, because="rounding")
    check.null("translation by a tenth of a standard deviation", change(weights, values + 0.1))
    return check


@PAPER.claim(
    "sequence-length",
    says="Adding tokens of lower weight than the selected ones never raises precision or recall.",
    basis=basis.Derived("the sum stays, and more tokens can only come closer"),
    formula=r"L\mapsto P_N,\ R_N\ \text{non-increasing}",
)
def sequence_length(run: Run) -> Check:
    rng = np.random.default_rng(run.seed + 3)
    low = np.concatenate([rng.uniform(1, 2, (100, 8)), rng.uniform(0, 0.9, (100, 120))], axis=1)
    high = np.concatenate([low[:, :12], rng.uniform(0, 2, (100, 116))], axis=1)
    values = rng.standard_normal((100, 128, 8))

    def rise(weights: np.ndarray) -> list[int]:
        found = [separation(weights[:, :n], values[:, :n], (2, 4, 8)) for n in (12, 24, 48, 128)]
        steps = (np.diff([getattr(s, m) for s in found], axis=0) for m in ("precision", "recall"))
        return [int(np.sum(step > 0)) for step in steps]

    check = Check(parameters={"heads": 100})
    for name, value in zip(("rises of P", "rises of R"), rise(low), strict=True):
        check.same(name, predicted=0, measured=value, because="a count, of 900 steps")
    check.null("added tokens that may outrank the selected ones", rise(high))
    return check


@PAPER.claim(
    "competition",
    says="To recover $K$ required tokens among $L$ one must select $K+(L-K)p$ tokens on average, $p$ the "
    "chance that a competitor outranks the weakest required one; here for normal scores.",
    basis=sources.COMPETITION,
    formula=r"E[N_{rec}]=K+(L-K)p",
)
def competition(run: Run) -> Check:
    rng = np.random.default_rng(run.seed + 5)
    length, required, lead = 40, 4, 1.5
    draws = 4000 if run.quick else 100_000
    scores = rng.standard_normal((draws, length)) + lead * (np.arange(length) < required)
    needed = 1 + np.max(np.nonzero(descending(scores) < required)[1].reshape(draws, required), axis=1)
    # p by quadrature over the density of the smallest of K normal scores
    p = quad(lambda x: norm.sf(x) * required * norm.pdf(x - lead) * norm.sf(x - lead) ** (required - 1), -12, 14)[0]
    check = Check(parameters={"L": length, "K": required, "draws": draws})
    check.row(
        "tokens to select",
        predicted=required + (length - required) * p,
        measured=needed.mean(),
        error=needed.std(ddof=1) / np.sqrt(draws),
        repeats=draws,
        because="standard error",
    )
    typical = norm.sf(lead / np.sqrt(2))
    check.rival("$p$ of a typical required token", required + (length - required) * typical)
    check.rival("$(L-K)p$, the required tokens not counted", (length - required) * p)
    return check


@PAPER.claim(
    "hand-made-heads",
    says="The library's rule, with thresholds of ours, names three hand-made heads as intended; a one-hot head is a "
    "Mixer, because three of its four selected tokens carry nothing. Nothing is said about trained heads.",
    basis=basis.Derived("the three names of the abstract; the paper's thresholds were not available"),
    formula=r"F_4=1,\ n_{eff}\approx4;\quad\text{one-hot: }P_4=\tfrac4{64},\ R_4=\tfrac14,\ F_4=0.1",
)
def hand_made_heads(run: Run) -> Check:
    expected = {"retriever": "retriever", "mixer": "mixer", "reset": "reset", "single": "mixer"}
    heads = textbook_heads()
    found = {name: head_features(*head) for name, head in heads.items()}
    numbers = ", ".join(f"{k} {name}" for k, name in enumerate(REGIMES))
    check = Check(note=f"Numbers of regimes: {numbers}.")
    for name, word in expected.items():
        check.same(f"{name} head", predicted=REGIMES.index(word), measured=float(regimes(found[name])), because="rule")
    single, few = found["single"], found["retriever"]
    for name, right, got in (
        ("one-hot P", 4 / 64, single["precision4"]),
        ("one-hot R", 1 / 4, single["recall4"]),
        ("one-hot F", 0.1, single["f4"]),
        ("retriever F", 1.0, few["f4"]),
        ("retriever effective number", 1 / np.sum(heads["retriever"][0] ** 2), few["effective_number"]),
    ):
        check.row(name, predicted=right, measured=got, tolerance=1e-12, because="orthonormal values: counts")
    check.rival("a one-hot head is a Retriever", {"single head": REGIMES.index("retriever"), "one-hot F": 1.0})
    shifted = {f"{name} head": (REGIMES.index(word) + 1) % 3 for name, word in expected.items() if name == "reset"}
    check.rival("mass on the sink alone makes a Retriever", shifted)
    return check
