"""A memory of up to 10^6 patterns as a layer: recall, its gradient and exact search beside PyTorch, in one run.

    python benchmarks/memory.py [--device cpu|gpu] [--patterns 20000 100000] [--dimension 128] [--queries 256]

Every line compares the same numbers in float32 from arrays already in place: the softmax average of all patterns for
each query (against `scaled_dot_product_attention`), its gradient with respect to the queries, the average over the 32
nearest patterns only, and exact search of the 10 nearest (against a product of matrices and `topk`, in blocks: what a
flat index of FAISS does). The two sides run in turns; seconds are medians. Ratios above 1 mean that sphereflow is
faster. On a GPU the largest memory of each side is given as well, without the patterns themselves.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch is in the same process

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from sphereflow.memory import DenseMemory

NEAREST, TOP = 10, 32
SIZES = {"cpu": ([20_000, 100_000], 128, 256), "gpu": ([100_000, 1_000_000], 512, 1024)}
Job = Callable[[], object]


def seconds(job: Job, wait: Job) -> float:
    wait()
    began = time.perf_counter()
    job()
    wait()
    return time.perf_counter() - began


def torch_search(asked: torch.Tensor, keys: torch.Tensor, count: int, block: int = 100_000) -> torch.Tensor:
    """Indices of the `count` largest products, block by block."""
    best = torch.full((len(asked), count), -torch.inf, device=asked.device)
    where = torch.zeros((len(asked), count), dtype=torch.long, device=asked.device)
    for first in range(0, len(keys), block):
        score, place = (asked @ keys[first : first + block].T).topk(min(count, len(keys) - first), dim=1)
        best, chosen = torch.cat([best, score], dim=1).topk(count, dim=1)
        where = torch.cat([where, place + first], dim=1).gather(1, chosen)
    return where


def torch_top(asked: torch.Tensor, keys: torch.Tensor, count: int, beta: float) -> torch.Tensor:
    near = keys[torch_search(asked, keys, count)]
    weights = torch.softmax(beta * torch.einsum("qkn,qn->qk", near, asked), dim=1)
    return torch.einsum("qk,qkn->qn", weights, near)


def programs(aim: jax.Array, block: int | None) -> dict[str, Callable]:
    """What is timed of sphereflow, by name."""
    written = {
        "recall": lambda m, x: m(x, block=block),
        "gradient": lambda m, x: jax.grad(lambda y: jnp.sum(m(y, block=block) * aim))(x),
        f"recall from {TOP}": lambda m, x: m(x, top=TOP, block=block),
        f"search {NEAREST}": lambda m, x: m.nearest(x, NEAREST, block=block)[0],
    }
    return {name: eqx.filter_jit(job) for name, job in written.items()}


def jobs(memory: DenseMemory, queries: jax.Array, device: str, block: int | None) -> dict[str, tuple[Job, Job]]:
    """(ours, theirs) by name; both return arrays of the same meaning."""
    root = memory.dimension**0.5
    length = lambda x: root * x / jnp.linalg.norm(x, axis=1, keepdims=True)  # noqa: E731
    where = "cuda" if device == "gpu" else "cpu"
    keys = torch.tensor(np.asarray(length(memory.stored)), device=where)
    asked = torch.tensor(np.asarray(length(queries)), device=where)
    aim = torch.tensor(np.asarray(queries), device=where)

    def back(mean: torch.Tensor) -> torch.Tensor:
        return mean * (root / mean.norm(dim=1, keepdim=True))

    def average(x: torch.Tensor) -> torch.Tensor:
        return back(scaled_dot_product_attention(x[None], keys[None], keys[None], scale=memory.beta)[0])

    def gradient() -> torch.Tensor:
        x = aim.clone().requires_grad_()
        (average(back(x)) * aim).sum().backward()
        return x.grad

    def quiet(job: Job) -> Job:
        def run() -> object:
            with torch.no_grad():
                return job()

        return run

    ours = programs(queries, block)
    theirs: dict[str, Job] = {
        "recall": quiet(lambda: average(asked)),
        "gradient": gradient,
        f"recall from {TOP}": quiet(lambda: back(torch_top(asked, keys, TOP, memory.beta))),
        f"search {NEAREST}": quiet(lambda: torch_search(asked, keys, NEAREST)),
    }
    bound = {name: (lambda f=f: jax.block_until_ready(f(memory, queries))) for name, f in ours.items()}
    return {name: (bound[name], theirs[name]) for name in ours}


def apart(mine: np.ndarray, peer: np.ndarray) -> float:
    """The largest difference; of indices, the share that is not the same."""
    return float(np.mean(mine != peer)) if mine.dtype.kind == "i" else float(np.abs(mine - peer).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--patterns", type=int, nargs="+")
    for name in ("dimension", "queries"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--block", type=int, help="patterns at a time (default: that of the library)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--beta", type=float, default=0.25)
    arguments = parser.parse_args()
    sizes, dimension, asked = SIZES[arguments.device]
    sizes, dimension, asked = arguments.patterns or sizes, arguments.dimension or dimension, arguments.queries or asked
    gpu = arguments.device == "gpu"
    if gpu:
        torch.backends.cuda.matmul.allow_tf32 = False
    wait = torch.cuda.synchronize if gpu else (lambda: None)
    device = jax.devices("gpu" if gpu else "cpu")[0]
    name = torch.cuda.get_device_name() if gpu else f"{torch.get_num_threads()} threads"
    print(
        f"dimension {dimension}, {asked} queries, beta {arguments.beta:g}, float32, {name}; "
        f"torch {torch.__version__}, jax {jax.__version__}"
    )
    print("| patterns | job | sphereflow s | PyTorch s | ratio | difference | sphereflow MB | PyTorch MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for count in sizes:
        rng = np.random.default_rng(0)
        patterns = rng.standard_normal((count, dimension), dtype=np.float32)
        chosen = rng.integers(0, count, asked)
        queries = patterns[chosen] + 0.5 * rng.standard_normal((asked, dimension), dtype=np.float32)
        with jax.default_device(device):
            memory, x = DenseMemory(patterns, "lse", arguments.beta), jnp.asarray(queries)
            for job, (ours, theirs) in jobs(memory, x, arguments.device, arguments.block).items():
                program = ours()
                used = "-"
                if gpu:
                    held = torch.cuda.memory_allocated()
                    torch.cuda.reset_peak_memory_stats()
                difference = apart(np.asarray(program), theirs().cpu().numpy())  # type: ignore[attr-defined]
                if gpu:
                    used = f"{(torch.cuda.max_memory_allocated() - held) / 1e6:.0f}"
                pairs = np.array([(seconds(ours, wait), seconds(theirs, wait)) for _ in range(arguments.repeats)])
                mine, peer = np.median(pairs, axis=0)
                print(
                    f"| {count} | {job} | {mine:.4f} | {peer:.4f} | {peer / mine:.2f} | {difference:.1e} | "
                    f"{working(memory, x, job, arguments.block):.0f} | {used} |",
                    flush=True,
                )


def working(memory: DenseMemory, x: jax.Array, job: str, block: int | None) -> float:
    """Megabytes that the compiled program needs beside its arguments and results."""
    compiled = programs(x, block)[job].lower(memory, x).compile()
    return float(compiled.compiled.memory_analysis().temp_size_in_bytes) / 1e6


if __name__ == "__main__":
    main()
