"""Transport by explicit schedules: sequences of constant weights whose flow carries one measure to another.

In R^d pieces are ReLU perceptrons of width one, with exact flow, inverse and density (`Schedule`), and `fit` makes one
from source, target and number of pieces. On the sphere pieces are Transformer blocks (`SphereSchedule`).
"""

from sphereflow.transport.abstract import AbstractSchedule as AbstractSchedule
from sphereflow.transport.conditional.estimator import ConditionalFlow as ConditionalFlow
from sphereflow.transport.conditional.maurey import Neurons as Neurons
from sphereflow.transport.conditional.maurey import fit_velocities as fit_velocities
from sphereflow.transport.conditional.maurey import sample_schedule as sample_schedule
from sphereflow.transport.conditional.sampler import ConditionalFit as ConditionalFit
from sphereflow.transport.conditional.sampler import ConditionalSampler as ConditionalSampler
from sphereflow.transport.conditional.sampler import fit_conditional as fit_conditional
from sphereflow.transport.euclidean.affine import affine_schedule as affine_schedule
from sphereflow.transport.euclidean.by_accuracy import SwitchTable as SwitchTable
from sphereflow.transport.euclidean.by_accuracy import switches_needed as switches_needed
from sphereflow.transport.euclidean.certificates import KLBounds as KLBounds
from sphereflow.transport.euclidean.comparison import ScheduleTable as ScheduleTable
from sphereflow.transport.euclidean.comparison import compare as compare
from sphereflow.transport.euclidean.divergences import Divergences as Divergences
from sphereflow.transport.euclidean.divergences import divergences as divergences
from sphereflow.transport.euclidean.divergences import obstructions as obstructions
from sphereflow.transport.euclidean.fitting import Fit as Fit
from sphereflow.transport.euclidean.fitting import fit as fit
from sphereflow.transport.euclidean.gaussianisation import gaussianise as gaussianise
from sphereflow.transport.euclidean.grid import CellGrid as CellGrid
from sphereflow.transport.euclidean.grid import grid_schedule as grid_schedule
from sphereflow.transport.euclidean.laws import Histogram as Histogram
from sphereflow.transport.euclidean.laws import Law as Law
from sphereflow.transport.euclidean.laws import Mixture as Mixture
from sphereflow.transport.euclidean.laws import Pushed as Pushed
from sphereflow.transport.euclidean.laws import StudentT as StudentT
from sphereflow.transport.euclidean.laws import gaussian as gaussian
from sphereflow.transport.euclidean.monotone import Rearrangement as Rearrangement
from sphereflow.transport.euclidean.monotone import piecewise_linear as piecewise_linear
from sphereflow.transport.euclidean.products import ProductLaw as ProductLaw
from sphereflow.transport.euclidean.schedule import Schedule as Schedule
from sphereflow.transport.learned.maps import train_map as train_map
from sphereflow.transport.learned.schedules import train_schedule as train_schedule
from sphereflow.transport.learned.transformers import TrainedTransformer as TrainedTransformer
from sphereflow.transport.learned.transformers import train_transformer as train_transformer
from sphereflow.transport.maps.diffeomorphism import MapFit as MapFit
from sphereflow.transport.maps.diffeomorphism import fit_map as fit_map
from sphereflow.transport.maps.lagrange import LagrangeInterpolant as LagrangeInterpolant
from sphereflow.transport.maps.lagrange import lagrange_interpolant as lagrange_interpolant
from sphereflow.transport.maps.scores import score_card as score_card
from sphereflow.transport.maps.smooth_map import SmoothMap as SmoothMap
from sphereflow.transport.sphere.bounds import perceptron_bound as perceptron_bound
from sphereflow.transport.sphere.certificates import separating_vector as separating_vector
from sphereflow.transport.sphere.costs import CostTable as CostTable
from sphereflow.transport.sphere.costs import interpolation_costs as interpolation_costs
from sphereflow.transport.sphere.held_out import HeldOut as HeldOut
from sphereflow.transport.sphere.inputs import Measure as Measure
from sphereflow.transport.sphere.interpolation import interpolate as interpolate
from sphereflow.transport.sphere.laws import SphereLaw as SphereLaw
from sphereflow.transport.sphere.pieces import Drift as Drift
from sphereflow.transport.sphere.pieces import Gate as Gate
from sphereflow.transport.sphere.pieces import Gathering as Gathering
from sphereflow.transport.sphere.pieces import RankOne as RankOne
from sphereflow.transport.sphere.pieces import TransformerBlock as TransformerBlock
from sphereflow.transport.sphere.result import Interpolation as Interpolation
from sphereflow.transport.sphere.schedule import SphereSchedule as SphereSchedule
