"""How long linear-time attention takes: growth with n, ratio to quadratic peers, the cost model, memory.

    python benchmarks/linear_time.py [circle] [sphere] [causal] [model] [dimension] [memory] [--alone] [--most 10000000]

Every ratio is taken between medians of the same run on the same machine; compilation is not counted.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sphereflow  # noqa: F401  (sets the precision)
from sphereflow.interaction import Causal, attend
from sphereflow.interaction.choice import choose
from sphereflow.interaction.circle import CircleModes
from sphereflow.interaction.direct import default_block, direct_attention
from sphereflow.interaction.expansion import circle_modes_bound, sphere_degree
from sphereflow.interaction.harmonic import SphereModes
from sphereflow.interaction.linear import expand, kernel_error
from sphereflow.interaction.nufft import CircleNufft, SphereNufft
from sphereflow.interaction.polynomial import monomials

BETA, TOL = 10.0, 1e-9
ALONE = "--alone"


def tokens(n: int, d: int) -> jax.Array:
    x = np.random.default_rng(0).normal(size=(n, d))
    return jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def seconds(run: Callable[[], Any], repeats: int = 3) -> float:
    """Median time of a call after a first one that compiles."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def field(expansion: Any, x: jax.Array, mask: Any = None, beta: float = BETA) -> Any:
    return expand(expansion, x, x, x, beta, mask=mask, tol=TOL)


