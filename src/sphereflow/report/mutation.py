r"""A sceptic's test of the claims: perturb a prediction or the data, and see whether the verdict notices.

- **rival**: a rival's values replace the predictions (or the data) of the rows it names;
- **permutation**: the measured values of rows with different predictions are moved on by one row, or reversed,
  wherever that brings a row a value that was predicted more than a tolerance away.

A perturbed check that still agrees with all its rows survives: the claim could not have been lost that way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sphereflow.claims import Check
from sphereflow.report.results import ClaimResult, Report


def survivors(report: Report) -> list[str]:
    """One line for each perturbation that a claim's rows do not notice: empty when every verdict could be lost."""
    return [
        f"{paper.paper.slug} {result.claim.id}: {name}"
        for paper in report.papers
        for result in paper.claims
        for name in _survivors(result)
    ]


def mutants(check: Check) -> Iterator[tuple[str, Check]]:
    """The perturbed checks of a check, by name."""
    for rival in check.rivals:
        role = "measured" if rival.of_data else "predicted"
        rows = [replace(row, **{role: rival.values.get(row.name, getattr(row, role))}) for row in check.rows]
        yield f"the rival '{rival.name}'", replace(check, rows=rows, rivals=[])
    equal = [row for row in check.rows if row.side == "equal"]
    for name, order in (("moved on by one row", [*equal[1:], *equal[:1]]), ("in reverse order", equal[::-1])):
        if any(abs(row.predicted - other.predicted) > row.tolerance for row, other in zip(equal, order, strict=True)):
            data = {row.name: other.measured for row, other in zip(equal, order, strict=True)}
            rows = [replace(row, measured=data.get(row.name, row.measured)) for row in check.rows]
            yield f"measured values {name}", replace(check, rows=rows, rivals=[])


def _survivors(result: ClaimResult) -> list[str]:
    if result.check is None or result.verdict not in ("holds", "refuted"):
        return []
    return [name for name, mutant in mutants(result.check) if mutant.excess() <= 1]
