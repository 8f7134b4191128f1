"""Sums over all tokens: who attends to whom, and how much."""

from sphereflow.interaction.attend import attend as attend
from sphereflow.interaction.choose import Choice as Choice
from sphereflow.interaction.choose import choose as choose
from sphereflow.interaction.direct import Attended as Attended
from sphereflow.interaction.masks import Alibi as Alibi
from sphereflow.interaction.masks import Causal as Causal
from sphereflow.interaction.masks import Mask as Mask
from sphereflow.interaction.masks import PositionWeights as PositionWeights
from sphereflow.interaction.masks import Product as Product
