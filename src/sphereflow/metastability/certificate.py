r"""A certificate that a start is metastable: caps, constants, and the two times between which nothing happens.

Caps $S_q(\varepsilon)=\{x:\langle x,w_q\rangle\ge1-\varepsilon\}$; D the smallest angle between centres;

$$\alpha=\cos\big(D-2\arccos(1-2\varepsilon)\big),\qquad
  \gamma=1-\alpha-8\varepsilon-\beta^{-1}\log(2n^2/\varepsilon),\qquad \text{separated if }\gamma>0.$$

Then for every $0<\lambda<\lambda_{\max}$, with
$\lambda_{\max}=\min\{\tfrac{(\beta-1)\varepsilon}{\beta^2n^2e}e^{(1-\alpha)\beta}(1-e^{-\gamma\beta}),\;
1-\alpha-8\varepsilon-\beta^{-1}\log\tfrac{2n^2}{1-8\varepsilon}\}$ and

$$T_1\le2ne^{8\varepsilon\beta}+\frac{en\lambda\beta^2}{\beta-1},\qquad T_2=\frac\varepsilon ne^{(1-\alpha)\beta},$$

tokens stay in $S_q(2\varepsilon)$ up to $T_2$, and on $[T_1,T_2]$ those of one cap satisfy
$|x_i-x_j|^2\le2e^{-\lambda\beta}$, for SA and for USA. (The published condition on lambda has a logarithm with the
wrong sign; this is the corrected form.)

Given epsilon, who shares a cap is forced: tokens nearer than $D^*-2a$ must, others cannot, with
$D^*=2\arccos(1-2\varepsilon)+\arccos(1-8\varepsilon-\beta^{-1}\log(2n^2/\varepsilon))$ and $a=\arccos(1-\varepsilon)$,
because $2a<D^*-2a$. On the circle the centres are then placed by an exact argument; in higher dimension each group
gets the centre of its smallest cap, which is enough for a certificate but not to exclude one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components

from sphereflow.dynamics import Dynamics, attention_name
from sphereflow.errors import SphereflowError, real_number
from sphereflow.metastability.atoms import Atoms, all_angles, real_tokens
from sphereflow.metastability.circle_caps import circle_separated as circle_separated
from sphereflow.metastability.circle_caps import place_centres
from sphereflow.metastability.coarsen import Rules, advance, begin
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.sphere import tokens

LARGEST_EPSILON = 1 / 16

CapCentre = Callable[[tuple[int, ...]], np.ndarray]  # of the tokens with these numbers


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Certificate(Result):
    """Caps and constants of a start, or the reason why it has none (`reason` is empty for a separated start).

    `centres` (k, d) and `labels` (n,) give the caps; `lambda_max` the end of the open interval of admissible lambda;
    `log_T2` is a logarithm because T2 overflows.
    """

    n: int
    beta: float
    epsilon: float
    reason: str = ""
    centres: Float[np.ndarray, "k d"] = dataclasses.field(default_factory=lambda: np.empty((0, 0)))
    labels: Int[np.ndarray, " n"] = dataclasses.field(default_factory=lambda: np.empty(0, dtype=int))
    alpha: float = math.nan
    gamma: float = math.nan
    lambda_max: float = math.nan
    log_T2: float = math.nan

    @property
    def separated(self) -> bool:
        return not self.reason

    def T1_bound(self, rate: float | None = None) -> float:
        r"""The bound on $T_1$ for a given lambda (half of the interval by default): an upper bound, not the time."""
        self._require()
        rate = self.lambda_max / 2 if rate is None else real_number("lambda", rate, above=0)
        if rate >= self.lambda_max:
            raise SphereflowError(f"lambda must lie below {self.lambda_max:.6g} for this start, got {rate!r}.")
        collapse = 2 * self.n * math.exp(8 * self.epsilon * self.beta)
        return collapse + math.e * self.n * rate * self.beta**2 / (self.beta - 1)

    def height(self, x: Float[np.ndarray, "n d"]) -> float:
        r"""$\min_i\langle x_i,w_{q(i)}\rangle-(1-2\varepsilon)$: positive while all tokens are in their larger caps."""
        self._require()
        chords = np.sum((x - self.centres[self.labels]) ** 2, axis=1)
        return float(2 * self.epsilon - chords.max() / 2)

    def spread(self, x: Float[np.ndarray, "n d"]) -> float:
        """Largest squared distance between two tokens of one cap."""
        self._require()
        groups = [x[self.labels == q] for q in np.unique(self.labels)]
        return max(float(np.max(np.sum((g[:, None] - g[None]) ** 2, axis=-1))) for g in groups)

    def _require(self) -> None:
        if not self.separated:
            raise SphereflowError(f"this start has no certificate: {self.reason}")

    derived = ("separated",)

    def variables(self) -> Variables:
        return {"centre": (("cap", "component"), self.centres), "label": ("token", self.labels)}

    def facts(self) -> list[str]:
        if not self.separated:
            return ["not separated", self.reason]
        return [
            f"{len(self.centres)} caps, epsilon = {self.epsilon:g}, alpha = {self.alpha:.6f}, gamma = {self.gamma:.6f}",
            f"lambda < {self.lambda_max:.6f}, T1 <= {self.T1_bound():.6g}, log T2 = {self.log_T2:.6g}",
        ]


@recorded_call
def certify(x: object, beta: float, epsilon: float | None = None, *, centres: object = None) -> Certificate:
    """Find caps for tokens x of shape (n, d); without `epsilon`, the one with the largest gamma is searched.

    Given `centres` are used as they are (each token goes to the nearest).
    """
    points = real_tokens("x", x)
    real_number("beta", beta, above=0, most=1e12)
    table = all_angles(points)

    @cache  # the same groups come back for many epsilon
    def centre(members: tuple[int, ...]) -> np.ndarray:
        return _cap_centre(points[list(members)])

    if epsilon is not None:
        return _at(points, float(beta), real_number("epsilon", epsilon, above=0), centres, table, centre)
    grid = np.geomspace(1e-6, 0.999 * LARGEST_EPSILON, 80)
    candidates = [_at(points, float(beta), float(e), centres, table, centre) for e in grid]
    separated = [c for c in candidates if c.separated]
    if separated:
        return max(separated, key=lambda c: c.gamma)
    reasons = sorted({c.reason for c in candidates}, key=lambda reason: [c.reason for c in candidates].count(reason))
    return dataclasses.replace(candidates[-1], reason=f"no epsilon in [1e-6, 1/16) works; most often, {reasons[-1]}")


def first_exit(certificate: Certificate, model: str | Dynamics, x: object, *, tol: float = 1e-9) -> float:
    r"""log of the first time at which a token leaves $S_q(2\varepsilon)$; infinite if it never does."""
    points = real_tokens("x", x)
    beta = certificate.beta
    if certificate.height(points) < 0:
        return -math.inf
    rules = Rules(attention_name(model, beta), beta, 1e-3 / math.sqrt(max(beta, 1.0)), tol)
    n = len(points)
    held = {i: [i] for i in range(n)}
    # Tokens that coincide are one atom from the beginning: their pulls on each other must not pass for a balance.
    moment, merges, _ = begin(Atoms(points, np.full(n, 1 / n), np.arange(n)), rules)
    for m in merges:
        held[m.node] = held[m.left] + held[m.right]

    def height(positions: np.ndarray) -> float:
        spread_out = np.empty_like(points)
        for row, name in enumerate(moment.atoms.names):
            spread_out[held[int(name)]] = positions[row]
        return certificate.height(spread_out)

    while len(moment.atoms) > 1 and moment.outcome is None:
        later, merges, _ = advance(moment, rules, stop=height)
        if not merges and height(later.atoms.positions) < 1e-9:
            return later.log_t
        for m in merges:
            held[m.node] = held[m.left] + held[m.right]
        moment = later
    return math.inf


def _at(x: np.ndarray, beta: float, epsilon: float, given: object, table: np.ndarray, centre: CapCentre) -> Certificate:
    """The certificate at one epsilon."""
    n = len(x)
    nothing = Certificate(n, beta, epsilon)
    if beta <= 1:
        return dataclasses.replace(nothing, reason=f"beta must exceed 1, it is {beta:g}.")
    if epsilon >= LARGEST_EPSILON:
        return dataclasses.replace(nothing, reason=f"epsilon must lie below 1/16, it is {epsilon:g}.")
    level = 1 - 8 * epsilon - math.log(2 * n**2 / epsilon) / beta
    if level <= -1:
        return dataclasses.replace(nothing, reason="beta is too small for this many tokens at any separation.")
    reach = 2 * math.acos(1 - 2 * epsilon) + math.acos(min(level, 1.0))
    if given is not None:
        centres = np.asarray(tokens(given, "centres"), dtype=float)
        labels = np.argmax(x @ centres.T, axis=1)
    else:
        placed = _find_caps(x, epsilon, reach, table, centre)
        if isinstance(placed, str):
            return dataclasses.replace(nothing, reason=placed)
        centres, labels = placed
    outside = float(np.max(np.sum((x - centres[labels]) ** 2, axis=1)) / 2)
    if outside > epsilon * (1 + 1e-9):
        return dataclasses.replace(nothing, reason=f"a token is outside its cap (1 - <x,w> = {outside:.3g}).")
    return _constants(nothing, centres, labels)


def _constants(nothing: Certificate, centres: np.ndarray, labels: np.ndarray) -> Certificate:
    n, beta, epsilon = nothing.n, nothing.beta, nothing.epsilon
    alpha = 0.0
    if len(centres) > 1:
        nearest = float(all_angles(centres).min())
        cap = 2 * math.acos(1 - 2 * epsilon)
        alpha = math.cos(nearest - cap) if nearest >= cap else 1.0
    gamma = 1 - alpha - 8 * epsilon - math.log(2 * n**2 / epsilon) / beta
    if gamma <= 0:
        return dataclasses.replace(
            nothing, alpha=alpha, gamma=gamma, reason=f"the caps are too close: gamma = {gamma:.3g} is not positive."
        )
    log_first = math.log((beta - 1) * epsilon / (beta**2 * n**2)) - 1 + (1 - alpha) * beta
    log_first += math.log(-math.expm1(-gamma * beta))
    second = 1 - alpha - 8 * epsilon - math.log(2 * n**2 / (1 - 8 * epsilon)) / beta
    lambda_max = min(math.exp(min(log_first, 700.0)), second)
    log_T2 = math.log(epsilon / n) + (1 - alpha) * beta
    return dataclasses.replace(
        nothing, centres=centres, labels=labels, alpha=alpha, gamma=gamma, lambda_max=lambda_max, log_T2=log_T2
    )


def _find_caps(
    x: np.ndarray, epsilon: float, reach: float, table: np.ndarray, centre: CapCentre
) -> tuple[np.ndarray, np.ndarray] | str:
    """Groups forced by epsilon and a centre for each, or the reason why there are none."""
    half = math.acos(1 - epsilon)
    if x.shape[1] == 2:
        placed = place_centres(np.arctan2(x[:, 1], x[:, 0]), half, reach)
        if isinstance(placed, str):
            return placed
        theta, labels = placed
        return np.stack([np.cos(theta), np.sin(theta)], axis=1), labels
    count, labels = connected_components(table < reach - 2 * half, directed=False)
    if count == 1 and reach - 2 * half > math.pi:
        return "no two caps can be far enough apart."
    return np.stack([centre(tuple(np.flatnonzero(labels == q).tolist())) for q in range(count)]), labels


def _cap_centre(x: np.ndarray) -> np.ndarray:
    """Centre of nearly the smallest cap around the points: steps of shrinking length towards the farthest point."""
    centre = x.mean(axis=0)
    centre /= np.linalg.norm(centre)
    best, best_height = centre, float((x @ centre).min())
    for k in range(1, 60 if len(x) > 2 else 1):
        farthest = x[np.argmin(x @ centre)]
        centre = centre + (farthest - centre) / (k + 1)
        centre = centre / np.linalg.norm(centre)
        height = float((x @ centre).min())
        if height > best_height:
            best, best_height = centre, height
    return best
