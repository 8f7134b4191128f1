r"""How far the selected keys are from the rest, as one vector each.

With weights $\alpha$, vectors $x_i$ and $I_N$ the $N$ largest weights (ties: smaller index first),

$$ \tilde d(N)=\Big\|\sum_{i\notin I_N}\alpha_ix_i-\sum_{i\in I_N}\alpha_ix_i\Big\|=\|z-2s_N\|,\qquad
   z=\sum_i\alpha_ix_i,\quad s_N=\sum_{i\in I_N}\alpha_ix_i . $$

The weights are never renormalised on the selected set. One sort and one running sum give all $N$ at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from sphereflow.errors import SphereflowError, real_number
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import AnyArray


def distance_profile(weights: Float[AnyArray, "... L"], vectors: Float[AnyArray, "... L d"]) -> np.ndarray:
    r"""$\tilde d(N)$ for $N=1,\dots,L$, along the last axis.

    ```python
    import numpy as np
    from sphereflow.normalisation import distance_profile
    distance_profile(np.array([0.5, 0.3, 0.2]), np.eye(3))       # the same for every N: orthogonal vectors
    ```
    """
    alpha, x = _checked(weights, vectors)
    order = np.argsort(-alpha, axis=-1, kind="stable")
    weighted = np.take_along_axis(alpha[..., None] * x, order[..., None], axis=-2)
    selected = np.cumsum(weighted, axis=-2)
    return np.linalg.norm(selected[..., -1:, :] - 2 * selected, axis=-1)


def equicorrelated_profile(weights: Float[AnyArray, "... L"], cosine: float | np.ndarray) -> np.ndarray:
    r"""$\sqrt{(1-c)\sum_i\alpha_i^2+c\,(1-2m_N)^2}$ for unit vectors with common cosine $c$; $m_N$ is the top-$N$ mass.

    A V in $N$ with its minimum where the mass crosses one half.
    """
    alpha, c = weight_rows(weights), real_array("cosine", cosine)[..., None]
    if np.any(c > 1) or np.any(c * (alpha.shape[-1] - 1) < -1 - 1e-12):
        raise SphereflowError(f"cosine must lie between -1/(L-1) and 1, as {alpha.shape[-1]} unit vectors can have it.")
    spread = np.sum(alpha**2, axis=-1, keepdims=True)
    return np.sqrt(np.maximum((1 - c) * spread + c * (alpha.sum(-1, keepdims=True) - 2 * top_mass(alpha)) ** 2, 0.0))


def random_selection_profile(weights: Float[AnyArray, "... L"], vectors: Float[AnyArray, "... L d"]) -> np.ndarray:
    r"""Root mean square of $\tilde d$ when the $N$ keys are drawn at random instead of by weight:

    $$ E\,\tilde d^2=\kappa\|z\|^2+(1-\kappa)\sum_i\alpha_i^2\|x_i\|^2,\qquad \kappa=\frac{(L-2N)^2-L}{L(L-1)} . $$
    """
    alpha, x = _checked(weights, vectors)
    length = alpha.shape[-1]
    counts = np.arange(1, length + 1)
    kappa = ((length - 2 * counts) ** 2 - length) / (length * (length - 1)) if length > 1 else np.ones(1)
    weighted = alpha[..., None] * x
    whole = np.sum(weighted.sum(axis=-2) ** 2, axis=-1)[..., None]
    single = np.sum(weighted**2, axis=(-2, -1))[..., None]
    return np.sqrt(np.maximum(kappa * whole + (1 - kappa) * single, 0.0))


def top_mass(weights: Float[AnyArray, "... L"]) -> np.ndarray:
    """Mass of the N largest weights, N = 1 ... L."""
    return np.cumsum(-np.sort(-np.asarray(weights, float), axis=-1), axis=-1)


def gaussian_top_mass(share: ArrayLike, spread: float, *, share_kept: float = 1.0) -> np.ndarray:
    r"""Mass of the largest weights that are a `share` $p$ of many, for logits $N(0,s^2)$ and softmax at $T=1$:

    $$ m(p)=\Phi\big(s-\Phi^{-1}(1-p)\big),\qquad m=\tfrac12\ \text{at}\ p=\Phi(-s) . $$

    With top-k selection a share $\kappa$ (`share_kept`) of the keys has all of the weight:
    $m(\min(p,\kappa))/m(\kappa)$. The distance of tokens with common cosine $c$ tends to $\sqrt c\,|1-2m(p)|$ at every
    share.

    ```python
    from sphereflow.normalisation import gaussian_top_mass
    gaussian_top_mass([0.06, 0.16, 0.5], 1.0)      # 0.289, 0.502, 0.841
    ```
    """
    p, spread = np.asarray(share, float), real_number("spread", spread, least=0.0)
    share_kept = real_number("share_kept", share_kept, above=0.0, most=1.0)
    if np.any(~((p >= 0) & (p <= 1))):
        raise SphereflowError(f"share must lie between 0 and 1; got {share!r}.")
    return np.asarray(ndtr(spread + ndtri(np.minimum(p, share_kept))) / ndtr(spread + ndtri(share_kept)))


@dataclass(frozen=True, eq=False, repr=False)
class CriticalCounts(Result):
    """Where the selection stops being informative: both as numbers of keys; divide by the length for fractions.

    `no_better_than_random` is the smallest N with a distance at most that of a random selection (L if there is none);
    `half_mass` the smallest N that carries half of the weight.
    """

    no_better_than_random: np.ndarray
    half_mass: np.ndarray

    def variables(self) -> Variables:
        axes = tuple(f"axis_{i}" for i in range(self.half_mass.ndim))
        return {"no_better_than_random": (axes, self.no_better_than_random), "half_mass": (axes, self.half_mass)}

    def facts(self) -> list[str]:
        even, half = (np.median(counts) for counts in (self.no_better_than_random, self.half_mass))
        return [
            f"no better than random from N = {even:g} on, half of the weight at N = {half:g}",
            f"medians of {self.half_mass.size} rows of weights",
        ]


@recorded_call
def critical_counts(weights: Float[AnyArray, "... L"], vectors: Float[AnyArray, "... L d"]) -> CriticalCounts:
    """The two critical numbers of selected keys, for every leading index."""
    alpha, x = _checked(weights, vectors)
    below = distance_profile(alpha, x) <= random_selection_profile(alpha, x)
    first = np.where(below.any(-1), below.argmax(-1) + 1, alpha.shape[-1])
    mass = top_mass(alpha)
    half = (mass >= (0.5 - 1e-12) * mass[..., -1:]).argmax(-1) + 1
    return CriticalCounts(np.asarray(first), np.asarray(half))


def _checked(weights: AnyArray, vectors: AnyArray) -> tuple[np.ndarray, np.ndarray]:
    alpha, x = weight_rows(weights), real_array("vectors", vectors)
    if alpha.shape != x.shape[:-1]:
        raise SphereflowError(
            f"every weight needs its vector: weights of shape {alpha.shape} do not go with vectors of shape {x.shape}."
        )
    return alpha, x


def weight_rows(weights: ArrayLike) -> np.ndarray:
    """Weights along the last axis: none negative, and some in every row."""
    alpha = real_array("weights", weights)
    if alpha.shape[-1:] in ((), (0,)) or np.any(alpha < 0) or not np.all(alpha.any(axis=-1)):
        raise SphereflowError(
            f"weights must be rows of numbers, none negative and not all of a row zero; got the shape {alpha.shape}."
        )
    return alpha
