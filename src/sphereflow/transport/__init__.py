"""Transport by explicit schedules: sequences of constant weights whose flow carries one measure to another.

In R^d pieces are ReLU perceptrons of width one, with exact flow, inverse and density (`Schedule`), and `fit` is the
door: source, target, number of pieces. On the sphere pieces are Transformer blocks (`SphereSchedule`).
"""

from sphereflow.transport.affine import affine_schedule as affine_schedule
from sphereflow.transport.compare import compare as compare
from sphereflow.transport.conditional import ConditionalFit as ConditionalFit
from sphereflow.transport.conditional import ConditionalSampler as ConditionalSampler
from sphereflow.transport.conditional import fit_conditional as fit_conditional
from sphereflow.transport.diffeomorphism import MapFit as MapFit
from sphereflow.transport.diffeomorphism import fit_map as fit_map
from sphereflow.transport.entropy import Divergence as Divergence
from sphereflow.transport.entropy import Divergences as Divergences
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
from sphereflow.transport.map_training import train_map as train_map
from sphereflow.transport.maurey import Neurons as Neurons
from sphereflow.transport.maurey import fit_velocities as fit_velocities
from sphereflow.transport.maurey import playback as playback
from sphereflow.transport.measure_bounds import perceptron_bound as perceptron_bound
from sphereflow.transport.measure_certificates import separating_vector as separating_vector
from sphereflow.transport.measure_inputs import Measure as Measure
from sphereflow.transport.measure_interpolate import interpolate as interpolate
from sphereflow.transport.measure_result import Interpolation as Interpolation
from sphereflow.transport.measure_training import TrainedTransformer as TrainedTransformer
from sphereflow.transport.measure_training import train_transformer as train_transformer
from sphereflow.transport.monotone import Rearrangement as Rearrangement
from sphereflow.transport.monotone import piecewise_linear as piecewise_linear
from sphereflow.transport.schedule import AbstractSchedule as AbstractSchedule
from sphereflow.transport.schedule import Schedule as Schedule
from sphereflow.transport.scores import score_card as score_card
from sphereflow.transport.smooth_map import SmoothMap as SmoothMap
from sphereflow.transport.sphere_pieces import Block as Block
from sphereflow.transport.sphere_pieces import Drift as Drift
from sphereflow.transport.sphere_pieces import Gate as Gate
from sphereflow.transport.sphere_pieces import Gathering as Gathering
from sphereflow.transport.sphere_pieces import RankOne as RankOne
from sphereflow.transport.sphere_schedule import SphereSchedule as SphereSchedule
from sphereflow.transport.training import train_schedule as train_schedule
