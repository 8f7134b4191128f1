"""`sphereflow info`: what is installed and what it runs on."""

from __future__ import annotations

import textwrap
from typing import Any

from sphereflow.cli.output import answer, say


def command() -> None:
    """Show versions, devices, precision, optional parts and the cache folder.

    Example: sphereflow info --json
    """
    facts = _facts()
    answer(facts)
    missing = [name for name, present in facts["extras"].items() if not present]
    lines = {
        "sphereflow": facts["versions"].get("sphereflow", "not installed"),
        "versions": ", ".join(f"{name} {number}" for name, number in facts["versions"].items() if name != "sphereflow"),
        "devices": ", ".join(facts["devices"]),
        "precision": f"{facts['precision']}, matrix products at {facts['matrix_products']} precision",
        "extras": ", ".join(name for name, present in facts["extras"].items() if present) or "none",
        "cache": facts["cache"] or "off",
    }
    if missing:
        lines["not installed"] = f"{', '.join(missing)} (pip install 'sphereflow[{','.join(missing)}]')"
    for name, text in lines.items():
        say(textwrap.fill(text, 80, initial_indent=f"{name:<15}", subsequent_indent=" " * 15, break_long_words=False))


def _facts() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    from sphereflow.provenance import extras, versions
    from sphereflow.runtime import cache_folder, devices

    folder = cache_folder()
    return {
        "versions": versions(),
        "devices": devices(),
        "precision": str(jnp.zeros(()).dtype),
        "matrix_products": str(jax.config.jax_default_matmul_precision),  # type: ignore[attr-defined]
        "extras": extras(),
        "cache": None if folder is None else str(folder),
    }
