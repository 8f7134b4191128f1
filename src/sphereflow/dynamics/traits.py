"""What solvers, sums and schedules must know of a field, in one record.

Wrappers join the records of their parts. There is one record, so a wrapper cannot forget a member of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow.errors import SphereflowError
from sphereflow.parameters import known

Space = Literal["sphere", "euclidean"]
# "any": tokens do not interact, so every choice of masses goes with the field. "mixed": parts have different ones.
Masses = Literal["any", "equal", "given", "mixed"]


class Traits(eqx.Module):
    r"""The traits of a dynamics.

    - `space`: "sphere" (unit tokens, tangent fields) or "euclidean".
    - `max_step`: a step that the solver must not exceed, None for no limit.
    - `jump_times`: times at which the field is discontinuous.
    - `masses` and `weights`: whose masses the field is made for; the weights are there if masses is "given".
    - `gradient`: the number g in $\dot x_i = \frac{g}{w_i}\nabla_{x_i} E$ with the dynamics' own energy E, None if
      there is no such E.
    """

    space: Space = eqx.field(static=True, default="sphere")
    max_step: float | Float[Array, ""] | None = None
    jump_times: Float[Array, " k"] | None = None
    masses: Masses = eqx.field(static=True, default="equal")
    weights: Float[Array, " n"] | None = None
    gradient: float | Float[Array, ""] | None = None

    def but(self, **changes: object) -> Traits:
        """The same record with some members changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


class Kinks(eqx.Module):
    """Where a field is continuous and its derivative is not: at changes of sign of `values`, of any shape.

    `jumps`, of the same shape, are sizes: |f - its smooth continuation from the other side| <= jump |value|.
    """

    values: Float[Array, "..."]
    jumps: Float[Array, "..."]

    def times(self, factor: Float[Array, ""]) -> Kinks:
        """The kinks of a multiple of the field."""
        return Kinks(self.values, self.jumps * jnp.abs(factor))


def each_kink(change: Callable[[Kinks], object], kinks: Any) -> Any:
    """`change` applied to every record in a tree of kinks, as wrappers make them of their parts."""
    return jax.tree.map(change, kinks, is_leaf=lambda node: isinstance(node, Kinks))


def of_masses(weights: Float[Array, " n"] | None) -> Traits:
    """Tokens that interact, with these masses, None for 1/n each."""
    return _EQUAL if weights is None else Traits(masses="given", weights=weights)


_EQUAL = Traits()


def join(records: Sequence[Traits]) -> Traits:
    """The traits of fields that act on the same tokens; no gradient is assumed."""
    spaces = {record.space for record in records}
    if len(spaces) != 1:
        raise SphereflowError("only dynamics on the same space can be combined: all on the sphere, or none.")
    steps = [record.max_step for record in records if record.max_step is not None]
    jumps = [record.jump_times for record in records if record.jump_times is not None]
    masses, weights = _common_masses(records)
    return Traits(
        space=spaces.pop(),
        max_step=None if not steps else steps[0] if len(steps) == 1 else jnp.min(jnp.asarray(steps)),
        jump_times=jnp.sort(jnp.concatenate(jumps)) if jumps else None,
        masses=masses,
        weights=weights,
    )


def _common_masses(records: Sequence[Traits]) -> tuple[Masses, Array | None]:
    weighted = [record for record in records if record.masses != "any"]
    if not weighted:
        return "any", None
    if len({record.masses for record in weighted}) > 1 or weighted[0].masses == "mixed":
        return "mixed", None
    if any(_differ(weighted[0].weights, record.weights) for record in weighted[1:]):
        return "mixed", None
    return weighted[0].masses, weighted[0].weights


def _differ(first: Array | None, second: Array | None) -> bool:
    """Whether masses are seen to differ; what is being traced was compared before, with its values."""
    if first is second or first is None or second is None:
        return False
    if first.shape != second.shape:
        return True
    return known(first) and known(second) and not np.array_equal(np.asarray(first), np.asarray(second))
