"""A mathematical perspective on Transformers: clustering of tokens under attention, with its later extensions.

Each part states an independent calculation (a scalar equation, a quadrature, a Bessel formula) as small public
functions, and the claims that compare it with particles.
"""

from sphereflow.papers.mathematical_perspective import (  # noqa: F401  (importing a part registers its claims)
    atoms,
    circle,
    collapse,
    energy,
    ensembles,
    figures,
    first_output,
    harmonics,
    high_dimension,
    long_context,
    negative_beta,
    normalisation,
    orthogonal_start,
    phase,
    sphere_limits,
    trained_layers,
    trained_networks,
)
from sphereflow.papers.mathematical_perspective.paper import PAPER as PAPER
