"""Names for the arrays that users hand over, in annotations such as `Float[AnyArray, "n d"]`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.typing
import numpy as np

AnyArray = jax.Array | np.ndarray
ArrayLike = jax.typing.ArrayLike | Sequence
