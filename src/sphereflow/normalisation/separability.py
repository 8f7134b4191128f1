r"""How many of the selected keys can be separated geometrically.

$$ N_s=\Big|\Big\{i\in I_N:\ \|\alpha_ix_i-s\|<r\Big\}\Big|,\qquad s=\sum_{i\in I_N}\alpha_ix_i,\qquad
   r=\min_{j\notin I_N}\|\alpha_jx_j-s\| . $$

The nearest unselected key sets the radius, unless a number is given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.normalisation.distance import _checked
from sphereflow.normalisation.uniform import pair_chances
from sphereflow.reading import real_array, whole_numbers
from sphereflow.shapes import AnyArray


def separable_fraction(
    weights: Float[AnyArray, "... L"],
    vectors: Float[AnyArray, "... L d"],
    counts: Sequence[int],
    radius: str | float = "nearest",
) -> np.ndarray:
    """N_s/N for each N in `counts`, along a new last axis.

    Distances to s are compared through |y|^2 - 2 <s, y>, so the cost is O(L d) per count.
    """
    alpha, x = _checked(weights, vectors)
    check_counts(counts, alpha.shape[-1])
    if radius != "nearest" and (isinstance(radius, str) or not radius > 0):
        raise SphereflowError(f"radius must be 'nearest' or a positive number; got {radius!r}.")
    order = np.argsort(-alpha, axis=-1, kind="stable")
    y = np.take_along_axis(alpha[..., None] * x, order[..., None], axis=-2)
    squares = np.sum(y**2, axis=-1)
    fractions = []
    for count in counts:
        s = y[..., :count, :].sum(axis=-2)
        offset = squares - 2 * np.einsum("...ld,...d->...l", y, s)
        if radius == "nearest":
            reach = offset[..., count:].min(axis=-1, keepdims=True)
        else:
            reach = float(radius) ** 2 - np.sum(s**2, axis=-1)[..., None]
        fractions.append(np.mean(offset[..., :count] < reach, axis=-1))
    return np.stack(fractions, axis=-1)


def expected_separable_fraction(
    weights: Float[AnyArray, " L"], d: int, counts: Sequence[int], *, steps: int = 201
) -> np.ndarray:
    r"""$E[N_s/N]$ for independent vectors, uniform on the sphere of $\mathbb R^d$, with the given weights: exact.

    See `uniform` for the integral; `steps` are those of the cosine in it. With 201 the error is below 1e-4 for d of at
    least 16, and below 4e-3 at d = 3.
    """
    alpha, d, steps = decreasing(weights, d, counts, steps)
    return np.array([pair_chances(alpha, count, d, steps)[1].mean() for count in counts])


def separable_count(weights: Float[AnyArray, " L"], d: int, *, share: float = 0.8, steps: int = 201) -> int:
    r"""The largest N up to which, at every power of two below it and at itself, $E[N_s/N]$ is at least `share`.

    For uniform directions in $\mathbb R^d$: how many of your keys a head of this width can keep apart from the rest.

    ```python
    import numpy as np
    from sphereflow.normalisation import separable_count
    separable_count(np.full(1024, 1 / 1024), 64)       # 4; twice the width keeps 8
    ```
    """
    share = real_number("share", share, above=0.0, most=1.0)
    alpha, d, steps = decreasing(weights, d, (1,), steps)

    def enough(count: int) -> bool:
        return float(pair_chances(alpha, count, d, steps)[1].mean()) >= share

    good, bad = 1, 2  # one key alone is always nearest to itself
    if not enough(good):
        return 0
    while bad < alpha.size and enough(bad):
        good, bad = bad, 2 * bad
    bad = min(bad, alpha.size)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if enough(middle) else (good, middle)
    return good


def check_counts(counts: Sequence[int], length: int) -> None:
    """Every count leaves one key unselected at least."""
    for count in whole_numbers("counts", counts):
        whole_number("counts", count, most=length - 1)


def decreasing(weights: AnyArray, d: int, counts: Sequence[int], steps: int) -> tuple[np.ndarray, int, int]:
    """Weights in the order of selection, the largest one being 1: a common factor changes nothing."""
    alpha = -np.sort(-real_array("weights", weights))
    if alpha.ndim != 1 or not np.all(np.isfinite(alpha)) or np.any(alpha < 0) or not np.any(alpha > 0):
        raise SphereflowError(
            f"weights must be one row of finite numbers, none negative and not all zero; got shape {alpha.shape}."
        )
    check_counts(counts, alpha.size)
    return alpha / alpha[0], whole_number("d", d, least=2), whole_number("steps", steps, least=101)
