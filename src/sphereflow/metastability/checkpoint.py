"""What an interrupted run needs to go on: kept in memory after every merger, and on disk if a file is named.

On disk it is renewed at most once a second and whenever the run ends or is interrupted, so Ctrl-C loses at most the
current leg and a killed process at most a second more. Numbers are written with all their digits: a resumed run ends
exactly where an uninterrupted one does.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sphereflow.errors import SphereflowError, writable_target
from sphereflow.metastability.atoms import Atoms
from sphereflow.metastability.history import CURVE, Merge, Outcome, dumps, loads, merge_from_plain
from sphereflow.provenance import circumstances, digest, same_request, versions
from sphereflow.reading import brief
from sphereflow.saving import write_bytes

if TYPE_CHECKING:
    from sphereflow.metastability.coarsen import Moment, Rules

_FORMAT = "sphereflow merge checkpoint 2"
_SECONDS_BETWEEN_WRITES = 1.0


@dataclasses.dataclass
class Checkpoint:
    """The run so far; `path` is None for a run that is not kept on disk."""

    path: Path | None
    asked: dict[str, Any]
    main: Moment
    companion: Moment | None
    merges: list[Merge]
    curve: list[np.ndarray]
    seconds: float = 0.0
    written_at: float = 0.0

    @classmethod
    def open(cls, path: str | Path | None, rules: Rules, start: Atoms, errors: bool) -> Checkpoint:
        """Continue from the file if there is one, else begin."""
        from sphereflow.metastability.coarsen import begin

        target = None if path is None else writable_target(path, overwrite=True)
        asked = {} if target is None else _asked(rules, start, errors)
        if target is not None and target.exists():
            return cls._read(target, asked)
        moment, merges, row = begin(start, rules)
        return cls(target, asked, moment, None, merges, [row])

    def after(
        self, main: Moment, companion: Moment | None, merges: list[Merge], rows: np.ndarray, seconds: float
    ) -> Checkpoint:
        """The checkpoint one leg later. All of it is replaced at once, so an interruption finds it whole."""
        later = Checkpoint(
            self.path,
            self.asked,
            main,
            companion,
            [*self.merges, *merges],
            [*self.curve, rows],
            seconds,
            self.written_at,
        )
        if merges and time.monotonic() - self.written_at > _SECONDS_BETWEEN_WRITES:
            later.write()
        return later

    def write(self) -> None:
        if self.path is None:
            return
        plain = {
            "format": _FORMAT,
            "asked": self.asked,
            "versions": versions(),
            "main": _moment_to_plain(self.main),
            "companion": None if self.companion is None else _moment_to_plain(self.companion),
            "merges": [dataclasses.asdict(m) for m in self.merges],
            "curve": np.concatenate(self.curve),
            "seconds": self.seconds,
        }
        write_bytes(self.path, dumps(plain))
        self.written_at = time.monotonic()

    @classmethod
    def _read(cls, path: Path, asked: dict[str, Any]) -> Checkpoint:
        plain = loads(path, _FORMAT)
        same_request(path, plain.get("asked"), asked)
        try:
            companion = None if plain["companion"] is None else _moment_from_plain(plain["companion"])
            merges = [merge_from_plain(m) for m in plain["merges"]]
            curve = [np.asarray(plain["curve"], dtype=float).reshape(-1, len(CURVE))]
            main = _moment_from_plain(plain["main"])
            return cls(path, asked, main, companion, merges, curve, float(plain["seconds"]), time.monotonic())
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SphereflowError(f"cannot read {path}: the file is damaged ({brief(error)}).") from None


def _asked(rules: Rules, start: Atoms, errors: bool) -> dict[str, Any]:
    """Everything that determines the run: numbers as they are, arrays by their digests."""
    plain = {f.name: getattr(rules, f.name) for f in dataclasses.fields(rules) if f.name != "perceptron"}
    p = rules.perceptron
    neurons = "none" if p is None else f"{p.activation} {digest(p.outer, p.inner, p.bias)}"
    begins = {"x0": digest(start.positions), "masses": digest(start.masses)}
    return {**plain, "perceptron": neurons, "errors": errors, **begins, **circumstances()}


def _moment_to_plain(moment: Moment) -> dict[str, Any]:
    plain = {f.name: getattr(moment, f.name) for f in dataclasses.fields(moment) if f.name != "atoms"}
    plain["outcome"] = None if moment.outcome is None else moment.outcome.name
    return plain | {f.name: getattr(moment.atoms, f.name) for f in dataclasses.fields(moment.atoms)}


def _moment_from_plain(plain: Any) -> Moment:
    from sphereflow.metastability.coarsen import Moment

    atoms = Atoms(
        np.asarray(plain["positions"], dtype=float),
        np.asarray(plain["masses"], dtype=float),
        np.asarray(plain["names"], dtype=int),
    )
    if atoms.positions.ndim != 2 or not (len(atoms.positions) == len(atoms.masses) == len(atoms.names) > 0):
        raise ValueError("the clusters do not match their masses")
    if not (np.isfinite(atoms.positions).all() and (atoms.masses > 0).all()):
        raise ValueError("the clusters are not finite")
    outcome = None if plain["outcome"] is None else Outcome[plain["outcome"]]
    return Moment(
        float(plain["log_t"]),
        float(plain["clock"]),
        float(plain["length"]),
        atoms,
        int(plain["next_name"]),
        float(plain["energy"]),
        bool(plain["resting"]),
        outcome,
    )
