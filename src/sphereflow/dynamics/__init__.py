"""Vector fields on tokens, each with its energy where it has one."""

from sphereflow.dynamics.activations import ACTIVATIONS as ACTIVATIONS
from sphereflow.dynamics.attention import SA as SA
from sphereflow.dynamics.attention import USA as USA
from sphereflow.dynamics.attention import Attention as Attention
from sphereflow.dynamics.base import Dynamics as Dynamics
from sphereflow.dynamics.blocks import Block as Block
from sphereflow.dynamics.blocks import Network as Network
from sphereflow.dynamics.combinations import Scaled as Scaled
from sphereflow.dynamics.combinations import Sum as Sum
from sphereflow.dynamics.euclidean import EuclideanAttention as EuclideanAttention
from sphereflow.dynamics.euclidean import RescaledAttention as RescaledAttention
from sphereflow.dynamics.euclidean import RescaledFeedForward as RescaledFeedForward
from sphereflow.dynamics.layernorm import SCHEMES as SCHEMES
from sphereflow.dynamics.layernorm import LayerNormAttention as LayerNormAttention
from sphereflow.dynamics.names import attention_name as attention_name
from sphereflow.dynamics.perceptron import Perceptron as Perceptron
from sphereflow.dynamics.piecewise import PiecewiseConstant as PiecewiseConstant
from sphereflow.dynamics.state_dict import from_state_dict as from_state_dict
from sphereflow.dynamics.sublayers import MLP as MLP
from sphereflow.dynamics.sublayers import LayerNorm as LayerNorm
from sphereflow.dynamics.sublayers import MultiHeadAttention as MultiHeadAttention
from sphereflow.dynamics.sublayers import RMSNorm as RMSNorm
from sphereflow.dynamics.traits import Kinks as Kinks
from sphereflow.dynamics.traits import Traits as Traits
