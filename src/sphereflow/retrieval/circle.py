r"""A decoder on the circle: every token is drawn to those before it, in time linear in their number.

$$\dot\theta_j=V_j'(\theta_j)\ \text{("mean")},\qquad
  \dot\theta_j=\tfrac1\beta(\log V_j)'(\theta_j)\ \text{("softmax")},\qquad
  V_j(\theta)=\sum_{k<j}\omega_{jk}\,w_\beta(\theta-\theta_k),\quad w_\beta(\theta)=e^{\beta\cos\theta}.$$

The unnormalised force carries the factor beta of $w_\beta'=-\beta\sin\theta\,e^{\beta\cos\theta}$. With the series
$w_\beta=I_0+2\sum_n I_n\cos n\theta$ only the moments $A_n(j)=\sum_{k<j}p_{jk}e^{in\theta_k}$ of the past are needed.
They follow the recursion $A\leftarrow e^{-\lambda/N}(A+e^{in\theta_j})$, one turn per token, so a step takes time n K.

Columns are independent samples: the tokens of this model are arrays of angles (n, samples), never wrapped. A token is
computed from earlier ones by operations whose order does not depend on later ones, so with fixed time steps causality
is exact to the last bit. (Adaptive steps look at all tokens, and are causal up to their tolerance.)
"""

from __future__ import annotations

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import special

from sphereflow.dynamics import Dynamics, Traits
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.interaction.expansion import circle_coefficients
from sphereflow.interaction.modes import multiples
from sphereflow.retrieval.bessel import MOST_BETA
from sphereflow.retrieval.positions import CausalWeights, Exponentials, alibi
from sphereflow.shapes import ArrayLike

# Without itself in its sum, a token may sit opposite to all others: the softmax denominator falls to e^(-2 beta), and a
# series in double precision resolves it to 1e-15 e^(2 beta) of itself.
MOST_SOFTMAX_BETA = 8.0

Wave = tuple[Array, Array]  # cosine and sine


class CausalCircle(Dynamics):
    r"""The decoder as a vector field on angles (n, samples).

    **Arguments:**

    - `beta`: inverse temperature. `weights`: positional weights, or a number $\lambda$ for ALiBi of that slope.
    - `normalise`: "mean" (unnormalised attention, raw kernel, force with its factor beta) or "softmax".
    - `length`: the N in the distances (j - k)/N, the number of tokens by default. The first tokens of a longer
      sequence are simulated by giving its length here.
    - `modes`: Fourier modes; by default as many as make the force accurate to 1e-13 of its scale.
    """

    traits = Traits(space="euclidean")

    beta: Float[Array, ""]
    weights: CausalWeights
    length: Float[Array, ""] | None
    normalise: str = eqx.field(static=True)
    modes: int = eqx.field(static=True)

    def __init__(
        self,
        beta: float,
        weights: CausalWeights | float,
        normalise: str = "mean",
        *,
        length: ArrayLike | None = None,
        modes: int | None = None,
    ):
        one_of("normalise", normalise, ("mean", "softmax"))
        number = real_number("beta", beta, least=0)
        if normalise == "softmax" and number > MOST_SOFTMAX_BETA:
            raise SphereflowError(
                f"softmax on the circle by Fourier modes needs beta at most {MOST_SOFTMAX_BETA:g}, got {number:g}: use "
                f"decoder(...), which sums over pairs."
            )
        real_number("beta", beta, most=MOST_BETA)
        self.beta = jnp.asarray(number)
        self.weights = weights if isinstance(weights, CausalWeights) else alibi(real_number("the slope", weights))
        self.length = None if length is None else jnp.asarray(length, dtype=float)
        self.normalise = normalise
        self.modes = force_modes(number) if modes is None else whole_number("modes", modes)

    @property
    def time_step(self) -> float:
        r"""A step that resolves the fastest motion: $0.27/(\beta e^\beta)$, for softmax $0.27/(1+\beta)$."""
        beta = float(self.beta)
        return 0.27 / (max(beta, 0.3) * float(np.exp(beta)) if self.normalise == "mean" else 1 + beta)

    def field(self, t: Float[Array, ""], x: Float[Array, "n s"]) -> Float[Array, "n s"]:
        n = x.shape[0]
        length = jnp.asarray(n, x.dtype) if self.length is None else self.length
        peak = circle_coefficients(self.modes + 1, self.beta)
        # n I_n / beta = (I_{n-1} - I_{n+1})/2 also at beta = 0.
        factors = (peak[2:] - peak[:-2])[None]
        if self.normalise == "softmax":
            factors = jnp.stack([factors[0], 2 * peak[1:-1]])
        if isinstance(self.weights, Exponentials):
            total = self.weights.normalisers(jnp.arange(n, dtype=x.dtype), length)[:, None]
            sums = _by_recursion(self.weights, x, factors, length)
        else:
            total = (jnp.arange(n, dtype=x.dtype) > 0)[:, None]
            sums = _by_products(self.weights.matrix(n, length), x, factors)
        if self.normalise == "mean":
            return self.beta * jnp.exp(self.beta) * sums[0] / jnp.where(total > 0, total, 1)
        return sums[0] / jnp.where(total > 0, peak[0] * total + sums[1], 1)


