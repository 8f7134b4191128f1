r"""Guidance: real samples of all classes push like generated ones, so that a class is sharpened against the rest.

With $N$ unconditional samples $u_j$ as further negatives of weight $(a-1)m/N$ each, $m$ the number of generated samples
that a sample is pushed by ($n$, or $n-1$ without itself), the samples are pushed by the law
$\frac1aq+\frac{a-1}a p_u$, and the field vanishes for

$$ q=a\,p-(a-1)\,p_u . $$

$a=1$ is no guidance. Negatives of any other origin enter in the same way.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from sphereflow.drifting.fields import DriftField, Field, PopulationField
from sphereflow.drifting.inputs import moderate
from sphereflow.errors import SphereflowError, real_number


class GuidedField(Field):
    """The population field with further negatives, at the guidance scale a >= 1; trains generators like any field.

    ```python
    import jax.numpy as jnp
    from sphereflow.drifting import GuidedField, PopulationField
    field = GuidedField(PopulationField("laplace", 0.5, itself="include"), [[0.0], [1.0]], scale=1.5)
    field(jnp.asarray([[1.0], [1.2]]), jnp.asarray([[0.5], [0.9], [1.1]])).value
    ```
    """

    field: PopulationField
    negatives: Float[Array, "N D"]
    scale: Float[Array, ""]

    def __init__(self, field: PopulationField, negatives: ArrayLike, *, scale: float):
        if not isinstance(field, PopulationField):
            raise SphereflowError(f"field must be a PopulationField, got {type(field).__name__}.")
        self.field = field
        self.negatives = jnp.asarray(moderate("negatives", negatives, shape=("N", "D")))
        self.scale = jnp.asarray(real_number("scale", scale, least=1, most=1e6))

    @eqx.filter_jit
    def __call__(self, data: Float[Array, "m D"], generated: Float[Array, "n D"]) -> DriftField:
        n, dimension = generated.shape
        if self.negatives.shape[1] != dimension:
            raise SphereflowError(
                f"negatives must have the dimension of the samples, {dimension}; got {self.negatives.shape[1]}."
            )
        masked = self.field.itself == "mask"
        each = (self.scale - 1) * (n - masked) / len(self.negatives)
        pushing = jnp.concatenate([generated, self.negatives.astype(generated.dtype)])
        weights = jnp.concatenate([jnp.ones(n), jnp.full(len(self.negatives), each)]).astype(generated.dtype)
        # The generated samples come first: the mask of a sample from itself finds them in their order.
        return self.field.at(generated, data, pushing, None, weights, masked=masked)
