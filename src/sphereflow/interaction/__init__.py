"""Sums over all tokens: who attends to whom, and how much."""

from sphereflow.interaction.attention import attend as attend
from sphereflow.interaction.choice import Choice as Choice
from sphereflow.interaction.choice import choose as choose
from sphereflow.interaction.direct import Attended as Attended
from sphereflow.interaction.engines import DIRECT as DIRECT
from sphereflow.interaction.engines import Adaptive as Adaptive
from sphereflow.interaction.engines import Clustered as Clustered
from sphereflow.interaction.engines import Direct as Direct
from sphereflow.interaction.engines import Engine as Engine
from sphereflow.interaction.engines import Fourier as Fourier
from sphereflow.interaction.engines import Harmonic as Harmonic
from sphereflow.interaction.engines import Polynomial as Polynomial
from sphereflow.interaction.expansion import circle_coefficients as circle_coefficients
from sphereflow.interaction.expansion import circle_modes as circle_modes
from sphereflow.interaction.expansion import zonal_coefficients as zonal_coefficients
from sphereflow.interaction.expansion import zonal_degree as zonal_degree
from sphereflow.interaction.masks import Alibi as Alibi
from sphereflow.interaction.masks import Causal as Causal
from sphereflow.interaction.masks import Mask as Mask
from sphereflow.interaction.masks import PositionWeights as PositionWeights
from sphereflow.interaction.masks import Product as Product
from sphereflow.interaction.request import Request as Request
from sphereflow.interaction.sharded import Sharded as Sharded
