r"""One cluster near an eigenvector common to V and B, as a Gaussian: the three phases in two equations.

$$\dot\Sigma=2\Big(\frac{v_tb\beta\Sigma}{1+\beta\kappa\Sigma}-v_e\Big)\Sigma,\qquad
  \dot{\bar y}=\Big(v_t\frac{1+\beta b\Sigma}{1+\beta\kappa\Sigma}-v_e\Big)\bar y .$$

While $\beta\kappa\Sigma\gg1$ attention resolves the cluster and both contract at the rate $c=v_e-v_tb/\kappa$ of zero
temperature; once $\beta\kappa\Sigma\ll1$ it averages over it, the width contracts at $v_e$ and the mean moves at
$v_t-v_e$, away if that is positive: the terminal phase.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from sphereflow.errors import SphereflowError, real_number


@dataclass(frozen=True)
class GaussianCluster:
    r"""`along` is $v_e=\langle e,Ve\rangle$, `across` $v_t$, `sharpness` $\kappa=|B^\top e|$, `tilt` b, of B across."""

    along: float
    across: float
    sharpness: float
    tilt: float

    @property
    def contraction(self) -> float:
        r"""$c=v_e-v_tb/\kappa$, the rate of the first phase."""
        return self.along - self.across * self.tilt / self.sharpness

    @property
    def departure(self) -> float:
        r"""$v_t-v_e$, the rate at which the mean leaves in the terminal phase; negative if it does not."""
        return self.across - self.along

    def moments(
        self, beta: float, mean: float, variance: float, times: Float[np.ndarray, " T"]
    ) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
        """Mean and variance at the given times, from their values at the first."""
        real_number("variance", variance, above=0)

        def field(t: float, state: np.ndarray) -> list[float]:
            y, log_s = state
            scaled = beta * np.exp(log_s)
            whole = 1 + self.sharpness * scaled
            return [
                (self.across * (1 + self.tilt * scaled) / whole - self.along) * y,
                2 * (self.across * self.tilt * scaled / whole - self.along),
            ]

        span = (float(times[0]), float(times[-1]))
        solution = solve_ivp(
            field, span, [mean, np.log(variance)], t_eval=times, method="DOP853", rtol=1e-10, atol=1e-12
        )
        return solution.y[0], np.exp(solution.y[1])

    def crossover(self, beta: float, variance: float) -> float:
        r"""$t^*=\frac1{2c}\log(\beta\kappa\Sigma_0)$, when attention stops resolving a cluster."""
        if self.contraction <= 0:
            raise SphereflowError("a cluster that does not contract at zero temperature has no crossover.")
        return float(np.log(beta * self.sharpness * variance) / (2 * self.contraction))

    @property
    def exit_growth(self) -> float:
        r"""$\frac1{2c}+\frac1{2(v_t-v_e)}$: how the time of departure grows with log beta."""
        return 1 / (2 * self.contraction) + 1 / (2 * self.departure)
