"""Sweeps: phase diagrams over named axes that resume after a kill, on one machine or a Dask cluster."""

from sphereflow.sweeps.grid import Axis as Axis
from sphereflow.sweeps.grid import Grid as Grid
from sphereflow.sweeps.level_line import Boundary as Boundary
from sphereflow.sweeps.level_line import boundary as boundary
from sphereflow.sweeps.quantities import QUANTITIES as QUANTITIES
from sphereflow.sweeps.quantities import Quantity as Quantity
from sphereflow.sweeps.result import Sweep as Sweep
from sphereflow.sweeps.result import open_sweep as open_sweep
from sphereflow.sweeps.specification import Specification as Specification
from sphereflow.sweeps.specification import read_specification as read_specification
from sphereflow.sweeps.specification import shipped as shipped
from sphereflow.sweeps.sweeping import run_specification as run_specification
from sphereflow.sweeps.sweeping import sweep as sweep
