"""Transformers with random weights: one noise that all tokens share.

The discrete network (`network`, `laws`), its Gram matrix (`gram_chain`), its limits (`mean_field`, `common_noise`,
`circle_density`), closed equations for overlaps (`simplex`, `pair_equation`, `cold`), and the collapse calculator.
"""

from sphereflow.randomness.clock import Clock as Clock
from sphereflow.randomness.clock import clock as clock
from sphereflow.randomness.collapse import Architecture as Architecture
from sphereflow.randomness.collapse import measure as measure
from sphereflow.randomness.collapse import predict as predict
from sphereflow.randomness.gram_chain import run_gram as run_gram
from sphereflow.randomness.laws import AnyLaw as AnyLaw
from sphereflow.randomness.laws import Weights as Weights
from sphereflow.randomness.laws import matrices as matrices
from sphereflow.randomness.laws import weights as weights
from sphereflow.randomness.network import RandomNetwork as RandomNetwork
from sphereflow.randomness.network import prompts as prompts
from sphereflow.randomness.network import run as run
