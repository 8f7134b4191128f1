r"""The interaction energy, which increases along both flows.

$$E_\beta = \frac{1}{2\beta n^2}\sum_{ij}e^{\beta\langle x_i,x_j\rangle},\qquad
  \dot E_\beta = \sum_i c_i|\nabla_iE_\beta|^2,\quad c_i = n\ \text{(USA)},\ n^2/Z_i\ \text{(SA)}.$$
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import integrate, special

from sphereflow.claims import Measurement, Run, agreement, at_least, at_most
from sphereflow.kernels import uniform_mean
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import (
    Model,
    attention,
    energy,
    energy_rate,
    follow,
    uniform_tokens,
)
from sphereflow.sphere import uniform

# beta: (E, dE/dt under SA, dE/dt under USA) at the reference state, raw kernel.
REFERENCE = {
    1.0: (0.6459201961, 0.0070263388, 0.0089449673),
    2.0: (0.6105718691, 0.0238966457, 0.0575442599),
    5.0: (3.5397106652, 0.3233579172, 12.8289519),
}
_MODELS: tuple[Model, Model] = ("sa", "usa")
_CASES = [(d, beta) for d in (2, 3, 8) for beta in (1.0, 4.0, 8.0)]


def reference_state() -> np.ndarray:
    r"""Six tokens on S^2 without a random seed: normalised $(\sin(1+i+2k+0.3ik))_{k=0,1,2}$."""
    i, k = np.arange(6)[:, None], np.arange(3)[None, :]
    x = np.sin(1 + i + 2 * k + 0.3 * i * k)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def raw_energy(x: np.ndarray, beta: float, form: np.ndarray | None = None) -> float:
    r"""$\frac{1}{2\beta n^2}\sum_{ij}e^{\beta\langle x_i,Bx_j\rangle}$ by a plain double sum."""
    products = x @ (x.T if form is None else form @ x.T)
    return float(np.exp(beta * products).mean() / (2 * beta))


def raw_field(x: np.ndarray, beta: float, model: Model, form: np.ndarray | None = None, sign: int = 1) -> np.ndarray:
    r"""The velocities $P_{x_i}\sum_jk_{ij}(\pm B)x_j$ over $Z_i$ (SA) or n (USA), by plain sums."""
    images = x if form is None else x @ form.T
    kernel = np.exp(beta * (x @ images.T))
    scale = kernel.sum(axis=1, keepdims=True) if model == "sa" else len(x)
    pull = sign * (kernel @ images) / scale
    return pull - np.sum(pull * x, axis=1, keepdims=True) * x


def energy_rate_by_differences(
    x: np.ndarray, beta: float, model: Model, form: np.ndarray | None = None, sign: int = 1, step: float = 1e-5
) -> float:
    """dE/dt by a central difference of the plain energy along the great circles tangent to the flow."""
    v = raw_field(x, beta, model, form, sign)
    # Steps in proportion to the fastest token: USA speeds grow like e^beta.
    h = step / max(1.0, float(np.linalg.norm(v, axis=1).max()))
    length = h * np.linalg.norm(v, axis=1, keepdims=True)
    ahead, behind = (np.cos(length) * x + s * np.sinc(length / np.pi) * h * v for s in (1, -1))
    return (raw_energy(ahead, beta, form) - raw_energy(behind, beta, form)) / (2 * h)


def uniform_energy(d: int, beta: float) -> float:
    r"""Energy of the uniform measure by quadrature over the polar angle: weight $\sin^{d-2}$ of $e^{\beta\cos}$."""

    def density(angle: float) -> float:
        return float(np.exp(beta * np.cos(angle)) * np.sin(angle) ** (d - 2))

    top = integrate.quad(density, 0, np.pi, epsabs=0.0, epsrel=1e-13, limit=200)[0]
    bottom = np.sqrt(np.pi) * special.gamma((d - 1) / 2) / special.gamma(d / 2)
    return float(top / bottom / (2 * beta))


def pair_energy(x: Float[Array, "n d"], beta: float) -> float:
    """The energy of tokens with the pairs i = j left out: its mean over uniform samples is that of the measure."""
    n = len(x)
    return (n * float(energy(attention("usa", beta), x)) - float(np.exp(beta)) / (2 * beta)) / (n - 1)


def pair_energy_error(n: int, d: int, beta: float) -> float:
    """Its standard error: pairs are uncorrelated under the uniform law, and the squared kernel has twice the beta."""
    variance = 4 * beta * uniform_energy(d, 2 * beta) - (2 * beta * uniform_energy(d, beta)) ** 2
    return float(np.sqrt(2 * variance / (n * (n - 1))) / (2 * beta))


@lru_cache(maxsize=8)
def _uniform_sample(n: int, d: int, seed: int) -> Float[Array, "n 8"]:
    """Uniform tokens of S^{d-1}; zeros complete the coordinates, so that one shape is compiled once."""
    return jnp.pad(uniform(jax.random.key(seed), (n, d)), ((0, 0), (0, 8 - d)))


@PAPER.claim(
    "dissipation-identity",
    statement="The energy grows at the rate of a weighted sum of squared gradients, with weight n^2/Z_i under SA.",
    source="Section on the gradient flow structure",
    formula=r"\dot E=\sum_i\frac{n^2}{Z_i}|\nabla_iE|^2\ \mathrm{(SA)},"
    r"\qquad\dot E=n\sum_i|\nabla_iE|^2\ \mathrm{(USA)}",
    falsifier="A weight without n^2/Z_i, or Z_i as an average instead of a sum.",
)
def dissipation_identity(run: Run) -> Measurement:
    states = {"reference": reference_state(), "random": uniform_tokens(run.seed, 6, 3)}
    cases = [(name, model, beta) for name in states for model in _MODELS for beta in REFERENCE]
    predicted = [energy_rate_by_differences(states[name], beta, model) for name, model, beta in cases]
    measured = [float(energy_rate(attention(model, beta), jnp.asarray(states[name]))) for name, model, beta in cases]
    return agreement(
        predicted,
        measured,
        relative=1e-8,
        because="a central difference with steps of 1e-5 is exact to about 1e-9",
        labels=tuple(f"{name} {model.upper()} beta={beta:g}" for name, model, beta in cases),
    )


@PAPER.claim(
    "energy-at-reference-state",
    statement="Energy and its growth at a fixed state of six tokens on the sphere.",
    source="Section on the gradient flow structure; reference values from an independent calculation",
    formula=r"E_\beta,\ \dot E_\beta",
    falsifier="The kernel exp(beta(s-1)) instead of exp(beta s) changes E by exp(beta).",
)
def energy_at_reference_state(run: Run) -> Measurement:
    x = jnp.asarray(reference_state())
    measured, labels = [], []
    for beta in REFERENCE:
        sa, usa = attention("sa", beta), attention("usa", beta)
        measured += [float(energy(sa, x)), float(energy_rate(sa, x)), float(energy_rate(usa, x))]
        labels += [f"{what} beta={beta:g}" for what in ("E", "dE/dt SA", "dE/dt USA")]
    return agreement(
        np.ravel(list(REFERENCE.values())),
        measured,
        relative=1e-8,
        because="reference values are given to eight digits or more",
        labels=tuple(labels),
    )


@PAPER.claim(
    "energy-increases",
    statement="The energy never decreases along SA and USA and never exceeds that of a single cluster.",
    source="Section on the gradient flow structure",
    formula=r"\dot E_\beta\ge0,\qquad E_\beta\le\frac{e^\beta}{2\beta}",
)
def energy_increases(run: Run) -> Measurement:
    x0 = uniform_tokens(run.seed, 20, 4)
    violations, labels = [], []
    for model in _MODELS:
        for beta in (1.0, 5.0):
            times = np.linspace(0, 12 if model == "sa" else 12 * np.exp(-beta), 25)[1:]
            xs = [x0, *follow(model, beta, x0, times)]
            values = np.array([raw_energy(x, beta) for x in xs])
            top = np.exp(beta) / (2 * beta)
            violations += [np.max(-np.diff(values) / values[1:]), values.max() / top - 1]
            labels += [f"{model.upper()} beta={beta:g} {what}" for what in ("largest decrease", "above the maximum")]
    return at_most(
        0.0,
        np.array(violations),
        slack=1e-12,
        because="rounding of the sum of n^2 terms, relative to the energy",
        labels=tuple(labels),
    )


@PAPER.claim(
    "energy-of-uniform",
    statement="The energy of the uniform measure is a Bessel function; sampling agrees.",
    source="Section on the interaction energy",
    formula=r"E=\frac{1}{2\beta}\Gamma(\tfrac d2)\left(\tfrac2\beta\right)^{d/2-1}I_{d/2-1}(\beta)",
    falsifier="Points drawn as normalised uniforms of a cube have another energy.",
)
def energy_of_uniform(run: Run) -> Measurement:
    n, predicted = 1024 if run.quick else 8192, [uniform_energy(d, beta) for d, beta in _CASES]
    formula = [uniform_mean(d, beta) * np.exp(beta) / (2 * beta) for d, beta in _CASES]
    sampled = [pair_energy(_uniform_sample(n, d, run.seed), beta) for d, beta in _CASES]
    errors = [pair_energy_error(n, d, beta) for d, beta in _CASES]
    labels = [f"{how} d={d} beta={beta:g}" for how in ("Bessel", "sampled") for d, beta in _CASES]
    return agreement(
        [*predicted, *predicted],
        [*formula, *sampled],
        absolute=[*(1e-10 * np.array(predicted)), *(4 * np.array(errors))],
        because=f"quadrature to 1e-13; four standard errors for {n} sampled tokens",
        labels=tuple(labels),
    )


@PAPER.claim(
    "uniform-minimises",
    statement="No arrangement of tokens has less energy than the uniform measure.",
    source="Section on the interaction energy",
    formula=r"E_\beta[\mu]\ge E_\beta[\mathrm{uniform}]",
)
def uniform_minimises(run: Run) -> Measurement:
    values = [float(energy(attention("usa", beta), _uniform_sample(1024, d, run.seed))) for d, beta in _CASES]
    return at_least(
        np.array([uniform_energy(d, beta) for d, beta in _CASES]),
        np.array(values),
        because="an inequality",
        labels=tuple(f"1024 tokens d={d} beta={beta:g}" for d, beta in _CASES),
    )


@PAPER.claim(
    "energy-at-beta-zero",
    statement="As beta tends to 0, the energy less 1/(2 beta) tends to half the squared mean of the tokens.",
    source="Consequence of the definition of the energy",
    formula=r"\lim_{\beta\to0}\left(E_\beta-\frac1{2\beta}\right)=\frac12\left|\frac1n\sum_ix_i\right|^2",
    falsifier="A division by beta = 0.",
)
def energy_at_beta_zero(run: Run) -> Measurement:
    x, small = reference_state(), 1e-4
    half_square = np.sum(x.mean(axis=0) ** 2) / 2
    measured = [float(energy(attention("usa", 0.0), jnp.asarray(x))), raw_energy(x, small) - 1 / (2 * small)]
    return agreement(
        [half_square] * 2,
        measured,
        absolute=[1e-14, small / 4],
        because="rounding at beta = 0; the next term of the expansion is at most beta/4 at beta = 1e-4",
        labels=("beta=0", "beta=1e-4"),
    )


@PAPER.claim(
    "matrices-keep-the-gradient",
    statement="With V = Q^T K symmetric the flow climbs an energy; with V = -Q^T K it descends it.",
    source="Section on general matrices",
    formula=r"\dot E_B=\pm\sum_i\frac{n^2}{Z_i}|\nabla_iE_B|^2,\qquad V=\pm Q^\top K=\pm B",
)
def matrices_keep_the_gradient(run: Run) -> Measurement:
    x, beta = reference_state(), 1.5
    symmetric, query = np.random.default_rng(run.seed).normal(size=(2, 3, 3))
    form = symmetric + symmetric.T
    form = form / np.abs(np.linalg.eigvalsh(form)).max()
    key = np.linalg.solve(query.T, form)  # so that Q^T K = B
    cases: list[tuple[Model, int]] = [(model, sign) for model in _MODELS for sign in (1, -1)]
    predicted = [energy_rate_by_differences(x, beta, model, form, sign) for model, sign in cases]
    measured = [
        float(energy_rate(attention(model, beta, query=query, key=key, value=sign * form), jnp.asarray(x)))
        for model, sign in cases
    ]
    return agreement(
        predicted,
        measured,
        relative=1e-8,
        because="a central difference with steps of 1e-5 is exact to about 1e-9",
        labels=tuple(f"{model.upper()} V={'+' if sign > 0 else '-'}B" for model, sign in cases),
    )
