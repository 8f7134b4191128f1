r"""Second and third cumulants at all positions: how they depend on the target and on both sources.

$$|\mathrm{Cov}(e^{i\theta_i(t)},e^{i\theta_j(0)})|\le\frac Ki\,c\,e^{2\sqrt{cY}},\qquad c=a_1t,\quad
  Y=\log\frac ij+\lambda,\quad K=\frac\lambda{1-e^{-\lambda}},$$

from $\psi_c(y)=\sqrt{c/y}\,I_1(2\sqrt{cy})\le ce^{2\sqrt{cy}}$: the form of the transcribed bound, with constants. A
token sees the tokens before it only, so one run has the cumulants of every target.
"""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, mean
from sphereflow.papers.lost_in_the_middle import PAPER, reference
from sphereflow.papers.lost_in_the_middle.cumulants import PHASES, SIZES
from sphereflow.papers.lost_in_the_middle.monte_carlo import EXTRAPOLATED, extrapolated, padded_length
from sphereflow.papers.lost_in_the_middle.sources import LEAN
from sphereflow.papers.lost_in_the_middle.volterra import MODES
from sphereflow.retrieval.circle import CausalCircle
from sphereflow.retrieval.influence import circle_advance
from sphereflow.retrieval.linear import two_time_matrix, weight_matrix

WAVES = (2, -1, -1)
# Sources and targets of 20 tokens; with 60 tokens three times as far along. Corrections grow like one over the place of
# the source: from the first tokens nothing can be extrapolated.
CASES = (((4, 8), (12, 16, 20)), ((3, 10), (13, 20)))


def samples(n: int, sources: tuple[int, int], targets: tuple[int, ...], repeats: int, seed: int) -> Estimate:
    """N times the second cumulants with the first source, then N^2 times the third ones, for all targets."""
    rng = np.random.default_rng([seed, n, *sources])
    j, k = (source - 1 for source in sources)
    start = np.tile(rng.uniform(0, 2 * np.pi, (repeats, 1, 1, n)), (1, PHASES, PHASES, 1))
    turns = 2 * np.pi * np.arange(PHASES) / PHASES
    start[..., j] += turns[:, None]
    start[..., k] += turns
    advance = circle_advance(CausalCircle(1.0, 1.0, length=n, modes=MODES), 1.0, padded_length=padded_length(n))
    last = advance(start.reshape(-1, n)).reshape(start.shape)[..., np.array(targets) - 1]
    first, second = start[..., j : j + 1], start[..., k : k + 1]
    pair = np.cos(last - first).mean(axis=(1, 2))
    triple = np.cos(WAVES[0] * last + WAVES[1] * first + WAVES[2] * second).mean(axis=(1, 2))
    return mean(np.concatenate([n * pair, n**2 * triple], axis=1))


def predicted(
    n: int, sources: tuple[int, int], targets: tuple[int, ...], pairings: tuple[int, int] = (1, 1)
) -> np.ndarray:
    """The same by the linear equations, for n tokens."""
    known = reference.propagator(n, 1.0, reference.rates(1.0)[0])
    pair = [n * known[i - 1, sources[0] - 1] for i in targets]
    return np.array(pair + [reference.third_cumulant(n, sources, WAVES, pairings=pairings, target=i) for i in targets])


@PAPER.claim(
    "cumulants-at-all-positions",
    says="In simulated decoders the cumulants of a token with one and with two sources are those of the linear "
    "equations, for targets and sources at several places. Over all places of 300 tokens "
    "the second one stays below $\\frac Ki\\,c\\,e^{2\\sqrt{cY}}$, and not below the same without the root.",
    basis=basis.Theorem("cumulant bounds of order 1/i and 1/(ij); constants derived here", via=LEAN),
    formula=r"|\kappa_2|\le\frac Ki\,c\,e^{2\sqrt{cY}},\qquad Y=\log\frac ij+\lambda,\quad c=a_1t",
)
def cumulants_at_all_positions(run: Run) -> Check:
    repeats = 60 if run.quick else 2000
    check = Check(parameters={"beta": 1, "slope": 1, "t": 1, "N": "20 and 60", "environments": repeats})
    rivals: dict[str, dict[str, float]] = {name: {} for name in ("last", "pairing", "hop")}
    grown = reference.rates(1.0)[0]
    for sources, targets in CASES:
        first, second = sources
        places = [
            (n, (first * n // 20, second * n // 20), tuple(target * n // 20 for target in targets)) for n in SIZES
        ]
        small, large = (samples(*place, repeats, run.seed) for place in places)
        low, high = (predicted(*place) for place in places)
        one_low, one_high = (predicted(*place, pairings=(1, 0)) for place in places)
        rows = [f"$N\\kappa_2$, source {first}, target {target} of 20" for target in targets]
        rows += [f"$N^2\\kappa_3$, sources {first} and {second}, target {target} of 20" for target in targets]
        value, error, later = extrapolated(small, large)
        exact = (3 * high - low) / 2
        check.series(
            rows,
            predicted=exact,
            measured=value,
            error=error,
            repeats=repeats,
            tolerance=later,
            because=EXTRAPOLATED,
        )
        count = len(targets)
        # Every target like the last one; one pairing only; direct influence only.
        rivals["last"] |= {row: float(exact[count - 1]) for row in rows[: count - 1]}
        rivals["pairing"] |= dict(zip(rows[count:], ((3 * one_high - one_low) / 2)[count:].tolist(), strict=True))
        n, (source, _), seen = places[1]
        direct = [n * grown * reference.attention_matrix(n, 1.0)[target - 1, source - 1] for target in seen]
        rivals["hop"] |= dict(zip(rows[:count], map(float, direct), strict=True))
    n, bound = 300, "largest second cumulant over its bound, all pairs of 300 tokens"
    matrix = np.abs(two_time_matrix(weight_matrix(n, 1.0), grown))
    i, j = np.tril_indices(n, -1)
    plain = (i + 1) * matrix[i, j] / (grown / (1 - np.exp(-1.0)))
    root = np.exp(2 * np.sqrt(grown * (np.log((i + 1) / (j + 1)) + 1)))
    check.at_most(bound, bound=1.0, measured=(plain / root).max(), relative=1e-12, because="rounding")
    check.rival("every target like the last", rivals["last"])
    check.rival("only the pairing of a token with the first source", rivals["pairing"])
    check.rival("direct influence only", rivals["hop"])
    check.null("the bound without the root", {bound: plain.max()})
    return check
