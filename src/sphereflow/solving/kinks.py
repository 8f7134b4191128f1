r"""Steps that end where the field has a kink.

Let the field be $f^\pm$ on the two sides of $g(t, x) = 0$, continuous, with $|f^+-f^-| \le J\,|g|$: the input of a ReLU
neuron. A step takes one side for all its stages, that of its start. It solves a smooth equation then, with the order of
the method and a valid error estimate, and its interpolant p shows whether g changes sign, and when. A step that goes
on to $\tau + w$ beyond the zero at $\tau$ adds the error

$$e \le \int_\tau^{\tau+w} J\,|g(p(t))|\,dt = \tfrac12 J\,|\dot g|\,w^2 + O(w^3),$$

and so does a step that takes the other side w too early. Where e is below a share of the tolerance, nothing is done:
that is so where g only touches zero, and where so many zeros lie so close that steps are short anyway, so that no
number of neurons needs more than of order $T\sqrt{J/\mathrm{tol}}$ steps, the number that a method without kinks in
mind needs. Else the step is rejected and made again up to $\tau$. The interpolant of the rejected step is that of the
equation up to $\tau$, so $\tau$ is as precise as the tokens. It also shows where other tokens will meet their kinks;
tokens feel each other little within a step, so these times are tried as the next ends of steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from sphereflow.dynamics import Dynamics, Kinks
from sphereflow.dynamics.traits import each_kink
from sphereflow.solving.wrapped import Wrapped
from sphereflow.sphere import normalise

# Between how many places of a step g is read as a cubic, from its values and derivatives there.
_INTERVALS = 4
# How many of the next kinks are remembered.
_AHEAD = 8
# The share of the local tolerance that one kink may cost.
_SHARE = 0.01


def has_kinks(model: Dynamics, t: Any, x: Any) -> bool:
    """Whether the dynamics says that its derivative jumps anywhere."""
    return bool(jax.tree.leaves(jax.eval_shape(model.kinks, t, x)))


class Kinked(Wrapped):
    """A method that takes one side of every kink for a step, and tells `AtKinks` when the side changed.

    Its state holds the sides for the next step, and whether they are other than those of the last. Its estimate of the
    error is a pair: that of the method, and the first times at which the side changed (infinite if there are none).
    """

    model: Dynamics
    origin: Float[Array, ""]
    tol: Float[Array, ""]

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        return super().init(terms, t0, t1, y0, args), self._sides_at(terms, t0, y0, args), jnp.array(False)

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any) -> Any:
        inner, sides, turned = solver_state
        if self.model.traits.jump_times is not None:
            sides = jax.lax.cond(made_jump, lambda: self._sides_at(terms, t0, y0, args), lambda: sides)
        beside = (self.model.continued(self.origin + t0, sides), self.origin)
        # What the method remembers of its last stage is the field on the old sides.
        y1, error, between, inner, result = self.solver.step(terms, t0, t1, y0, beside, inner, made_jump | turned)
        times, after = jax.lax.stop_gradient(self._zeros(t0, t1, between, sides))
        differ = [jnp.any(a != b) for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(sides), strict=True)]
        return y1, (error, times), between, (inner, after, jnp.stack(differ).any()), result

    def _kinks(self, t: Any, y: Array) -> Any:
        on_sphere = self.model.traits.space == "sphere"
        return self.model.kinks(self.origin + t, normalise(y) if on_sphere else y)

    def _sides_at(self, terms: Any, t: Any, y: Array, args: Any) -> Any:
        t, y = jax.lax.stop_gradient((t, y))
        rate = jax.lax.stop_gradient(terms.vf(t, y, args))
        kinks, speeds = jax.jvp(self._kinks, (t, y), (jnp.ones_like(t), rate))
        return jax.lax.stop_gradient(self._sides(kinks, speeds))

    def _sides(self, kinks: Any, speeds: Any) -> Any:
        """Which side to take from here on: the other one already, where the zero is so near that it costs nothing."""

        def one(kink: Kinks, rate: Kinks) -> Bool[Array, "..."]:
            g, speed = kink.values, rate.values
            near = (g * speed <= 0) & (kink.jumps * g**2 <= 2 * _SHARE * self.tol * jnp.abs(speed))
            return jnp.where(near, speed > 0, g > 0)

        return jax.tree.map(one, kinks, speeds, is_leaf=lambda node: isinstance(node, Kinks))

    def _zeros(self, t0: Any, t1: Any, between: Any, sides: Any) -> tuple[Float[Array, " k"], Any]:
        """(The first times at which sides change that must not, the sides after the step)."""
        path = self.interpolation_cls(t0=t0, t1=t1, **between)
        h = t1 - t0

        def along(place: Any) -> Any:
            t = t0 + place * h
            y, rise = jax.jvp(path.evaluate, (t,), (h,))
            return jax.jvp(self._kinks, (t, y), (h, rise))

        kinks, rises = jax.vmap(along)(jnp.linspace(0, 1, _INTERVALS + 1, dtype=t0.dtype))
        last = jax.tree.map(lambda leaf: leaf[-1], (kinks, rises))
        rates = each_kink(lambda rise: Kinks(rise.values / h, rise.jumps), last[1])
        values, jumps = _flat(each_kink(lambda k: k.values, kinks)), _flat(each_kink(lambda k: k.jumps, kinks))
        slopes = _flat(each_kink(lambda k: k.values, rises))
        sign = jnp.where(_flat(jax.tree.map(lambda side: side[None], sides)), 1.0, -1.0).astype(t0.dtype)
        cubics = Cubics(sign * values, sign * slopes)

        def located() -> Float[Array, " k"]:
            where = cubics.first_zeros()
            cost = jumps[-1] * jnp.max(-cubics.lowest, axis=0) * h * (1 - where) / 2
            counts = cost > _SHARE * self.tol
            # Beyond the zero the cost grows like the square of the time. A step is never shorter than what a quarter
            # of the share pays for, nor than a few units of rounding: each of them is progress.
            paid = (1 - where) / 2 * jnp.sqrt(_SHARE * self.tol / jnp.where(counts, cost, 1.0))
            least = 100 * jnp.finfo(t0.dtype).eps * jnp.maximum(jnp.abs(t0), jnp.abs(t1))
            time = t0 + jnp.maximum(jnp.maximum(where, paid) * h, least)
            return _soonest(jnp.where(counts & (h > 2 * least), time, jnp.inf))

        none = jnp.full(_AHEAD, jnp.inf, t0.dtype)
        times = jax.lax.cond(jnp.any(cubics.lowest < 0), located, lambda: none)
        return times, self._sides(last[0], rates)


def _soonest(times: Float[Array, " k"]) -> Float[Array, " few"]:
    """The first of these times, in order; sorting all of them would take longer."""
    found = []
    for _ in range(_AHEAD):
        found.append(jnp.min(times))
        times = jnp.where(times <= found[-1], jnp.inf, times)
    return jnp.stack(found)


def _flat(tree: Any) -> Array:
    """Arrays with one leading axis, side by side."""
    return jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(tree)], axis=1)


class Cubics:
    """Functions on [0, 1], positive at first, read as cubics between equidistant places from values and slopes there.

    `lowest`: on each of the intervals, the value at its end, or at the bottom of a dip, which the slopes show.
    """

    def __init__(self, values: Float[Array, "places k"], slopes: Float[Array, "places k"]):
        self.parts = len(values) - 1
        rise, d0, d1 = values[1:] - values[:-1], slopes[:-1] / self.parts, slopes[1:] / self.parts
        self.coefficients = jnp.stack([values[:-1], d0, 3 * rise - 2 * d0 - d1, d0 + d1 - 2 * rise])
        dips = (d0 < 0) & (d1 > 0)
        b, c = 2 * self.coefficients[2], 3 * self.coefficients[3]
        root = jnp.sqrt(jnp.where(dips, b**2 - 4 * c * d0, 1.0))
        self.ends = jnp.where(dips, -2 * d0 / jnp.where(dips, b + root, 1.0), 1.0)
        self.lowest = jnp.where(dips, _cubic(self.coefficients, self.ends)[0], values[1:])

    def first_zeros(self) -> Float[Array, " k"]:
        """Where they first become negative, 1 where they stay positive.

        One that starts at -a with the slope b > 0 should be positive at 2a/b, and is followed from there. If it is not,
        2a/b is the answer: the time for which it was allowed to be wrong, and as much again.
        """
        below = self.lowest < 0
        first, columns = jnp.argmax(below, axis=0), jnp.arange(below.shape[1])
        mine, end = self.coefficients[:, first, columns], self.ends[first, columns]

        def narrow(_: Any, bracket: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            """A step of Newton's method, inside of a bracket that shrinks."""
            low, high, s = bracket
            value, slope = _cubic(mine, s)
            low, high = jnp.where(value < 0, low, s), jnp.where(value < 0, s, high)
            newton = s - value / jnp.where(slope == 0, 1.0, slope)
            return low, high, jnp.where((slope < 0) & (newton >= low) & (newton <= high), newton, (low + high) / 2)

        begin = jnp.where(
            mine[0] < 0, jnp.minimum(2 * jnp.abs(mine[0] / jnp.where(mine[1] == 0, 1.0, mine[1])), end), 0.0
        )
        s = jax.lax.fori_loop(0, 10, narrow, (begin, end, (begin + end) / 2))[2]
        s = jnp.where(_cubic(mine, begin)[0] < 0, begin, s)
        return jnp.where(jnp.any(below, axis=0), jnp.minimum((first + s) / self.parts, 1.0), 1.0)


