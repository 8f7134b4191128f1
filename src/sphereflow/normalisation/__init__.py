"""What a normaliser of attention can and cannot do: weights, distances, separability, sensitivity.

Everything here works on arrays of logits, weights and vectors, wherever they come from, and needs no language model.
"""

from sphereflow.normalisation.bounds import gaussian_concentration as gaussian_concentration
from sphereflow.normalisation.bounds import planted_weight as planted_weight
from sphereflow.normalisation.bounds import printed_weight_bounds as printed_weight_bounds
from sphereflow.normalisation.bounds import range_needed as range_needed
from sphereflow.normalisation.bounds import weight_bounds as weight_bounds
from sphereflow.normalisation.comparison import compare_normalisers as compare_normalisers
from sphereflow.normalisation.distance import critical_counts as critical_counts
from sphereflow.normalisation.distance import distance_profile as distance_profile
from sphereflow.normalisation.distance import equicorrelated_profile as equicorrelated_profile
from sphereflow.normalisation.distance import gaussian_top_mass as gaussian_top_mass
from sphereflow.normalisation.distance import random_selection_profile as random_selection_profile
from sphereflow.normalisation.inverted_pairs import count_inversions as count_inversions
from sphereflow.normalisation.inverted_pairs import expected_inversions as expected_inversions
from sphereflow.normalisation.inverted_pairs import inversion_bound as inversion_bound
from sphereflow.normalisation.inverted_pairs import inversions as inversions
from sphereflow.normalisation.jacobian import infinity_norm as infinity_norm
from sphereflow.normalisation.jacobian import jacobian_norm as jacobian_norm
from sphereflow.normalisation.jacobian import norm_sandwich as norm_sandwich
from sphereflow.normalisation.jacobian import sensitivity as sensitivity
from sphereflow.normalisation.jacobian import spectral_norm as spectral_norm
from sphereflow.normalisation.normalisers import Entmax as Entmax
from sphereflow.normalisation.normalisers import Normaliser as Normaliser
from sphereflow.normalisation.normalisers import ScalableSoftmax as ScalableSoftmax
from sphereflow.normalisation.normalisers import Sigmoid as Sigmoid
from sphereflow.normalisation.normalisers import Softmax as Softmax
from sphereflow.normalisation.normalisers import TopK as TopK
from sphereflow.normalisation.separability import expected_separable_fraction as expected_separable_fraction
from sphereflow.normalisation.separability import separable_count as separable_count
from sphereflow.normalisation.separability import separable_fraction as separable_fraction
