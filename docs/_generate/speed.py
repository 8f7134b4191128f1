"""Speed beside peers, read from the tables in benchmarks/*.md: no figure is typed here."""

from __future__ import annotations

from collections.abc import Iterable

from .places import ROOT

Table = list[dict[str, str]]


def tables(name: str) -> list[Table]:
    """The Markdown tables of benchmarks/NAME.md, each a list of rows by column heading."""
    found: list[Table] = []
    lines = (ROOT / "benchmarks" / f"{name}.md").read_text("utf-8").splitlines()
    for index, line in enumerate(lines):
        if not set(line) <= set("|-: ") or "---" not in line:
            continue
        heads = _cells(lines[index - 1])
        rows: Table = []
        for row in lines[index + 1 :]:
            if not row.startswith("|"):
                break
            # Read from the right, so that of two columns with one heading the first counts.
            rows.append(dict(reversed(list(zip(heads, _cells(row), strict=True)))))
        found.append(rows)
    return found


def speed_table() -> str:
    """What was measured, and how many times faster than whom; a range is over the rows of the benchmark."""
    lines = ["| what | times faster than its peers in the same run |", "| --- | --- |"]
    for what, name, peers in _comparisons():
        told = ", ".join(f"{peer} {_range(ratios)}" for peer, ratios in peers.items())
        lines.append(f"| [{what}](benchmarks/{name}.md) | {told} |")
    return "\n".join(lines)


def _comparisons() -> Iterable[tuple[str, str, dict[str, list[float]]]]:
    direct = tables("direct_engine")[0]
    yield (
        "all pairs, 16,384 tokens, CPU",
        "direct_engine",
        {
            peer: [float(row[f"{column} / ours"]) for row in direct]
            for peer, column in (("PyTorch", "torch"), ("KeOps", "KeOps"), ("NumPy", "NumPy"))
        },
    )
    gpu = tables("gpu_direct")[0]
    speeds = {(row["engine"], row["n"], row["d"]): float(row["pairs/s"]) for row in gpu}
    yield (
        "all pairs, float32, GPU",
        "gpu_direct",
        {
            "PyTorch (fused)": [
                speed / speeds["PyTorch fused float32", n, d]
                for (engine, n, d), speed in speeds.items()
                if engine == "sphereflow float32"
            ]
        },
    )
    linear = next(table for table in tables("linear_time") if "times slower than matrix products" in table[0])
    yield (
        "linear-time sums, 100,000 tokens on the circle",
        "linear_time",
        {
            row[""].removesuffix(" float64"): [float(row["times slower than matrix products"])]
            for row in linear
            if row[""] in ("PyTorch SDPA float64", "KeOps float64")
        },
    )
    recall = tables("memory_recall")[0]
    yield "recall from 100,000 patterns", "memory_recall", {"PyTorch SDPA": [float(row["ratio"]) for row in recall]}
    certified = tables("landscape")[0]
    yield (
        "certified minimiser on the circle",
        "landscape",
        {row["method"].split(",")[0]: [float(row["ratio"])] for row in certified[1:]},
    )
    modes = next(row for row in tables("kde_modes")[0] if row["n"] == "10^5")
    yield (
        "modes of 100,000 samples",
        "kde_modes",
        {peer: [float(modes[f"{peer} s"]) / float(modes["sphereflow s"])] for peer in ("SciPy", "scikit-learn")},
    )
    network = tables("random_network")[0]
    yield (
        "random deep network",
        "random_network",
        {
            peer: [float(row["processor time, ratio"]) for row in network if row["way"] == way]
            for peer, way in (("NumPy", "NumPy"), ("PyTorch (eager)", "PyTorch, eager"))
        },
    )
    exact = tables("transport")[0]
    yield "exact flow of 1,000 pieces", "transport", {row[""]: [float(row["ratio"])] for row in exact[1:]}


def _range(ratios: list[float]) -> str:
    low, high = _rounded(min(ratios)), _rounded(max(ratios))
    return low if low == high else f"{low} to {high}"


def _rounded(ratio: float) -> str:
    """Two significant digits: more would not come out again."""
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
