"""sphereflow: Transformers seen as interacting particle systems.

```python
import sphereflow as sf
run = sf.simulate(n=64, d=3, beta=9.0, t1=30.0)
run.movie("sphere.mp4")
```
"""

from sphereflow import runtime as _runtime

_runtime.configure()

from sphereflow.dynamics import SA as SA
from sphereflow.dynamics import USA as USA
from sphereflow.dynamics import Attention as Attention
from sphereflow.dynamics import Dynamics as Dynamics
from sphereflow.dynamics import EuclideanAttention as EuclideanAttention
from sphereflow.dynamics import LayerNormAttention as LayerNormAttention
from sphereflow.dynamics import Perceptron as Perceptron
from sphereflow.dynamics import PiecewiseConstant as PiecewiseConstant
from sphereflow.dynamics import RescaledAttention as RescaledAttention
from sphereflow.errors import SphereflowError as SphereflowError
from sphereflow.evolve import Aligned as Aligned
from sphereflow.evolve import AllClose as AllClose
from sphereflow.evolve import Trajectory as Trajectory
from sphereflow.evolve import evolve as evolve
from sphereflow.evolve import load as load
from sphereflow.evolve import run_layers as run_layers
from sphereflow.interaction import Alibi as Alibi
from sphereflow.interaction import Causal as Causal
from sphereflow.interaction import attend as attend
from sphereflow.laboratory import simulate as simulate
from sphereflow.sphere import draw as draw
from sphereflow.sphere import normalise as normalise
from sphereflow.sweeps import sweep as sweep

__version__ = "0.1.0"
