"""Is the engine that `method="auto"` chooses the fastest? A grid of requests, each with every engine that can serve it.

    python benchmarks/engine_choice.py [--requests 240] [--seed 0] [--budget 1500]

A request is a field of softmax attention: n tokens in dimension d, a temperature, a tolerance, a precision, and one of
a causal mask, masses, a value matrix, query and key matrices, two heads, or nothing. Fields are compiled first; the
engines take turns, and the best time of each counts. An engine that is predicted to take thirty times as long as the
chosen one is left out. Requests above a ratio of 1.5 of chosen to best are printed, and the worst at the end.
`--all` prints every request, with the milliseconds of all engines.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import sphereflow as sf
from sphereflow.errors import SphereflowError
from sphereflow.interaction import Causal, Engine, nufft
from sphereflow.interaction.choice import METHODS

KINDS = ("plain", "plain", "causal", "masses", "value", "query and key", "two heads")
ROUNDS, PATIENCE = 5, 0.4  # repeats, and seconds for each engine after which there are no more of them
HOPELESS = 30  # times the seconds predicted for the chosen engine
ON_CPU = jax.default_backend() == "cpu" and nufft.available()
SIZES = (64, 256, 1000, 4000, 16_000) if jax.default_backend() == "cpu" else (256, 1000, 4000, 16_000, 64_000, 250_000)


@dataclass(frozen=True)
class Asked:
    """One request."""

    n: int
    d: int
    beta: float
    tol: float
    dtype: str
    kind: str

    def model(self) -> Any:
        rng = np.random.default_rng(1)
        matrices = rng.normal(size=(2, 2, self.d, self.d)) / np.sqrt(self.d)
        options: dict[str, Any] = {
            "plain": {},
            "causal": {"mask": Causal()},
            "masses": {"weights": rng.dirichlet(np.ones(self.n))},
            "value": {"value": matrices[0, 0]},
            "query and key": {"query": np.eye(self.d) + matrices[0, 0] / 4, "key": np.eye(self.d) + matrices[0, 1] / 4},
            "two heads": {"value": matrices[0]},
        }[self.kind]
        return sf.SA(self.beta, **options)

    def tokens(self) -> jax.Array:
        return sf.draw("uniform", self.n, self.d, 0).astype(self.dtype)


def requests(count: int, seed: int, most: int) -> list[Asked]:
    """Some of all, drawn at random: those that differ in nothing but the engine's own name are not repeated."""
    sizes = [n for n in SIZES if n <= most]
    circle = itertools.product(sizes, (2,), (1.0, 10.0, 100.0, 1e4), (1e-4, 1e-8), ("float64", "float32"), KINDS)
    sphere = itertools.product(sizes, (3,), (1.0, 10.0, 100.0), (1e-4, 1e-8), ("float64", "float32"), KINDS)
    others = itertools.product(sizes, (4, 6, 16), (0.3, 1.0, 10.0), (1e-4, 1e-8), ("float64", "float32"), KINDS)
    every = [sorted({Asked(*each) for each in part}, key=str) for part in (circle, sphere, others)]
    draw = random.Random(seed)
    share = (count * 2 // 5, count * 2 // 5, count - 2 * (count * 2 // 5))
    found = [each for part, size in zip(every, share, strict=True) for each in draw.sample(part, min(size, len(part)))]
    draw.shuffle(found)
    return found


def engines(asked: Asked, model: Any) -> tuple[Engine, dict[Engine, Any]]:
    """The engine chosen, and the model with each that can serve it, but for those that are hopeless."""
    request = (asked.n, asked.d, asked.tol, asked.dtype)
    chosen = model.choice(*request)
    found = {chosen.engine: model.tuned(*request)}
    for name in METHODS[1:]:
        try:
            other = model.choice(*request, name)
        except SphereflowError:
            continue
        if other.predicted_seconds > max(HOPELESS * chosen.predicted_seconds, 0.02):
            continue
        found.setdefault(other.engine, model.tuned(*request, other.engine))
        if hasattr(other.engine, "nufft") and not other.engine.any_query and asked.kind != "causal" and ON_CPU:
            turned = replace(other.engine, nufft=not other.engine.nufft)
            found.setdefault(turned, model.tuned(*request, turned))
    return chosen.engine, found


def measured(asked: Asked, found: dict[Engine, Any]) -> dict[Engine, float]:
    """Seconds of each engine, the chosen one first."""
    x, zero = asked.tokens(), jnp.zeros((), asked.dtype)
    program = eqx.filter_jit(lambda model, x: model.field(zero, x))
    fields = {engine: partial(program, model) for engine, model in found.items()}
    for field in fields.values():
        field(x).block_until_ready()
    best = dict.fromkeys(fields, np.inf)
    for _ in range(3):  # other work on the machine can spoil one series: what looks foolish is measured again
        _take_turns(fields, x, best)
        if best[next(iter(fields))] <= 1.5 * min(best.values()):
            break
    return best


def _take_turns(fields: dict[Engine, Any], x: jax.Array, best: dict[Engine, float]) -> None:
    spent = dict.fromkeys(fields, 0.0)
    for turn in range(ROUNDS * 4):
        for engine, field in fields.items():
            if turn and (spent[engine] > PATIENCE or (turn >= ROUNDS and spent[engine] > PATIENCE / 20)):
                continue
            calls = 1 if best[engine] > 2e-3 else 5  # small ones several times, against the clock's grain
            began = time.perf_counter()
            for _ in range(calls):
                out = field(x)
            out.block_until_ready()
            taken = time.perf_counter() - began
            best[engine], spent[engine] = min(best[engine], taken / calls), spent[engine] + taken


def told(engine: Engine) -> str:
    fft = " nufft" if getattr(engine, "nufft", False) else ""
    return f"{engine.name}{fft} {getattr(engine, 'modes', '')}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many")
    parser.add_argument("--part", default="0/1", help="the first, second... of so many parts, as 0/4")
    parser.add_argument("--most", type=int, default=250_000, help="largest number of tokens")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no further request is begun")
    parser.add_argument("--all", action="store_true", help="print every request, not only those above 1.5")
    given = parser.parse_args()
    began = time.perf_counter()
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}", flush=True)
    print("| n | d | beta | tol | precision | kind | chosen | ms | best | ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    ratios, served = [], {}
    part, parts = map(int, given.part.split("/"))
    for asked in requests(given.requests, given.seed, given.most)[given.skip :][part::parts]:
        if time.perf_counter() - began > given.budget:
            break
        chosen, found = engines(asked, asked.model())
        if len(found) == 1:  # nothing to choose from
            ratios.append(1.0)
            continue
        times = measured(asked, found)
        best = min(times, key=lambda engine: times[engine])
        ratio = times[chosen] / times[best]
        ratios.append(ratio)
        served[chosen.name] = served.get(chosen.name, 0) + 1
        if ratio > 1.5 or given.all:
            cells = (asked.n, asked.d, f"{asked.beta:g}", f"{asked.tol:g}", asked.dtype, asked.kind)
            rest = f"{told(chosen)} | {1e3 * times[chosen]:.3f} | {told(best)} | {1e3 * times[best]:.3f} | {ratio:.2f}"
            others = ", ".join(f"{told(e)} {1e3 * t:.3f}" for e, t in times.items()) if given.all else ""
            print(f"| {' | '.join(map(str, cells))} | {rest} | {others}", flush=True)
    above = sum(ratio > 1.5 for ratio in ratios)
    print(
        f"\n{len(ratios)} requests ({len(ratios) - sum(served.values())} with one engine only; of several: {served}):"
        f" worst ratio {max(ratios):.2f}, {above} above 1.5, median {np.median(ratios):.2f},"
        f" mean {np.mean(ratios):.3f}; {time.perf_counter() - began:.0f} s"
    )


if __name__ == "__main__":
    main()
