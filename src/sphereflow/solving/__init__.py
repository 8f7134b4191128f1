"""Equations of motion are solved here, and nowhere else: `solve`, a pure function."""

from sphereflow.solving.initial_value import FORWARD as FORWARD
from sphereflow.solving.initial_value import Solution as Solution
from sphereflow.solving.initial_value import solve as solve
from sphereflow.solving.methods import CONSTANT as CONSTANT
from sphereflow.solving.methods import SOLVERS as SOLVERS
from sphereflow.solving.methods import step_grid as step_grid
