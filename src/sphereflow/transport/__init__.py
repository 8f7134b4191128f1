"""Transport by explicit schedules: sequences of constant weights whose flow carries one measure to another.

In R^d pieces are ReLU perceptrons of width one, with exact flow, inverse and density (`Schedule`), and `fit` is the
door: source, target, number of pieces. On the sphere pieces are Transformer blocks (`SphereSchedule`).
"""

from sphereflow.transport.compare import compare as compare
from sphereflow.transport.entropy import Divergences as Divergences
from sphereflow.transport.entropy import Estimate as Estimate
from sphereflow.transport.entropy import divergences as divergences
from sphereflow.transport.entropy import obstructions as obstructions
from sphereflow.transport.files import load as load
from sphereflow.transport.fit import Fit as Fit
from sphereflow.transport.fit import fit as fit
from sphereflow.transport.gaussianise import gaussianise as gaussianise
from sphereflow.transport.grid import Grid as Grid
from sphereflow.transport.grid import grid_schedule as grid_schedule
from sphereflow.transport.laws import Histogram as Histogram
from sphereflow.transport.laws import Law as Law
from sphereflow.transport.laws import Mixture as Mixture
from sphereflow.transport.laws import Pushed as Pushed
from sphereflow.transport.laws import StudentT as StudentT
from sphereflow.transport.laws import gaussian as gaussian
from sphereflow.transport.monotone import Rearrangement as Rearrangement
from sphereflow.transport.monotone import piecewise_linear as piecewise_linear
from sphereflow.transport.schedule import AbstractSchedule as AbstractSchedule
from sphereflow.transport.schedule import Schedule as Schedule
from sphereflow.transport.sphere_schedule import SphereSchedule as SphereSchedule
from sphereflow.transport.training import train_schedule as train_schedule
