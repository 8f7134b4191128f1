"""What determines a run: kept in every trajectory, and compared before a run is continued."""

from __future__ import annotations

import dataclasses
from typing import Any

from sphereflow.dynamics import Dynamics
from sphereflow.seeds import Record


@dataclasses.dataclass(frozen=True, eq=False)
class Settings:
    """A run besides its tokens and times.

    `tol` is None for a run with fixed steps `dt`, which controls no error. `method` is what was asked of the sums over
    tokens, `engine` what was used; `engine_error` bounds their relative error (0: every pair summed). `devices` says
    over how many devices tokens were split.
    """

    model: Dynamics
    t0: float
    tol: float | None
    solver: str
    dt: float | None
    max_steps: int
    method: str
    devices: int
    engine: str
    engine_error: float
    seed: Record | None
    parameters: dict[str, Any]
    versions: dict[str, str]

    def plain(self) -> dict[str, Any]:
        """Everything but the model, for JSON."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "model"}
