"""How accurate the mean-field solvers are: error against nodes, tokens against the density, energy along flows.

    python benchmarks/mean_field.py            all tables and figures, about ten minutes on two cores
    python benchmarks/mean_field.py --quick    up to 10^4 tokens

Figures are written beside this file as mean_field_*.png.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from sphereflow import meanfield
from sphereflow.dynamics import Perceptron
from sphereflow.estimates import fit_power
from sphereflow.pictures import PALETTE, blank, look, rendered

HERE = Path(__file__).parent
BETA = 10.0


def convergence() -> None:
    print("Error of the modes 1-3 at t = 1 against the number of nodes; SA, beta = 10, start 1 + 0.5 cos(theta)\n")
    print("| nodes | quantile nodes | nodes spread by mass and angle | fixed grid (Eulerian) |")
    print("|---|---|---|---|")
    sizes = (12, 16, 24, 32, 48, 64, 96, 128)
    reference = meanfield.evolve_density(BETA, t1=1.0, saveat=2, nodes=256, tol=1e-12).modes(3)[-1]
    errors: dict[str, list[float]] = {"quantiles": [], "blend": [], "fixed grid": []}
    for n in sizes:
        for grid in ("quantiles", "blend"):
            found = meanfield.evolve_density(BETA, t1=1.0, saveat=2, nodes=n, tol=1e-12, grid=grid).modes(3)[-1]
            errors[grid].append(float(np.abs(found - reference).max()))
        found = meanfield.evolve_eulerian(BETA, t1=1.0, saveat=2, points=n, tol=1e-12).modes(3)[-1]
        errors["fixed grid"].append(float(np.abs(found - reference).max()))
        print(f"| {n} | " + " | ".join(f"{errors[name][-1]:.1e}" for name in errors) + " |", flush=True)
    print()
    with look():
        figure = blank(5.6, 3.8)
        axes = figure.subplots()
        for (name, values), colour in zip(errors.items(), PALETTE, strict=False):
            axes.semilogy(sizes, np.maximum(values, 1e-17), "o-", color=colour, label=name)
        axes.set(xlabel="nodes", ylabel="error of the modes 1-3 at $t=1$")
        axes.legend()
    (HERE / "mean_field_convergence.png").write_bytes(rendered(figure, "png", 110))


def tokens(quick: bool) -> None:
    print(
        "Tokens drawn from the density: W_2 along the circle to the density; SA, beta = 10, start 1 + 0.5 cos(theta)\n"
    )
    print(
        "| tokens | draws | W_2 at t = 0 | W_2 at t = 1 | sqrt(n) W_2 at t = 1 | abs. error of c_1 at t = 1 | seconds |"
    )
    print("|---|---|---|---|---|---|---|")
    flow = meanfield.evolve_density(BETA, t1=1.0, saveat=2, tol=1e-9)
    plan = ((100, 64), (1000, 32), (10_000, 16), (100_000, 6), (1_000_000, 2))
    rows = []
    for n, draws in plan[:3] if quick else plan:
        began = time.perf_counter()
        runs = [meanfield.compare(BETA, n=n, seed=seed, flow=flow, tol=1e-6, progress=False) for seed in range(draws)]
        squares = np.array([run.distance**2 for run in runs])
        modes = np.sqrt(np.mean([run.mode_error[-1] ** 2 for run in runs]))
        mean = np.sqrt(squares.mean(axis=0))
        error = squares.std(axis=0, ddof=1) / np.sqrt(draws) / (2 * mean)
        rows.append((n, mean[1], error[1], modes, modes / np.sqrt(2 * draws)))
        print(
            f"| {n:,} | {draws} | {mean[0]:.2e} ± {error[0]:.0e} | {mean[1]:.2e} ± {error[1]:.0e} | "
            f"{np.sqrt(n) * mean[1]:.2f} ± {np.sqrt(n) * error[1]:.2f} | {modes:.1e} | "
            f"{time.perf_counter() - began:.0f} |",
            flush=True,
        )
    n, mean, error, modes, modes_error = np.array(rows).T
    fit = fit_power(n, mean, error)
    print(f"\nexponent of W_2 in the number of tokens at t = 1: {fit.exponent:.3f} ± {fit.error:.3f}")
    waves = fit_power(n, modes, modes_error)
    print(f"exponent of the error of c_1: {waves.exponent:.3f} ± {waves.error:.3f}\n")
    with look():
        figure = blank(5.6, 3.8)
        axes = figure.subplots()
        axes.errorbar(n, mean, error, fmt="o", color=PALETTE[0], capsize=2, label=r"$W_2$ to the density, $t=1$")
        axes.plot(n, modes, "s", color=PALETTE[1], label="error of $c_1$")
        axes.plot(n, fit.factor * n**-0.5, color="0.6", lw=1, label=r"$n^{-1/2}$")
        axes.set(xscale="log", yscale="log", xlabel="tokens $n$")
        axes.legend()
    (HERE / "mean_field_tokens.png").write_bytes(rendered(figure, "png", 110))


def energies() -> None:
    print(
        "Energy along flows: smallest increase between saved times relative to the energy, and the identity of dE/dt\n"
    )
    print("| flow | t | nodes | error of modes | smallest relative increase | dE/dt, identity against slope |")
    print("|---|---|---|---|---|---|")
    block = Perceptron([0.4, -0.3], [[1.0, 0.2], [0.3, 1.0]], activation="gelu")
    cases = (
        ("SA, beta = 10", {"beta": 10.0, "model": "SA", "t1": 2.0}),
        ("USA, beta = 10", {"beta": 10.0, "model": "USA", "t1": 8.0}),
        ("USA + perceptron, beta = 5", {"beta": 5.0, "model": "USA", "t1": 1.5, "perceptron": block}),
    )
    for name, request in cases:
        flow = meanfield.evolve_density(saveat=41, tol=1e-9, **request)  # type: ignore[arg-type]
        growth = np.diff(flow.energy).min() / flow.energy[-1]
        # A Chebyshev fit of the saved energies, differentiated, against the integral of the squared speed.
        fit = np.polynomial.chebyshev.Chebyshev.fit(flow.ts, flow.energy, 16)
        middle = slice(8, 33)
        identity = np.abs(fit.deriv()(flow.ts)[middle] / flow.dissipation[middle] - 1).max()
        print(
            f"| {name} | {flow.ts[-1]:g} | {flow.nodes} | {flow.error_estimate:.0e} | {growth:.1e} | {identity:.0e} |",
            flush=True,
        )
    print()


def main() -> None:
    quick = "--quick" in sys.argv
    convergence()
    energies()
    tokens(quick)


if __name__ == "__main__":
    main()
