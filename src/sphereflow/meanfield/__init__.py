"""Infinitely many tokens: densities on the circle and on spheres, their stability, and the low-temperature limit."""

from sphereflow.meanfield.circle_density import OnCircle as OnCircle
from sphereflow.meanfield.circle_density import evolve_density as evolve_density
from sphereflow.meanfield.cluster_moments import GaussianCluster as GaussianCluster
from sphereflow.meanfield.comparison import Comparison as Comparison
from sphereflow.meanfield.comparison import compare as compare
from sphereflow.meanfield.concentrating_circle import CircleConcentration as CircleConcentration
from sphereflow.meanfield.concentrating_circle import concentrate as concentrate
from sphereflow.meanfield.density_flow import DensityFlow as DensityFlow
from sphereflow.meanfield.eulerian import EulerianFlow as EulerianFlow
from sphereflow.meanfield.eulerian import evolve_eulerian as evolve_eulerian
from sphereflow.meanfield.initial import starting_law as starting_law
from sphereflow.meanfield.initial import von_mises as von_mises
from sphereflow.meanfield.limit_distance import LimitDistance as LimitDistance
from sphereflow.meanfield.limit_distance import distance_to_limit as distance_to_limit
from sphereflow.meanfield.linear_stability import Spectrum as Spectrum
from sphereflow.meanfield.linear_stability import growth_rates as growth_rates
from sphereflow.meanfield.linear_stability import stability as stability
from sphereflow.meanfield.phases import PhasePrediction as PhasePrediction
from sphereflow.meanfield.phases import predict_phases as predict_phases
from sphereflow.meanfield.rings import RingFlow as RingFlow
from sphereflow.meanfield.rings import evolve_rings as evolve_rings
from sphereflow.meanfield.zero_temperature import Concentration as Concentration
from sphereflow.meanfield.zero_temperature import ZeroTemperature as ZeroTemperature
from sphereflow.meanfield.zero_temperature import concentration as concentration
from sphereflow.meanfield.zonal import ZonalFlow as ZonalFlow
from sphereflow.meanfield.zonal import evolve_zonal as evolve_zonal
