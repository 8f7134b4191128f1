"""Time stepping and trajectories."""

from sphereflow.evolve.events import Aligned as Aligned
from sphereflow.evolve.events import AllClose as AllClose
from sphereflow.evolve.hardmax import HardmaxFlow as HardmaxFlow
from sphereflow.evolve.hardmax import hardmax_flow as hardmax_flow
from sphereflow.evolve.layers import run_layers as run_layers
from sphereflow.evolve.run import FRAMES as FRAMES
from sphereflow.evolve.run import evolve as evolve
from sphereflow.evolve.solver import SOLVERS as SOLVERS
from sphereflow.evolve.status import Status as Status
from sphereflow.evolve.trajectory import Trajectory as Trajectory
from sphereflow.evolve.trajectory import load as load
