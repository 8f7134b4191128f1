"""The small run: `evolve` and `solve` beside diffrax called directly and beside an Euler script, in one process.

    python benchmarks/solve.py            warm calls, as ratios; rounds take turns
    python benchmarks/solve.py --fresh    a fresh process up to its first result, with a warm cache

n = 64, d = 3, beta = 9, t1 = 30, tolerance 1e-8. The peer gets the same field and a local tolerance of 1e-9, which is
what `solve` uses to keep 1e-8. The Euler script is what papers run: NumPy, step 0.1, as many frames as are asked for.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

N, D, BETA, T1, FRAMES = 64, 3, 9.0, 30.0, 151

BARE = """
import jax, jax.numpy as jnp, diffrax
jax.config.update("jax_enable_x64", True)
x0 = jax.random.normal(jax.random.key(0), (64, 3))
x0 = x0 / jnp.linalg.norm(x0, axis=1, keepdims=True)
def field(t, y, args):
    x = y / jnp.linalg.norm(y, axis=1, keepdims=True)
    k = jnp.exp(9.0 * (x @ x.T - 1))
    pull = k @ x / k.sum(axis=1, keepdims=True)
    return pull - jnp.sum(pull * x, axis=1, keepdims=True) * x
print(diffrax.diffeqsolve(
    diffrax.ODETerm(field), diffrax.Dopri8(), 0.0, 30.0, None, x0, saveat=diffrax.SaveAt(ts=jnp.linspace(0, 30, 101)),
    stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-9), max_steps=100_000,
).ys[-1, 0])
"""
OURS = """
import sphereflow as sf
print(sf.evolve(sf.SA(9.0), sf.draw("uniform", 64, 3, 0), 30.0).final[0])
"""


def euler(x0: np.ndarray, frames: int) -> np.ndarray:
    """The script: explicit Euler with normalisation, step 0.1, every frame kept."""
    x, kept, steps = x0.copy(), [x0], round(T1 / 0.1)
    times = np.linspace(0, steps, frames).astype(int)
    for step in range(1, steps + 1):
        k = np.exp(BETA * (x @ x.T))
        pull = k @ x / k.sum(axis=1, keepdims=True)
        x = x + 0.1 * (pull - np.sum(pull * x, axis=1, keepdims=True) * x)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        if step in times:
            kept.append(x)
    return np.stack(kept)


def warm(rounds: int) -> None:
    import diffrax
    import jax
    import jax.numpy as jnp
    import optimistix

    import sphereflow as sf
    from sphereflow.solving import FORWARD

    model, x0 = sf.SA(BETA), sf.draw("uniform", N, D, 0)
    start = np.asarray(x0)
    few, many = np.linspace(0, T1, 101), np.linspace(0, T1, FRAMES)

    @jax.jit
    def bare(x0: jax.Array, ts: jax.Array) -> jax.Array:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: model.field(t, sf.normalise(y))),
            diffrax.Dopri8(),
            ts[0],
            ts[-1],
            None,
            x0,
            saveat=diffrax.SaveAt(ts=ts),
            stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-9, norm=optimistix.max_norm),
            max_steps=100_000,
        ).ys  # type: ignore[return-value]

    calls = {
        "diffrax, 101 frames": lambda: np.asarray(bare(x0, jnp.asarray(few))),
        "solve, 101 frames": lambda: np.asarray(sf.solve(model, x0, few, adjoint=FORWARD).xs),
        "evolve, 101 frames": lambda: sf.evolve(model, x0, T1).xs,
        "Euler script, 151 frames": lambda: euler(start, FRAMES),
        "evolve, 151 frames": lambda: sf.evolve(model, x0, T1, saveat=many).xs,
    }
    for call in calls.values():
        call()
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            took[name].append(time.perf_counter() - began)
    middle = {name: float(np.median(each)) for name, each in took.items()}
    print("| call | ms | ratio |\n| --- | --- | --- |")
    for name, each in middle.items():
        peer = middle["Euler script, 151 frames" if "151" in name else "diffrax, 101 frames"]
        print(f"| {name} | {1e3 * each:.1f} | {each / peer:.2f} |")


def fresh(rounds: int) -> None:
    print("| first result of a fresh process | processor s | wall s |\n| --- | --- | --- |")
    for _ in range(2):  # the first round fills the cache
        rows = {name: [_process(code) for _ in range(rounds)] for name, code in (("diffrax", BARE), ("evolve", OURS))}
    for name, each in rows.items():
        processor, wall = np.median(np.array(each), axis=0)
        print(f"| {name} | {processor:.2f} | {wall:.2f} |")


def _process(code: str) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.perf_counter() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="time fresh processes instead of warm calls")
    parser.add_argument("--rounds", type=int, default=0, help="repetitions; 40 warm calls or 5 processes by default")
    arguments = parser.parse_args()
    (fresh(arguments.rounds or 5) if arguments.fresh else warm(arguments.rounds or 40))
