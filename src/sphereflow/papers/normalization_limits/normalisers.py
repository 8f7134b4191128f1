r"""What each normaliser does: the weight of one key that stands out, distances at every share $N/L$, $\|J\|_2$."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from scipy.special import expit, ndtr, ndtri

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.normalisation import (
    Entmax,
    Normaliser,
    ScalableSoftmax,
    Sigmoid,
    Softmax,
    TopK,
    compare_normalisers,
    expected_separable_fraction,
    jacobian_norm,
)
from sphereflow.papers.normalization_limits import PAPER
from sphereflow.papers.normalization_limits.separability import uniform_tokens

_ROOM = 64
_COMPARED: dict[str, Normaliser] = {
    "softmax": Softmax(),
    "scalable softmax": ScalableSoftmax(0.5),
    "sparsemax": Entmax(2.0),
    "entmax 1.5": Entmax(1.5),
    "top-k": TopK(8),
    "sigmoid": Sigmoid(bias=1.0),
}


def planted_weights(gap: float, length: int) -> dict[str, float]:
    """Weight, over the sum of all, of one logit that is `gap` above L - 1 equal ones, for each normaliser."""
    others = length - 1
    # Entmax of order 1.5: (g/2 + u)^2 + (L - 1) u^2 = 1 for the common root u of the others.
    u = (-gap + math.sqrt(gap**2 - 4 * length * (gap**2 / 4 - 1))) / (2 * length)
    high, low = expit(gap - 1.0), expit(-1.0)
    return {
        "softmax": math.exp(gap) / (math.exp(gap) + others),
        "scalable softmax": length ** (gap / 2) / (length ** (gap / 2) + others),
        "sparsemax": min(1.0, gap + (1 - gap) / length),
        "entmax 1.5": (gap / 2 + u) ** 2,
        "top-k": math.exp(gap) / (math.exp(gap) + 7),
        "sigmoid": high / (high + others * low),
    }


@PAPER.claim(
    "normalisers-weights",
    says="A logit that stands a fixed gap above the others loses its weight in softmax and sigmoid as the context "
    "grows; with logits scaled by $\\ln L$ it keeps one half at the critical gap, and sparsemax, entmax and top-k "
    "leave it a share that tends to no zero at any gap.",
    basis=basis.Derived("one logit above $L-1$ equal ones"),
    formula=r"\frac{L^{\varsigma g}}{L^{\varsigma g}+L-1},\quad g+\frac{1-g}L,\quad\frac{e^g}{e^g+k-1},\dots",
)
def normalisers_weights(run: Run) -> Check:
    check = Check(parameters={"k": 8, "bias of the sigmoid": 1, "scale": 0.5})
    plain, short = {}, {}
    # The gap 2 is critical for the scale 1/2; entmax of order 1.5 gives the key everything there.
    for gap, length in ((0.7, 16), (0.7, 64), (2.0, 16), (2.0, 64)):
        right = planted_weights(gap, length)
        # Masked keys have no weight: contexts of every length share one program.
        planted = np.r_[gap, np.zeros(length - 1), np.full(_ROOM - length, -np.inf)]
        for name, normaliser in _COMPARED.items():
            raw = np.asarray(normaliser.weights(jnp.asarray(planted)))
            label = f"{name}, $g={gap:g}$, $L={length}$"
            because = "rounding, and a bisection to the last bit"
            check.row(label, predicted=right[name], measured=raw[0] / raw.sum(), relative=1e-9, because=because)
            plain[label], short[label] = right["softmax"], planted_weights(gap, 16)[name]
    check.rival("all as softmax", {k: v for k, v in plain.items() if not k.startswith("softmax")})
    check.rival("no dependence on the length", {k: v for k, v in short.items() if "=64" in k})
    return check


@PAPER.claim(
    "normalisers-sensitivity",
    says=r"At two tied logits far above the others the norm of the Jacobian is $1/(2T)$ for softmax and top-k, "
    r"$\varsigma\ln L/2$ for scalable softmax, $1/(\sqrt2T)$ for entmax of order 1.5, $1/T$ for sparsemax; sigmoid "
    r"never exceeds $1/(4T)$.",
    basis=basis.Derived("the Jacobian of each map, and differences of its weights"),
    formula=r"\|J\|_2=\tfrac1{2T},\ \tfrac{\varsigma\ln L}2,\ \tfrac1{\sqrt2T},\ \tfrac1T,\ \tfrac1{4T}",
)
def normalisers_sensitivity(run: Run) -> Check:
    t, length = 0.2, 64
    cases: dict[str, tuple[Normaliser, float]] = {
        "softmax": (Softmax(t), 0.5 / t),
        "scalable softmax": (ScalableSoftmax(2.0), math.log(length)),
        "entmax 1.5": (Entmax(1.5, t), math.sqrt(0.5) / t),
        "sparsemax": (Entmax(2.0, t), 1 / t),
        "top-k": (TopK(8, t), 0.5 / t),
        "sigmoid": (Sigmoid(0.0, t), 0.25 / t),
    }
    logits = np.r_[0.0, 0.0, np.full(length - 2, -60.0)]
    push = np.r_[1.0, -1.0, np.zeros(length - 2)] * 1e-5
    check = Check(parameters={"T": t, "L": length})
    for name, (normaliser, right) in cases.items():
        got = float(jacobian_norm(normaliser, logits))
        check.row(f"norm, {name}", predicted=right, measured=got, relative=1e-9, because="rounding")
        ahead, back = (np.asarray(normaliser.weights(jnp.asarray(logits + sign * push))) for sign in (1, -1))
        moved = np.linalg.norm(ahead - back) / np.linalg.norm(2 * push)
        because = "rounding of a difference of weights, 1e-16 over 1e-5, and its square"
        check.row(f"difference, {name}", predicted=right, measured=moved, relative=1e-7, because=because)
    check.rival("$1/(2T)$ for all", {row.name: 0.5 / t for row in check.rows})
    check.rival("$1/T$ for both sparse maps", {"norm, entmax 1.5": 1 / t, "difference, entmax 1.5": 1 / t})
    return check


@PAPER.claim(
    "normalisers-geometry",
    says="With logits and tokens drawn independently, the squared distance of each normaliser is $\\sum\\alpha^2$ "
    "at every share of selected keys, and its separable keys are those of the exact law for its weights.",
    basis=basis.Derived("isotropic tokens; keys of weight zero are at the distance of the origin"),
    formula=r"E\,\tilde d^2=\sum_i\alpha_i^2,\qquad E[N_s/N\mid\alpha]",
)
def normalisers_geometry(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    length, d, n, draws = 64, 8, 8, 600 if run.quick else 20_000
    logits, x = rng.normal(size=length), uniform_tokens(rng, draws, length, d)
    rows = np.broadcast_to(logits, (draws, length))
    found = compare_normalisers(rows, x, _COMPARED, counts=(n,))
    check = Check(parameters={"L": length, "d": d, "N": n, "draws": draws})
    same, dropped = {}, {}
    for k, (name, normaliser) in enumerate(_COMPARED.items()):
        alpha = np.asarray(normaliser.weights(jnp.asarray(logits)))
        alpha = alpha / alpha.sum()
        for share in (0.125, 0.5):
            got, label = mean(found.distance[k, :, round(share * length) - 1] ** 2), f"{name}, $N={share:g}L$"
            right, because = float(np.sum(alpha**2)), "standard error of the draws"
            check.row(label, predicted=right, measured=got.value, error=got.error, repeats=draws, because=because)
            same[label] = float(1 / found.effective_number[0, 0])
        got, label = mean(found.separable[k, :, 0]), f"separable, {name}"
        right = float(expected_separable_fraction(alpha, d, (n,))[0])
        check.row(label, predicted=right, measured=got.value, error=got.error, repeats=draws, because=because)
        if name == "top-k":
            dropped[label] = 1.0
    check.rival("distances of softmax for all", {k: v for k, v in same.items() if not k.startswith("softmax")})
    check.rival("keys without weight are never nearest", dropped)
    return check


@PAPER.claim(
    "distance-at-every-share",
    says="For normal logits and tokens with a common cosine the distance has one curve in the share $p=N/L$: it "
    r"falls to its floor at $p=\Phi(-s/T)$ and rises again. Top-k moves the curve to the left, scaling by $\ln L$ "
    "further with the length.",
    basis=basis.Derived("the closed form for a common cosine, with the law of normal logits"),
    formula=r"\tilde d^2\to c\,(1-2m_p)^2+(1-c)\frac{e^{s^2/T^2}}L,\quad m_p=\Phi\big(s/T-\Phi^{-1}(1-p)\big)",
)
def distance_at_every_share(run: Run) -> Check:
    rng = np.random.default_rng(run.seed)
    length, d, cosine, draws = 2048, 32, 0.5, 16 if run.quick else 100
    shares = (0.01, 0.06, 0.16, 0.3, 0.5, 0.8, 0.99)
    logits = rng.normal(size=(draws, length))
    x = math.sqrt(1 - cosine) * uniform_tokens(rng, draws, length, d)
    x = np.concatenate([np.full((draws, length, 1), math.sqrt(cosine)), x], axis=-1)
    scaled = 0.2 * math.log(length)
    # Name: the map, the width s/T of its logits, the share of keys it keeps.
    cases: dict[str, tuple[Normaliser, float, float]] = {
        "softmax, $s/T=0.5$": (Softmax(2.0), 0.5, 1.0),
        "softmax, $s/T=1$": (Softmax(1.0), 1.0, 1.0),
        "scalable softmax": (ScalableSoftmax(0.2), scaled, 1.0),
        "top-k, $k=L/4$": (TopK(length // 4), 1.0, 0.25),
    }
    found = compare_normalisers(logits, x, {name: case[0] for name, case in cases.items()}, counts=(2,))
    check = Check(parameters={"L": length, "d": d, "c": cosine, "draws": draws})
    uniform: dict[str, float] = {}
    other: dict[str, float] = {}
    for k, (name, (_, width, kept)) in enumerate(cases.items()):
        whole = ndtr(width + ndtri(kept))
        floor = (1 - cosine) * math.exp(width**2) / length * ndtr(2 * width + ndtri(kept)) / whole**2
        for share in shares:
            mass = ndtr(width + ndtri(min(share, kept))) / whole
            got = mean(found.distance[k, :, round(share * length) - 1] ** 2)
            label = f"{name}, $p={share:g}$"
            check.row(
                label,
                predicted=cosine * (1 - 2 * mass) ** 2 + floor,
                measured=got.value,
                error=got.error,
                repeats=draws,
                tolerance=2e-3,
                because="standard error, the rounded share and the spread of the mass around its limit",
            )
            uniform[label] = cosine * (1 - 2 * min(share / kept, 1.0)) ** 2 + floor
            other[label] = cosine * (1 - 2 * ndtr(1.0 + ndtri(share))) ** 2 + floor
        half = mean(found.half_mass[k])
        because = "standard error, and one key"
        right = float(ndtr(ndtri(0.5 * whole) - width))
        row = f"share with half of the weight, {name}"
        check.row(
            row, predicted=right, measured=half.value, error=half.error, repeats=draws, tolerance=2e-3, because=because
        )
        uniform[row] = kept / 2
    check.rival("lowest where half of the keys are selected", uniform)
    check.rival("one curve for all normalisers", {k: v for k, v in other.items() if "s/T=1" not in k})
    return check
