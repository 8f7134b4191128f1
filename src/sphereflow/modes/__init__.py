"""Modes of kernel density estimates: found with certainty, predicted, and beside the clusters of attention."""

from sphereflow.modes.attention import SideBySide as SideBySide
from sphereflow.modes.attention import circle_modes as circle_modes
from sphereflow.modes.attention import fastest_harmonic as fastest_harmonic
from sphereflow.modes.attention import modes_and_clusters as modes_and_clusters
from sphereflow.modes.find import Modes as Modes
from sphereflow.modes.find import find_modes as find_modes
from sphereflow.modes.kac_rice import belt as belt
from sphereflow.modes.kac_rice import belt_fraction as belt_fraction
from sphereflow.modes.kac_rice import central_modes as central_modes
from sphereflow.modes.kac_rice import edge as edge
from sphereflow.modes.kac_rice import edgeworth_density as edgeworth_density
from sphereflow.modes.kac_rice import edgeworth_modes as edgeworth_modes
from sphereflow.modes.kac_rice import expected_modes as expected_modes
from sphereflow.modes.kac_rice import gaussian_density as gaussian_density
from sphereflow.modes.kac_rice import gaussian_modes as gaussian_modes
from sphereflow.modes.kac_rice import limit_constant as limit_constant
from sphereflow.modes.kac_rice import mode_density as mode_density
from sphereflow.modes.kac_rice import saturated_rate as saturated_rate
from sphereflow.modes.mean_shift_iteration import mean_shift as mean_shift
from sphereflow.modes.mean_shift_iteration import merged as merged
from sphereflow.modes.monte_carlo import ModeSample as ModeSample
from sphereflow.modes.monte_carlo import sample_modes as sample_modes
from sphereflow.modes.sparse import simulated_rate as simulated_rate
from sphereflow.modes.sparse import sparse_rate as sparse_rate