def _cubic(c: Float[Array, "4 ..."], s: Float[Array, "..."]) -> tuple[Array, Array]:
    """(Value, slope)."""
    return c[0] + s * (c[1] + s * (c[2] + s * c[3])), c[1] + s * (2 * c[2] + 3 * s * c[3])


class _Plan(NamedTuple):
    """What `AtKinks` remembers: the state of the controller inside, kinks to come, the step that is wanted after."""

    inner: Any
    ahead: Float[Array, " k"]
    wanted: Float[Array, ""]


class AtKinks(diffrax.AbstractAdaptiveStepSizeController):
    """A controller that makes steps of a `Kinked` method end at kinks."""

    controller: diffrax.AbstractAdaptiveStepSizeController

    @property  # type: ignore[misc]
    def rtol(self) -> Any:  # type: ignore[override]
        return self.controller.rtol

    @property  # type: ignore[misc]
    def atol(self) -> Any:  # type: ignore[override]
        return self.controller.atol

    @property  # type: ignore[misc]
    def norm(self) -> Any:  # type: ignore[override]
        return self.controller.norm

    def wrap(self, direction: Any) -> AtKinks:
        return AtKinks(controller=self.controller.wrap(direction))  # type: ignore[call-arg, arg-type]

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, dt0: Any, args: Any, func: Any, error_order: Any) -> Any:
        end, inner = self.controller.init(terms, t0, t1, y0, dt0, args, func, error_order)
        return end, _Plan(inner, jnp.full(_AHEAD, jnp.inf, t0.dtype), jnp.zeros_like(t0))

    def adapt_step_size(
        self, t0: Any, t1: Any, y0: Any, y1_candidate: Any, args: Any, y_error: Any, error_order: Any, plan: _Plan
    ) -> Any:
        error, times = y_error
        good, next_t0, next_t1, jump, inner, result = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, error, error_order, plan.inner
        )
        early = good & jnp.isfinite(times[0])  # a good step, were it not for a kink
        keep = good & ~early
        start, stop = jnp.where(early, t0, next_t0), jnp.where(early, times[0], next_t0)
        ahead = jnp.where(early, times, plan.ahead)
        ahead = jnp.where(good & (ahead > stop), ahead, jnp.inf)
        kink = jnp.min(ahead)
        # After a short step to a kink the controller goes on with the length that it had in mind before.
        wanted = jnp.where(good, jnp.maximum(plan.wanted, next_t1 - next_t0), 0.0)
        end = jnp.where(early, stop, jnp.where(keep, jnp.minimum(start + wanted, kink), next_t1))
        inner = jax.tree.map(lambda new, old: jnp.where(early, old, new), inner, plan.inner)
        wanted = jnp.where(keep & ~jnp.isfinite(kink), 0.0, wanted)
        return keep, start, end, jump, _Plan(inner, ahead, wanted), result
