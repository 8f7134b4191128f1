"""Where the statements of the paper were read: its abstract; the rest is worked out here."""

from __future__ import annotations

from sphereflow.claims import basis

CONCENTRATION = basis.Abstract("concentration onto the push-forward of the initial law under a projection")
BOUND = basis.Abstract("the distance to it is at most of order sqrt(log(beta+1)/beta) exp(Ct) + exp(-ct)")
TIMES = basis.Abstract("concentration at times of order log beta")
TERMINAL = basis.Abstract("a terminal phase for large times, dominated by the spectrum of the value matrix")
LAPLACE = basis.Derived("the quantitative Laplace principle that the abstract names, for smooth densities")
LIMIT = basis.Derived("the zero-temperature equation that the abstract names, solved in closed form")
REDUCTION = basis.Derived("two equations for the mean and the variance of a Gaussian cluster")
