"""Pictures in high dimension: low-rank attention under the true dynamics, and coordinates in the eigenbasis of V."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from sphereflow.claims import Run
from sphereflow.dynamics import EuclideanAttention, RescaledAttention
from sphereflow.evolution import evolve, hardmax_flow
from sphereflow.observables import numerical_rank
from sphereflow.papers.emergence_of_clusters import PAPER
from sphereflow.papers.emergence_of_clusters.figures import heat_map
from sphereflow.papers.emergence_of_clusters.flow import attention, rescaled
from sphereflow.pictures import PALETTE, blank, look

BLUE, RED, *_ = PALETTE


def normalised_positive(random: np.random.Generator, d: int) -> np.ndarray:
    """(2U-1)(2U-1)^T divided by its largest eigenvalue, U uniform: the division only changes the unit of time."""
    factor = random.uniform(-1, 1, (d, d))
    matrix = factor @ factor.T
    return matrix / np.linalg.eigvalsh(matrix).max()


@PAPER.figure(
    "low-rank",
    caption="Attention becomes low-rank under the dynamics itself: V = (2U-1)(2U-1)^T with U uniform, divided by its "
    "largest eigenvalue (a change of the unit of time). The dashed curve moves tokens by x' = Vx, without attention: "
    "tokens then cannot follow each other, and the matrix is another one.",
    shows=("boolean-attention",),
)
def low_rank(run: Run) -> Figure:
    n, d, t1 = (24, 3, 11.0) if run.quick else (40, 80, 11.0)
    random = np.random.default_rng(run.seed)
    value = normalised_positive(random, d)
    x0 = random.uniform(-1, 1, (n, d))
    times = np.linspace(0, t1, 45)
    matrices = attention_under(x0, times, value)
    rates, basis = np.linalg.eigh(value)
    alone = [attention_of(x0 @ ((basis * np.exp(t * rates)) @ basis.T), run.quick) for t in times]
    with look():
        figure = blank(9.6, 4.8)
        shown = [0, 8, 16, 28, 44] if run.quick else [0, 4, 12, 24, 44]
        grid = figure.add_gridspec(2, len(shown), height_ratios=(1, 1))
        for column, index in enumerate(shown):
            axes = figure.add_subplot(grid[0, column])
            title = f"$t={times[index]:.3g}$, rank {numerical_rank(matrices[index])}"
            image = heat_map(axes, matrices[index], title)
        figure.colorbar(image, ax=figure.axes, shrink=0.85, pad=0.01, label="$P_{ij}$")
        axes = figure.add_subplot(grid[1, :])
        axes.plot(times, [numerical_rank(p) for p in matrices], color=BLUE, label="true dynamics")
        axes.plot(
            times, [numerical_rank(p) for p in alone], color=RED, linestyle="--", label=r"$\dot x=Vx$, no attention"
        )
        axes.set(xlabel=r"$t$ (in units of $1/\lambda_1$)", ylabel="rank of $P(t)$", xlim=(0, t1), ylim=(0, None))
        axes.legend()
    return figure


def attention_of(x: np.ndarray, small: bool) -> np.ndarray:
    return attention(x) if small else np.asarray(EuclideanAttention().attention_matrix(0.0, jnp.asarray(x)))


def attention_under(x0: np.ndarray, times: np.ndarray, value: np.ndarray) -> list[np.ndarray]:
    """Attention matrices at these times; small systems share one program."""
    return _attention_small(x0, times, value) if x0.shape[1] <= 3 else _attention_large(x0, times, value)


def _attention_small(x0: np.ndarray, times: np.ndarray, value: np.ndarray) -> list[np.ndarray]:
    rates, basis = np.linalg.eigh(value)
    z = rescaled(x0, times, value=value)
    return [attention(frame @ ((basis * np.exp(t * rates)) @ basis.T)) for t, frame in zip(times, z, strict=True)]


def _attention_large(x0: np.ndarray, times: np.ndarray, value: np.ndarray) -> list[np.ndarray]:
    model = RescaledAttention(EuclideanAttention(value), x0.shape[1])
    frames = evolve(model, x0, saveat=times, tol=1e-9).xs
    return [np.asarray(model.attention_matrix(t, jnp.asarray(z))) for t, z in zip(times, frames, strict=True)]


@PAPER.figure(
    "high-dimension",
    caption="128 tokens in dimension 128, V sparse symmetric with eigenvalues of modulus between 1 and 2. Left: spread "
    "of the tokens (largest minus smallest) along each eigenvector of V, against its eigenvalue: coordinates with "
    "positive eigenvalues stay bounded, those with negative ones diverge like exp(|lambda| t). Right: the leading "
    "coordinate gathers at its extremes.",
    presets=("paper",),
    shows=("hyperplanes", "decay-of-general-matrices"),
)
def high_dimension(run: Run) -> Figure:
    n = d = 128
    t1, random = 15.0, np.random.default_rng(run.seed)
    rates = sparse_spectrum(random, d)
    # In the eigenbasis of a symmetric V nothing else changes: attention sees inner products only.
    value = np.diag(rates)
    basis = np.linalg.qr(random.normal(size=(d, d)))[0]
    times = np.linspace(0, t1, 61)
    sharp = 6  # at t = 1.5 attention is one-hot to rounding, and the flow can be solved exactly from there
    begun = evolve(
        RescaledAttention(EuclideanAttention(value), d),
        random.uniform(-0.5, 0.5, (n, d)) @ basis,
        saveat=times[: sharp + 1],
        tol=1e-9,
    )
    frames = list(begun.xs)
    for before, after in zip(times[sharp:-1], times[sharp + 1 :], strict=True):
        frames.append(hardmax_flow(frames[-1], before, after, value=value).z)
        run.notify(after / t1, "128 tokens in dimension 128")
    z = np.stack(frames)
    leading = np.argmax(rates)
    with look():
        figure = blank(9.0, 3.6)
        axes = figure.add_subplot(1, 2, 1)
        axes.scatter(rates, np.ptp(z[0], axis=0), s=10, color="0.7", label="$t=0$")
        axes.scatter(rates, np.ptp(z[-1], axis=0), s=14, color=RED, label=f"$t={t1:g}$")
        axes.set(xlabel=r"eigenvalue $\lambda_k$", ylabel=r"$\max_i z_{ik}-\min_i z_{ik}$", yscale="log")
        axes.legend()
        axes = figure.add_subplot(1, 2, 2)
        axes.plot(times, z[:, :, leading], linewidth=0.6, color=BLUE, alpha=0.5)
        axes.set(xlabel="$t$", ylabel=rf"$z_{{ik}}$, $\lambda_k={rates[leading]:.3g}$", xlim=(0, 6))
    return figure


def sparse_spectrum(random: np.random.Generator, d: int) -> np.ndarray:
    """Eigenvalues of a sparse symmetric matrix (density 0.1), their moduli mapped to [1, 2], signs kept."""
    upper = np.triu(random.normal(size=(d, d)) * (random.random((d, d)) < 0.1))
    rates = np.linalg.eigvalsh(upper + np.triu(upper, 1).T)
    size = np.abs(rates)
    return np.sign(rates) * (1 + (size - size.min()) / np.ptp(size))
