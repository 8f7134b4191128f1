"""sphereflow: Transformers seen as interacting particle systems.

```python
import sphereflow as sf
run = sf.simulate(n=64, d=3, beta=9.0, t1=30.0)
run.webpage("sphere.html")
```
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from sphereflow import runtime as _runtime

_runtime.configure_with_jax()

if TYPE_CHECKING:
    from sphereflow.dynamics import SA as SA
    from sphereflow.dynamics import USA as USA
    from sphereflow.dynamics import Attention as Attention
    from sphereflow.dynamics import Block as Block
    from sphereflow.dynamics import Dynamics as Dynamics
    from sphereflow.dynamics import EuclideanAttention as EuclideanAttention
    from sphereflow.dynamics import LayerNormAttention as LayerNormAttention
    from sphereflow.dynamics import Perceptron as Perceptron
    from sphereflow.dynamics import PiecewiseConstant as PiecewiseConstant
    from sphereflow.dynamics import RescaledAttention as RescaledAttention
    from sphereflow.errors import SphereflowError as SphereflowError
    from sphereflow.evolution import Aligned as Aligned
    from sphereflow.evolution import AllClose as AllClose
    from sphereflow.evolution import Trajectory as Trajectory
    from sphereflow.evolution import evolve as evolve
    from sphereflow.evolution import predict_limit as predict_limit
    from sphereflow.evolution import run_layers as run_layers
    from sphereflow.interaction import Alibi as Alibi
    from sphereflow.interaction import Causal as Causal
    from sphereflow.interaction import attend as attend
    from sphereflow.laboratory import simulate as simulate
    from sphereflow.loading import load as load
    from sphereflow.report import reproduce as reproduce
    from sphereflow.solving import Solution as Solution
    from sphereflow.solving import solve as solve
    from sphereflow.sphere import draw as draw
    from sphereflow.sphere import normalise as normalise
    from sphereflow.sweeps import sweep as sweep

__version__ = "0.1.0"

# Where each public name lives. They are imported when first asked for, so that `sphereflow --help` does not wait for
# solvers it will not use.
_HOMES = {
    "SA": "dynamics",
    "USA": "dynamics",
    "Attention": "dynamics",
    "Block": "dynamics",
    "Dynamics": "dynamics",
    "EuclideanAttention": "dynamics",
    "LayerNormAttention": "dynamics",
    "Perceptron": "dynamics",
    "PiecewiseConstant": "dynamics",
    "RescaledAttention": "dynamics",
    "SphereflowError": "errors",
    "Aligned": "evolution",
    "AllClose": "evolution",
    "Trajectory": "evolution",
    "evolve": "evolution",
    "predict_limit": "evolution",
    "run_layers": "evolution",
    "Alibi": "interaction",
    "Causal": "interaction",
    "attend": "interaction",
    "simulate": "laboratory",
    "load": "loading",
    "Solution": "solving",
    "solve": "solving",
    "draw": "sphere",
    "normalise": "sphere",
    "reproduce": "report",
    "sweep": "sweeps",
}
# Packages reached as `sf.meanfield.evolve_density(...)` without a second import: the core, and the subject areas.
_AREAS = (
    "sphere",
    "kernels",
    "interaction",
    "dynamics",
    "solving",
    "evolution",
    "figures",
    "sweeps",
    "claims",
    "estimates",
    "meanfield",
    "landscape",
    "modes",
    "metastability",
    "retrieval",
    "random_transformers",
    "synchronisation",
    "transport",
    "memory",
    "drifting",
    "normalisation",
    "llm",
    "observables",
    "papers",
    "report",
)
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        value = getattr(_import_module(f"sphereflow.{_HOMES[name]}"), name)
    elif name in _AREAS:
        value = _import_module(f"sphereflow.{name}")
    else:
        raise AttributeError(f"module 'sphereflow' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOMES, *_AREAS, "__version__", "__doc__", "__file__", "__name__", "__path__"})
