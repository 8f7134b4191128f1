"""Exact statements: perfect separations, invariances, length, deletion errors, ranking competition, regimes."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.llm.heads.geometry import descending, separation
from sphereflow.llm.heads.regimes import REGIMES, head_features, regimes
from sphereflow.llm.heads.synthetic import textbook_heads
from sphereflow.papers.attention_geometry import PAPER


@PAPER.claim(
    "exact-separation",
    statement="Orthogonal values, equally correlated values of one norm, and multiples of one direction are separated "
    "perfectly for every N: imperfect separation needs unequal similarities.",
    source="exact constructions",
    formula=r"P_N=R_N=F_N=1\quad(1\le N<L)",
    falsifier="F below 1 for any N; distances compared after the square root give .987 at N = 119",
)
def exact_separation(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed)
    length = 120
    weights = np.sort(rng.exponential(size=length) ** 3)[::-1]
    weights /= weights.sum()
    sizes = tuple(range(1, length))
    lowest, labels = [], []
    line = np.outer(np.ones(length), rng.standard_normal(8))
    for name, values in {
        "orthogonal, any norms": np.diag(rng.uniform(0.1, 3.0, length)),
        "equicorrelated, c = .3": np.linalg.cholesky(0.3 + 0.7 * np.eye(length)),
        "equicorrelated, c = .8": np.linalg.cholesky(0.8 + 0.2 * np.eye(length)),
        "one direction": line,
    }.items():
        lowest.append(float(separation(weights, values, sizes).f.min()))
        labels.append(name)
    return agreement(
        np.ones(4),
        lowest,
        absolute=0.0,
        because="P and R are counts: they are exactly 1 when the order is right",
        labels=tuple(labels),
        parameters={"L": length},
    )


@PAPER.claim(
    "half-space",
    statement="A token is closer to the sum than the sum is long exactly when its cosine with the sum passes half the "
    "ratio of the lengths; tokens of vanishing weight sit at that distance.",
    source="half-space criterion",
    formula=r"D_i<\|s\|\iff\cos(s,y_i)>\frac{\|y_i\|}{2\|s\|}",
    falsifier="one token on the wrong side",
)
def half_space(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 1)
    y = rng.exponential(size=(200, 64, 1)) ** 2 * rng.standard_normal((200, 64, 6))
    s = y[:, :5].sum(axis=1, keepdims=True)
    lengths, total = np.linalg.norm(y, axis=-1), np.linalg.norm(s, axis=-1)
    closer = np.linalg.norm(y - s, axis=-1) < total
    passes = np.sum(y * s, axis=-1) / (lengths * total) > lengths / (2 * total)
    return agreement(
        0.0, float(np.sum(closer != passes)), absolute=0.0, because="algebra; no token lies on the boundary"
    )


@PAPER.claim(
    "invariances",
    statement="Rotating or scaling the values and permuting unselected tokens change nothing; translating them does.",
    source="invariances",
    falsifier="a changed P, R, F under a rotation, or none under a translation",
)
def invariances(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 2)
    weights = np.sort(rng.exponential(size=(60, 80)), axis=1)[:, ::-1].copy()
    values = rng.standard_normal((60, 80, 6))
    sizes = (2, 4, 8)
    base = separation(weights, values, sizes)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    shuffle = np.concatenate([np.arange(8), 8 + rng.permutation(72)])
    cases = {
        "rotation": (weights, values @ turn, 1.0),
        "scaling by 3": (weights, 3 * values, 3.0),
        "permutation of unselected": (weights[:, shuffle], values[:, shuffle], 1.0),
    }
    measured = []
    for alpha, v, scale in cases.values():
        found = separation(alpha, v, sizes)
        metrics = max(np.abs(getattr(found, m) - getattr(base, m)).max() for m in ("precision", "recall", "f"))
        measured.append(max(float(metrics), float(np.abs(found.margin / scale - base.margin).max())))
    moved = float(np.mean(separation(weights, values + 1.0, sizes).f != base.f))
    return agreement(
        [0, 0, 0, 1],
        [*measured, float(moved > 0.1)],
        absolute=1e-12,
        because="symmetries of distances; rounding",
        labels=(*cases, "translation changes F"),
        note=f"A translation changes F in {moved:.0%} of the cases.",
    )


@PAPER.claim(
    "sequence-length",
    statement="Adding tokens of low weight to a head never raises precision or recall.",
    source="dependence on sequence length",
    formula=r"L\mapsto P_N,\ R_N\ \text{non-increasing}",
    falsifier="a P or R that grows with L",
)
def sequence_length(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 3)
    weights = np.concatenate([rng.uniform(1, 2, (100, 8)), rng.uniform(0, 0.9, (100, 120))], axis=1)
    values = rng.standard_normal((100, 128, 8))
    curves = np.array(
        [
            [
                getattr(separation(weights[:, :length], values[:, :length], (2, 4, 8)), m)
                for m in ("precision", "recall")
            ]
            for length in (12, 24, 48, 96, 128)
        ]
    )
    rise = np.maximum(np.diff(curves, axis=0), 0).max(axis=(0, 2, 3))
    return at_most(
        np.zeros(2), rise, because="more unselected tokens: exact", labels=("P", "R"), parameters={"heads": 100}
    )


@PAPER.claim(
    "deletion",
    statement="Dropping unselected tokens costs their weighted mean; the bound on this cost is smallest when "
    "tokens are ranked by contribution.",
    source="deletion and renormalisation errors",
    formula=r"e_{del}=(1-M_S)\mu_T,\quad e_{ren}=(1-M_S)(\mu_T-\mu_S),\quad\|e_{del}\|\le\sum_{j\in T}\|y_j\|",
    falsifier="an identity that is off, or another ranking with a smaller bound",
)
def deletion(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 4)
    identity, excess, better = np.zeros(2), 0.0, 0
    for _ in range(60):
        weights = rng.exponential(size=40)
        weights /= weights.sum()
        values = rng.exponential(size=(40, 1)) * rng.standard_normal((40, 6))
        y = weights[:, None] * values
        order = descending(weights)
        chosen, rest = order[:6], order[6:]
        mass, z, s = weights[chosen].sum(), y.sum(axis=0), y[chosen].sum(axis=0)
        inside = np.average(values[chosen], axis=0, weights=weights[chosen])
        outside = np.average(values[rest], axis=0, weights=weights[rest])
        identity = np.maximum(
            identity,
            [
                np.abs((z - s) - (1 - mass) * outside).max(),
                np.abs((z - s / mass) - (1 - mass) * (outside - inside)).max(),
            ],
        )
        lengths = np.linalg.norm(y, axis=-1)
        excess = max(excess, float(np.linalg.norm(z - s) - lengths[rest].sum()))
        least = np.sort(lengths)[:-6].sum()  # bound of the ranking by contribution
        better += sum(lengths[rng.permutation(40)[6:]].sum() < least - 1e-12 for _ in range(20))
    return at_most(
        [0.0, 0, 0, 0],
        [*identity, excess, float(better)],
        slack=1e-12,
        because="identities and a minimum; rounding",
        labels=("deletion error", "renormalisation error", "excess over the bound", "random sets with a smaller bound"),
    )


@PAPER.claim(
    "competition",
    statement="To recover K required tokens among L one must select K + (L - K) p tokens on average, p the "
    "chance that a competitor outranks the weakest required one.",
    source="ranking competition",
    formula=r"E[N_{rec}]=K+(L-K)p",
    falsifier="an average outside its error bar",
)
def competition(run: Run) -> Measurement:
    rng = np.random.default_rng(run.seed + 5)
    length, required, lead = 200, 4, 1.5
    draws = 4000 if run.quick else 100_000
    weakest = rng.normal(lead, 1, (draws, required)).min(axis=1)
    needed = required + np.sum(rng.standard_normal((draws, length - required)) > weakest[:, None], axis=1)
    # p by quadrature over the density of the smallest of K normal scores
    p = quad(lambda x: norm.sf(x) * required * norm.pdf(x - lead) * norm.sf(x - lead) ** (required - 1), -12, 14)[0]
    return agreement(
        required + (length - required) * p,
        needed.mean(),
        absolute=4 * needed.std() / np.sqrt(draws),
        because="four standard errors",
        parameters={"L": length, "K": required, "draws": draws},
    )


@PAPER.claim(
    "regimes",
    statement="The rule names a head with four distinct weights a Retriever, a uniform one a Mixer, one that "
    "rests on a short sink Reset; a one-hot head is a Mixer, because three of its four selected tokens carry nothing.",
    source="three regimes of heads (thresholds are ours)",
    formula=r"F_4=1,\ n_{eff}\approx4;\quad\text{one-hot: }P_4=\tfrac4{64},\ R_4=\tfrac14,\ F_4=0.1",
    falsifier="another name, or a one-hot head with F of 1",
)
def hand_made_regimes(run: Run) -> Measurement:
    expected = {"retriever": "retriever", "mixer": "mixer", "reset": "reset", "single": "mixer"}
    found = {name: head_features(*head) for name, head in textbook_heads().items()}
    names = [float(regimes(found[name])) for name in expected]
    single, few = found["single"], found["retriever"]
    weights = textbook_heads()["retriever"][0]
    return agreement(
        [*(float(REGIMES.index(word)) for word in expected.values()), 4 / 64, 1 / 4, 0.1, 1.0, 1 / np.sum(weights**2)],
        [
            *names,
            *(float(single[k]) for k in ("precision4", "recall4", "f4")),
            float(few["f4"]),
            float(few["effective_number"]),
        ],
        absolute=1e-12,
        because="hand-made heads with orthonormal values: counts",
        labels=(*expected, "one-hot P", "one-hot R", "one-hot F", "retriever F", "retriever effective number"),
        note=f"Numbers of regimes: {', '.join(f'{k} {name}' for k, name in enumerate(REGIMES))}.",
    )


@PAPER.claim(
    "small-n",
    statement="Where separation is strongest depends on the profile of the head: two selected tokens in one "
    "synthetic head, sixteen in another.",
    source="'strongest non-trivial separability for N about 1-4'",
    formula=r"\operatorname{arg\,max}_NF_N=2\ (\lambda=.5,c=.5),\quad16\ (\lambda=.05,c=0)",
    falsifier="both heads with the same best N",
)
def small_n(run: Run) -> Measurement:
    from sphereflow.papers.attention_geometry.sink import heads_of

    short, long = heads_of(run, 0.5, 0.1, 0.5), heads_of(run, 0.05, 0.1, 0.0)
    gaps, errors, labels = [], [], []
    for name, head, best in (("short", short, 0), ("long", long, 3)):
        for other in (k for k in range(len(head.sizes)) if k != best):
            difference = head.f[:, best] - head.f[:, other]
            gaps.append(difference.mean())
            errors.append(difference.std(ddof=1) / np.sqrt(len(difference)))
            labels.append(f"F at {head.sizes[best]} minus F at {head.sizes[other]}, similarity {name}")
    return at_least(
        np.zeros(len(gaps)),
        gaps,
        slack=2 * np.array(errors),
        labels=tuple(labels),
        because="two standard errors of the paired difference over heads",
        note="The printed statement of 1-4 tokens is about LLaMA-2-7B; it is not a law. Report the whole curve.",
    )
