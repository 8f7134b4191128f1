"""Layers shared by all tokens: random perceptrons of many layers, the stochastic flow they become, synchronisation.

The random layers (`random_fields`, `covariance`, `activations`) and the network of them (`network`), two tokens in
closed form (`two_point`, `backward_equation`), measured Lyapunov exponents (`lyapunov`), the energy
(`energy_dissipation`), laws on the circle (`circle_laws`, `circle_spde`), and errors along the same noise (`pathwise`,
`both_limits`).
"""

from sphereflow.synchronisation.activations import resolve as resolve
from sphereflow.synchronisation.all_exponents import LyapunovSpectrum as LyapunovSpectrum
from sphereflow.synchronisation.all_exponents import lyapunov_spectrum as lyapunov_spectrum
from sphereflow.synchronisation.backward_equation import Backward as Backward
from sphereflow.synchronisation.both_limits import LimitOrders as LimitOrders
from sphereflow.synchronisation.both_limits import limit_orders as limit_orders
from sphereflow.synchronisation.circle_spde import CircleLaw as CircleLaw
from sphereflow.synchronisation.circle_spde import circle_law as circle_law
from sphereflow.synchronisation.covariance import Covariance as Covariance
from sphereflow.synchronisation.covariance import of_activation as of_activation
from sphereflow.synchronisation.covariance import of_powers as of_powers
from sphereflow.synchronisation.covariance import of_quadratic_form as of_quadratic_form
from sphereflow.synchronisation.energy_dissipation import CoercivityTest as CoercivityTest
from sphereflow.synchronisation.energy_dissipation import Dissipation as Dissipation
from sphereflow.synchronisation.energy_dissipation import coercivity_test as coercivity_test
from sphereflow.synchronisation.energy_dissipation import dissipation as dissipation
from sphereflow.synchronisation.network import run_network as run_network
from sphereflow.synchronisation.pathwise import StrongErrors as StrongErrors
from sphereflow.synchronisation.pathwise import strong_errors as strong_errors
from sphereflow.synchronisation.random_fields import RandomField as RandomField
from sphereflow.synchronisation.two_point import TwoPoint as TwoPoint
from sphereflow.synchronisation.two_point import coercive_above as coercive_above
from sphereflow.synchronisation.two_point import synchronises_below as synchronises_below
