r"""A billion tokens on the circle, from uniform noise to clusters, on one GPU.

    python benchmarks/billion_tokens.py --out FOLDER            # the run; modes of the density are saved
    python benchmarks/billion_tokens.py --show FOLDER           # anywhere: figures, film, mean-field prediction
    python benchmarks/billion_tokens.py --kernels               # how long one sum over tokens takes

Softmax attention: with $Z(\theta)=\frac1n\sum_je^{\beta(\cos(\theta-\theta_j)-1)}$ a token moves by
$\dot\theta=\frac1\beta(\log Z)'(\theta)$. Tokens are angles, 8 bytes each, drawn independently and uniformly; Z is a
Fourier series whose coefficients are moments of the tokens, so that two passes over memory make one field. A
Runge-Kutta method of order 4 that keeps one array beside the tokens (Carpenter and Kennedy, 1994) takes fixed steps;
the error of time is measured by halving them, with fewer tokens (--n 1e7 --halve), since it does not depend on n.
"""

from __future__ import annotations

import argparse
import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ive

import sphereflow as sf
from sphereflow.interaction import fused_circle
from sphereflow.interaction.expansion import circle_coefficients, circle_modes

A = np.array(
    [
        0.0,
        -567301805773 / 1357537059087,
        -2404267990393 / 2016746695238,
        -3550918686646 / 2091501179385,
        -1275806237668 / 842570457699,
    ]
)
B = np.array(
    [
        1432997174477 / 9575080441755,
        5161836677717 / 13612068292357,
        1720146321549 / 2090206949498,
        3134564353537 / 4481467310338,
        2277821191437 / 14882151754819,
    ]
)
WHOLE = 32768  # n is a multiple of it, so that nothing is copied to be filled up
FILM_MODES = 255
ON_GPU = jax.default_backend() == "gpu"
OPTIONS: dict[str, Any] = {} if ON_GPU else {"interpret": True}


def weights(moments: jax.Array, n: int, beta: float) -> jax.Array:
    """Coefficients of Z and of Z'/beta, shape (2, K + 1, 2)."""
    k = jnp.arange(moments.shape[1], dtype=moments.dtype)
    g = circle_coefficients(moments.shape[1] - 1, jnp.asarray(beta, moments.dtype)) * jnp.where(k > 0, 2, 1)
    p, q = g * moments[0, :, 0] / n, g * moments[1, :, 0] / n
    return jnp.stack([jnp.stack([p, k * q / beta], axis=1), jnp.stack([q, -k * p / beta], axis=1)])


@partial(jax.jit, static_argnames=("modes", "beta"), donate_argnums=(0, 1))
def stage(theta: jax.Array, carried: jax.Array, a: float, b: float, dt: float, *, modes: int, beta: float) -> Any:
    """One stage, and the moments and the smallest Z that it met."""
    found = fused_circle.moments(theta, None, modes, **OPTIONS)
    z, slope = fused_circle.series(theta, weights(found, theta.shape[0], beta), **OPTIONS)
    carried = a * carried + dt * (slope / z)
    return theta + b * carried, carried, jnp.min(z)


@partial(jax.jit, static_argnames=("modes",))
def film_modes(theta: jax.Array, modes: int = FILM_MODES) -> jax.Array:
    found = fused_circle.moments(theta, None, modes, **OPTIONS)[:, :, 0] / theta.shape[0]
    return found[0] + 1j * found[1]


