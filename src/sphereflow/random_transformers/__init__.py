"""Transformers with random weights: one noise that all tokens share.

The discrete network (`network`, `weight_laws`), its Gram matrix (`gram_chain`), its limits (`mean_field`,
`common_noise`, `fokker_planck`, `sphere_density`), the law of many tokens under its own layers (`circle_density`),
closed equations for overlaps (`equiangular`, `pair_equation`, `low_temperature`, `lyapunov`), the collapse calculator,
and real architectures at initialisation (`blocks`, `initial_network`, `gram_recursion`, `initial_cosines`).
"""

from sphereflow.random_transformers.collapse import Architecture as Architecture
from sphereflow.random_transformers.collapse import measure as measure
from sphereflow.random_transformers.collapse import predict as predict
from sphereflow.random_transformers.common_noise import CommonNoise as CommonNoise
from sphereflow.random_transformers.common_noise import solve_paths as solve_paths
from sphereflow.random_transformers.fokker_planck import DensityPaths as DensityPaths
from sphereflow.random_transformers.fokker_planck import solve_density as solve_density
from sphereflow.random_transformers.gram_chain import run_gram as run_gram
from sphereflow.random_transformers.initial_cosines import InitialCollapse as InitialCollapse
from sphereflow.random_transformers.initial_cosines import initial_collapse as initial_collapse
from sphereflow.random_transformers.low_temperature import aligned_probability as aligned_probability
from sphereflow.random_transformers.lyapunov import lyapunov_exponent as lyapunov_exponent
from sphereflow.random_transformers.mean_field import MeanField as MeanField
from sphereflow.random_transformers.network import RandomNetwork as RandomNetwork
from sphereflow.random_transformers.network import prompts as prompts
from sphereflow.random_transformers.network import run as run
from sphereflow.random_transformers.pair_equation import pair_drift as pair_drift
from sphereflow.random_transformers.pair_equation import pair_expectation as pair_expectation
from sphereflow.random_transformers.pair_equation import pair_variance_rate as pair_variance_rate
from sphereflow.random_transformers.passage_times import CollapseTime as CollapseTime
from sphereflow.random_transformers.passage_times import collapse_time as collapse_time
from sphereflow.random_transformers.sphere_density import SphereDensityPaths as SphereDensityPaths
from sphereflow.random_transformers.sphere_density import solve_sphere_density as solve_sphere_density
from sphereflow.random_transformers.time_scales import TimeScales as TimeScales
from sphereflow.random_transformers.time_scales import clock as clock
from sphereflow.random_transformers.weight_laws import AnyLaw as AnyLaw
from sphereflow.random_transformers.weight_laws import Weights as Weights
from sphereflow.random_transformers.weight_laws import matrices as matrices
from sphereflow.random_transformers.weight_laws import weights as weights
