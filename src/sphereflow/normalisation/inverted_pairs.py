r"""Unselected keys that come closer to the selected sum than selected ones, counted, expected and bounded.

$$ GInv=\#\{(i,j):\ i\in I_N,\ j\notin I_N,\ \|\alpha_jx_j-s\|\le\|\alpha_ix_i-s\|\},\qquad
   R_N\ge1-\frac{GInv}N,\qquad P_N\ge\frac N{N+GInv} . $$
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import whole_number
from sphereflow.estimates import Estimate, mean
from sphereflow.normalisation.distance import _checked
from sphereflow.normalisation.separability import check_counts, decreasing
from sphereflow.normalisation.uniform import pair_bounds, pair_chances
from sphereflow.numerics.unit_vectors import unit
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.seeds import Seed, rng_from
from sphereflow.shapes import AnyArray

_NUMBERS = 4_000_000  # coordinates drawn at once


def count_inversions(
    weights: Float[AnyArray, "... L"], vectors: Float[AnyArray, "... L d"], counts: Sequence[int]
) -> np.ndarray:
    """The number of inverted pairs for each N in `counts`, along a new last axis; equal distances are inverted."""
    alpha, x = _checked(weights, vectors)
    check_counts(counts, alpha.shape[-1])
    order = np.argsort(-alpha, axis=-1, kind="stable")
    y = np.take_along_axis(alpha[..., None] * x, order[..., None], axis=-2)
    squares = np.sum(y**2, axis=-1)
    inversions = []
    for count in counts:
        # D^2 - |s|^2: its order is that of the distances, and it does not lose vectors of little weight.
        offset = squares - 2 * np.einsum("...ld,...d->...l", y, y[..., :count, :].sum(axis=-2))
        chosen = np.broadcast_to(np.arange(alpha.shape[-1]) < count, offset.shape)
        ranked = np.take_along_axis(chosen, np.lexsort((chosen, offset), axis=-1), axis=-1)
        inversions.append(np.sum(np.cumsum(~ranked, axis=-1) * ranked, axis=-1))
    return np.stack(inversions, axis=-1)


def expected_inversions(
    weights: Float[AnyArray, " L"], d: int, counts: Sequence[int], *, steps: int = 401
) -> np.ndarray:
    r"""$E\,GInv$ for independent vectors, uniform on the sphere of $\mathbb R^d$, by the integral in `uniform`.

    With 401 `steps` to 0.1 %, or 2 % where inversions are rare and come from keys of tiny weight; to 0.6 % at d = 3.

    ```python
    import numpy as np
    from sphereflow.normalisation import expected_inversions
    expected_inversions(0.9 ** np.arange(300), 16, [2, 8])      # 13.23, 548.4
    ```
    """
    alpha, d, steps = decreasing(weights, d, counts, steps)
    return np.array([pair_chances(alpha, count, d, steps)[0].sum() for count in counts])


def inversion_bound(weights: Float[AnyArray, " L"], d: int, counts: Sequence[int]) -> np.ndarray:
    r"""What $E\,GInv$ cannot exceed for independent uniform directions, by an exponential in dimension and margin:

    $$ \sum_{i\in I_N,j\notin I_N}\exp\Big(-\frac{d\,(\alpha_i^2+\alpha_j^2)}{8B_i}
       +\frac{d\,\alpha_i^2\alpha_j^2}{32B_i^2}\Big),\qquad B_i=\sum_{k\in I_N,k\ne i}\alpha_k^2 . $$

    It holds for every d and whatever the length of the sum happens to be.
    """
    alpha, d, _ = decreasing(weights, d, counts, 101)
    return np.array([pair_bounds(alpha, count, d).sum() for count in counts])


@dataclass(frozen=True, eq=False, repr=False)
class Inversions(Result):
    """Inverted pairs of your weights with uniform directions, for each number of selected keys.

    `simulated` are means over the draws, `expected` the exact means, `bound` the exponential bound. `recall` is the
    exact expected share of separable keys; `recall_floor` and `precision_floor` what the bound leaves of recall and
    precision: 0 and near 0 where it says nothing.
    """

    counts: np.ndarray
    simulated: Estimate
    expected: np.ndarray
    bound: np.ndarray
    recall: np.ndarray
    recall_floor: np.ndarray
    precision_floor: np.ndarray

    def variables(self) -> Variables:
        rows = {"simulated": self.simulated.value, "simulated_error": self.simulated.error}
        rows |= {"expected": self.expected, "bound": self.bound, "recall": self.recall}
        rows |= {"recall_floor": self.recall_floor, "precision_floor": self.precision_floor}
        return {"counts": ("counts", self.counts)} | {name: ("counts", each) for name, each in rows.items()}

    def facts(self) -> list[str]:
        said = int(np.sum(self.recall_floor > 0))
        last = f"{self.expected[-1]:.4g} inverted pairs expected at N = {self.counts[-1]}"
        observed = (
            f"{self.simulated.value[-1]:.4g} +- {self.simulated.error[-1]:.1g} simulated, at most {self.bound[-1]:.4g}"
        )
        return [f"{last}, {observed}", f"the bound says something about recall for {said} of {len(self.counts)} sizes"]


@recorded_call
def inversions(
    weights: Float[AnyArray, " L"], d: int, counts: Sequence[int], *, repeats: int = 200, seed: Seed = 0
) -> Inversions:
    """Inverted pairs simulated, expected and bounded: do exponential bounds say anything about a head like yours?

    ```python
    import numpy as np
    from sphereflow.normalisation import inversions
    print(inversions(0.9 ** np.arange(300), 64, [2, 4, 8]))
    ```
    """
    alpha, d, steps = decreasing(weights, d, counts, 401)
    repeats = whole_number("repeats", repeats, least=2)
    rng = rng_from(seed)
    drawn, block = [], max(1, _NUMBERS // (alpha.size * d))
    for start in range(0, repeats, block):
        x = unit(rng.normal(size=(min(block, repeats - start), alpha.size, d)))
        drawn.append(count_inversions(np.broadcast_to(alpha, x.shape[:-1]), x, counts))
    chances = [pair_chances(alpha, count, d, steps) for count in counts]
    bounds = [pair_bounds(alpha, count, d) for count in counts]
    whole = np.array([each.sum() for each in bounds])
    return Inversions(
        counts=np.array(counts),
        simulated=mean(np.concatenate(drawn)),
        expected=np.array([inverted.sum() for inverted, _ in chances]),
        bound=whole,
        recall=np.array([none.mean() for _, none in chances]),
        # Key by key: one that the bound says nothing about does not take the others' floor away.
        recall_floor=np.array([np.maximum(1 - each.sum(axis=1), 0.0).mean() for each in bounds]),
        precision_floor=np.array(counts) / (np.array(counts) + whole),
    )
