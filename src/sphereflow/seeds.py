"""Seeds: whatever is random here begins from a whole number or from a JAX key.

A key is a scalar made by `jax.random.key`, `split` or `fold_in`, or one of the older kind, `jax.random.PRNGKey`. What
JAX draws may be traced, so that `jax.vmap` over keys works; what NumPy draws begins from `number_from(key)`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from sphereflow.errors import SphereflowError

Seed = int | np.integer | Array
# A seed as results keep it: the number, or the words of the key, so that it can be written, read and compared.
Record = int | tuple[int | str, ...]

LARGEST = 2**63 - 1
_USUAL = "threefry2x32"


def checked(seed: Seed, *, most: int = LARGEST) -> int | Array:
    """The seed as an int or as a scalar key of the new kind, or one sentence about what was wrong with it."""
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and 0 <= seed <= most:
        return int(seed)
    shown = repr(seed)
    if isinstance(seed, (jax.Array, np.ndarray)):
        shown = f"an array of {seed.dtype} of shape {seed.shape}"
        if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
            if seed.shape == ():
                return seed
            shown = f"{seed.size} keys of shape {seed.shape} (use jax.vmap over them)"
        elif seed.dtype == np.uint32 and seed.shape == jax.eval_shape(jax.random.PRNGKey, 0).shape:
            return jax.random.wrap_key_data(seed)
    raise SphereflowError(f"seed must be a whole number from 0 to {most} or a JAX key, got {shown}.")


def key_from(seed: Seed, *, most: int = LARGEST) -> Array:
    """The JAX key of a seed; a key is its own, traced or not."""
    given = checked(seed, most=most)
    return jax.random.key(given) if isinstance(given, int) else given


def number_from(seed: Seed, *, most: int = LARGEST) -> int:
    """The whole number of a seed: itself, or for a key the 61 bits to which NumPy's SeedSequence mixes its words.

    Numbers of different keys are unrelated, also those of neighbouring keys, so that n, n + 1, 2n are streams of one
    key alone.
    """
    given = checked(seed, most=most)
    if isinstance(given, int):
        return given
    return int(np.random.SeedSequence(_words(given)).generate_state(1, np.uint64)[0] >> 3)


def rng_from(seed: Seed, *more: int) -> np.random.Generator:
    """NumPy's generator for a seed, one of its own for every list of further numbers."""
    number = number_from(seed)
    return np.random.default_rng([number, *more] if more else number)


def following(seed: Seed, k: int) -> int | Array:
    """The k-th seed after this one: seed + k, or the key with k folded in."""
    given = checked(seed)
    return given + k if isinstance(given, int) else jax.random.fold_in(given, k)


def recorded(seed: Seed) -> Record:
    """What results keep: the number, or the words of the key, after the name of its generator if that is unusual.

    `jax.random.wrap_key_data(np.array(record, np.uint32))` is the key again.
    """
    given = checked(seed)
    if isinstance(given, int):
        return given
    kind = str(jax.random.key_impl(given))
    return (() if kind == _USUAL else (kind,)) + tuple(_words(given))


def _words(key: Array) -> list[int]:
    if isinstance(key, jax.core.Tracer):
        raise SphereflowError(
            "seed is a traced JAX key, but what is drawn or recorded here is not traced: call this function outside of "
            "jit and vmap."
        )
    return [int(word) for word in np.asarray(jax.random.key_data(key)).ravel()]
