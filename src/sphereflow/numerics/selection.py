r"""Selected vectors that stay closer to their sum than every vector left out.

$$y_i=\alpha_ix_i,\quad s=\sum_{i\in S}y_i,\quad z_i=|y_i|^2-2\langle y_i,s\rangle,\qquad
  R=\frac1{|S|}\#\{i\in S:\ z_i<\min_{j\notin S}z_j\}.$$
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr

# Gauss-Hermite nodes would miss the nearly step-like product in the fourth digit; equal steps do not.
_REACH, _STEPS = 10.0, 2001


def expected_recall(
    chosen: Float[np.ndarray, " N"], others: Float[np.ndarray, " M"], d: float, *, steps: int = _STEPS
) -> float:
    r"""$E[R]$ for independent directions, uniform on the sphere of $\mathbb R^d$, with these positive weights:

    $$\frac1N\sum_{i\in S}E_g\prod_{j\notin S}\Phi\Big(\frac{\alpha_j^2+\alpha_i^2+2g\,\alpha_i\sqrt{(A-\alpha_i^2)/d}}
      {2\alpha_j\sqrt{A/d}}\Big),\qquad A=\sum_{i\in S}\alpha_i^2,\ g\sim N(0,1).$$

    Inner products with the rest of s are taken as Gaussian, which is exact as d grows.
    """
    total = np.sum(chosen**2)
    g = np.linspace(-_REACH, _REACH, steps)
    density = np.exp(-(g**2) / 2)
    density /= density.sum()
    own = chosen**2 + 2 * np.outer(g, chosen * np.sqrt(np.maximum(total - chosen**2, 0) / d))
    scale = 2 * others * np.sqrt(total / d)
    return float(np.mean([density @ np.exp(log_ndtr((others**2 + z[:, None]) / scale).sum(axis=1)) for z in own.T]))
