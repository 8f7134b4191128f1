"""Record what sparse attention costs real models: excess loss by rule at equal numbers of keys kept.

    python benchmarks/sparsity.py MODELS NAME help              Python's help texts: second half, calibrated on the first
    python benchmarks/sparsity.py MODELS NAME books FOLDER      text files: the first by name calibrates, the others test

MODELS is the folder that benchmarks/recordings.py describes, NAME smollm2, gemma3-270m or stories15m. Settled before
these runs: windows of 192 tokens, 24 of them, keys N = 4, 8, 16, 32, six rules, seed 0, loss from position 65 on.
Two statements, each judged on its own, at every N in both models: `contribution` is below `uniform` and below `mass`;
`deviation` is below `uniform`, below `mass` and below `contribution`. Below means that the upper end of the 99 % interval
of the paired difference is below zero. `deviation` was found on three windows of another book (Sherlock Holmes).
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import recordings

import sphereflow as sf

OUT = recordings.OUT / "sparsity"
WINDOWS = 24


def corpora(kind: str, folder: str = "") -> tuple[str, list[str], int]:
    """Text of calibration, texts of the test, windows of each."""
    if kind == "help":
        text = sf.llm.corpus()
        return text[: len(text) // 2], [text[len(text) // 2 :]], WINDOWS
    first, *others = [path.read_text() for path in sorted(Path(folder).glob("*.txt"))]
    return first, others, WINDOWS // len(others)


def main(models: str, name: str, kind: str, folder: str = "") -> None:
    calibration, texts, documents = corpora(kind, folder)
    began = time.perf_counter()
    made = sf.llm.compare_sparsity(
        recordings.loaded(name, Path(models)),
        texts,
        calibration=calibration,
        documents=documents,
        progress=lambda share, words: print(f"{time.perf_counter() - began:.0f} s: {share:.2f} {words}", flush=True),
    )
    OUT.mkdir(exist_ok=True)
    path = made.save(OUT / f"{name}-{kind}.npz", overwrite=True)
    print(f"{path.name}: {path.stat().st_size} bytes, {time.perf_counter() - began:.0f} s\n{made.summary()}")
    for rule, other in itertools.product(("deviation", "contribution", "error"), ("uniform", "mass", "contribution")):
        gap = made.difference(rule, other, level=0.99)
        told = [f"{v:+.4f} [{a:+.4f}, {b:+.4f}]" for v, a, b in zip(gap.value, gap.low, gap.high, strict=True)]
        print(f"{rule} - {other}: {'; '.join(told)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