def run(n: int, beta: float, t1: float, dt: float, frames: int, seed: int, dtype: str = "float64") -> dict[str, Any]:
    n = -(-n // WHOLE) * WHOLE
    modes = circle_modes(beta, 1e-13 if dtype == "float64" else 1e-8)
    theta = jax.jit(lambda key: jax.random.uniform(key, (n,), dtype, -np.pi, np.pi))(jax.random.key(seed))
    carried = jnp.zeros_like(theta)
    steps = round(t1 / dt)
    every = max(1, steps // frames)
    times, film, smallest = [0.0], [np.asarray(film_modes(theta))], [1.0]
    numbers = [(jnp.asarray(a, dtype), jnp.asarray(b, dtype)) for a, b in zip(A, B, strict=True)]
    length = jnp.asarray(dt, dtype)
    began = None
    for step in range(1, steps + 1):
        for a, b in numbers:
            theta, carried, least = stage(theta, carried, a, b, length, modes=modes, beta=beta)
        smallest.append(least)
        if began is None:
            theta.block_until_ready()
            began = time.perf_counter()  # compiled by now
        if step % every == 0:
            times.append(step * dt)
            film.append(np.asarray(film_modes(theta)))
            if step % (10 * every) == 0:
                spent = time.perf_counter() - began
                print(f"t = {times[-1]:6.2f}  |m_4| = {abs(film[-1][4]):.3e}  {spent:7.1f} s", flush=True)
    theta.block_until_ready()
    return {
        "n": n,
        "beta": beta,
        "dt": dt,
        "kernel_modes": modes,
        "times": np.array(times),
        "modes": np.array(film),
        "smallest_z": float(min(smallest)),
        "seconds": time.perf_counter() - began,
        "evaluations": 5 * steps,
        "final": theta,
    }


def report(result: dict[str, Any]) -> None:
    n, beta, times, modes = (result[name] for name in ("n", "beta", "times", "modes"))
    print(
        f"n = {n:,}, beta = {beta:g}, {result['kernel_modes']} modes in the kernel, t = 0 to {times[-1]:g}:"
        f" {result['seconds']:.1f} s after the first step, {result['evaluations']} fields,"
        f" {1e9 * result['seconds'] / result['evaluations'] / n:.3f} ns per token and field"
    )
    print(f"smallest Z of any token: {result['smallest_z']:.2e}")
    k = np.arange(1, 9)
    theory = k**2 * ive(k, beta) / (beta * ive(0, beta))
    # Linear theory leaves out products of modes: the fit ends where the square of the largest is 2 % of the smallest.
    sizes = np.abs(modes[:, 1:])
    late = sizes.max(axis=1) ** 2 > 0.02 * sizes[:, :8].min(axis=1)
    early = np.arange(len(times)) < (int(np.argmax(late)) if late.any() else len(times))
    print(f"growth rates, fitted from t = 0 to {times[early][-1] if early.any() else 0:g}:\n")
    print("| mode | at t = 0, times sqrt(n) | growth rate | linear theory |\n| --- | --- | --- | --- |")
    for each, rate in zip(k, theory, strict=True):
        measured = np.polyfit(times[early], np.log(np.abs(modes[early, each])), 1)[0] if early.sum() > 2 else np.nan
        print(f"| {each} | {abs(modes[0, each]) * np.sqrt(n):.2f} | {measured:.4f} | {rate:.4f} |")


def density(modes: np.ndarray, points: int = 1024) -> tuple[np.ndarray, np.ndarray]:
    """With respect to dtheta/2pi, from its modes, smoothed by a Gaussian of the width that they resolve."""
    k = np.arange(modes.shape[-1])
    soft = modes * np.exp(-0.5 * (3 * k / k[-1]) ** 2)
    spectrum = np.zeros((*modes.shape[:-1], points // 2 + 1), complex)
    spectrum[..., : len(k)] = np.conj(soft)
    return 2 * np.pi * np.arange(points) / points, points * np.fft.irfft(spectrum, points)


def clusters(modes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angles of the peaks above twice the uniform density, and the mass between the valleys around each."""
    angle, rho = density(modes)
    peaks = np.flatnonzero((rho > np.roll(rho, 1)) & (rho >= np.roll(rho, -1)) & (rho > 2))
    if len(peaks) < 2:
        return angle[peaks], np.ones(len(peaks))
    turned = np.roll(rho, -peaks[0])
    places = peaks - peaks[0]
    ends = [*places[1:], len(rho)]
    valleys = [a + int(np.argmin(turned[a:b])) for a, b in zip(places, ends, strict=True)]
    between = np.array([turned[a:b].sum() for a, b in itertools.pairwise(valleys)]) / len(rho)
    return angle[peaks], np.append(1 - between.sum(), between)


def prediction(start: np.ndarray, beta: float, times: np.ndarray, n: int = 20_000) -> np.ndarray:
    """Modes of the mean field that starts from the given ones: `sf.evolve`, from quantiles of their density."""
    k = np.arange(1, len(start))
    even = 2 * np.pi * (np.arange(n) + 0.5) / n - np.pi
    theta = even.copy()

    def mass(t: np.ndarray) -> np.ndarray:
        return t + 2 * np.imag(np.exp(1j * np.outer(t, k)) @ (np.conj(start[1:]) / k))

    offset = mass(np.array([-np.pi]))[0] + np.pi
    for _ in range(30):  # the density is near uniform: fixed-point steps contract
        theta = theta - (mass(theta) - offset - even)
    tokens = sf.normalise(np.stack([np.cos(theta), np.sin(theta)], axis=1))
    xs = sf.evolve(sf.SA(beta), tokens, saveat=times, tol=1e-9, progress=False).xs
    angles = np.arctan2(xs[..., 1], xs[..., 0])
    return np.stack([np.exp(1j * k * angles).mean(axis=1) for k in range(64)], axis=1)


def show(folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from sphereflow.pictures import movie_writer

    saved = np.load(folder / "billion.npz")
    result: dict[str, Any] = {name: saved[name][()] for name in saved.files}
    report(result)
    beta, times, modes = result["beta"], result["times"], result["modes"]
    predicted = prediction(modes[0, :35], float(beta), times)
    apart = np.abs(predicted - modes[:, :64])[:, :16]
    print(f"largest |m_k - mean field|, k < 16: {apart.max():.2e} at t = {times[apart.max(axis=1).argmax()]:g}")
    for name, each in (("tokens", modes[-1, :64]), ("mean field", predicted[-1])):
        places, masses = clusters(each)
        print(f"clusters, {name}: {len(places)} at {np.round(np.degrees(places), 1)} degrees, masses {masses.round(4)}")
    angle, rho = density(modes)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.pcolormesh(np.degrees(angle), times, np.log10(np.maximum(rho, 1e-2)), cmap="magma", shading="nearest")
    left.set(xlabel="angle (degrees)", ylabel="t", title=f"log10 density of {result['n']:,} tokens")
    for k in range(1, 9):
        (line,) = right.semilogy(times, np.abs(modes[:, k]), label=f"{k}")
        right.semilogy(times, np.abs(predicted[:, k]), ":", color=line.get_color())
    right.set(xlabel="t", title="modes: tokens (lines), mean field (dots)")
    right.legend(ncols=2, fontsize="small")
    figure.savefig(folder / "billion_tokens.png", dpi=110)
    film, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    (curve,) = axes.semilogy(np.degrees(angle), np.maximum(rho[0], 1e-3))
    axes.set(ylim=(1e-2, 2 * rho.max()), xlabel="angle (degrees)", ylabel="density")
    writer = movie_writer(".mp4", fps=8)
    with writer.saving(film, str(folder / "billion_tokens.mp4"), 110):
        for t, each in zip(times, rho, strict=True):
            curve.set_ydata(np.maximum(each, 1e-3))
            axes.set_title(f"t = {t:.2f}")
            writer.grab_frame()


def kernels(most: float) -> None:
    """Nanoseconds per token of the moments, of the series, and of the present expansions."""
    from sphereflow.interaction.circle import CircleModes
    from sphereflow.interaction.modes import evaluate_all, project_all

    def best(call: Any) -> float:
        jax.block_until_ready(call())
        taken = []
        for _ in range(4):
            began = time.perf_counter()
            jax.block_until_ready(call())
            taken.append(time.perf_counter() - began)
        return min(taken)

    modes = 33
    for dtype in (jnp.float64, jnp.float32):
        for n in (2**17, 2**20, 2**23, 2**26):
            if n > most:
                continue
            theta = jax.random.uniform(jax.random.key(0), (n,), dtype, -np.pi, np.pi)
            x = jnp.stack([jnp.cos(theta), jnp.sin(theta)], axis=1)
            columns = jnp.concatenate([x, jnp.ones((n, 1), dtype)], axis=1)
            w = jnp.ones((2, modes + 1, 3), dtype) / 100
            e = CircleModes(modes)
            beta = jnp.asarray(10.0, dtype)
            calls = {
                "matrices, moments": (jax.jit(lambda a, b, e=e: project_all(e, a, b)), (x, columns)),
                "matrices, series": (jax.jit(lambda a, b, e=e, t=beta: evaluate_all(e, a, b, t, 3)), (x, w)),
                "fused, moments": (jax.jit(lambda a, b: fused_circle.moments(a, b, modes, **OPTIONS)), (x, columns)),
                "fused, series": (jax.jit(lambda a, b: fused_circle.series(a, b, **OPTIONS)), (x, w)),
                "angles, moments": (jax.jit(lambda a: fused_circle.moments(a, None, modes, **OPTIONS)), (theta,)),
                "angles, series": (jax.jit(lambda a, b: fused_circle.series(a, b[:, :, :2], **OPTIONS)), (theta, w)),
            }
            for name, (function, arguments) in calls.items():
                title = f"{np.dtype(dtype)} n = 2^{int(np.log2(n))} {name:<18}"
                try:
                    taken = best(partial(function, *arguments))
                    print(f"{title} {1e3 * taken:9.3f} ms {1e9 * taken / n:8.4f} ns", flush=True)
                except Exception as problem:  # one kernel that does not compile leaves the others
                    print(f"{title} {type(problem).__name__}: {str(problem)[:300]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=float, default=1e9)
    parser.add_argument("--beta", type=float, default=9.0)
    parser.add_argument("--t1", type=float, default=24.0)
    parser.add_argument("--dt", type=float, default=1 / 16)
    parser.add_argument("--frames", type=int, default=96)
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    parser.add_argument("--halve", action="store_true", help="take the run again with half the step")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--show", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.kernels:
        kernels(given.n)
    elif given.show:
        show(given.show)
    else:
        n, options = int(given.n), (given.beta, given.t1)
        result = run(n, *options, given.dt, given.frames, 0, given.dtype)
        report(result)
        final = result.pop("final")
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(given.out / "billion.npz", **result)
        if given.halve:
            finer = run(n, *options, given.dt / 2, given.frames, 0, given.dtype)["final"]
            print(f"largest change of an angle with half the step: {float(jnp.max(jnp.abs(finer - final))):.2e}")


if __name__ == "__main__":
    main()
