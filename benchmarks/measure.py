"""What measuring every head costs: time and peak memory against a bare forward pass with eager attention.

    python benchmarks/measure.py                      SmolLM2-135M, windows of 256, 512 and 1024 tokens
    python benchmarks/measure.py --quick              windows of 256 tokens
    python benchmarks/measure.py --model DIR --device cuda
    python benchmarks/measure.py --sections --out DIR     what each section of the page costs

Both run in the same process, alternating, on the same tokens: each measurement is divided by the mean of the bare
passes before and after it, and the median of seven such ratios counts, with the smallest and the largest. Memory is the
peak of the resident set (Linux), reset before each run, or that of the GPU. It is taken in a process of its own that
returns every large array to the system when it is freed; otherwise what malloc keeps would hide the difference. The
bound on the growth is one layer's attention.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.llm import corpus, load_model, measure_heads, windows


def calls(loaded: Any, window: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """The bare forward pass and the measurement of one document of this length."""
    import torch

    tokens = windows(corpus(), loaded.tokenizer, window=window, documents=1)
    ids = torch.as_tensor(tokens, device=loaded.model.device)

    def bare() -> None:
        with torch.no_grad():
            loaded.model.base_model(ids, use_cache=False)

    def measured() -> None:
        measure_heads(loaded.model, tokens, progress=False)

    return bare, measured


def timed(call: Callable[[], None], cuda: bool) -> tuple[float, float]:
    """(wall, processor) seconds of one call."""
    import torch

    wall, used = time.perf_counter(), time.process_time()
    call()
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - wall, time.process_time() - used


def alternated(bare: Callable[[], None], measured: Callable[[], None], cuda: bool, repeats: int) -> Any:
    """(wall, processor) seconds of bare passes and of the measurements between them: (repeat, bare or measured, 2)."""
    found, before = [], timed(bare, cuda)
    for _ in range(repeats):
        told, after = timed(measured, cuda), timed(bare, cuda)
        found.append([np.mean([before, after], axis=0), told])
        before = after
    return np.array(found)


def peak(call: Callable[[], None], cuda: bool) -> int:
    """The largest memory during a call, in bytes."""
    import torch

    if cuda:
        torch.cuda.reset_peak_memory_stats()
        call()
        return torch.cuda.max_memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")  # the kernel forgets the peak so far
    call()
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def peaks(chosen: argparse.Namespace, window: int) -> tuple[int, int]:
    """Peak bytes of the bare pass and of the measurement, from a process of its own."""
    command = [sys.executable, __file__, "--model", chosen.model, "--device", chosen.device, "--peaks", str(window)]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**16)}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    return int(told[-2]), int(told[-1])


def sections(chosen: argparse.Namespace) -> None:
    """Processor seconds of each section on six windows of 256 tokens, over those of a bare forward pass."""
    from sphereflow import model_theories
    from sphereflow.cli.measure import command

    loaded = load_model(chosen.model, device=chosen.device)
    bare, _ = calls(loaded, 256)
    bare()
    unit = min(timed(bare, False)[1] for _ in range(3))
    print(f"bare pass: {unit:.3f} processor seconds", flush=True)
    del loaded, bare

    def watched(name: str, made: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(subject: Any) -> Any:
            began = time.process_time()
            found = made(subject)
            used = time.process_time() - began
            print(f"{name}: {used:.1f} processor seconds, {used / unit:.0f} passes", flush=True)
            return found

        return call

    for name, (title, made) in model_theories._MADE.items():
        model_theories._MADE[name] = title, watched(name, made)
    command(chosen.model, None, None, 256, 6, Path(chosen.out), chosen.device, "auto", 16, "all", 24, 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="threads of torch (default: its own choice)")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sections", action="store_true")
    parser.add_argument("--out", default="measurement", help="folder of the page, with --sections")
    parser.add_argument("--peaks", type=int, default=0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    import torch

    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    if chosen.sections:
        sections(chosen)
        return
    loaded = load_model(chosen.model, device=chosen.device)
    cuda = chosen.device.startswith("cuda")
    if chosen.peaks:
        bare, measured = calls(loaded, chosen.peaks)
        bare(), measured()  # whatever is imported or built once is not counted
        print(peak(bare, cuda), peak(measured, cuda))
        return
    print(f"{loaded.shape}; {torch.get_num_threads()} threads of torch\n")
    print("| window | bare s | measure s | ratio | processor ratio | bare MB | measure MB | growth MB | one layer MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for window in (256,) if chosen.quick else (256, 512, 1024):
        bare, measured = calls(loaded, window)
        bare(), measured()
        seconds = alternated(bare, measured, cuda, chosen.repeats)
        ratios = seconds[:, 1] / seconds[:, 0]
        low, high = ratios.min(axis=0), ratios.max(axis=0)
        wall, used = (
            f"{m:.2f} ({a:.2f} to {b:.2f})" for m, a, b in zip(np.median(ratios, axis=0), low, high, strict=True)
        )
        shown = np.median(seconds[:, :, 0], axis=0)
        before, after = peaks(chosen, window)
        layer = loaded.shape["heads"] * window**2 * loaded.model.dtype.itemsize
        print(
            f"| {window} | {shown[0]:.2f} | {shown[1]:.2f} | {wall} | {used} | "
            f"{before / 2**20:.0f} | {after / 2**20:.0f} | {(after - before) / 2**20:.1f} | {layer / 2**20:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
