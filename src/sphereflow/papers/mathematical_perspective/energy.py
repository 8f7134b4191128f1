r"""The interaction energy, which increases along both flows.

$$E_\beta = \frac{1}{2\beta n^2}\sum_{ij}e^{\beta\langle x_i,x_j\rangle},\qquad
  \dot E_\beta = \sum_i c_i|\nabla_iE_\beta|^2,\quad c_i = n\ \text{(USA)},\ n^2/Z_i\ \text{(SA)}.$$
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from numpy.polynomial import legendre
from scipy import integrate, special

from sphereflow.claims import Check, Run, basis
from sphereflow.kernels import uniform_mean
from sphereflow.papers.mathematical_perspective import sources
from sphereflow.papers.mathematical_perspective.harmonics import coefficient, sphere_quadrature
from sphereflow.papers.mathematical_perspective.paper import PAPER
from sphereflow.papers.mathematical_perspective.particles import (
    Model,
    attention,
    energy,
    energy_rate,
    follow,
    uniform_tokens,
)

BETAS = (1.0, 2.0, 5.0)
FLOW = basis.Theorem("gradient flow structure", via=sources.LEAN)
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


def weighted_energy(x: np.ndarray, beta: float, masses: np.ndarray) -> float:
    """The energy of tokens with masses; zeros complete the coordinates, so that one shape is compiled once."""
    filled = np.pad(x, ((0, 0), (0, 8 - x.shape[1])))
    return float(energy(attention("usa", beta, weights=masses), jnp.asarray(filled)))


def pair_energy(x: np.ndarray, beta: float) -> float:
    """The energy of tokens with the pairs i = j left out: its mean over uniform samples is that of the measure."""
    n = len(x)
    return (n * weighted_energy(x, beta, np.full(n, 1 / n)) - float(np.exp(beta)) / (2 * beta)) / (n - 1)


def pair_energy_error(n: int, d: int, beta: float) -> float:
    """Its standard error: pairs are uncorrelated under the uniform law, and the squared kernel has twice the beta."""
    variance = 4 * beta * uniform_energy(d, 2 * beta) - (2 * beta * uniform_energy(d, beta)) ** 2
    return float(np.sqrt(2 * variance / (n * (n - 1))) / (2 * beta))


def wrong_weights(x: np.ndarray, beta: float, model: Model) -> float:
    r"""$\sum_ic_i|\nabla_iE|^2$ with the weights n for SA, and $n^2/Z_i$ for USA: exchanged."""
    speed = np.sum(raw_field(x, beta, model) ** 2, axis=1)
    z = np.exp(beta * x @ x.T).sum(axis=1)
    n = len(x)
    gradient = speed * (z / n**2) ** 2 if model == "sa" else speed / n**2
    return float(np.sum(gradient * (n if model == "sa" else n**2 / z)))


@PAPER.claim(
    "dissipation-identity",
    says="The energy of six tokens on $S^2$, and the rate at which it grows along SA and USA as a weighted sum of "
    "squared gradients, agree with plain sums and central differences, at a fixed and at a random state, $\\beta=1$, "
    "2 and 5.",
    basis=FLOW,
    formula=r"\dot E=\sum_i\frac{n^2}{Z_i}|\nabla_iE|^2\ \mathrm{(SA)},"
    r"\qquad\dot E=n\sum_i|\nabla_iE|^2\ \mathrm{(USA)}",
)
def dissipation_identity(run: Run) -> Check:
    check, exchanged, peak = Check(), {}, {}
    for name, x in (("fixed", reference_state()), ("random", uniform_tokens(run.seed, 6, 3))):
        tokens = jnp.asarray(x)
        for beta in BETAS:
            row = f"E, {name} state, beta={beta:g}"
            found = energy(attention("sa", beta), tokens)
            check.row(row, predicted=raw_energy(x, beta), measured=found, relative=1e-12, because="rounding")
            peak[row] = raw_energy(x, beta) * np.exp(-beta)
            for model in _MODELS:
                row = f"dE/dt, {model.upper()}, {name} state, beta={beta:g}"
                check.row(
                    row,
                    predicted=energy_rate_by_differences(x, beta, model),
                    measured=energy_rate(attention(model, beta), tokens),
                    relative=1e-8,
                    because="a central difference with steps of 1e-5 is exact to about 1e-9",
                )
                exchanged[row] = wrong_weights(x, beta, model)
    check.rival("the weights of SA and USA exchanged", exchanged)
    check.rival("the kernel exp(beta(s-1))", peak)
    return check


@PAPER.claim(
    "energy-increases",
    says="Along SA and USA from 20 uniform tokens in dimension 4, $\\beta=1$ and 5, the energy never decreases "
    "between saved times and never exceeds that of a single cluster.",
    basis=FLOW,
    formula=r"\dot E_\beta\ge0,\qquad E_\beta\le\frac{e^\beta}{2\beta}",
)
def energy_increases(run: Run) -> Check:
    x0, check = uniform_tokens(run.seed, 20, 4), Check()
    backwards, smaller = {}, {}
    for model in _MODELS:
        for beta in (1.0, 5.0):
            times = np.linspace(0, 12 if model == "sa" else 12 * np.exp(-beta), 25)[1:]
            values = np.array([raw_energy(x, beta) for x in [x0, *follow(model, beta, x0, times)]])
            steps = np.diff(values) / values[1:]
            name = f"{model.upper()}, beta={beta:g}"
            because = "rounding of the sum of n^2 terms, relative to the energy"
            row = f"{name}, largest decrease"
            check.at_most(row, bound=0.0, measured=-steps.min(), tolerance=1e-12, because=because)
            backwards[row] = float(steps.max())
            row, top = f"{name}, largest energy", np.exp(beta) / (2 * beta)
            check.at_most(row, bound=top, measured=values.max(), relative=1e-12, because=because)
            smaller[row] = top * (1 - 1 / 20)
    check.null("the same runs with time reversed", backwards)
    check.rival("the energy without the pairs i = j", smaller)
    return check


@PAPER.claim(
    "energy-of-uniform",
    says="The energy of the uniform measure is a Bessel function, by quadrature and by sampled tokens, in dimensions "
    "2, 3 and 8 at $\\beta=1$, 4 and 8.",
    basis=basis.Theorem("energy: minimum at the uniform measure", via=sources.LEAN),
    formula=r"E=\frac{1}{2\beta}\Gamma(\tfrac d2)\left(\tfrac2\beta\right)^{d/2-1}I_{d/2-1}(\beta)",
)
def energy_of_uniform(run: Run) -> Check:
    n = 512 if run.quick else 8192
    check, other, cube = Check(parameters={"n": n}), {}, {}
    for d, beta in _CASES:
        exact, name = uniform_energy(d, beta), f"d={d}, beta={beta:g}"
        formula = uniform_mean(d, beta) * np.exp(beta) / (2 * beta)
        check.row(f"Bessel, {name}", predicted=exact, measured=formula, relative=1e-10, because="quadrature to 1e-13")
        check.row(
            f"sampled, {name}",
            predicted=exact,
            measured=pair_energy(uniform_tokens(run.seed, n, d), beta),
            error=pair_energy_error(n, d, beta),
            because="the exact standard error of a mean over pairs",
        )
        other[f"Bessel, {name}"] = uniform_energy(d + 1, beta)
        if d == 8:
            cube[f"sampled, {name}"] = uniform_energy(d - 1, beta)
    check.rival("the dimension of the ambient space off by one", other)
    check.rival("sampled in one dimension less", cube)
    return check


@PAPER.claim(
    "uniform-minimises",
    says="Every harmonic added to the uniform density raises the energy, by its positive Bessel coefficient: waves 1 "
    "to 4 on the circle and degrees 1 to 4 on $S^2$, of amplitude 1/2, at $\\beta=2$.",
    basis=basis.Theorem("energy: minimum at the uniform measure", via=sources.LEAN),
    formula=r"E[1+\epsilon\cos k\theta]-E[1]=\frac{\epsilon^2I_k(\beta)}{4\beta}>0,\qquad "
    r"E[1+\epsilon P_l]-E[1]=\frac{\epsilon^2a_l}{2\beta(2l+1)}>0",
)
def uniform_minimises(run: Run) -> Check:
    beta, amplitude, check = 2.0, 0.5, Check()
    flat, shifted = {}, {}
    theta = 2 * np.pi * np.arange(512) / 512
    ring = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    x, masses = sphere_quadrature()
    for k in range(1, 5):
        wave = 1 + amplitude * np.cos(k * theta)
        degree = 1 + amplitude * legendre.Legendre.basis(k)(x[:, 2])
        for name, points, weights, density, dimension in (
            ("circle", ring, np.full(512, 1 / 512), wave, 2),
            ("sphere", x, masses, degree, 3),
        ):
            tilted = weighted_energy(points, beta, weights * density)
            row = f"{name}, degree {k}"
            share = 2 if dimension == 2 else 2 * k + 1
            exact = amplitude**2 * coefficient(k, dimension, beta) / (2 * beta * share)
            check.row(
                row,
                predicted=exact,
                measured=tilted - uniform_energy(dimension, beta),
                tolerance=1e-12,
                because="rounding; both quadratures are exact for these degrees",
            )
            flat[row] = 0.0
            shifted[row] = amplitude**2 * coefficient(k + 1, dimension, beta) / (2 * beta * share)
    check.rival("no change of the energy", flat)
    check.rival("a lower energy than the uniform measure", check.times(-1.0))
    check.rival("the coefficient of the next degree", shifted)
    return check


@PAPER.claim(
    "energy-at-beta-zero",
    says="As $\\beta$ tends to 0 the energy less $1/(2\\beta)$ tends to half the squared mean of the tokens, at a "
    "fixed state.",
    basis=basis.Derived("the definition of the energy"),
    formula=r"\lim_{\beta\to0}\left(E_\beta-\frac1{2\beta}\right)=\frac12\left|\frac1n\sum_ix_i\right|^2",
)
def energy_at_beta_zero(run: Run) -> Check:
    x, small, check = reference_state(), 1e-4, Check()
    half = np.sum(x.mean(axis=0) ** 2) / 2
    found = energy(attention("sa", 0.0), jnp.asarray(x))
    check.row("beta=0", predicted=half, measured=found, tolerance=1e-14, because="rounding")
    because = "the next term of the expansion is at most beta/4"
    near = float(energy(attention("sa", small), jnp.asarray(x))) - 1 / (2 * small)
    check.row("beta=1e-4", predicted=half, measured=near, tolerance=small / 4, because=because)
    check.rival("the squared mean without the half", 2 * half)
    pairs = (36 * 2 * half - 6) / 30 / 2
    check.rival("pairs i = j left out", pairs)
    return check


@PAPER.claim(
    "matrices-keep-the-gradient",
    says="With $V=Q^\\top K=B$ symmetric SA and USA climb the energy $E_B$, with $V=-B$ they descend it, at the rate "
    "of central differences, for one random $B$.",
    basis=basis.Theorem("general matrices", via=sources.LEAN),
    formula=r"\dot E_B=\pm\sum_i\frac{n^2}{Z_i}|\nabla_iE_B|^2,\qquad V=\pm Q^\top K=\pm B",
)
def matrices_keep_the_gradient(run: Run) -> Check:
    x, beta, check = reference_state(), 1.5, Check()
    symmetric, query = np.random.default_rng(run.seed).normal(size=(2, 3, 3))
    form = symmetric + symmetric.T
    form = form / np.abs(np.linalg.eigvalsh(form)).max()
    key = np.linalg.solve(query.T, form)  # so that Q^T K = B
    plain = {}
    for model in _MODELS:
        for sign in (1, -1):
            row = f"{model.upper()}, V={'+' if sign > 0 else '-'}B"
            dynamics = attention(model, beta, query=query, key=key, value=sign * form)
            check.row(
                row,
                predicted=energy_rate_by_differences(x, beta, model, form, sign),
                measured=energy_rate(dynamics, jnp.asarray(x)),
                relative=1e-8,
                because="a central difference with steps of 1e-5 is exact to about 1e-9",
            )
            plain[row] = energy_rate_by_differences(x, beta, model)
    check.rival("the other sign", check.times(-1.0))
    check.rival("the energy with B = I", plain)
    return check
