"""What attention with fewer keys costs in time and memory: one pass over a window, beside the model's own attention.

    python benchmarks/sparse_cost.py MODELS smollm2 gemma3-270m       windows of 256 tokens

MODELS is the folder that benchmarks/recordings.py describes. Processor seconds of one thread, the shortest of three, as
a ratio to eager attention with all keys; peak memory above what the process holds before the pass. `sdpa` is the fused
attention of torch.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from measure import peak, timed
from recordings import loaded

import sphereflow as sf

WINDOW, KEEP = 256, 16
RULES = ("uniform", "mass", "contribution", "deviation")


def resident() -> int:
    """The bytes that the process holds now."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def main(models: str, *names: str) -> None:
    import torch

    torch.set_num_threads(1)
    print("| model | attention | keys kept | seconds, eager = 1 | peak MB of the pass |\n|---|---|---|---|---|")
    for name in names:
        model = loaded(name, Path(models))
        tokens = sf.llm.windows(sf.llm.corpus(), model.tokenizer, window=WINDOW, documents=2)
        ids = torch.as_tensor(tokens[:1])

        def run(model: sf.llm.LanguageModel = model, ids: torch.Tensor = ids) -> None:
            with torch.no_grad():
                model.model.base_model(ids, use_cache=False)

        def told(what: str, kept: float, unit: float, name: str = name) -> float:
            run()
            used = timed(run, False)[1]
            before = resident()
            most = (peak(run, False) - before) / 2**20
            print(f"| {name} | {what} | {kept:.1f} | {used / (unit or used):.2f} | {most:.0f} |", flush=True)
            return used

        everything = (WINDOW + 1) / 2
        unit = told("eager", everything, 0.0)
        model.model.set_attn_implementation("sdpa")
        told("sdpa", everything, unit)
        model.model.set_attn_implementation("eager")
        for rule in RULES:
            plan = sf.llm.plan_sparsity(model, np.asarray(tokens[1:]), keep=KEEP, rule=rule)
            with sf.llm.sparse_attention(model, plan) as usage:
                run()
                kept = usage.mean_kept
                told(rule, kept, unit)


if __name__ == "__main__":
    main(*sys.argv[1:])
