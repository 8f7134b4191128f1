"""Real language models: the geometry of their heads, and the particle theory beside their layers.

Torch and transformers come with the extra `llm` and are imported only when a model is loaded.
"""

from sphereflow.llm.depth.betas import EffectiveBetas as EffectiveBetas
from sphereflow.llm.depth.betas import effective_betas as effective_betas
from sphereflow.llm.depth.iterated import IteratedLayer as IteratedLayer
from sphereflow.llm.depth.iterated import iterate_layer as iterate_layer
from sphereflow.llm.depth.limits import LayerLimits as LayerLimits
from sphereflow.llm.depth.limits import layer_limits as layer_limits
from sphereflow.llm.depth.shipped import recorded_result as recorded_result
from sphereflow.llm.depth.shipped import recorded_results as recorded_results
from sphereflow.llm.heads.bootstrap import document_mean as document_mean
from sphereflow.llm.heads.bootstrap import rank_correlation as rank_correlation
from sphereflow.llm.heads.envelopes import effective_dimension as effective_dimension
from sphereflow.llm.heads.envelopes import expected_recall_precision as expected_recall_precision
from sphereflow.llm.heads.envelopes import inversion_bound as inversion_bound
from sphereflow.llm.heads.geometry import Separation as Separation
from sphereflow.llm.heads.geometry import random_control as random_control
from sphereflow.llm.heads.geometry import separation as separation
from sphereflow.llm.heads.regimes import REGIMES as REGIMES
from sphereflow.llm.heads.regimes import head_features as head_features
from sphereflow.llm.heads.regimes import regimes as regimes
from sphereflow.llm.measurement.heads import Heads as Heads
from sphereflow.llm.measurement.heads import measure_heads as measure_heads
from sphereflow.llm.model.head_weights import head_matrices as head_matrices
from sphereflow.llm.model.loading import LanguageModel as LanguageModel
from sphereflow.llm.model.loading import load_model as load_model
from sphereflow.llm.model.texts import corpus as corpus
from sphereflow.llm.model.texts import read_text as read_text
from sphereflow.llm.model.texts import windows as windows
from sphereflow.llm.position.influence import InfluenceProfile as InfluenceProfile
from sphereflow.llm.position.influence import influence_profile as influence_profile
from sphereflow.llm.position.keyvalue import KeyValueProfile as KeyValueProfile
from sphereflow.llm.position.keyvalue import retrieval_profile as retrieval_profile
from sphereflow.llm.recorded.agreement import envelope_agreement as envelope_agreement
from sphereflow.llm.recorded.agreement import sink_and_recall as sink_and_recall
from sphereflow.llm.recorded.found_regimes import found_regimes as found_regimes
from sphereflow.llm.recorded.geometry import attention_decay as attention_decay
from sphereflow.llm.recorded.geometry import similarity_decay as similarity_decay
from sphereflow.llm.recorded.geometry import value_norms as value_norms
from sphereflow.llm.recorded.lengths import LengthRecording as LengthRecording
from sphereflow.llm.recorded.lengths import record_lengths as record_lengths
from sphereflow.llm.recorded.recorder import Recording as Recording
from sphereflow.llm.recorded.recorder import record as record
from sphereflow.llm.recorded.shipped import length_recording as length_recording
from sphereflow.llm.recorded.shipped import recording as recording
from sphereflow.llm.recorded.shipped import recordings as recordings
from sphereflow.llm.sparse.comparison import SparsityComparison as SparsityComparison
from sphereflow.llm.sparse.comparison import compare_sparsity as compare_sparsity
from sphereflow.llm.sparse.plans import SparsePlan as SparsePlan
from sphereflow.llm.sparse.plans import plan_sparsity as plan_sparsity
from sphereflow.llm.sparse.plans import sparse_attention as sparse_attention
from sphereflow.llm.sparse.shipped import sparsity_curve as sparsity_curve
from sphereflow.llm.sparse.shipped import sparsity_curves as sparsity_curves
