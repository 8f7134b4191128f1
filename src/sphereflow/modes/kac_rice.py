r"""How many modes to expect, for any number of samples and any bandwidth.

$$\mathbb E\#\{\text{modes in }[a,b]\}=\int_a^b\int_0^\infty y\,p_t(0,y)\,dy\,dt\qquad\text{(Kac-Rice)}.$$

With a Gaussian law for $(F,F')$ the inner integral is

$$\rho_G(t)=\frac{e^{-nm_1^2/(2S_{11})}}{\sqrt{2\pi nS_{11}}}\Big[a\,\Phi\big(\tfrac a{\sqrt v}\big)
  +\sqrt v\,\phi\big(\tfrac a{\sqrt v}\big)\Big],\quad
  a=n\big(m_2-\tfrac{S_{12}}{S_{11}}m_1\big),\quad v=n\big(S_{22}-\tfrac{S_{12}^2}{S_{11}}\big),$$

good where a bandwidth holds many samples, $|t|<T_0=\sqrt{2\log n-\log\beta}$; it does not decay beyond. The uniform
predictor replaces the saturated rate by that of a Poisson process with the local number of samples per bandwidth:

$$\rho(t)=\sqrt\beta\,f\Big(\frac{n\,p(t)}{\sqrt\beta}\Big)D(t),\qquad
  D=\frac{2\pi\rho_G}{\sqrt{S_{22}/S_{11}}}\quad(D=1\text{ below }0.02\text{ samples per bandwidth}).$$

For beta below 10 the saturated rate is not yet near its limit, and $\rho_G\,f/f(\infty)$ is taken instead: a few wide
bumps of many samples then have one mode, as they should.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

from sphereflow.errors import SphereflowError, real_number
from sphereflow.modes import edgeworth as expansion
from sphereflow.modes.moments import Density, Moments, Values, density_moments, normal_moments
from sphereflow.modes.sparse import DENSE_RATE, sparse_rate
from sphereflow.numerics.quadrature import panels
from sphereflow.reading import density_values, real_array

# Beyond these a single mode is narrower than the panels, and powers of beta leave the range of doubles.
_MOST_SAMPLES, _MOST_BETA, _FARTHEST = 1e70, 1e120, 1e4
# Below this the curvature, given the slope, is a difference of order beta^2 of numbers near 1, and drowns in rounding:
# a kernel a thousand times wider than the samples leaves one mode.
_LEAST_BETA = 1e-6
_ISOLATED = 0.02
_WIDE = 10.0
_PANEL, _NODES, _HALVINGS = 0.08, 12, 140


def edge(n: float, beta: float) -> float:
    """T0 = sqrt(2 log n - log beta): beyond it a bandwidth holds less than 0.4 samples; zero if beta >= n^2."""
    n, beta = _checked(n, beta)
    return math.sqrt(max(2 * math.log(n) - math.log(beta), 0.0))


def belt(n: float, beta: float) -> tuple[float, float]:
    """|t| between sqrt(2 log n - 3 log beta) (or 0) and T0: where almost all modes are, as n grows."""
    n, beta = _checked(n, beta)
    return math.sqrt(max(2 * math.log(n) - 3 * math.log(beta), 0.0)), edge(n, beta)


def gaussian_density(t: Values, n: float, beta: float, density: Density | None = None) -> Values:
    """rho_G(t), modes per unit length if (F, F') were Gaussian."""
    n, beta = _checked(n, beta)
    return _gaussian(_moments(_places(t), beta, density), n)


def edgeworth_density(t: Values, n: float, beta: float, density: Density | None = None, *, order: int = 4) -> Values:
    """rho_E(t), modes per unit length with the Edgeworth expansion of the law of (F, F'); order 2 is rho_G.

    Orders 3 and 4 are refused where samples are too sparse for an expansion; `mode_density(..., edgeworth=True)` goes
    on into the tails.
    """
    n, beta = _checked(n, beta)
    at, order = _places(t), expansion.checked_order(order)
    if order > 2 and np.any(expansion.samples_in_bandwidth(at, n, beta, density) < expansion.FEWEST):
        raise SphereflowError(
            f"t must be where a bandwidth holds {expansion.FEWEST:g} samples or more, for order {order}; "
            "mode_density(..., edgeworth=True) goes on into the tails."
        )
    return expansion.density_of_modes(at, n, beta, order, density)


def edgeworth_modes(n: float, beta: float, low: float, high: float, *, order: int = 4) -> float:
    """Integral of rho_E over [low, high] for standard normal samples."""
    if _end("low", low) < -_FARTHEST or _end("high", high) > _FARTHEST:
        raise SphereflowError(f"low and high must be within [-{_FARTHEST:g}, {_FARTHEST:g}].")
    t, weights = _nodes(low, high)
    return float(weights @ edgeworth_density(t, n, beta, order=order))


def mode_density(
    t: Values, n: float, beta: float, density: Density | None = None, *, edgeworth: bool = False
) -> Values:
    """rho(t), modes per unit length, sparse tails included; `density` is that of the samples (standard normal).

    With `edgeworth` the law of (F, F') is expanded to fourth order where samples are dense.
    """
    t = _places(t)
    n, beta = _checked(n, beta)
    if edgeworth:
        return expansion.uniform(t, n, beta, density)
    moments = _moments(t, beta, density)
    height = norm.pdf(t) if density is None else density_values("density", density, t, zero=True)
    per_bandwidth = n * height / math.sqrt(beta)
    local = np.sqrt(moments.s22 / moments.s11) / (2 * math.pi)
    saturated = local if beta >= _WIDE else saturated_rate(beta)
    damping = np.where(per_bandwidth < _ISOLATED, 1.0, _gaussian(moments, n) / saturated)
    return math.sqrt(beta) * sparse_rate(per_bandwidth) * damping


def gaussian_modes(n: float, beta: float, low: float | None = None, high: float | None = None) -> float:
    """Integral of rho_G, over [-T0, T0] by default; the whole line is refused, for it diverges."""
    n, beta = _checked(n, beta)
    low, high = -edge(n, beta) if low is None else low, edge(n, beta) if high is None else high
    if _end("low", low) < -_FARTHEST or _end("high", high) > _FARTHEST:
        raise SphereflowError(
            f"the Gaussian formula does not decay: give ends within {_FARTHEST:g}, or use expected_modes."
        )
    t, weights = _nodes(low, high)
    return float(weights @ gaussian_density(t, n, beta))


def expected_modes(
    n: float, beta: float, low: float = -math.inf, high: float = math.inf, *, edgeworth: bool = False
) -> float:
    """Expected number of modes in [low, high] for n standard normal samples: the integral of rho.

    rho is an approximation for many samples. On the whole line it is off by up to 15 % at n = 1 and 2, 12 % at 3, 7 %
    at 5, 5 % from n = 10 on and 2 % from n = 1000 on (measured for beta from 1 to 1000); `sample_modes` counts.
    With `edgeworth` the joint law of slope and curvature is not taken as Gaussian: better at small beta, where the
    slope of the density competes with the noise.
    """
    n, beta = _checked(n, beta)
    low, high = _end("low", low), _end("high", high)
    # Beyond this even the expected number of samples is nothing.
    far = math.sqrt(2 * math.log(n) + 64)
    t, weights = _nodes(max(low, -far), min(high, far))
    return float(weights @ mode_density(t, n, beta, edgeworth=edgeworth))


def belt_fraction(n: float, beta: float) -> float:
    """Share of the expected modes that lie in the belt."""
    inner, outer = belt(n, beta)
    return 2 * expected_modes(n, beta, inner, outer) / expected_modes(n, beta)


def saturated_rate(beta: float) -> float:
    """sqrt(3 beta / 2) / (2 pi) = 0.194924 sqrt(beta) modes per unit length, where the slope does not matter."""
    return DENSE_RATE * math.sqrt(real_number("beta", beta, above=0))


def central_modes(n: float, beta: float) -> float:
    """0.2905 beta^{5/4} n^{-1/2} modes near the origin, for n^{2/5} << beta << n^{2/3}."""
    n, beta = _checked(n, beta)
    return DENSE_RATE * math.sqrt(math.pi) * 2**-0.25 * beta**1.25 / math.sqrt(n)


def limit_constant(a: float) -> float:
    r"""$C(a)=\frac1\pi\sqrt{3/2}\,[\sqrt{2/a-1}-\sqrt{(2/a-3)_+}]$: the limit of E# / sqrt(beta log beta), beta = n^a.

    The approach is logarithmic: 4 % are left at n = 10^30 for a = 1.5.
    """
    real_number("a", a, above=0, most=2)
    whole, inner = 2 / a - 1, max(2 / a - 3, 0.0)
    return math.sqrt(1.5) / math.pi * (whole - inner) / (math.sqrt(whole) + math.sqrt(inner) or 1.0)


def _moments(t: Values, beta: float, density: Density | None) -> Moments:
    return normal_moments(t, beta) if density is None else density_moments(density, t, beta)


def _gaussian(moments: Moments, n: float) -> Values:
    """Everything relative to the scale of the moments, which cancels."""
    s11, s12 = moments.s11, moments.s12
    rest = moments.s22 - s12**2 / s11
    with np.errstate(over="ignore", under="ignore"):
        suppression = np.exp(-n * moments.mean**2 / (2 * s11))
        z = math.sqrt(n) * (moments.mean_slope - s12 / s11 * moments.mean) / np.sqrt(rest)
        upward = z * ndtr(z) + norm.pdf(z)
    return suppression * np.sqrt(rest / s11 / (2 * math.pi)) * upward


def _nodes(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre panels, ever shorter towards the origin: for large n all of a single mode sits there."""
    if not low < high:
        return np.zeros(1), np.zeros(1)
    far = max(abs(low), abs(high))
    short = _PANEL * 0.5 ** np.arange(_HALVINGS)
    half = np.concatenate([short, np.arange(_PANEL, far + _PANEL, _PANEL)])
    ends = np.unique(np.clip(np.concatenate([-half, [0.0], half]), low, high))
    nodes, weights = panels(ends, _NODES)
    return nodes.ravel(), weights.ravel()


def _checked(n: float, beta: float) -> tuple[float, float]:
    n = real_number("n", n, least=1, most=_MOST_SAMPLES)
    return n, real_number("beta", beta, least=_LEAST_BETA, most=_MOST_BETA)


def _end(name: str, value: float) -> float:
    """The end of an interval, which may be infinite."""
    return float(real_array(name, value, shape=(), finite=False))


def _places(t: Values) -> np.ndarray:
    places = real_array("t", t)
    if np.abs(places).max(initial=0.0) > _FARTHEST:
        raise SphereflowError(f"t must be within [-{_FARTHEST:g}, {_FARTHEST:g}].")
    return places
