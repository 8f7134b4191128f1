"""Exponentially long times: clusters that survive for e^(c beta), and the run to the single cluster."""

from sphereflow.metastability.certificate import Certificate as Certificate
from sphereflow.metastability.certificate import certify as certify
from sphereflow.metastability.certificate import circle_separated as circle_separated
from sphereflow.metastability.certificate import first_exit as first_exit
from sphereflow.metastability.clock_limits import ClockTimes as ClockTimes
from sphereflow.metastability.clock_limits import clock_times as clock_times
from sphereflow.metastability.coarsen import coarsen_to_one as coarsen_to_one
from sphereflow.metastability.history import Merge as Merge
from sphereflow.metastability.history import MergeHistory as MergeHistory
from sphereflow.metastability.history import Outcome as Outcome
from sphereflow.metastability.history import Plateau as Plateau
from sphereflow.metastability.modes import UnstableModes as UnstableModes
from sphereflow.metastability.modes import slow_modes as slow_modes
from sphereflow.metastability.pair import PairMerger as PairMerger
from sphereflow.metastability.pair import laplace_log_time as laplace_log_time
from sphereflow.metastability.pair import log_merging_time as log_merging_time
from sphereflow.metastability.pair import merge_pair as merge_pair
from sphereflow.metastability.saddles import SaddlePath as SaddlePath
from sphereflow.metastability.saddles import saddle_path as saddle_path
from sphereflow.metastability.slow_motion import SlowManifold as SlowManifold
from sphereflow.metastability.slow_motion import slow_manifold as slow_manifold
from sphereflow.metastability.staircases import Staircase as Staircase
from sphereflow.metastability.staircases import staircase as staircase
from sphereflow.metastability.staircases import well_prepared as well_prepared
