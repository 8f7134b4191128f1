"""Drifting generators: one-step models trained by a kernel field, their theory, friction, and fair baselines."""

from sphereflow.drifting.fields import DriftField as DriftField
from sphereflow.drifting.fields import Field as Field
from sphereflow.drifting.fields import MultiRadiusField as MultiRadiusField
from sphereflow.drifting.fields import PopulationField as PopulationField
from sphereflow.drifting.fields import TwoSidedField as TwoSidedField
from sphereflow.drifting.fields import UnnormalisedField as UnnormalisedField
from sphereflow.drifting.friction import Friction as Friction
from sphereflow.drifting.gaussian import gaussian_field as gaussian_field
from sphereflow.drifting.gaussian import gaussian_step as gaussian_step
from sphereflow.drifting.generators import Generator as Generator
from sphereflow.drifting.ratios import ComputeRatios as ComputeRatios
from sphereflow.drifting.ratios import compute_ratios as compute_ratios
from sphereflow.drifting.surrogate import slope_at_scale as slope_at_scale
from sphereflow.drifting.surrogate import spurious_scale as spurious_scale
from sphereflow.drifting.surrogate import surrogate_field as surrogate_field
from sphereflow.drifting.training import Recipe as Recipe
from sphereflow.drifting.training import Training as Training
from sphereflow.drifting.training import beginning as beginning
from sphereflow.drifting.training import train as train
from sphereflow.drifting.translation import Quality as Quality
from sphereflow.drifting.translation import quality_against_compute as quality_against_compute
