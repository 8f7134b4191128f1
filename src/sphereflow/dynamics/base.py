r"""A dynamics is a vector field on tokens, $\dot x_i = f_i(t, x)$, with its energy where it has one.

On the sphere the field is written for unit tokens and is tangent there; whoever integrates it evaluates it at x/|x|,
which extends it to R^d without changing the flow on the sphere.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float

from sphereflow.dynamics.traits import Kinks, Traits, join
from sphereflow.errors import SphereflowError
from sphereflow.interaction import Engine
from sphereflow.shapes import AnyArray, ArrayLike

if TYPE_CHECKING:
    from sphereflow.dynamics.combinations import Scaled, Sum

Tree = TypeVar("Tree")
Model = TypeVar("Model", bound="Dynamics")


class Dynamics(eqx.Module):
    """A vector field f(t, x) on tokens x of shape (n, d).

    A dynamics of one's own defines `field`, and `energy` if it has one. If it is not on the sphere, jumps in time or
    has masses, it says so in `traits`. Dynamics can be added, negated, multiplied by numbers and scheduled.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("space", "max_step", "jump_times", "token_weights", "is_gradient_flow"):
            if name in cls.__dict__:  # the spelling of version 0.1, which would be passed over in silence
                raise SphereflowError(f"{cls.__name__}.{name}: what a dynamics says of itself stands in its `traits`.")
        if ("kinks" in cls.__dict__) != ("continued" in cls.__dict__):
            raise SphereflowError(f"{cls.__name__} must define kinks and continued together, or neither.")
        if "field" in cls.__dict__ and "kinks" not in cls.__dict__:  # those inherited are of another field
            cls.kinks, cls.continued = Dynamics.kinks, Dynamics.continued  # type: ignore[method-assign]

    @abc.abstractmethod
    def field(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """Velocity of every token at time t."""

    @property
    def traits(self) -> Traits:
        """What wrappers and solvers must know: by default what the parts say together."""
        inside = parts(self)
        return join([part.traits for part in inside]) if inside else Traits()

    def kinks(self, t: Float[Array, ""], x: Float[Array, "n d"]) -> Kinks | tuple | None:
        """Where the derivative of the field jumps: `Kinks`, or a tuple of what the parts say; None where it is smooth.

        Solvers end their steps there. Whoever defines `kinks` defines `continued` as well.
        """
        return None

    def continued(self, t: Float[Array, ""], sides: Any) -> Dynamics:
        """The field of time t with its branches continued smoothly beyond their kinks.

        `sides` has the shape of `kinks`, with an array of truth values for each record: whether the values are taken
        to be positive.
        """
        return self

    def energy(self, x: Float[Array, "n d"], weights: Float[Array, " n"] | None = None) -> Float[Array, ""]:
        """The energy of the tokens, where one is known; `weights` are masses other than the model's."""
        raise SphereflowError(f"no energy is known for {type(self).__name__}.")

    def energy_rate(self, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """dE/dt by the dissipation identity, a sum of squared speeds, not by differentiating the energy."""
        raise SphereflowError(f"no dissipation identity is known for {type(self).__name__}.")

    def check(self, n: int, d: int) -> None:
        """Say in one sentence why n tokens in dimension d do not go with the parameters, if they do not."""
        for part in parts(self):
            part.check(n, d)

    def tuned(self, n: int, d: int, tol: float, dtype: str = "float64", method: str | Engine = "auto") -> Dynamics:
        """The same field with the engine for n tokens in dimension d chosen, which compiled code cannot do itself."""
        return with_parts(self, lambda part: part.tuned(n, d, tol, dtype, method))

    def gathered(self, x: Float[Array, "n d"]) -> Dynamics:
        """The same field, with `Adaptive` sums done through clusters where that is faster for these tokens."""
        return with_parts(self, lambda part: part.gathered(x))

    def sharded(self, mesh: Mesh) -> Dynamics:
        """The same field with its sums over tokens done by all devices of the mesh, each with its share of tokens."""
        return with_parts(self, lambda part: part.sharded(mesh))

    def with_masses(self, masses: Float[AnyArray, " n"]) -> Dynamics:
        """The same dynamics for tokens with these masses."""
        if self.traits.masses != "any" and not parts(self):
            raise SphereflowError(
                f"{type(self).__name__} does not say how masses enter: define with_masses, or, if no token feels "
                'another, traits with masses="any".'
            )
        return with_parts(self, lambda part: part.with_masses(masses))

    @property
    def engine_name(self) -> str:
        """How sums over tokens are done."""
        return next((part.engine_name for part in parts(self) if part.engine_name != "direct"), "direct")

    @property
    def engine_error(self) -> float:
        """A bound of the relative error of these sums, zero (rounding) for direct ones."""
        return max((part.engine_error for part in parts(self)), default=0.0)

    def __add__(self, other: Dynamics) -> Sum:
        from sphereflow.dynamics.combinations import Sum

        return Sum((self, other)) if isinstance(other, Dynamics) else NotImplemented

    def __mul__(self, factor: ArrayLike) -> Scaled:
        from sphereflow.dynamics.combinations import Scaled

        return NotImplemented if isinstance(factor, Dynamics) else Scaled(factor, self)

    __rmul__ = __mul__

    def __neg__(self) -> Scaled:
        return self * -1.0

    def __sub__(self, other: Dynamics) -> Sum:
        return self + -other if isinstance(other, Dynamics) else NotImplemented


def parts(model: Dynamics) -> tuple[Dynamics, ...]:
    """The dynamics that this one is made of."""
    leaves = jax.tree.leaves(model, is_leaf=_part_of(model))
    return tuple(leaf for leaf in leaves if isinstance(leaf, Dynamics))


def with_parts(model: Model, change: Callable[[Dynamics], Dynamics]) -> Model:
    """The same dynamics with `change` applied to its parts."""
    is_part = _part_of(model)
    return jax.tree.map(lambda leaf: change(leaf) if is_part(leaf) else leaf, model, is_leaf=is_part)


def _part_of(model: Dynamics) -> Callable[[object], bool]:
    return lambda node: isinstance(node, Dynamics) and node is not model


def changed(model: Model, **changes: object) -> Model:
    """The same dynamics with other values of some fields, taken as they are: stacks of pieces have stacked numbers."""
    made = object.__new__(type(model))
    for each in dataclasses.fields(model):
        object.__setattr__(made, each.name, changes.get(each.name, getattr(model, each.name)))
    return made


def in_precision(model: Tree, x: Float[Array, "..."]) -> Tree:
    """The model with its numbers in the precision of the tokens: float32 tokens stay float32."""
    complex_kind = jnp.result_type(x.dtype, jnp.complex64)

    def cast(leaf: Any) -> Any:
        if not eqx.is_inexact_array(leaf):
            return leaf
        kind = complex_kind if jnp.iscomplexobj(leaf) else x.dtype
        return leaf if leaf.dtype == kind else leaf.astype(kind)

    return jax.tree.map(cast, model)


def mean_square_speed(velocity: Float[Array, "n d"], weights: Float[Array, " n"] | None) -> Float[Array, ""]:
    r"""$\sum_i w_i |v_i|^2$, with equal weights 1/n if none are given."""
    squares = jnp.sum(velocity**2, axis=-1)
    return jnp.mean(squares) if weights is None else jnp.sum(weights * squares)
