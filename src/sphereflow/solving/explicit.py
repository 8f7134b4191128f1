r"""Steps of Dormand and Prince's method of order 8 as one small program, for solves that are not differentiated.

$k_i = f\big(t + c_i h,\; y + h\sum_{j<i} a_{ij} k_j\big)$, $y' = y + h\sum_i b_i k_i$, error $h\sum_i e_i k_i$.

The method and its interpolant are those of diffrax. But the program of `diffrax.diffeqsolve`, which can do much more,
takes nearly twice as long to trace and to compile, and a person waits for that when a run is small. Here the field is
in the program once: everything that needs it is a stage of one loop, the defect of the interpolant (see
`wrapped.Dense`) included.

The length of steps is chosen with more care than there, so that fewer are taken and fewer are rejected: the first one
by the size of the field and of its change along a short Euler step, the next ones by the trend of the error
(Gustafsson, ACM TOMS 20, 1994), and the last one is made a little longer rather than followed by a tiny one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from equinox.internal import unvmap_max
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from sphereflow.solving.wrapped import PLACE, SHARE

# The rule for the next step: the share of the best length that is taken, and by how much a length may change.
_SAFETY, _LEAST, _MOST, _ORDER = 0.95, 0.2, 10.0, 8
# The trend is not read off errors below this share of the tolerance: they are rounding.
_FAINT = 1e-3
# A step that would end so little before the last time, in its own lengths, goes on to it: the error, of order h^9,
# grows by less than the rule for the next step leaves free.
_STRETCH = 0.04
# The first step: a trial, an Euler step, moves tokens by this share of their size at most, and takes at most this share
# of the time. It shows the rate r at which the field changes. Then $(hr)^9$ times the distance |field|/r is a guess at
# the terms of the order that the method leaves out: so many tolerances, as it makes a far smaller error than they are.
_TRIAL, _MODEST = 0.01, 100.0
# Frames are read off a step several at a time, so many numbers at most: beyond, what is read in vain costs more than
# the turns of a loop.
_TOGETHER, _SMALL = 8, 2**12

_NUMBERS = diffrax.Dopri8.tableau
_INTERPOLANT: Any = diffrax.Dopri8.interpolation_cls
_STAGES = len(_NUMBERS.b_sol)
_POWERS = 2 + max(len(coefficients) for coefficients in _INTERPOLANT.eval_coeffs)


def _tableau() -> tuple[np.ndarray, ...]:
    r"""a and c, with a last row for the interpolant $y + h\sum_i w_i(\theta) k_i$ at `PLACE`; b, e, $w'$ there;
    and the coefficients of w."""
    a, c = np.zeros((_STAGES + 1, _STAGES + 1)), np.zeros(_STAGES + 1)
    for i, row in enumerate(_NUMBERS.a_lower):
        a[i + 1, : len(row)] = row
    c[1:_STAGES], c[_STAGES] = _NUMBERS.c, PLACE
    weights = [np.poly1d([*coefficients, 0.0]) for coefficients in _INTERPOLANT.eval_coeffs]
    a[_STAGES, :_STAGES] = [w(PLACE) for w in weights]
    slope = np.array([w.deriv()(PLACE) for w in weights])
    powers = np.array([np.pad(w.coeffs[::-1], (0, _POWERS - len(w.coeffs))) for w in weights])
    return a, c, np.asarray(_NUMBERS.b_sol), np.asarray(_NUMBERS.b_error), slope, powers


_TABLEAU = _tableau()


class _State(NamedTuple):
    """Time, tokens, where the step under way ends, its first stage, length and error of the last step, frames so far,
    and how many steps were tried: negative while the length of the first one is being found."""

    t: Float[Array, ""]
    y: Float[Array, "n d"]
    until: Float[Array, ""]
    first: Float[Array, "n d"]
    before: tuple[Float[Array, ""], Float[Array, ""]]
    frames: Any
    saved: Int[Array, ""]
    steps: Int[Array, ""]


def explicit_solve(
    field: Callable[[Array, Array], Array],
    y0: Float[Array, "n d"],
    times: Float[Array, " T"],
    local: Float[Array, ""],
    first_step: Float[Array, ""] | None,
    longest: Float[Array, ""] | None,
    keep: Callable[[Array], Any],
    max_steps: int,
) -> tuple[Any, Float[Array, ""], Float[Array, "n d"], Int[Array, ""], Bool[Array, ""]]:
    """Frames `keep(y)` at the times (infinite where not reached), where the solve ended, steps, whether in time."""
    dtype, between = y0.dtype, len(times) > 2
    rows = _STAGES + between
    together = min(_TOGETHER, len(times), max(1, _SMALL // y0.size))
    a, c, b, e, slope, powers = (jnp.asarray(numbers, dtype) for numbers in _TABLEAU)
    end = times[-1]
    # Less than this from the end, a step would be too short for its interpolant.
    near_end = end - 100 * jnp.finfo(dtype).eps * jnp.abs(end)
    # Beyond the last frame there is room for what is read with it in vain.
    due_at = jnp.concatenate([times, jnp.full(together, jnp.inf, dtype)])

    def combined(weights: Array, k: Array) -> Array:
        return jnp.tensordot(weights, k, 1)

    def limited(h: Array) -> Array:
        return h if longest is None else jnp.minimum(h, longest)

    def ending(t: Array, h: Array) -> Array:
        """Where a step of about this length from t ends."""
        until = t + h
        reach = until if longest is not None else until + _STRETCH * h
        return jnp.where((reach > end) | (until > near_end), end, until)

    def step(state: _State) -> _State:
        t, y, until, first, before, frames, saved, steps = state
        h = until - t
        finding = steps < 0

        def stage(i: Array, k: Array) -> Array:
            row = lax.dynamic_index_in_dim(a, i, keepdims=False)[:rows]
            at = lax.dynamic_index_in_dim(c, i, keepdims=False)
            return lax.dynamic_update_index_in_dim(k, field(t + at * h, y + h * combined(row, k)), i, 0)

        # The last stage of a step is the first of the next. Replicas go through the stages together. Stages start from
        # zero: what a step that was too long left there may not be finite. The second stage is an Euler step, so that
        # the first two, one by one, are the trial that finds the length of the first step.
        now = unvmap_max(steps)
        k = jnp.zeros((rows, *y.shape), dtype).at[0].set(first)
        k = lax.fori_loop(jnp.where(now == -2, 0, 1), jnp.where(now < 0, now + 3, rows), stage, k)
        inner = k[:_STAGES]
        y1, error = y + h * combined(b, inner), jnp.abs(h * combined(e, inner))
        if between:
            error = jnp.maximum(error, SHARE * jnp.abs(h * (combined(slope, inner) - k[_STAGES])))
        size = jnp.maximum(jnp.abs(y), jnp.where(jnp.isnan(y1).any(), 0, jnp.abs(y1)))
        # Where the field is not defined the step is too long.
        ratio = jnp.max(jnp.where(jnp.isnan(error), jnp.inf, error) / (local + local * size))
        good = (ratio < 1) & ~finding
        factor, before = _change(ratio, h, good, before)
        next_h = limited(h * lax.stop_gradient(factor).astype(dtype))
        if between:

            def save(kept: tuple[Array, Any]) -> tuple[Array, Any]:
                i, frames = kept
                at = lax.dynamic_slice_in_dim(due_at, i, together)
                place = jnp.clip((at - t) / h, 0, 1)
                weights = (place[:, None] ** jnp.arange(_POWERS, dtype=dtype)) @ powers.T
                due = at <= until
                new = jax.vmap(keep)(y + h * combined(weights, inner))

                def put(every: Array, some: Array) -> Array:
                    here = due.reshape(-1, *([1] * (some.ndim - 1)))
                    some = jnp.where(here, some, _unreached(some))
                    return lax.dynamic_update_slice_in_dim(every, some, i, 0)

                return i + jnp.sum(due), jax.tree.map(put, frames, new)

            def due(kept: tuple[Array, Any]) -> Array:
                return good & (due_at[kept[0]] <= until)

            saved, frames = lax.while_loop(due, save, (saved, frames))
        t, y, first = (jnp.where(good, new, old) for new, old in ((until, t), (y1, y), (k[_STAGES - 1], k[0])))
        beyond = jnp.where(good, end, t + 0.5 * (end - t))  # a last step that was too long is halved
        until = jnp.where(ending(t, next_h) >= end, beyond, t + next_h)
        if first_step is None:
            found = ending(t, limited(_first_length(k, c[1] * h, end - t, y, local)))
            until = jnp.where(finding, jnp.where(steps == -2, t + _trial(k[0], end - t, y, local) / c[1], found), until)
            return _State(t, y, until, first, before, frames, saved, steps + 1)
        until = jnp.where(finding, state.until, until)
        return _State(t, y, until, first, before, frames, saved, jnp.where(finding, 0, steps + 1))

    kept = keep(y0)
    frames = jax.tree.map(
        lambda one: jnp.broadcast_to(_unreached(one), (len(times) + together, *one.shape)).at[0].set(one), kept
    )
    zero = jnp.zeros((), int)
    unknown = (jnp.zeros((), dtype), jnp.ones((), dtype))
    until = end if first_step is None else ending(times[0], limited(jnp.asarray(first_step, dtype)))
    start = _State(times[0], y0, until, jnp.zeros_like(y0), unknown, frames, zero + 1, zero - 2)
    final = lax.while_loop(lambda state: (state.t < end) & (state.steps < max_steps), step, start)
    in_time, frames = final.t >= end, jax.tree.map(lambda every: every[: len(times)], final.frames)
    if not between:
        frames = jax.tree.map(
            lambda every, one: every.at[-1].set(jnp.where(in_time, one, every[-1])), frames, keep(final.y)
        )
    return frames, final.t, final.y, jnp.maximum(final.steps, 0), in_time


def _trial(
    first: Float[Array, "n d"], rest: Float[Array, ""], y: Float[Array, "n d"], local: Float[Array, ""]
) -> Float[Array, ""]:
    """The length of an Euler step that moves tokens by a small share of their size, and not far in time."""
    scale = local + local * jnp.abs(y)
    size, speed = jnp.max(jnp.abs(y) / scale), jnp.max(jnp.abs(first) / scale)
    length = _TRIAL * size / jnp.where(speed > 0, speed, 1)
    return lax.stop_gradient(jnp.clip(jnp.where(speed > 0, length, jnp.inf), 1e-6 * rest, _TRIAL * rest))


def _first_length(
    k: Float[Array, "stages n d"],
    trial: Float[Array, ""],
    rest: Float[Array, ""],
    y: Float[Array, "n d"],
    local: Float[Array, ""],
) -> Float[Array, ""]:
    """A first step whose error is modest, by the field at the start and after the trial, its first two stages."""
    scale = local + local * jnp.abs(y)
    speed, bend = jnp.max(jnp.abs(k[0]) / scale), jnp.max(jnp.abs(k[1] - k[0]) / scale) / trial
    bend = jnp.where(jnp.isfinite(bend), bend, jnp.inf)  # where it is not defined: be short
    moving, turning = speed > 0, bend > 0
    rate = jnp.where(turning, bend, 1) / jnp.where(moving, speed, 1)
    length = (_MODEST * rate / jnp.where(moving, speed, 1)) ** (1 / (_ORDER + 1)) / rate
    length = jnp.where(moving & turning & jnp.isfinite(bend), length, jnp.where(jnp.isfinite(bend), jnp.inf, 0.0))
    return lax.stop_gradient(jnp.clip(length, 1e-6 * trial, jnp.minimum(100 * trial, rest)))


def _change(
    ratio: Float[Array, ""], h: Float[Array, ""], good: Bool[Array, ""], before: tuple[Array, Array]
) -> tuple[Float[Array, ""], tuple[Array, Array]]:
    r"""The factor on the step h with an error of `ratio` tolerances, and what the next one is told of it.

    $(1/r)^{1/8}$; after a good step not more than the trend says, $\frac{h}{h'}(r'/r^2)^{1/8}$ with the length h' and
    the error r' of the good one before, and never less than 1: an error that grows from step to step goes on growing.
    """
    last_h, last_ratio = before
    plain = (1 / ratio) ** (1 / _ORDER)
    trend = h / jnp.where(last_h > 0, last_h, h) * (last_ratio / jnp.maximum(ratio, _FAINT) ** 2) ** (1 / _ORDER)
    best = jnp.where(good & (last_h > 0), jnp.minimum(plain, trend), plain)
    # A good step is never followed by a shorter one: where errors are rough, steps would shrink without end.
    factor = jnp.clip(_SAFETY * best, jnp.where(good, 1.0, _LEAST), jnp.where(good, _MOST, _SAFETY))
    told = (jnp.where(good, h, last_h), jnp.where(good, jnp.maximum(ratio, _FAINT), last_ratio))
    return factor, lax.stop_gradient(told)


def _unreached(one: Array) -> Array:
    """What stands for a number of a frame before it is reached: infinity, or the least whole number."""
    whole = jnp.issubdtype(one.dtype, jnp.integer)
    return jnp.asarray(jnp.iinfo(one.dtype).min if whole else False if one.dtype == bool else jnp.inf, one.dtype)
