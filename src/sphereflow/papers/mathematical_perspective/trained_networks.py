"""Tokens of trained networks beside the statement that tokens gather: recordings that come with the package."""

from __future__ import annotations

import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.llm import Recording, recording
from sphereflow.papers.mathematical_perspective.paper import PAPER

DECODERS, ENCODERS = ("smollm2", "gemma3-270m", "stories15m"), ("minilm",)
_D = 64  # of the null; the chance that one mean cosine exceeds another is one half in any dimension


def documents_with_rise(made: Recording, name: str) -> int:
    """In how many documents a number of the residual stream is larger after the last layer than before the first."""
    rows = made.stream[name]
    return int(np.sum(rows[:, -1] > rows[:, 0]))


def documents_with_fall(made: Recording, name: str) -> int:
    """In how many it is smaller."""
    rows = made.stream[name]
    return int(np.sum(rows[:, -1] < rows[:, 0]))


def rises_of_normal_vectors(made: Recording, rng: np.random.Generator) -> int:
    """The same count for mean cosines of as many normal vectors, drawn anew for the first and the last state."""
    n = made.window - 1
    x = rng.normal(size=(made.shape[0], 2, n, _D))
    total = np.sum(x / np.linalg.norm(x, axis=-1, keepdims=True), axis=-2)
    mean = (np.sum(total**2, axis=-1) - n) / (n * (n - 1))
    return int(np.sum(mean[:, 1] > mean[:, 0]))


@PAPER.claim(
    "tokens-of-trained-networks",
    says="Trained networks, eight documents each: two tokens are more alike on average after the last layer than "
    "before the first, in every document of three decoders and one encoder. In the decoders it is not by clusters: "
    "with the mean direction taken out, no document has fewer clusters (cosines above .9) after the last layer than "
    "before the first. In the encoder every document has fewer.",
    basis=basis.Extension("the abstract says that clusters emerge; trained networks have more than attention"),
    formula=r"\bar c=\frac{2}{n(n-1)}\sum_{i<j}\langle u_i,u_j\rangle,\quad u_i=x_i/|x_i|",
)
def tokens_of_trained_networks(run: Run) -> Check:
    check = Check(
        parameters={"documents": 8, "tokens": 256},
        note="Windows of Python's help texts, without the first token. Written after a look at three of the four "
        "recordings, before that of Gemma was made; other texts are still to be tried. Clusters before the first layer "
        "are repeated words, which the decoders tell apart later.",
    )
    rng = np.random.default_rng(run.seed)
    null: dict[str, float] = {}
    gather: dict[str, float] = {}
    share: dict[str, float] = {}
    for model in (*DECODERS, *ENCODERS):
        made = recording(model)
        documents = made.shape[0]
        rises, fewer = f"{model}: the mean cosine rises", f"{model}: fewer clusters without the mean"
        check.same(rises, predicted=documents, measured=documents_with_rise(made, "mean_cosine"), because="a count")
        null[rises] = rises_of_normal_vectors(made, rng)
        found = documents_with_fall(made, "centred_clusters")
        check.same(fewer, predicted=0 if model in DECODERS else documents, measured=found, because="a count")
        (gather if model in DECODERS else share)[fewer] = documents if model in DECODERS else 0
    check.null("normal vectors instead of tokens", null)
    check.rival("decoders gather their tokens in clusters, as attention alone does", gather)
    check.rival("the encoder, too, only adds a direction that all tokens share", share)
    return check
