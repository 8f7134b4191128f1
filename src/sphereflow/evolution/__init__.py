"""Time stepping and trajectories."""

from sphereflow.evolution.context import ContextDependence as ContextDependence
from sphereflow.evolution.context import context_dependence as context_dependence
from sphereflow.evolution.diagrams import ClusterDiagram as ClusterDiagram
from sphereflow.evolution.diagrams import phase_diagram as phase_diagram
from sphereflow.evolution.events import Aligned as Aligned
from sphereflow.evolution.events import AllClose as AllClose
from sphereflow.evolution.hardmax import HardmaxFlow as HardmaxFlow
from sphereflow.evolution.hardmax import hardmax_flow as hardmax_flow
from sphereflow.evolution.layers import run_layers as run_layers
from sphereflow.evolution.limits import PredictedLimit as PredictedLimit
from sphereflow.evolution.limits import predict_limit as predict_limit
from sphereflow.evolution.shell import FRAMES as FRAMES
from sphereflow.evolution.shell import evolve as evolve
from sphereflow.evolution.status import Status as Status
from sphereflow.evolution.trajectory import Trajectory as Trajectory
from sphereflow.solving import SOLVERS as SOLVERS