def error_on_rows(found: Any, x: jax.Array, beta: float = BETA, rows: int = 200) -> float:
    """Largest relative error of Z and error of the average, on rows computed with the direct sum."""
    some = jnp.arange(0, x.shape[0], x.shape[0] // rows)
    w = jnp.full(x.shape[0], 1 / x.shape[0])
    exact = direct_attention(x[some], x, x, jnp.asarray(beta), w, block=default_block())
    of_z = jnp.max(jnp.abs(jnp.expm1(found.attended.log_partition[some] - exact.log_partition)))
    return float(jnp.maximum(of_z, jnp.max(jnp.abs(found.attended.average[some] - exact.average))))


def growth(title: str, d: int, sizes: list[int], make: Callable[[int], Any], mask: Any = None) -> dict[int, float]:
    """Times for several n, taken in turns so that other work on the machine touches all alike, and their slope."""
    print(f"\n{title}\n{'n':>12} {'seconds':>10} {'ns/token':>10} {'error':>10} {'bound':>10} {'directly':>9}")
    inputs = {n: (make(n), tokens(n, d), mask) for n in sizes}
    rounds = [{n: seconds(lambda a=inputs[n]: field(*a), 1) for n in sizes} for _ in range(5)]
    times = {n: float(np.median([r[n] for r in rounds])) for n in sizes}
    for n in sizes:
        found = field(*inputs[n])
        error = f"{error_on_rows(found, inputs[n][1]):10.1e}" if mask is None else " " * 10
        rest = f"{float(found.error_bound):10.1e} {int(found.recomputed):9d}"
        print(f"{n:12d} {times[n]:10.3f} {times[n] / n * 1e9:10.0f} {error} {rest}", flush=True)
    slope = np.polyfit(np.log(sizes), np.log([times[n] for n in sizes]), 1)[0]
    print(f"slope of time against n: {slope:.2f}")
    return times


def peers(d: int, n: int) -> dict[str, float]:
    """Seconds of quadratic attention of n tokens to themselves, each run once after a small warm-up."""
    import torch

    times = {}
    x = tokens(n, d)
    warm = x[:2048]

    def once(name: str, run: Callable[[Any], Any], convert: Callable[[Any], Any]) -> None:
        small, large = convert(warm), convert(x)
        run(small)
        start = time.perf_counter()
        jax.block_until_ready(run(large))
        times[name] = time.perf_counter() - start
        print(f"{name:>28} {times[name]:10.2f} s", flush=True)

    for dtype in (torch.float64, torch.float32):

        def to_torch(y: jax.Array, dtype: Any = dtype) -> Any:
            return torch.from_numpy(np.array(y)).to(dtype)[None, None]

        def sdpa(y: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(y, y, y, scale=BETA).numpy()

        once(f"PyTorch SDPA {str(dtype)[6:]}", sdpa, to_torch)
    try:
        from pykeops.numpy import LazyTensor

        def keops(y: np.ndarray) -> np.ndarray:
            scores = (LazyTensor(y[:, None]) | LazyTensor(y[None])) * BETA
            return scores.sumsoftmaxweight(LazyTensor(y[None]), axis=1)

        once("KeOps float64", keops, lambda y: np.ascontiguousarray(y))
    except Exception as error:  # the peer needs a compiler at run time
        print(f"{'KeOps':>28} not measured: {type(error).__name__}")
    once(
        "direct sum (this package)", lambda y: attend(y, y, y, BETA, self_attention=True, method="direct"), jnp.asarray
    )
    return times


def ratios(own: float, d: int, n: int) -> None:
    if ALONE in sys.argv:
        return
    others = peers(d, n)
    best = min(others.values())
    listed = ", ".join(f"{name} {t / own:.0f}x" for name, t in others.items())
    print(f"n={n}: faster than {listed}; best peer {best / own:.0f}x")


def circle(most: int) -> None:
    sizes = [n for n in (100_000, 1_000_000, 10_000_000) if n <= most]

    def modes(n: int) -> int:
        return circle_modes_bound(BETA, kernel_error(TOL, n))

    times = growth("circle, matrix products, beta=10, 1e-9", 2, sizes, lambda n: CircleModes(modes(n)))
    fft = growth("circle, non-uniform FFT, beta=10, 1e-9", 2, sizes, lambda n: CircleNufft(modes(n)))
    ratios(min(times[100_000], fft[100_000]), 2, 100_000)


def sphere(most: int) -> None:
    sizes = [n for n in (100_000, 300_000, 1_000_000) if n <= most]

    def degree(n: int) -> int:
        return sphere_degree(BETA, kernel_error(TOL, n))

    plain = growth("S^2, matrix products, beta=10, 1e-9", 3, sizes, lambda n: SphereModes(degree(n)))
    fft = growth("S^2, non-uniform FFT, beta=10, 1e-9", 3, sizes, lambda n: SphereNufft(degree(n)))
    ratios(min(plain[100_000], fft[100_000]), 3, 100_000)


def causal(most: int) -> None:
    sizes = [n for n in (100_000, 300_000, 1_000_000) if n <= most]

    def expansion(n: int) -> CircleModes:
        return CircleModes(circle_modes_bound(BETA, kernel_error(TOL, n)))

    growth("causal softmax on the circle, beta=10, 1e-9", 2, sizes, expansion, Causal())


def model(most: int) -> None:
    """Predicted against measured time of every engine that the model knows."""
    print(f"\n{'request':>44} {'engine':>11} {'modes':>6} {'predicted':>10} {'measured':>10} {'ratio':>6}")
    n = 100_000
    for d, beta, mask, fft in (
        (2, 1.0, None, False),
        (2, 10.0, None, False),
        (2, 100.0, None, False),
        (2, 100.0, None, True),
        (2, 1e4, None, True),
        (2, 10.0, Causal(), False),
        (3, 3.0, None, False),
        (3, 10.0, None, False),
        (3, 10.0, None, True),
        (3, 40.0, None, True),
        (3, 10.0, Causal(), False),
    ):
        chosen = choose(n, n, d, beta, mask=mask, tol=TOL, use_nufft=fft, self_attention=True)
        x = tokens(n, d)
        measured = seconds(lambda x=x, c=chosen, b=beta, m=mask: field(c.engine.expansion(x.shape[1]), x, m, b))
        _row(f"n={n} d={d} beta={beta:g} {'causal' if mask else ''}{'fft' if fft else ''}", chosen, measured)
    for d in (2, 3, 8):
        x = tokens(10_000, d)
        chosen = choose(10_000, 10_000, d, 10.0, method="direct", self_attention=True)
        _row(f"n=10000 d={d}", chosen, seconds(lambda x=x: attend(x, x, x, BETA, self_attention=True, method="direct")))


def _row(name: str, chosen: Any, measured: float) -> None:
    start = f"{name:>44} {chosen.engine.name:>11} {chosen.modes:6d} {chosen.predicted_seconds:10.3f} {measured:10.3f}"
    print(f"{start} {measured / chosen.predicted_seconds:6.2f}", flush=True)


def dimension(most: int) -> None:
    """Polynomial features in moderate dimension: from how many tokens on they beat the direct sum."""
    names = f"{'us/token':>9} {'direct ns/pair':>15} {'break-even n':>13}"
    print(f"\n{'d':>3} {'beta':>5} {'degree':>7} {'features':>9} {names}")
    n = 10_000
    for d, beta, tol in ((4, 0.5, 1e-9), (4, 1.0, 1e-9), (4, 3.0, 1e-9), (6, 0.5, 1e-6), (8, 0.3, 1e-4)):
        degree = circle_modes_bound(beta, kernel_error(tol, n))
        x = tokens(n, d)
        chosen = choose(10**7, n, d, beta, tol=tol, method="polynomial")
        fast = seconds(lambda x=x, c=chosen, b=beta: field(c.engine.expansion(x.shape[1]), x, None, b)) / n
        slow = seconds(lambda x=x, b=beta: attend(x, x, x, b, self_attention=True, method="direct")) / n**2
        count = monomials(degree, d)
        print(
            f"{d:3d} {beta:5g} {degree:7d} {count:9d} {fast * 1e6:9.1f} {slow * 1e9:15.2f} {fast / slow:13.0f}",
            flush=True,
        )


def memory(most: int) -> None:
    """Peak memory of one field on the circle, each n in a process of its own."""
    print(f"\n{'n':>12} {'peak MiB':>10} {'bytes/token above the smallest':>32}")
    first: tuple[int, float] | None = None
    for n in (10_000, 1_000_000, 3_000_000, 10_000_000):
        if n > most:
            continue
        done = subprocess.run(
            [sys.executable, __file__, "peak", "--most", str(n)], capture_output=True, text=True, check=True
        )
        peak = float(done.stdout.split()[-1])
        per_token = "" if first is None else f"{(peak - first[1]) * 2**20 / (n - first[0]):.0f}"
        first = first or (n, peak)
        print(f"{n:12d} {peak:10.0f} {per_token:>32}", flush=True)


def peak(n: int) -> None:
    jax.block_until_ready(field(CircleModes(circle_modes_bound(BETA, kernel_error(TOL, n))), tokens(n, 2)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


QUESTIONS = {f.__name__: f for f in (circle, sphere, causal, model, dimension, memory)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="*", choices=[*QUESTIONS, "peak", []], default=[])
    parser.add_argument("--most", type=int, default=10_000_000, help="largest number of tokens")
    parser.add_argument(ALONE, action="store_true", help="leave out the quadratic peers, which take minutes")
    given = parser.parse_args()
    for name in given.questions or list(QUESTIONS):
        (peak if name == "peak" else QUESTIONS[name])(given.most)
