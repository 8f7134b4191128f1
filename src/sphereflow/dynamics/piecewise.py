r"""Weights that are constant on time intervals, as the layers of a network with several blocks.

$$\dot x = f_k(x) \quad\text{for}\quad t_k \le t < t_{k+1}.$$
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from sphereflow import parameters
from sphereflow.dynamics.base import Dynamics, changed
from sphereflow.dynamics.traits import Kinks, Traits, each_kink, join
from sphereflow.errors import SphereflowError
from sphereflow.shapes import AnyArray, ArrayLike


class PiecewiseConstant(Dynamics):
    """Dynamics that take over from one another at given times.

    **Arguments:**

    - `switches`: increasing times t_1 < ... < t_{m-1} at which piece k+1 takes over from piece k.
    - `pieces`: m dynamics; the first holds before t_1, the last after t_{m-1}.

    Pieces of one kind, with the same parts present, are kept as one dynamics with stacked numbers, so that a thousand
    layers are compiled as one.
    """

    switches: Float[Array, " m_minus_1"]
    stacks: tuple[Dynamics, ...]
    order: tuple[tuple[int, int], ...] = eqx.field(static=True)  # piece k is number order[k][1] of stack order[k][0]

    def __init__(self, switches: ArrayLike, pieces: Sequence[Dynamics]):
        if not isinstance(pieces, Sequence) or not pieces or not all(isinstance(piece, Dynamics) for piece in pieces):
            raise SphereflowError("pieces must be dynamics, and at least one.")
        given = np.asarray(switches) if parameters.known(switches) else switches
        times = jnp.zeros(0) if np.shape(given) == (0,) else parameters.array("switches", given, "m")
        if len(pieces) != times.shape[0] + 1:
            raise SphereflowError(f"{len(pieces)} pieces need {len(pieces) - 1} switching times, got {times.shape[0]}.")
        if parameters.known(times) and not (np.diff(np.asarray(times)) > 0).all():
            raise SphereflowError("the switching times must increase.")
        join([piece.traits for piece in pieces])
        kinds: dict[object, list[Dynamics]] = {}
        order = []
        for piece in pieces:
            shapes = tuple(jnp.shape(leaf) for leaf in jax.tree.leaves(piece))
            alike = kinds.setdefault((jax.tree.structure(piece), shapes), [])
            order.append((list(kinds).index((jax.tree.structure(piece), shapes)), len(alike)))
            alike.append(piece)
        self.switches = times
        self.stacks = tuple(jax.tree.map(lambda *leaves: jnp.stack(leaves), *alike) for alike in kinds.values())
        self.order = tuple(order)

    def piece(self, t: float) -> Dynamics:
        """The dynamics in force at time t."""
        stack, at = self.order[int(np.searchsorted(np.asarray(self.switches), t, side="right"))]
        return _member(self.stacks[stack], at)

    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        stack, at = self._in_force(t)
        branches = [lambda s=s: _member(s, at).field(t, x) for s in self.stacks]
        return branches[0]() if len(branches) == 1 else jax.lax.switch(stack, branches)

    def kinks(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> tuple:
        stack, at = self._in_force(t)

        def kinks_of(number: int) -> Kinks | tuple | None:  # those of dynamics that are not in force have no zeros
            kinks = _member(self.stacks[number], at).kinks(t, x)
            return each_kink(lambda k: Kinks(jnp.where(stack == number, k.values, 1.0), k.jumps), kinks)

        return tuple(kinks_of(number) for number in range(len(self.stacks)))

    def continued(self, t: Float[Array, ""], sides: Any) -> PiecewiseConstant:
        """Of every stack the member in force at time t: the field is that of this member's time."""
        _, at = self._in_force(t)
        members = [_member(each, at).continued(t, side) for each, side in zip(self.stacks, sides, strict=True)]
        return changed(
            self,
            stacks=tuple(jax.tree.map(lambda leaf: leaf[None], member) for member in members),
            order=tuple((stack, 0) for stack, _ in self.order),
        )

    def _in_force(self, t: Float[Array, ""]) -> tuple[Array, Array]:
        """(stack, number in it) of the piece of time t."""
        now = jnp.searchsorted(self.switches, t, side="right")
        stack, at = (jnp.asarray(column)[now] for column in zip(*self.order, strict=True))
        return stack, at

    @property
    def traits(self) -> Traits:
        joined = join([_traits_of_stack(stack) for stack in self.stacks])
        own = [] if joined.jump_times is None else [joined.jump_times]
        return joined.but(jump_times=jnp.sort(jnp.concatenate([self.switches, *own])))

    def check(self, n: int, d: int) -> None:
        for stack in self.stacks:
            stack.check(n, d)

    def with_masses(self, masses: Float[AnyArray, " n"]) -> PiecewiseConstant:
        changed = tuple(eqx.filter_vmap(lambda piece: piece.with_masses(masses))(stack) for stack in self.stacks)
        return eqx.tree_at(lambda model: model.stacks, self, changed)


def _member(stack: Dynamics, at: int | Array) -> Dynamics:
    return jax.tree.map(lambda leaf: leaf[at], stack)


def _traits_of_stack(stack: Dynamics) -> Traits:
    """What all members say together, without taking the stack apart."""
    if not jax.tree.leaves(stack):
        return stack.traits
    each = eqx.filter_vmap(lambda piece: piece.traits.but(gradient=None))(stack)
    w = each.weights
    mixed = w is not None and parameters.known(w) and bool(np.any(np.asarray(w) != np.asarray(w)[0]))
    return each.but(
        max_step=None if each.max_step is None else jnp.min(jnp.asarray(each.max_step)),
        jump_times=None if each.jump_times is None else each.jump_times.reshape(-1),
        masses="mixed" if mixed else each.masses,
        weights=None if w is None or mixed else w[0],
    )
