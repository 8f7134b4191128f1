"""Dynamic metastability in the self-attention model: caps, exponentially long plateaus, and the staircase."""

from sphereflow.papers.dynamic_metastability import caps as caps
from sphereflow.papers.dynamic_metastability import figures as figures
from sphereflow.papers.dynamic_metastability import lemmas as lemmas
from sphereflow.papers.dynamic_metastability import mergers as mergers
from sphereflow.papers.dynamic_metastability import pairs as pairs
from sphereflow.papers.dynamic_metastability import saddles as saddles
from sphereflow.papers.dynamic_metastability import separation as separation
from sphereflow.papers.dynamic_metastability import slow_motion as slow_motion
from sphereflow.papers.dynamic_metastability import staircase as staircase
from sphereflow.papers.dynamic_metastability.paper import PAPER as PAPER
