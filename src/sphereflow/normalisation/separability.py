r"""How many of the selected keys can be told apart geometrically.

$$ N_s=\Big|\Big\{i\in I_N:\ \|\alpha_ix_i-s\|<r\Big\}\Big|,\qquad s=\sum_{i\in I_N}\alpha_ix_i,\qquad
   r=\min_{j\notin I_N}\|\alpha_jx_j-s\| . $$

The nearest unselected key sets the radius, unless a number is given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from sphereflow.errors import SphereflowError, whole_number
from sphereflow.normalisation.distance import _checked
from sphereflow.numerics.selection import expected_recall
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
    _check_counts(counts, alpha.shape[-1])
    if radius != "nearest" and (isinstance(radius, str) or not radius > 0):
        raise SphereflowError(f"radius must be 'nearest' or a positive number; got {radius!r}.")
    order = np.argsort(-alpha, axis=-1, kind="stable")
    y = np.take_along_axis(alpha[..., None] * x, order[..., None], axis=-2)
    squares = np.sum(y**2, axis=-1)
    found = []
    for count in counts:
        s = y[..., :count, :].sum(axis=-2)
        offset = squares - 2 * np.einsum("...ld,...d->...l", y, s)
        if radius == "nearest":
            reach = offset[..., count:].min(axis=-1, keepdims=True)
        else:
            reach = float(radius) ** 2 - np.sum(s**2, axis=-1)[..., None]
        found.append(np.mean(offset[..., :count] < reach, axis=-1))
    return np.stack(found, axis=-1)


def expected_separable_fraction(
    weights: Float[AnyArray, " L"], d: int, counts: Sequence[int], *, steps: int = 2001
) -> np.ndarray:
    r"""$E[N_s/N]$ for independent vectors, uniform on the sphere of $\mathbb R^d$, with the given weights.

    `steps` are those of the integral over g: 401 are enough for four digits.
    """
    d = whole_number("d", d, least=2)
    alpha = -np.sort(-np.asarray(weights, float))
    _check_counts(counts, alpha.size)
    rest = [alpha[count:] for count in counts]
    steps = whole_number("steps", steps, least=101)
    found = [expected_recall(alpha[:count], r[r > 0], d, steps=steps) for count, r in zip(counts, rest, strict=True)]
    return np.array(found)


def _check_counts(counts: Sequence[int], length: int) -> None:
    for count in counts:
        whole_number("counts", count, least=1, most=length - 1)
