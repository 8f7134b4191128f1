r"""Steps of Dormand and Prince's method of order 8 as one small program, for solves that are not differentiated.

$k_i = f\big(t + c_i h,\; y + h\sum_{j<i} a_{ij} k_j\big)$, $y' = y + h\sum_i b_i k_i$, error $h\sum_i e_i k_i$.

The method, its interpolant and the rule for the next step are those of diffrax, and so are the steps taken. But the
program of `diffrax.diffeqsolve`, which can do much more, takes nearly twice as long to trace and to compile, and a
person waits for that when a run is small. Here the field is in the program once: everything that needs it is a stage of
one loop, the defect of the interpolant (see `wrapped.Dense`) included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from equinox.internal import unvmap_any
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from sphereflow.solving.wrapped import PLACE, SHARE

# How diffrax's PIDController, as it comes, chooses the first step and the next.
_FIRST, _SAFETY, _LEAST, _MOST, _ORDER = 0.01, 0.9, 0.2, 10.0, 8

_NUMBERS = diffrax.Dopri8.tableau
_INTERPOLANT: Any = diffrax.Dopri8.interpolation_cls
_STAGES = len(_NUMBERS.b_sol)


def _tableau() -> tuple[np.ndarray, ...]:
    r"""a and c, with a last row for the interpolant $y + h\sum_i w_i(\theta) k_i$ at `PLACE`; b, e, and $w'$ there."""
    a, c = np.zeros((_STAGES + 1, _STAGES + 1)), np.zeros(_STAGES + 1)
    for i, row in enumerate(_NUMBERS.a_lower):
        a[i + 1, : len(row)] = row
    c[1:_STAGES], c[_STAGES] = _NUMBERS.c, PLACE
    weights = [np.poly1d([*coefficients, 0.0]) for coefficients in _INTERPOLANT.eval_coeffs]
    a[_STAGES, :_STAGES] = [w(PLACE) for w in weights]
    slope = np.array([w.deriv()(PLACE) for w in weights])
    return a, c, np.asarray(_NUMBERS.b_sol), np.asarray(_NUMBERS.b_error), slope


_TABLEAU = _tableau()


class _State(NamedTuple):
    """Time, tokens, where the step under way ends, its first stage, frames so far, and how many steps were tried."""

    t: Float[Array, ""]
    y: Float[Array, "n d"]
    until: Float[Array, ""]
    first: Float[Array, "n d"]
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
    a, c, b, e, slope = (jnp.asarray(numbers, dtype) for numbers in _TABLEAU)
    end = times[-1]
    # Less than this from the end, a step would be too short for its interpolant.
    near_end = end - 100 * jnp.finfo(dtype).eps * jnp.abs(end)

    def combined(weights: Array, k: Array) -> Array:
        return jnp.tensordot(weights, k, 1)

    def step(state: _State) -> _State:
        t, y, until, first, frames, saved, steps = state
        h = until - t

        def stage(i: Array, k: Array) -> Array:
            return k.at[i].set(field(t + c[i] * h, y + h * combined(a[i, :rows], k)))

        # The last stage of a step is the first of the next. Replicas go through the stages together. Stages start from
        # zero: what a step that was too long left there may not be finite.
        k = jnp.zeros((rows, *y.shape), dtype).at[0].set(first)
        k = lax.fori_loop(jnp.where(unvmap_any(steps == 0), 0, 1), rows, stage, k)
        inner = k[:_STAGES]
        y1, error = y + h * combined(b, inner), jnp.abs(h * combined(e, inner))
        if between:
            error = jnp.maximum(error, SHARE * jnp.abs(h * (combined(slope, inner) - k[_STAGES])))
        size = jnp.maximum(jnp.abs(y), jnp.where(jnp.isnan(y1).any(), 0, jnp.abs(y1)))
        # Where the field is not defined the step is too long.
        ratio = jnp.max(jnp.where(jnp.isnan(error), jnp.inf, error) / (local + local * size))
        good = ratio < 1
        factor = jnp.clip(
            _SAFETY * (1 / ratio) ** (1 / _ORDER), jnp.where(good, 1.0, _LEAST), jnp.where(good, _MOST, _SAFETY)
        )
        next_h = h * lax.stop_gradient(factor).astype(dtype)
        if longest is not None:
            next_h = jnp.minimum(next_h, longest)
        if between:
            interpolant = _INTERPOLANT(t0=t, t1=until, y0=y, y1=y1, k=h * inner)

            def save(kept: tuple[Array, Any]) -> tuple[Array, Any]:
                i, frames = kept
                frame = keep(interpolant.evaluate(times[i]))
                return i + 1, jax.tree.map(lambda every, one: every.at[i].set(one), frames, frame)

            def due(kept: tuple[Array, Any]) -> Array:
                return good & (kept[0] < len(times)) & (times[kept[0]] <= until)

            saved, frames = lax.while_loop(due, save, (saved, frames))
        t, y, first = (jnp.where(good, new, old) for new, old in ((until, t), (y1, y), (k[_STAGES - 1], k[0])))
        beyond = jnp.where(good, end, t + 0.5 * (end - t))  # a last step that was too long is halved
        until = jnp.where(t + next_h > near_end, beyond, t + next_h)
        return _State(t, y, until, first, frames, saved, steps + 1)

    h = jnp.asarray(_FIRST if first_step is None else first_step, dtype)
    until = jnp.minimum(times[0] + (h if longest is None else jnp.minimum(h, longest)), end)
    frames = jax.tree.map(lambda one: _unreached(one, len(times)).at[0].set(one), keep(y0))
    zero = jnp.zeros((), int)
    start = _State(times[0], y0, until, jnp.zeros_like(y0), frames, zero + 1, zero)
    final = lax.while_loop(lambda state: (state.t < end) & (state.steps < max_steps), step, start)
    in_time, frames = final.t >= end, final.frames
    if not between:
        frames = jax.tree.map(
            lambda every, one: every.at[-1].set(jnp.where(in_time, one, every[-1])), frames, keep(final.y)
        )
    return frames, final.t, final.y, final.steps, in_time


def _unreached(one: Array, count: int) -> Array:
    """Frames before they are reached: infinite, or the least whole number."""
    whole = jnp.issubdtype(one.dtype, jnp.integer)
    value = jnp.iinfo(one.dtype).min if whole else False if one.dtype == bool else jnp.inf
    return jnp.full((count, *one.shape), value, one.dtype)
