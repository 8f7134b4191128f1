"""How fast is the exact flow? 10^6 points through 1,000 pieces, against adaptive integrators at tolerance 1e-8.

    python benchmarks/transport.py [--points 1000000] [--pieces 1000] [--peer-points 2000] [--dimension 2]

Every piece has a closed form, so the schedule is applied without time steps. The peers integrate the same equation with
steps that end where the weights jump: SciPy's DOP853 piece by piece, all points in one system, and diffrax's Dopri8 in
one compiled solve, one system per point. They get fewer points (their time per point is what counts), and the ratio is
per point. Errors are the largest differences from the exact flow, relative to 1 + |y|.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from scipy.integrate import solve_ivp

from sphereflow.transport import Schedule

TOLERANCE = 1e-8


def seconds(job: Callable[[], Any], repeats: int) -> float:
    """The median over repeated runs."""
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        job()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken))


def drawn(pieces: int, d: int) -> Schedule:
    """Random pieces that neither blow up nor die out."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((pieces, d))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    return Schedule(0.05 * rng.standard_normal((pieces, d)), a, rng.standard_normal(pieces))


def by_scipy(schedule: Schedule, x: np.ndarray) -> np.ndarray:
    def field(t: float, state: np.ndarray, w: np.ndarray, a: np.ndarray, b: float) -> np.ndarray:
        return (np.maximum(state.reshape(x.shape) @ a + b, 0.0)[:, None] * w).ravel()

    state = x.ravel()
    for w, a, b, tau in zip(schedule.w, schedule.a, schedule.b, schedule.tau, strict=True):
        solved = solve_ivp(field, (0, tau), state, "DOP853", args=(w, a, b), rtol=TOLERANCE, atol=TOLERANCE)
        state = solved.y[:, -1]
    return state.reshape(x.shape)


@jax.jit
def by_diffrax(w: jax.Array, a: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    """Durations are one, so the piece at time t is number floor(t)."""
    jumps = jnp.arange(1.0, len(b))

    def field(t: Any, state: jax.Array, args: Any) -> jax.Array:
        piece = jnp.clip(jnp.floor(t).astype(int), 0, len(b) - 1)
        return w[piece] * jnp.maximum(a[piece] @ state + b[piece], 0.0)

    def one(point: jax.Array) -> jax.Array:
        steps = diffrax.ClipStepSizeController(diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE), jump_ts=jumps)
        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Dopri8(),
            0.0,
            float(len(b)),
            0.1,
            point,
            stepsize_controller=steps,
            max_steps=None,
            adjoint=diffrax.ForwardMode(),
        ).ys[0]

    return jax.vmap(one)(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("points", 1_000_000), ("pieces", 1000), ("peer-points", 2000), ("dimension", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    chosen = parser.parse_args()
    schedule = drawn(chosen.pieces, chosen.dimension)
    x = np.random.default_rng(1).standard_normal((chosen.points, chosen.dimension))
    few = x[: chosen.peer_points]
    versions = f"jax {jax.__version__}, diffrax {diffrax.__version__}, scipy {scipy.__version__}"
    print(f"{chosen.pieces} pieces, d = {chosen.dimension}, float64; {versions}")
    print(f"{'':<26}{'points':>9} {'seconds':>9} {'us/point':>9} {'ratio':>8} {'error':>9}")
    y = np.asarray(schedule.apply(x))
    exact = seconds(lambda: schedule.apply(x), 3)
    trip = np.abs(schedule.pullback(y)[0] - x).max()
    print(f"{'exact flow (round trip)':<26}{len(x):>9} {exact:9.2f} {1e6 * exact / len(x):9.2f} {1:8d} {trip:9.1e}")
    stacked = [jnp.asarray(part) for part in (schedule.w, schedule.a, schedule.b, few)]
    peers: dict[str, Callable[[], Any]] = {
        "SciPy DOP853": lambda: by_scipy(schedule, few),
        "diffrax Dopri8": lambda: jax.block_until_ready(by_diffrax(*stacked)),
    }
    for name, job in peers.items():
        found = np.asarray(job())  # the first run compiles
        error = (np.abs(found - y[: len(few)]).max(axis=1) / (1 + np.abs(found).max(axis=1))).max()
        taken = seconds(job, 1)
        ratio = (taken / len(few)) / (exact / len(x))
        print(f"{name:<26}{len(few):>9} {taken:9.2f} {1e6 * taken / len(few):9.1f} {ratio:8.0f} {error:9.1e}")


if __name__ == "__main__":
    main()
