r"""Two tokens under one random field: their overlap is a diffusion on its own.

$$dr=D\,dt+\sqrt Q\,dB,\qquad \frac{D}{1-r}=\kappa(1)(d-2-r)-(d-2+r^2)\,s-b\,r(1+r),\qquad
  \frac{Q}{1-r^2}=2(1-r)\big(\kappa(1)+r\,s\big)+2b(1-r^2),$$

with $s=(\kappa(1)-\kappa(r))/(1-r)$: the equations $D=(d-2+r^2)\kappa(r)-(d-1)r\kappa(1)$ and
$Q=2(1-r^2)(\kappa(1)-r\kappa(r))$ written so that nothing cancels where tokens meet (b = 0 for layers with independent
output weights). Attention with value matrix vI, among these two tokens alone, adds $2v\,p(r)(1-r^2)$ to D, where
$p=1/(1+e^{\beta(1-r)})$. Near r = 1 the logarithm of the distance is a Brownian motion with drift $\lambda$, the top
Lyapunov exponent; attention adds $-v$ to it, and $2v$ to the rate at which the mean gap closes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sphereflow.errors import real_number, whole_number
from sphereflow.synchronisation.covariance import Covariance

Array = np.ndarray


@dataclass(frozen=True)
class TwoPoint:
    """The overlap of two tokens on S^{d-1} driven by one field, with attention of this strength and beta (0: none)."""

    d: int
    covariance: Covariance
    strength: float = 0.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        whole_number("d", self.d, least=2)
        real_number("strength", self.strength, least=-1e6, most=1e6)
        real_number("beta", self.beta, least=0, most=1e6)

    # --- drift and diffusion, in r and in z = artanh r ------------------------------------------------------------

    def drift(self, r: Float[Array, "..."]) -> Float[Array, "..."]:
        r"""$D(r)$."""
        r = np.asarray(r, dtype=float)
        return np.asarray((1 - r) * self.pull(r))

    def diffusion(self, r: Float[Array, "..."]) -> Float[Array, "..."]:
        r"""$Q(r)$."""
        r = np.asarray(r, dtype=float)
        s, one, b = self._parts(_angle(r))
        return np.asarray((1 - r**2) * (2 * (1 - r) * (one + r * s) + 2 * b * (1 - r**2)))

    def pull(self, r: Float[Array, "..."]) -> Float[Array, "..."]:
        r"""$D(r)/(1-r)$: the rate at which the mean gap closes; its infimum is the coercivity constant."""
        r = np.asarray(r, dtype=float)
        s, one, b = self._parts(_angle(r))
        noise = one * (self.d - 2 - r) - (self.d - 2 + r**2) * s - b * r * (1 + r)
        return np.asarray(noise + (1 + r) * self._attention(np.asarray(1 - r)))

    def coefficients(self, z: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        r"""Drift and squared noise of $z=\mathrm{artanh}\,r$: $D/(1-r^2)+rQ/(1-r^2)^2$ and $Q/(1-r^2)^2$.

        Both tend to constants as z grows, $-\lambda$ and $\kappa(1)+\kappa'(1)+2b$.
        """
        z = np.asarray(z, dtype=float)
        s, one, b = self._parts(np.asarray(2 * np.arctan(np.exp(-z))))
        r, share = np.tanh(z), 1 + np.exp(-2 * z)  # 1 + r = 2/share
        pull = one * (self.d - 2 - r) - (self.d - 2 + r**2) * s - b * r * (1 + r)
        squared = share * (one + r * s) + 2 * b
        attention = self._attention(np.asarray(2 / (1 + np.exp(2 * z))))
        return np.asarray(pull * share / 2 + r * squared + attention), np.asarray(squared)

    def _attention(self, gap: Array) -> Array:
        r"""$2v\,p$: attention of two tokens, over $1-r^2$."""
        return np.asarray(2 * self.strength / (1 + np.exp(self.beta * gap)))

    def _parts(self, angle: Array) -> tuple[Array, float, float]:
        slope = np.asarray(self.covariance.slope(np.asarray(angle, dtype=float)))
        return slope, float(self.covariance.at_one), float(self.covariance.b)

    # --- exponents ------------------------------------------------------------------------------------------------

    def lyapunov(self, attraction: float = 0.0) -> float:
        r"""$\lambda=\tfrac12[(d-3)\kappa'(1)-(d-1)\kappa(1)]-b-v$: growth rate of the distance of two close tokens.

        `attraction` is attention beyond that of the pair itself.
        """
        one, slope, b = self._ends()
        pulled = self.strength + real_number("attraction", attraction)
        return ((self.d - 3) * slope - (self.d - 1) * one) / 2 - b - pulled

    def spectrum(self) -> Float[Array, " d_minus_1"]:
        r"""$\lambda_i=\lambda-(i-1)(\kappa'(1)+b)$: all exponents of the tangent space of one token, largest first."""
        _, slope, b = self._ends()
        return self.lyapunov() - np.arange(self.d - 1) * (slope + b)

    @property
    def log_distance_variance(self) -> float:
        r"""$\kappa(1)+\kappa'(1)+2b$: variance per unit time of the logarithm of a small distance."""
        one, slope, b = self._ends()
        return one + slope + 2 * b

    def moment_exponent(self, p: float, attraction: float = 0.0) -> float:
        r"""$\Lambda(p)=\lim\frac1t\log E\varepsilon^p=2\lambda p+2(\kappa(1)+\kappa'(1)+2b)p^2$ for small gaps."""
        return 2 * self.lyapunov(attraction) * p + 2 * self.log_distance_variance * p**2

    def _ends(self) -> tuple[float, float, float]:
        return float(self.covariance.at_one), float(self.covariance.slope_at_one), float(self.covariance.b)

    # --- coercivity -----------------------------------------------------------------------------------------------

    def coercivity(self) -> float:
        r"""$c_\kappa=\inf_{r<1}\frac{D(r)}{1-r}=(d-3)\kappa(1)-(d-1)\kappa'(1)-2b$, plus $2v$ for repulsion.

        If positive, $E\Phi(t)\le e^{-c_\kappa t}\Phi(0)$ from every start (with attention: of two tokens). Without or
        with repulsive attention the infimum is at r = 1: a covariance has $\kappa=\sum c_k^2r^k$, so that
        $s=\sum c_k^2(1+\dots+r^{k-1})$ is largest there, as are $d-2+r^2$ and $p(1+r)$, while $d-2-r$ is smallest. What
        attraction adds is smallest at r = -1; the infimum is then found among many angles.
        """
        if self.strength <= 0:
            return self._noise_coercivity() + 2 * self.strength
        return float(self.pull(np.cos(np.linspace(0, np.pi, 4001))).min())

    def _noise_coercivity(self) -> float:
        one, slope, b = self._ends()
        return (self.d - 3) * one - (self.d - 1) * slope - 2 * b

    def long_time_rate(self) -> float:
        r"""The rate at which $E(1-r)$ falls in the end, 0 if it does not: $-\Lambda(\min(1,p_*))$, $p_*$ the minimiser.

        Paths that have met late carry the mean: for $p_*=-\lambda/2(\kappa(1)+\kappa'(1)+2b)<1$ the rate is
        $\lambda^2/2(\kappa(1)+\kappa'(1)+2b)$, with a factor $t^{-3/2}$, and positive wherever $\lambda<0$: also where
        the noise is not coercive, and the mean gap of close tokens grows at first. Covariances that are not odd.
        """
        if self.lyapunov() >= 0 or self.covariance.is_odd:
            return 0.0
        best = -self.lyapunov() / (2 * self.log_distance_variance)
        return -self.moment_exponent(min(1.0, best))

    def decay_rate(self, value_norm: float = 0.0, beta: float = 0.0, key_norm: float = 1.0) -> float:
        r"""$c_\kappa-2|V|(1+\beta|B|)$: if positive, the mean energy decays at least at this rate despite attention.

        A bound for any number of tokens and any value matrix; attention of the pair itself is left out.
        """
        lipschitz = real_number("value_norm", value_norm, least=0) * (1 + real_number("beta", beta, least=0) * key_norm)
        return self._noise_coercivity() - 2 * lipschitz


def synchronises_below(ratio: float) -> float:
    r"""$d<(3q-1)/(q-1)$ for $q=\kappa'(1)/\kappa(1)>1$, else every dimension: where $\lambda<0$, end excluded."""
    ratio = real_number("ratio", ratio, least=0)
    return (3 * ratio - 1) / (ratio - 1) if ratio > 1 + 1e-12 else float("inf")


def coercive_above(ratio: float) -> float:
    r"""$d>(3-q)/(1-q)$ for q < 1, else no dimension: where the gap of close tokens shrinks in mean."""
    ratio = real_number("ratio", ratio, least=0)
    return (3 - ratio) / (1 - ratio) if ratio < 1 - 1e-12 else float("inf")


def _angle(r: Array) -> Array:
    return np.asarray(2 * np.arctan2(np.sqrt(1 - r), np.sqrt(1 + r)))