def _by_recursion(
    weights: Exponentials, x: Float[Array, "n s"], factors: Float[Array, "r k"], length: Float[Array, ""]
) -> tuple[Float[Array, "n s"], ...]:
    r"""$\sum_m a_m\,\mathrm{Im}(e^{im\theta_j}\bar A_m(j))$ with the factors of the first row.

    A second row, if there is one, does the same with the real part.
    """
    modes = factors.shape[1]
    decay = jnp.exp(-weights.slopes / length)[:, None]
    charge = weights.amplitudes[:, None]

    def one_token(past: Wave, here: Wave) -> tuple[Wave, tuple[Array, ...]]:
        c, s = (wave[1:] for wave in multiples(*here, modes + 1))
        sums = past[0].sum(axis=1), past[1].sum(axis=1)
        fields = tuple(row @ part((c, s), sums) for row, part in zip(factors, _PARTS, strict=False))
        return (decay * (past[0] + charge * c[:, None]), decay * (past[1] + charge * s[:, None])), fields

    nothing = jnp.zeros((modes, decay.shape[0], x.shape[1]), x.dtype)
    return jax.lax.scan(one_token, (nothing, nothing), (jnp.cos(x), jnp.sin(x)))[1]


def _by_products(
    matrix: Float[Array, "n n"], x: Float[Array, "n s"], factors: Float[Array, "r k"]
) -> tuple[Float[Array, "n s"], ...]:
    """The same sums with any matrix of weights, one mode at a time."""

    def one_mode(sums: tuple[Array, ...], mode: tuple[Array, Array]) -> tuple[tuple[Array, ...], None]:
        m, row = mode
        wave = jnp.cos(m * x), jnp.sin(m * x)
        averages = matrix @ wave[0], matrix @ wave[1]
        return tuple(f + row[r] * _PARTS[r](wave, averages) for r, f in enumerate(sums)), None

    start = (jnp.zeros_like(x),) * factors.shape[0]
    order = jnp.arange(1, factors.shape[1] + 1, dtype=x.dtype)
    return jax.lax.scan(one_mode, start, (order, factors.T))[0]


def _imaginary(wave: Wave, average: Wave) -> Array:
    return wave[1] * average[0] - wave[0] * average[1]


def _real(wave: Wave, average: Wave) -> Array:
    return wave[0] * average[0] + wave[1] * average[1]


_PARTS = (_imaginary, _real)


def force_modes(beta: float, error: float = 1e-13) -> int:
    r"""The smallest K with $2\sum_{n>K}nI_n(\beta)\le\epsilon\,e^\beta\max(\beta,1)$."""
    if beta == 0:
        return 1
    n = np.arange(1, int(np.sqrt(2 * beta * 80)) + 60)
    tails = np.cumsum((2 * n * special.ive(n, beta))[::-1])[::-1]  # tails[k] is the sum from k + 1 on
    return max(1, int(np.argmax(tails <= error * max(beta, 1.0))))


def flow(model: CausalCircle, theta: ArrayLike, t1: float, *, dt: float | None = None) -> Float[Array, "n s"]:
    """Angles at time t1 from angles (n, samples) at time 0, by equal steps of at most `dt` of a fifth-order method.

    The default step is `model.time_step`, with errors of about 1e-7.
    """
    start = jnp.asarray(theta, dtype=float)
    if start.ndim != 2 or 0 in start.shape:
        raise SphereflowError(f"angles must have shape (n, samples), got {start.shape}.")
    longest = model.time_step if dt is None else real_number("dt", dt, above=0)
    steps = max(1, int(np.ceil(real_number("t1", t1, above=0) / longest - 1e-9)))
    return _steps(model, start, jnp.asarray(t1 / steps), jnp.asarray(steps))


@eqx.filter_jit
def _steps(
    model: CausalCircle, start: Float[Array, "n s"], dt: Float[Array, ""], steps: Int[Array, ""]
) -> Float[Array, "n s"]:
    """Equal steps of Tsitouras' method, with the field in the program once, which is then quick to compile."""
    a, b = (jnp.asarray(numbers) for numbers in _TABLEAU)

    def step(_: Array, x: Array) -> Array:
        def stage(i: Array, k: Array) -> Array:
            return k.at[i].set(model.field(dt, x + dt * jnp.tensordot(a[i], k, 1)))

        k = jax.lax.fori_loop(0, len(b), stage, jnp.zeros((len(b), *x.shape), x.dtype))
        return x + dt * jnp.tensordot(b, k, 1)

    return jax.lax.fori_loop(0, steps, step, start)


def _tableau() -> tuple[np.ndarray, np.ndarray]:
    """The stages of Tsitouras' method that its result uses: the last one is for its error estimate alone."""
    numbers = diffrax.Tsit5.tableau
    b = np.asarray(numbers.b_sol)[:-1]
    a = np.zeros((len(b), len(b)))
    for i, row in enumerate(numbers.a_lower[:-1]):
        a[i + 1, : len(row)] = row
    return a, b


_TABLEAU = _tableau()
