"""The landscape of attention plus perceptron: certified global minimisers, maximisers, flows and basins."""

from sphereflow.landscape.activation import Activation as Activation
from sphereflow.landscape.basin_search import Basins as Basins
from sphereflow.landscape.basin_search import basins as basins
from sphereflow.landscape.critical import CriticalPoints as CriticalPoints
from sphereflow.landscape.critical import critical_points as critical_points
from sphereflow.landscape.flows import WeightedFlow as WeightedFlow
from sphereflow.landscape.flows import dynamics as dynamics
from sphereflow.landscape.flows import flow as flow
from sphereflow.landscape.flows import weighted_flow as weighted_flow
from sphereflow.landscape.mean_field import MeanFieldLimit as MeanFieldLimit
from sphereflow.landscape.mean_field import mean_field_limit as mean_field_limit
from sphereflow.landscape.measures import energy as energy
from sphereflow.landscape.measures import field as field
from sphereflow.landscape.measures import first_variation as first_variation
from sphereflow.landscape.measures import hessian as hessian
from sphereflow.landscape.obstruct import Obstruction as Obstruction
from sphereflow.landscape.obstruct import obstruction as obstruction
from sphereflow.landscape.problem import Problem as Problem
from sphereflow.landscape.result import CriticalPoint as CriticalPoint
from sphereflow.landscape.ring_proof import RingCertificate as RingCertificate
from sphereflow.landscape.ring_proof import ring_certificate as ring_certificate
from sphereflow.landscape.solve import inspect as inspect
from sphereflow.landscape.solve import maximise as maximise
from sphereflow.landscape.solve import minimise as minimise
from sphereflow.landscape.zeros import ZeroSet as ZeroSet
from sphereflow.landscape.zeros import zero_set as zero_set
