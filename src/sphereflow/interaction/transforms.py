r"""Non-uniform Fourier transforms that can be batched and differentiated both ways.

$$\text{spread:}\quad U_k=\sum_j c_j\,e^{is\,k\cdot\theta_j}, \qquad\qquad
  \text{gather:}\quad f_j=\sum_k U_k\,e^{is\,k\cdot\theta_j}, \qquad s=\pm1,\ |k_a|\le K .$$

Each is the transpose of the other, and the derivative of either in an angle multiplies mode k by $isk$. The transforms
themselves are those of jax-finufft; batches of different points run one after the other. Its own derivatives (1.3.1)
are the same to rounding, but its rule for batches fails with JAX 0.10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Complex, Float

from sphereflow.errors import MissingExtra

# Relative accuracy asked of the transforms: the best that double precision allows, one that single precision does.
PRECISION = {"float64": 1e-14, "float32": 1e-6}


def spread(
    source: Complex[Array, "c n"], *angles: Float[Array, " n"], modes: int, sign: int
) -> Complex[Array, "c ..."]:
    """From n points to the modes -K..K in every angle."""
    return _spread.bind(source, *angles, modes=modes, sign=sign)


def gather(source: Complex[Array, "c ..."], *angles: Float[Array, " n"], sign: int) -> Complex[Array, "c n"]:
    """From the modes -K..K in every angle to n points."""
    return _gather.bind(source, *angles, modes=source.shape[1] // 2, sign=sign)


def _spread_by_library(source: Array, *angles: Array, modes: int, sign: int) -> Array:
    shape, precision = (2 * modes + 1,) * len(angles), PRECISION[angles[0].dtype.name]
    return _library().nufft1(shape, source, *angles, iflag=sign, eps=precision)


def _gather_by_library(source: Array, *angles: Array, modes: int, sign: int) -> Array:
    return _library().nufft2(source, *angles, iflag=sign, eps=PRECISION[angles[0].dtype.name])


def _frequencies(axis: int, angles: int, modes: int, sign: int, dtype: Any) -> Array:
    """i s k along one axis of the modes, after the axis of the charges."""
    shape = [1] * (angles + 1)
    shape[axis + 1] = 2 * modes + 1
    return (1j * sign * jnp.arange(-modes, modes + 1)).astype(dtype).reshape(shape)


def _spread_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, modes: int, sign: int) -> tuple[Any, Any]:
    def turn(axis: int, source: Array, speed: Array, angles: Sequence[Array]) -> Array:
        wave = _frequencies(axis, len(angles), modes, sign, source.dtype)
        return wave * _spread.bind(source * speed, *angles, modes=modes, sign=sign)

    return _jvp(_spread, turn, primals, tangents, modes=modes, sign=sign)


def _gather_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, modes: int, sign: int) -> tuple[Any, Any]:
    def turn(axis: int, source: Array, speed: Array, angles: Sequence[Array]) -> Array:
        wave = _frequencies(axis, len(angles), modes, sign, source.dtype)
        return speed * _gather.bind(wave * source, *angles, modes=modes, sign=sign)

    return _jvp(_gather, turn, primals, tangents, modes=modes, sign=sign)


def _jvp(
    primitive: Primitive,
    turn: Callable[[int, Array, Array, Sequence[Array]], Array],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    **static: int,
) -> tuple[Any, Any]:
    source, *angles = primals
    parts = [
        turn(axis, source, speed, angles) for axis, speed in enumerate(tangents[1:]) if not isinstance(speed, ad.Zero)
    ]
    if not isinstance(tangents[0], ad.Zero):
        parts.append(primitive.bind(tangents[0], *angles, **static))
    out = primitive.bind(source, *angles, **static)
    return out, sum(parts[1:], parts[0]) if parts else ad.Zero(jax.typeof(out))


def _one_by_one(primitive: Primitive) -> Callable[..., tuple[Array, int]]:
    def rule(arguments: Sequence[Array], axes: Sequence[int | None], **static: int) -> tuple[Array, int]:
        size = next(a.shape[axis] for a, axis in zip(arguments, axes, strict=True) if axis is not None)
        rows = tuple(
            jnp.broadcast_to(a, (size, *a.shape)) if axis is None else jnp.moveaxis(a, axis, 0)
            for a, axis in zip(arguments, axes, strict=True)
        )
        return jax.lax.map(lambda row: primitive.bind(*row, **static), rows), 0

    return rule


def _define(name: str, run: Callable[..., Array], jvp: Callable[..., Any], shape: Callable[..., Any]) -> Primitive:
    primitive = Primitive(name)
    primitive.def_impl(jax.jit(run, static_argnames=("modes", "sign")))
    primitive.def_abstract_eval(
        lambda source, *angles, **static: source.update(shape=shape(source, *angles, **static), weak_type=False)
    )
    mlir.register_lowering(primitive, mlir.lower_fun(run, multiple_results=False))
    batching.primitive_batchers[primitive] = _one_by_one(primitive)
    ad.primitive_jvps[primitive] = jvp
    return primitive


def _transposed_by(other: Primitive) -> Callable[..., list[Any]]:
    def rule(cotangent: Any, source: Any, *angles: Array, **static: int) -> list[Any]:
        nothing = [None] * len(angles)
        if isinstance(cotangent, ad.Zero):
            return [ad.Zero(source.aval), *nothing]
        return [other.bind(cotangent, *angles, **static), *nothing]

    return rule


def _library() -> Any:
    try:
        import jax_finufft
    except ImportError:
        raise MissingExtra("jax-finufft", "fast", "the non-uniform FFT") from None
    return jax_finufft


_spread = _define(
    "nonuniform_spread",
    _spread_by_library,
    _spread_jvp,
    lambda source, *angles, modes, sign: (source.shape[0], *(2 * modes + 1,) * len(angles)),
)
_gather = _define(
    "nonuniform_gather",
    _gather_by_library,
    _gather_jvp,
    lambda source, *angles, modes, sign: (source.shape[0], angles[0].shape[0]),
)
ad.primitive_transposes[_spread] = _transposed_by(_gather)
ad.primitive_transposes[_gather] = _transposed_by(_spread)
