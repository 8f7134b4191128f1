r"""Zeros of many increasing functions at once: Newton's method kept inside a bracket.

$$x\leftarrow x-\frac{f(x)}{f'(x)}\quad\text{where that lies in the bracket},\qquad x\leftarrow\tfrac12(\text{low}+
  \text{high})\quad\text{elsewhere}.$$

Where the derivative is known it saves evaluations: 3.0 against 6.6 of `scipy.optimize.elementwise.find_root` for
quantiles on the circle, 7.2 against 9.6 for those of a mixture, each as exact as the function.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Rows = np.ndarray
Evaluation = tuple[np.ndarray, np.ndarray, np.ndarray | float]


def increasing_roots(
    evaluate: Callable[[Rows, Rows], Evaluation],
    low: Float[np.ndarray, " m"],
    high: Float[np.ndarray, " m"],
    start: Float[np.ndarray, " m"] | None = None,
    *,
    most: int = 200,
) -> Float[np.ndarray, " m"]:
    """The zero of each function between `low` and `high`, from `start` on, which is the middle unless given.

    `evaluate(x, rows)` returns, at one place x for each of these rows, the value f, the step f / f' of Newton's method,
    which need not be finite, and the size below which a step is rounding. Settled rows are not evaluated again.
    """
    low, high = (np.array(end, dtype=float) for end in (low, high))
    x = low + (high - low) / 2 if start is None else np.array(start, dtype=float)
    rows = np.arange(len(x))
    for _ in range(most):
        at = x[rows]
        value, step, rounding = evaluate(at, rows)
        below = value < 0
        low[rows], high[rows] = np.where(below, at, low[rows]), np.where(below, high[rows], at)
        left, right = low[rows], high[rows]
        with np.errstate(invalid="ignore"):
            aimed = at - step
            inside = (aimed > left) & (aimed < right)  # an end that was tried is not tried again
            settled = (np.abs(step) <= rounding) | (right - left <= rounding)
        x[rows] = np.where(inside, aimed, np.where(settled, at, left + (right - left) / 2))
        rows = rows[~settled]
        if not rows.size:
            break
    return x
