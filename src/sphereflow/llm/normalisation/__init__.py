"""What a normaliser of attention can and cannot do: weights, distances, separability, sensitivity.

Everything here works on arrays of logits, weights and vectors, wherever they come from, and needs no language model.
"""

from sphereflow.llm.normalisation.bounds import gaussian_concentration as gaussian_concentration
from sphereflow.llm.normalisation.bounds import planted_weight as planted_weight
from sphereflow.llm.normalisation.bounds import range_needed as range_needed
from sphereflow.llm.normalisation.bounds import weight_bounds as weight_bounds
from sphereflow.llm.normalisation.distance import critical_counts as critical_counts
from sphereflow.llm.normalisation.distance import distance_profile as distance_profile
from sphereflow.llm.normalisation.distance import equicorrelated_profile as equicorrelated_profile
from sphereflow.llm.normalisation.distance import random_selection_profile as random_selection_profile
from sphereflow.llm.normalisation.jacobian import sensitivity as sensitivity
from sphereflow.llm.normalisation.jacobian import spectral_norm as spectral_norm
from sphereflow.llm.normalisation.normalisers import Entmax as Entmax
from sphereflow.llm.normalisation.normalisers import Normaliser as Normaliser
from sphereflow.llm.normalisation.normalisers import ScalableSoftmax as ScalableSoftmax
from sphereflow.llm.normalisation.normalisers import Sigmoid as Sigmoid
from sphereflow.llm.normalisation.normalisers import Softmax as Softmax
from sphereflow.llm.normalisation.normalisers import TopK as TopK
from sphereflow.llm.normalisation.separability import expected_separable_fraction as expected_separable_fraction
from sphereflow.llm.normalisation.separability import separable_fraction as separable_fraction
