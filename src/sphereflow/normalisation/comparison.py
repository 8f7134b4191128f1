r"""One set of logits under many normalisers: what each does to weights, distances, separability and sensitivity.

For every share $N/L$ of selected keys the distance $\tilde d(N)$; for the counts asked for, separable keys and
inverted pairs; once per normaliser the largest weight, the effective number $1/\sum\alpha^2$, the share of keys that
carries half of the weight, and the spectral norm of the Jacobian. Weights that do not sum to one are divided by their
sum, which is kept as `mass`: otherwise their distances would grow with the number of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError
from sphereflow.normalisation.distance import distance_profile, top_mass
from sphereflow.normalisation.inverted_pairs import count_inversions
from sphereflow.normalisation.jacobian import jacobian_norm
from sphereflow.normalisation.normalisers import Entmax, Normaliser, ScalableSoftmax, Sigmoid, Softmax, TopK
from sphereflow.normalisation.separability import separable_fraction
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import AnyArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class NormaliserComparison(Result):
    """What each normaliser does, row by row of the logits; the axes are normaliser, row, and share or count.

    `half_mass` and `selected` are shares of the keys.
    """

    names: tuple[str, ...]
    shares: np.ndarray
    counts: np.ndarray
    distance: np.ndarray
    separable: np.ndarray
    inverted: np.ndarray
    mass: np.ndarray
    largest: np.ndarray
    effective_number: np.ndarray
    selected: np.ndarray
    half_mass: np.ndarray
    jacobian_norm: np.ndarray

    def variables(self) -> Variables:
        rows = ("normaliser", "row")
        single = ("mass", "largest", "effective_number", "selected", "half_mass", "jacobian_norm")
        return {
            "normaliser": ("normaliser", np.array(self.names)),
            "share": ("share", self.shares),
            "count": ("count", self.counts),
            "distance": ((*rows, "share"), self.distance),
            "separable": ((*rows, "count"), self.separable),
            "inverted": ((*rows, "count"), self.inverted),
        } | {name: (rows, getattr(self, name)) for name in single}

    def facts(self) -> list[str]:
        rows = enumerate(self.names)
        return [
            f"{len(self.names)} normalisers of {self.mass.shape[1]} rows: largest weight; share with half of it; "
            f"separable of {self.counts[-1]}; norm of the Jacobian"
        ] + [
            f"{name}: {self.largest[k].mean():.2g}; {self.half_mass[k].mean():.1%}; "
            f"{self.separable[k, :, -1].mean():.0%}; {self.jacobian_norm[k].mean():.2g}"
            for k, name in rows
        ]

    def plot(self) -> Figure:
        """Distances against the share, and separable keys against their number, a line for each normaliser."""
        from sphereflow.pictures import styled_figure

        with styled_figure(8.4, 3.4) as figure:
            left, right = figure.subplots(1, 2)
            for k, name in enumerate(self.names):
                left.plot(self.shares, self.distance[k].mean(axis=0), label=name)
                right.semilogx(self.counts, self.separable[k].mean(axis=0), "o-", ms=3, label=name)
            left.set(xlabel="share $N/L$ of selected keys", ylabel="distance to the rest")
            right.set(xlabel="selected keys $N$", ylabel="separable share", ylim=(0, 1.03))
            right.legend()
        return figure


@recorded_call
def compare_normalisers(
    logits: Float[AnyArray, "... L"],
    vectors: Float[AnyArray, "... L d"],
    normalisers: Mapping[str, Normaliser] | None = None,
    *,
    counts: Sequence[int] | None = None,
) -> NormaliserComparison:
    """Your logits and vectors under softmax, scalable softmax, entmax, sparsemax, top-k and sigmoid, or your own.

    ```python
    import numpy as np
    from sphereflow.normalisation import compare_normalisers
    rng = np.random.default_rng(0)
    print(compare_normalisers(rng.normal(size=(8, 128)), rng.normal(size=(8, 128, 32))).summary())
    ```
    """
    values, x = real_array("logits", logits, finite=False), real_array("vectors", vectors, finite=False)
    if values.ndim == 0 or values.shape != x.shape[:-1] or values.shape[-1] < 2 or x.size == 0:
        raise SphereflowError(
            f"every logit needs its vector, and there must be two keys at least: logits of shape {values.shape} do not "
            f"go with vectors of shape {x.shape}."
        )
    if not np.all(np.isfinite(values)) or not np.all(np.isfinite(x)):
        raise SphereflowError("logits and vectors must be finite; leave masked keys out, row by row.")
    length = values.shape[-1]
    values, x = values.reshape(-1, length), x.reshape(-1, length, x.shape[-1])
    chosen = _usual(length) if normalisers is None else dict(normalisers)
    if not chosen:
        raise SphereflowError("normalisers must name one normaliser at least; leave it out for the usual ones.")
    powers = tuple(2**k for k in range(1, 11) if 2**k <= length // 2) or (1,)
    counts = powers if counts is None else tuple(counts)
    table: dict[str, list[np.ndarray]] = {}
    for normaliser in chosen.values():
        raw = np.asarray(normaliser.weights(jnp.asarray(values)), float)
        mass = raw.sum(axis=-1)
        if not np.all(mass > 0):
            raise SphereflowError(f"{normaliser!r} gives no key of some row any weight: there is nothing to compare.")
        alpha = raw / mass[:, None]
        by_name = {
            "distance": distance_profile(alpha, x),
            "separable": separable_fraction(alpha, x, counts),
            "inverted": count_inversions(alpha, x, counts),
            "mass": mass,
            "largest": alpha.max(axis=-1),
            "effective_number": 1 / np.sum(alpha**2, axis=-1),
            "selected": np.mean(alpha > 0, axis=-1),
            "half_mass": (np.argmax(top_mass(alpha) >= 0.5 - 1e-12, axis=-1) + 1) / length,
            "jacobian_norm": jacobian_norm(normaliser, values),
        }
        for name, each in by_name.items():
            table.setdefault(name, []).append(each)
    return NormaliserComparison(
        names=tuple(chosen),
        shares=np.arange(1, length + 1) / length,
        counts=np.array(counts),
        distance=np.stack(table["distance"]),
        separable=np.stack(table["separable"]),
        inverted=np.stack(table["inverted"]),
        mass=np.stack(table["mass"]),
        largest=np.stack(table["largest"]),
        effective_number=np.stack(table["effective_number"]),
        selected=np.stack(table["selected"]),
        half_mass=np.stack(table["half_mass"]),
        jacobian_norm=np.stack(table["jacobian_norm"]),
    )


def _usual(length: int) -> dict[str, Normaliser]:
    return {
        "softmax": Softmax(),
        "scalable softmax": ScalableSoftmax(0.5),
        "entmax": Entmax(1.5),
        "sparsemax": Entmax(2.0),
        "top-k": TopK(max(1, length // 16)),
        "sigmoid": Sigmoid(bias=float(np.log(length))),  # a logit of zero has about the weight 1/L
    }
