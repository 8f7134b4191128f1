r"""Weights that are not Gaussian: only the covariance of V enters the limit, and with it its symmetry.

$$E[Vm(Vm')^T]=\tfrac1d\langle m,m'\rangle I\quad\text{for independent entries of variance }1/d
  \text{ and for orthogonal V, not for symmetric V.}$$
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.claims import Check, Run, basis
from sphereflow.estimates import mean
from sphereflow.papers.random_transformers_homogenization import PAPER, density, independent
from sphereflow.random_transformers.network import RandomNetwork, advance, realisation_keys
from sphereflow.random_transformers.weight_laws import AnyLaw

SYMMETRIC = (2 / 3, 1 / 3)  # variances of the parts of Vc along and across c, over |c|^2; 1/2 and 1/2 else
STEPS = (0.4, 0.2, 0.1)


def orthogonal_values() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for Vc/|c|, V a rotation or reflection: the uniform law on the circle, nearly exact."""
    angle = 2 * np.pi * np.arange(256) / 256
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1), np.full(256, 1 / 256)


def sign_values() -> tuple[np.ndarray, np.ndarray]:
    """The same for entries of V that are random signs over the root of two, c on the first axis: four points."""
    corners = np.array([[a, b] for a in (1, -1) for b in (1, -1)]) / np.sqrt(2)
    return np.tile(corners, (64, 1)), np.full(256, 1 / 256)


def expanded_rates(variances: tuple[float, float] = (0.5, 0.5), *, bent: bool = True) -> np.ndarray:
    r"""$\frac d{d\tau}E|c_k|^2$, k = 1, 2, 3, from the layer expanded to second order, c on the first axis:
    $\theta\to\theta+\eta\langle t,w\rangle-\eta^2\langle t,w\rangle\langle x,w\rangle$, w = Vc.

    The last term, in the mean a drift, is lost without `bent`; for independent entries its mean is zero.
    """
    tokens = density.dense_quantiles()
    z = tokens[:, 0] + 1j * tokens[:, 1]
    rates = []
    for k in (1, 2, 3):
        total = 0.0
        for variance, across, beside in ((variances[0], -z.imag, z.real), (variances[1], z.real, z.imag)):
            first = np.mean(1j * k * across * z**k)
            second = np.mean((-1j * k * bent * across * beside - k**2 * across**2 / 2) * z**k)
            total += variance * float(np.abs(first) ** 2 + 2 * np.real(np.conj(np.mean(z**k)) * second))
        rates.append(total * np.abs(z.mean()) ** 2)
    return np.array(rates)


class Values(eqx.Module):
    """2 x 2 matrices V of random signs, or orthogonal ones, by a number, so that one program serves both; A = I."""

    which: jax.Array

    def __call__(self, key: jax.Array, d: int) -> tuple[jax.Array, jax.Array]:
        z = jax.random.normal(key, (2, 2))
        turn, side = jnp.arctan2(z[0, 0], z[0, 1]), jnp.sign(z[1, 0])
        c, s = jnp.cos(turn), jnp.sin(turn)
        orthogonal = jnp.array([[c, -side * s], [s, side * c]])
        return jnp.where(self.which == 0, jnp.sign(z) / 2**0.5, orthogonal), jnp.eye(2)


@PAPER.claim(
    "other-weights",
    says="At $\\beta=0$ on the circle one layer, its values integrated without sampling, has for random signs and for "
    "orthogonal matrices the generator of the equation of Gaussian weights (rates of $E|c_k|^2$, k = 1, 2, 3, as the "
    "step vanishes). Symmetric Gaussian values of the same size have another one, with the drift "
    "$-\\langle x,Vm\\rangle P_xVm$ of the normalisation. (Larger preset: whole networks of signs and of orthogonal "
    "values at $\\tau=1$.)",
    basis=basis.Derived("the covariance of the layer's increment"),
    formula=r"E[Vm(Vm')^\top]=\tfrac1d\langle m,m'\rangle I\ \Rightarrow\ "
    r"\frac d{d\tau}E|c_k|^2=\tfrac{k^2}4|c_1|^2\big(|c_{k+1}|^2+|c_{k-1}|^2-2|c_k|^2\big)",
)
def other_weights(run: Run) -> Check:
    tokens = density.dense_quantiles()
    z = tokens[:, 0] + 1j * tokens[:, 1]
    squares = np.array([np.abs((z**k).mean()) ** 2 for k in range(5)])
    k = np.arange(1, 4)
    gaussian = k**2 / 4 * squares[1] * (squares[2:] + squares[:3] - 2 * squares[1:4])
    check = Check(parameters={"d": 2, "beta": 0, "tokens": len(z), "eta": STEPS})
    for law, values, predicted in (
        ("signs", sign_values(), gaussian),
        ("orthogonal", orthogonal_values(), gaussian),
        ("symmetric", density.normal_values(SYMMETRIC), expanded_rates(SYMMETRIC)),
    ):
        rates = [(density.one_layer_squares(eta, *values) - squares[1:4]) / eta**2 for eta in STEPS]
        zero = (64 * rates[2] - 20 * rates[1] + rates[0]) / 45
        names = [f"rate of E|c_{j}|^2, {law}" for j in k]
        check.series(names, predicted=predicted, measured=zero, tolerance=2e-6, because="the sixth order in eta")
    names = [f"rate of E|c_{j}|^2, symmetric" for j in k]
    check.rival("symmetric values move tokens like others", dict(zip(names, gaussian, strict=True)))
    lost = expanded_rates(SYMMETRIC, bent=False)
    check.rival("symmetric values without the drift of the normalisation", dict(zip(names, lost, strict=True)))
    for law in ("signs", "orthogonal"):
        symmetric = expanded_rates(SYMMETRIC)
        check.rival(f"{law} like symmetric values", {f"rate of E|c_{j}|^2, {law}": symmetric[j - 1] for j in k})
    if not run.quick:
        whole_networks(run, check)
    return check


def whole_networks(run: Run, check: Check) -> None:
    """Rows for networks from a Poisson kernel, whose exact solution is known."""
    eta, networks = 0.2, 15 * density.BATCH
    x = jnp.asarray(density.poisson_tokens(density.TOKENS, 0.5))
    x = jnp.broadcast_to(x, (density.BATCH, density.TOKENS, 2))
    last = jnp.asarray(round(1 / eta**2))
    for which, law in enumerate(("signs", "orthogonal")):
        network = RandomNetwork(AnyLaw(Values(jnp.asarray(which))), 0.0, eta)
        keys = realisation_keys(run.seed + which, networks)
        parts = [keys[i : i + density.BATCH] for i in range(0, networks, density.BATCH)]
        ends = np.concatenate([np.asarray(advance(network, part, x, jnp.asarray(0), last)) for part in parts])
        exact = independent.poisson_kernel(1.0)
        for j, found in enumerate(mean(each) for each in density.token_modes(ends)):
            check.row(
                f"E|c_{j + 1}|^2 at tau=1, {law}",
                predicted=exact[j],
                measured=found.value,
                error=found.error,
                repeats=networks,
                tolerance=0.003,
                because="the error bar over networks; the step, of order eta^2/20",
            )
