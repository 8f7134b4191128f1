r"""Kinds of heads found without being told: Gaussian mixtures of 1 to 8 components, chosen by BIC.

Features of a head, means over all queries and documents, then standardised over heads: $\log\alpha_0$,
$\log n_{eff}$, $F_4$, $\cos(v_0,z)$, $\cos(v_t,z)$, $\log(|z|/r)$. Heads that do not see the sink are not sorted. The
partition is compared, by adjusted Rand index, with the rule (Retriever, Mixer, Reset) and with the partition that the
other half of the documents gives (even against odd, the number of components kept).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.llm.heads.regimes import REGIMES, adjusted_rand, gaussian_mixture, regimes
from sphereflow.llm.recorded.recorder import Recording, checked_recording
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed

FEATURES = ("log sink mass", "log effective number", "F4", "sink and output", "last and output", "log output ratio")


@dataclass(frozen=True, eq=False, repr=False)
class FoundRegimes(Result):
    """Heads sorted by a mixture and by the rule.

    `bic` belongs to 1, 2, ... components; `components` are the labels of the best number, `three` those of three
    components, `rule` indices into `REGIMES`. `agreement` is the adjusted Rand index of components and rule,
    `three_agreement` that of three components and the rule; `halves` and `rule_halves` those between two halves of the
    documents (NaN with one document).
    """

    heads: Int[np.ndarray, "head 2"]
    features: Float[np.ndarray, "head feature"]
    bic: Float[np.ndarray, " k"]
    components: Int[np.ndarray, " head"]
    three: Int[np.ndarray, " head"]
    rule: Int[np.ndarray, " head"]
    agreement: float
    three_agreement: float
    halves: float
    rule_halves: float
    layers: int
    queries: int

    derived = ("chosen",)

    @property
    def chosen(self) -> int:
        """The number of components with the lowest BIC."""
        return int(np.argmin(self.bic)) + 1

    def depth(self) -> Int[np.ndarray, "third regime"]:
        """Heads of each regime, by the rule, in the first, middle and last third of the layers."""
        third = self.heads[:, 0] * 3 // self.layers
        return np.array([np.bincount(self.rule[third == k], minlength=3) for k in range(3)])

    def variables(self) -> Variables:
        return {
            "bic": ("k", self.bic),
            "features": (("head", "feature"), self.features),
            "feature": ("feature", np.array(FEATURES)),
            "components": ("head", self.components),
            "rule": ("head", self.rule),
        }

    def facts(self) -> list[str]:
        counts = ", ".join(f"{n} {name}" for name, n in zip(REGIMES, np.bincount(self.rule, minlength=3), strict=True))
        return [
            f"{self.chosen} components by BIC; by the rule {counts}",
            f"adjusted Rand index with the rule {self.agreement:.2f} (three components {self.three_agreement:.2f}), "
            f"between halves of the documents {self.halves:.2f} (rule {self.rule_halves:.2f})",
            f"{len(self.rule)} heads of {len(np.unique(self.heads[:, 0]))} of {self.layers} layers see the sink, "
            f"{self.queries} queries in each half",
        ]


@recorded_call
def found_regimes(recording: Recording, *, most: int = 8, restarts: int = 8, seed: Seed = 0) -> FoundRegimes:
    """How many kinds of heads there are (at most `most`), and whether they are those of the rule.

    ```python
    import sphereflow as sf
    print(sf.llm.found_regimes(sf.llm.recording("smollm2")))
    ```
    """
    checked_recording(recording)
    most, restarts = whole_number("most", most, least=3), whole_number("restarts", restarts)
    if 4 not in recording.sizes:
        raise SphereflowError(f"the rule needs the separation of 4 tokens; recorded sizes are {recording.sizes}.")
    seen = np.argwhere(np.isfinite(recording.heads["sink_mass"]).all(axis=0))
    if len(seen) <= 4 * len(FEATURES):
        raise SphereflowError(
            f"{len(seen)} heads see the first token: too few to be sorted by {len(FEATURES)} features."
        )
    documents = np.arange(recording.shape[0])
    whole, rule = _features(recording, seen, documents)
    fits = [gaussian_mixture(whole, k, seed=seed, restarts=restarts) for k in range(1, most + 1)]
    bic = np.array([_bic(fit.likelihood, len(whole), whole.shape[1], k + 1) for k, fit in enumerate(fits)])
    best, three = fits[int(np.argmin(bic))].labels, fits[2].labels
    halves = rule_halves = np.nan
    if len(documents) > 1:
        (even, even_rule), (odd, odd_rule) = (_features(recording, seen, documents[k::2]) for k in (0, 1))
        chosen = int(np.argmin(bic)) + 1
        parts = (gaussian_mixture(each, chosen, seed=seed, restarts=restarts).labels for each in (even, odd))
        halves = adjusted_rand(*parts)
        rule_halves = adjusted_rand(even_rule, odd_rule)
    return FoundRegimes(
        heads=seen,
        features=whole,
        bic=bic,
        components=best,
        three=three,
        rule=rule,
        agreement=adjusted_rand(best, rule),
        three_agreement=adjusted_rand(three, rule),
        halves=halves,
        rule_halves=rule_halves,
        layers=recording.shape[1],
        queries=len(recording.queries) * (len(documents) // 2),
    )


def rule_of_halves(recording: Recording, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The regimes of these heads by the rule, from every second document and from the others."""
    documents = np.arange(recording.shape[0])
    even, odd = (_features(recording, heads, documents[k::2])[1] for k in (0, 1))
    return even, odd


def _features(recording: Recording, heads: np.ndarray, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(standardised features, regimes by the rule) of these heads from these documents."""

    def mean(name: str) -> np.ndarray:
        return recording.heads[name][documents][:, heads[:, 0], heads[:, 1]].astype(float).mean(axis=0)

    rows = recording.metrics["f"][documents][:, heads[:, 0], heads[:, 1], 0, recording.sizes.index(4)]
    known = {name: mean(name) for name in ("sink_mass", "effective_number", "output_ratio")}
    known["f4"] = rows.astype(float).mean(axis=0)
    columns = np.stack(
        [
            np.log(np.maximum(known["sink_mass"], 1e-30)),
            np.log(known["effective_number"]),
            known["f4"],
            mean("sink_output_cosine"),
            mean("last_output_cosine"),
            np.log(np.maximum(known["output_ratio"], 1e-30)),
        ],
        axis=1,
    )
    spread = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0), regimes(known)


def _bic(likelihood: float, n: int, p: int, components: int) -> float:
    """-2 log likelihood + parameters times log n, with full covariances."""
    free = components - 1 + components * p + components * p * (p + 1) // 2
    return float(-2 * n * likelihood + free * np.log(n))
