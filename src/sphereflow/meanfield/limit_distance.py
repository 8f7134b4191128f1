r"""How far tokens are from the push-forward of the law they started from, on any sphere, between certified bounds.

$$D_p=\big(E\,\mathrm{dist}(x,\mathrm{supp})^p\big)^{1/p}\ \le\ W_p(\mu_t,\Pi_\#\mu_0)\ \le\
  L_p=\big(E\,\angle(x(t),\Pi(x(0)))^p\big)^{1/p},$$

with $\Pi(x)=P_Ex/|P_Ex|$ the projection on the dominant eigenspace E of $VB^\top$, the support being the unit sphere
of E. D forgets how much mass goes where, and L who could take whose place: after a while both are far off, and bounds
for $W_p$ itself, with a plan and with potentials, lie in between. They are for the tokens given; a law with a density
is farther or nearer by at most the two distances from it to its tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sphereflow.errors import SphereflowError, real_number
from sphereflow.meanfield.zero_temperature import concentration
from sphereflow.numerics.unit_vectors import angles, unit
from sphereflow.observables.certified_distance import wasserstein_bounds
from sphereflow.reading import real_array
from sphereflow.results import Result, Variables, recorded_call
from sphereflow.shapes import ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class LimitDistance(Result):
    """D (`support`) <= `lower` <= W_p <= `upper` <= L (`label`); `k` is the dimension of E."""

    p: float
    k: int
    support: float
    lower: float
    upper: float
    label: float

    def variables(self) -> Variables:
        values = np.array([self.support, self.lower, self.upper, self.label])
        return {"bound": ("bound", np.array(["D", "lower", "upper", "L"])), "distance": ("bound", values)}

    def facts(self) -> list[str]:
        between = f"W_{self.p:g} to the push-forward between {self.lower:.6g} and {self.upper:.6g}"
        return [between, f"to its support {self.support:.6g}, by labels {self.label:.6g}"]


@recorded_call
def distance_to_limit(
    x: ArrayLike, x0: ArrayLike, value: ArrayLike, form: ArrayLike | None = None, *, p: float = 2.0
) -> LimitDistance:
    """Bounds on W_p between tokens x (n, d) and the projections of the tokens x0 that they started as, in one order.

    At most 3000 tokens.
    """
    now, then = (real_array(name, tokens) for name, tokens in (("x", x), ("x0", x0)))
    p = real_number("p", p, least=1)
    where = concentration(real_array("value", value), None if form is None else real_array("form", form))
    if now.shape != then.shape or now.ndim != 2 or now.shape[1] != len(where.value):
        raise SphereflowError(f"x and x0 must be tokens (n, {len(where.value)}) in the same order, got {now.shape}.")
    if min(np.linalg.norm(now, axis=1).min(), np.linalg.norm(then, axis=1).min()) == 0:
        raise SphereflowError("x and x0 must be tokens on the sphere, one is zero.")
    now, then = unit(now), unit(then)
    if np.linalg.norm(then @ where.projector.T, axis=1).min() < 1e-14:
        raise SphereflowError("a token of x0 lies on the divide, where its projection is not defined: move it.")
    target = where.limit(then)
    near = np.clip(np.linalg.norm(now @ where.basis, axis=1), 0, 1)
    off = np.arctan2(np.linalg.norm(now - (now @ where.basis) @ where.basis.T, axis=1), near)
    label = angles(now, target)
    bounds = wasserstein_bounds(now, target, p)
    support = float(np.mean(off**p) ** (1 / p))
    return LimitDistance(
        p,
        where.k,
        support,
        max(bounds.lower, support),
        min(bounds.upper, float(np.mean(label**p) ** (1 / p))),
        float(np.mean(label**p) ** (1 / p)),
    )
