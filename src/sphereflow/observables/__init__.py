"""What is measured on tokens."""

from sphereflow.observables.attention import attention_matrix as attention_matrix
from sphereflow.observables.attention import followed as followed
from sphereflow.observables.attention import leaders as leaders
from sphereflow.observables.attention import numerical_rank as numerical_rank
from sphereflow.observables.circle_distance import circle_wasserstein as circle_wasserstein
from sphereflow.observables.circle_distance import wasserstein_to_pair as wasserstein_to_pair
from sphereflow.observables.clusters import cluster_count as cluster_count
from sphereflow.observables.clusters import cluster_labels as cluster_labels
from sphereflow.observables.clusters import cluster_masses as cluster_masses
from sphereflow.observables.clusters import rank_count as rank_count
from sphereflow.observables.clusters import span_dimension as span_dimension
from sphereflow.observables.discrepancy import energy_distance as energy_distance
from sphereflow.observables.hull import hull_vertices as hull_vertices
from sphereflow.observables.hull import hull_volume as hull_volume
from sphereflow.observables.hull import in_open_hemisphere as in_open_hemisphere
from sphereflow.observables.hull import polytope_residual as polytope_residual
from sphereflow.observables.hull import support_function as support_function
from sphereflow.observables.overlaps import close_fraction as close_fraction
from sphereflow.observables.overlaps import diameter as diameter
from sphereflow.observables.overlaps import gaps as gaps
from sphereflow.observables.overlaps import gram as gram
from sphereflow.observables.overlaps import order_parameter as order_parameter
from sphereflow.observables.overlaps import overlaps as overlaps
from sphereflow.observables.wasserstein import wasserstein as wasserstein
