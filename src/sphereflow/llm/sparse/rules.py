r"""Which keys a query keeps: six rules, as masks over the weights of attention.

With weights $\alpha_i$, the part $W_Ov_i$ of a value that a head writes into the residual stream, the output
$z=\sum_i\alpha_iv_i$, and r the median norm of the residual stream that enters the layer,

- `deviation` keeps $i$ when $\alpha_i|W_O(v_i-z)|/r\ge\varepsilon$, with one $\varepsilon$ for the whole model: leaving
  out one key and dividing the others by their sum moves z by $\alpha_i(z-v_i)/(1-\alpha_i)$;
- `contribution` keeps $i$ when $\alpha_i|W_Ov_i|/r\ge\varepsilon$, with one $\varepsilon$ for the whole model;
- `error` keeps the N largest weights, with N of each head such that
  $\sum E|W_O(z-s_N/m_N)|^2/|x|^2$ is small, $s_N$ and $m_N$ being the sum and the weight of what is kept;
- `mass` keeps the fewest keys whose weights reach $p$, with one $p$ for the model (top-p);
- `uniform` keeps the N largest weights in every head;
- `random` keeps N keys drawn at random.

The key of largest weight is always kept (except by `random`), and kept weights are divided by their sum. Without that
key, a head whose weight lies on a short value would write its remaining keys many times too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

RULES = ("deviation", "contribution", "error", "mass", "uniform", "random")
GEOMETRIC = ("deviation", "contribution")  # rules that look at values
THRESHOLDS = ("deviation", "contribution", "mass")  # rules with a number of keys that changes from query to query


@dataclass(frozen=True)
class LayerRule:
    """What one layer needs to choose: counts by head, or a threshold; `residual` is r."""

    rule: str
    threshold: float
    counts: np.ndarray
    residual: float

    def kept(self, weights: Any, sizes: Any, generator: Any = None) -> Any:
        """The mask of kept keys for weights (b, h, q, L); `sizes` (b, h, 1 or q, L) are what the weights multiply:
        |W_O v| in `contribution`, |W_O(v - z)| in `deviation`."""
        import torch

        seen = weights > 0
        if self.rule in GEOMETRIC:
            largest = weights == weights.amax(dim=-1, keepdim=True)
            return seen & ((weights * sizes >= self.threshold * self.residual) | largest)
        if self.rule == "random":
            lots = torch.rand(weights.shape, generator=generator, device=generator.device).to(weights.device)
            return seen & _largest(torch.where(seen, lots, -1.0), self._counts(weights))
        ordered = weights.sort(dim=-1, descending=True).values
        if self.rule == "mass":
            before = ordered.cumsum(dim=-1) - ordered
            counts = (before < self.threshold).sum(dim=-1, keepdim=True)
            return seen & (weights >= ordered.gather(-1, counts.clamp(min=1) - 1))
        return seen & _largest(weights, self._counts(weights), ordered)

    def _counts(self, weights: Any) -> Any:
        import torch

        most = weights.shape[-1]
        counts = torch.as_tensor(self.counts, device=weights.device).clamp(1, most)
        return counts[None, :, None, None].expand(*weights.shape[:3], 1)


def _largest(values: Any, counts: Any, ordered: Any = None) -> Any:
    """Where a value is among the `counts` largest of its row."""
    ordered = values.sort(dim=-1, descending=True).values if ordered is None else ordered
    return values >= ordered.gather(-1, counts - 1)
