"""Dense associative memories: energies, retrieval, phase diagrams, and a memory to use.

The theory exists in two layers that give different numbers and are kept apart by name: `gaussian` (the published
approximation) and `spherical` with `compact` (the exact law of overlaps on the sphere).
"""

from sphereflow.memory.boundaries import RetrievalBoundary as RetrievalBoundary
from sphereflow.memory.boundaries import boundary as boundary
from sphereflow.memory.boundaries import equilibrium_share as equilibrium_share
from sphereflow.memory.energies import LSE as LSE
from sphereflow.memory.energies import LSR as LSR
from sphereflow.memory.energies import Energy as Energy
from sphereflow.memory.energies import PolynomialEnergy as PolynomialEnergy
from sphereflow.memory.energies import to_sphere as to_sphere
from sphereflow.memory.escape import escape_time as escape_time
from sphereflow.memory.escape import log_escape_time as log_escape_time
from sphereflow.memory.flow import Retrieval as Retrieval
from sphereflow.memory.hops import Survival as Survival
from sphereflow.memory.hops import hop_rate as hop_rate
from sphereflow.memory.hops import hop_survival as hop_survival
from sphereflow.memory.hops import survival as survival
from sphereflow.memory.landscapes import Bulk as Bulk
from sphereflow.memory.landscapes import Cone as Cone
from sphereflow.memory.landscapes import Full as Full
from sphereflow.memory.landscapes import Landscape as Landscape
from sphereflow.memory.landscapes import draw_cone as draw_cone
from sphereflow.memory.landscapes import random_patterns as random_patterns
from sphereflow.memory.monte_carlo import MonteCarloSweep as MonteCarloSweep
from sphereflow.memory.monte_carlo import sweep as sweep
from sphereflow.memory.noise import sample_log_noise as sample_log_noise
from sphereflow.memory.percolation import SupportClusters as SupportClusters
from sphereflow.memory.percolation import barrier_profile as barrier_profile
from sphereflow.memory.percolation import percolation_load as percolation_load
from sphereflow.memory.percolation import support_clusters as support_clusters
from sphereflow.memory.phases import PhaseDiagram as PhaseDiagram
from sphereflow.memory.phases import phase_diagram as phase_diagram
from sphereflow.memory.recall import DenseMemory as DenseMemory
from sphereflow.memory.recall import Recall as Recall
from sphereflow.memory.sampling import langevin as langevin
from sphereflow.memory.sampling import metropolis as metropolis
from sphereflow.memory.spherical import capacity as capacity
from sphereflow.memory.spherical import extreme_overlap as extreme_overlap
from sphereflow.memory.spherical import noise_overlap as noise_overlap
from sphereflow.memory.spherical import spinodal as spinodal
from sphereflow.memory.state import REFERENCE_B as REFERENCE_B
from sphereflow.memory.state import lse_overlap as lse_overlap
from sphereflow.memory.state import lsr_overlap as lsr_overlap
from sphereflow.memory.state import support_edge as support_edge
from sphereflow.memory.tempering import Tempered as Tempered
from sphereflow.memory.tempering import temper as temper
