"""How fast does a memory answer? 100,000 stored patterns of dimension 512, 1,000 queries, against PyTorch's attention.

    python benchmarks/memory_recall.py [--patterns 100000] [--dimension 512] [--queries 1000] [--repeats 5]

Both sides compute the same thing in float32 on all cores: for every query the softmax average of the patterns, from
arrays already in place. The two are timed in turns and their results compared. Ratios above 1 mean that sphereflow is
faster. The last rows show sharpnesses at which many patterns count and the general engine does the sum.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import jax
import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from sphereflow.memory import DenseMemory


def seconds(job: Callable[[], object]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def compare(memory: DenseMemory, queries: np.ndarray, repeats: int) -> tuple[float, float, float]:
    """(our seconds, PyTorch's seconds, largest difference of the recalled states)."""
    keys = torch.tensor(np.asarray(memory.recall(memory.stored, steps=0).states))[None]
    asked = torch.tensor(np.asarray(memory.recall(queries, steps=0).states))[None]

    def ours() -> np.ndarray:
        return np.asarray(jax.block_until_ready(memory.recall(queries, steps=1).states))

    def theirs() -> torch.Tensor:
        with torch.no_grad():
            mean = scaled_dot_product_attention(asked, keys, keys, scale=memory.beta)[0]
        return mean * (memory.dimension**0.5 / mean.norm(dim=1, keepdim=True))

    difference = float(np.abs(ours() - theirs().numpy()).max())
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    mine, peer = np.median(np.array(pairs), axis=0)
    return float(mine), float(peer), difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("patterns", 100_000), ("dimension", 512), ("queries", 1000), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    patterns = rng.standard_normal((arguments.patterns, arguments.dimension), dtype=np.float32)
    chosen = rng.integers(0, arguments.patterns, arguments.queries)
    queries = patterns[chosen] + 0.5 * rng.standard_normal((arguments.queries, arguments.dimension), dtype=np.float32)
    print(
        f"{arguments.patterns} patterns of dimension {arguments.dimension}, {arguments.queries} queries, float32, "
        f"{torch.get_num_threads()} threads; torch {torch.__version__}, jax {jax.__version__}"
    )
    print(f"{'beta':>6} {'sphereflow':>11} {'PyTorch':>9} {'ratio':>6} {'difference':>11} {'found':>7}")
    for beta in (1.0, 0.25, 0.02):
        memory = DenseMemory(patterns, "lse", beta)
        mine, peer, difference = compare(memory, queries, arguments.repeats)
        found = float(np.mean(memory.recall(queries).index == chosen))
        print(f"{beta:6g} {mine:10.3f}s {peer:8.3f}s {peer / mine:6.2f} {difference:11.1e} {found:7.3f}")


if __name__ == "__main__":
    main()
