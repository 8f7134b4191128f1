"""The result of a run: tokens at saved times, with everything needed to make it again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sphereflow.dynamics import Dynamics
from sphereflow.errors import SphereflowError, real_number, whole_number
from sphereflow.evolution.status import Status
from sphereflow.numerics.unit_vectors import unit
from sphereflow.observables import cluster_count, cluster_labels, order_parameter, overlaps
from sphereflow.results import Result, Variables, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sphereflow.evolution.webpage import Player

# Compiled once for all trajectories: the model is an argument, not a constant.
_energy = eqx.filter_jit(lambda model, x: model.energy(x))
_energy_rate = eqx.filter_jit(lambda model, x: model.energy_rate(x))
# What stands for the tolerance where steps were fixed: the sums over tokens and the comparison are that accurate.
FIXED_STEP_TOL = 1e-8
CAMERA = (22.0, -60.0)  # elevation and azimuth from which tokens in three dimensions are seen, in degrees
_order_parameter = jax.jit(order_parameter)
_overlaps = jax.jit(overlaps)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Result):
    """Tokens `xs` of shape (T, ..., n, d) at times `ts`; axes between time and token are replicas.

    `xs` may live on disk: index it by frame, or let the observables below go through it one frame at a time.
    `model`, `t0`, `tol`, `solver`, `dt`, `max_steps`, `method`, `devices` are the run's settings: `tol` is None where
    steps were fixed (`dt`). `engine` says how sums over tokens were done and `engine_error` bounds their relative
    error (0: every pair summed). `parameters` holds the call, `seed` the seed, `versions` the software; `stopped_at`
    the time of the event, and `x0` the tokens at t0 where that is not the first saved time.
    """

    ts: np.ndarray
    xs: Any
    model: Dynamics
    status: Status
    tol: float | None
    solver: str
    engine: str
    engine_error: float
    steps: int
    seconds: float = dataclasses.field(compare=False)
    t0: float = 0.0
    dt: float | None = None
    max_steps: int = 100_000
    method: str = "auto"
    devices: int = 1
    stopped_at: np.ndarray | None = None
    x0: np.ndarray | None = None

    @property
    def n(self) -> int:
        return self.xs.shape[-2]

    @property
    def d(self) -> int:
        return self.xs.shape[-1]

    @property
    def replicas(self) -> tuple[int, ...]:
        return tuple(self.xs.shape[1:-2])

    def __len__(self) -> int:
        return len(self.ts)

    def frame(self, index: int) -> np.ndarray:
        """Tokens at one saved time."""
        if not len(self.ts):
            raise SphereflowError(f"this run has no saved frame. {self.status.value}")
        return np.asarray(self.xs[index])

    @property
    def start(self) -> np.ndarray:
        """Tokens at t0."""
        return self.frame(0) if self.x0 is None else self.x0

    def _first_system(self) -> np.ndarray:
        return self.frame(0).reshape((-1, self.n, self.d))[0]

    @property
    def final(self) -> np.ndarray:
        """Tokens at the last saved time."""
        return self.frame(len(self.ts) - 1)

    # --- observables, computed when first asked for -------------------------------------------------------------

    def each(self, observable: Callable[[Any], Any]) -> np.ndarray:
        """observable(x) for every frame and replica, x of shape (n, d), as an array with time first."""
        per_frame = []
        for index in range(len(self.ts)):
            frame = self.frame(index)
            flat = frame.reshape((-1, *frame.shape[-2:]))
            values = np.stack([np.asarray(observable(x)) for x in flat])
            per_frame.append(values.reshape(frame.shape[:-2] + values.shape[1:]))
        return np.stack(per_frame)

    @cached_property
    def energy(self) -> np.ndarray:
        """Energy of the model at each saved time."""
        jax.eval_shape(self.model.energy, self._first_system())  # says clearly if this model has no energy
        return self.each(lambda x: _energy(self._fast(x), x))

    @cached_property
    def energy_rate(self) -> np.ndarray:
        """dE/dt from the dissipation identity at each saved time."""
        jax.eval_shape(self.model.energy_rate, self._first_system())
        return self.each(lambda x: _energy_rate(self._fast(x), x))

    def _fast(self, x: np.ndarray) -> Dynamics:
        """The model with the engine that the run had for these tokens."""
        tuned = self.model.tuned(self.n, self.d, self.tol or FIXED_STEP_TOL, str(self.xs.dtype), self.method)
        return tuned.gathered(jnp.asarray(x))

    @cached_property
    def order_parameter(self) -> np.ndarray:
        """|mean of the tokens| at each saved time."""
        return self.each(_order_parameter)

    @cached_property
    def overlaps(self) -> np.ndarray:
        """Inner products of all pairs at each saved time."""
        return self.each(_overlaps)

    def cluster_count(self, threshold: float = 0.999) -> np.ndarray:
        """Number of clusters at each saved time."""
        return self.each(lambda x: cluster_count(x, threshold))

    def cluster_labels(self, threshold: float = 0.999) -> np.ndarray:
        """Cluster of each token at the last saved time (first replica)."""
        return cluster_labels(self.final.reshape((-1, self.n, self.d))[0], threshold)

    @cached_property
    def error_estimate(self) -> float:
        """Largest difference of a saved coordinate from a second solve, in float64, adaptive, 1,000 times tighter."""
        from sphereflow.evolution.shell import evolve

        start = np.asarray(self.start, dtype=np.float64)
        if self.model.traits.space == "sphere":
            start = unit(start)  # a float32 norm is 1 only to 1e-7
        tighter = max((self.tol or FIXED_STEP_TOL) * 1e-3, 1e-13)
        # Methods of low order would take more steps than are allowed.
        adaptive = self.solver if self.solver.startswith("kvaerno") else "dopri8"
        limit = max(self.max_steps, 100_000)
        again = evolve(
            self.model,
            start,
            t0=self.t0,
            saveat=self.ts,
            tol=tighter,
            solver=adaptive,
            max_steps=limit,
            method=self.method,
            progress=False,
        )
        if len(again) < len(self):
            raise SphereflowError(f"the error cannot be estimated: the second solve ended early. {again.status.value}")
        return float(max(np.abs(again.frame(i) - self.frame(i)).max() for i in range(len(self.ts))))

    def extend(self, t1: float, saveat: int | Sequence[float] | np.ndarray | None = None) -> Trajectory:
        """The same run, gone on to t1, with its frames; by default new frames are as far apart as the last two."""
        from sphereflow.evolution.shell import evolve

        if self.status is not Status.REACHED_END:
            raise SphereflowError(f"only a run that reached its end can be extended. {self.status.value}")
        end = float(self.ts[-1])
        apart = end - float(self.ts[-2]) if len(self.ts) > 1 else end - self.t0
        if saveat is None:
            saveat = max(2, round((real_number("t1", t1, above=end) - end) / apart) + 1)
        settings = {name: getattr(self, name) for name in ("tol", "solver", "dt", "max_steps", "method")}
        more = evolve(self.model, self.final, t1, t0=end, saveat=saveat, progress=False, **settings)
        new = slice(1 if more.ts[0] == end else 0, None)
        return dataclasses.replace(
            self,
            ts=np.concatenate([self.ts, more.ts[new]]),
            xs=np.concatenate([np.asarray(self.xs), more.xs[new]]),
            status=more.status,
            steps=self.steps + more.steps,
            seconds=self.seconds + more.seconds,
            parameters=self.parameters | ({"t1": t1} if "t1" in self.parameters else {}),
        )

    # --- views ---------------------------------------------------------------------------------------------------

    def variables(self) -> Variables:
        """Tokens, the order parameter, and energies where they have been asked for."""
        extra = [f"replica_{i}" for i in range(len(self.replicas))] if len(self.replicas) > 1 else ["replica"]
        dims = ("t", *extra[: len(self.replicas)], "token", "component")
        found: Variables = {"t": ("t", self.ts), "tokens": (dims, self.xs)}
        known: dict[str, np.ndarray] = {
            name: self.__dict__[name] for name in ("energy", "energy_rate") if name in self.__dict__
        }
        if self.model.traits.space == "sphere":
            known["order_parameter"] = self.order_parameter
        return found | {name: (dims[:-2], values) for name, values in known.items()}

    def _more(self) -> list[tuple[str, str]]:
        return [
            (".player()", "the run in this cell, to turn and to play"),
            (".webpage('run.html')", "the same as a page"),
            (".movie('run.gif')", "a film"),
            (".error_estimate", "how far it is from a second, tighter solve"),
            *super()._more(),
        ]

    def plot(self) -> Figure:
        """A picture of the run: tokens, energy, inner products."""
        from sphereflow.evolution.plots import plot_trajectory

        return plot_trajectory(self)

    def movie(
        self,
        path: str | Path,
        *,
        fps: int = 20,
        overwrite: bool = True,
        colour: Any = "cluster",
        trails: float = 0.0,
        labels: bool = False,
        camera: tuple[float, float] = CAMERA,
        turn: float = 0.0,
    ) -> Path:
        """A movie of the tokens (.mp4, .gif); how they are drawn is said in `figures.tokens`."""
        from sphereflow.evolution.plots import make_movie
        from sphereflow.evolution.token_view import Drawing

        drawing = Drawing(colour, trails, labels, camera, turn)
        return make_movie({"": self}, path, drawing, fps=fps, overwrite=overwrite)

    def webpage(self, path: str | Path, *, title: str | None = None, overwrite: bool = True) -> Path:
        """One HTML file with the sphere to turn, a time slider and the energy; it opens without server or network."""
        from sphereflow.evolution.webpage import write_webpage

        return write_webpage(self, path, title=title, overwrite=overwrite)

    def player(self, *, title: str | None = None, height: int = 780) -> Player:
        """The page of `webpage` in a cell of a notebook, to turn and to play."""
        from sphereflow.evolution.webpage import Player, page_of

        return Player(page_of(self, title), whole_number("height", height, least=100, most=10_000))

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write everything to a zarr folder; `sphereflow.load` reads it back bit for bit."""
        from sphereflow.evolution.storage import save

        return save(self, path, overwrite=overwrite)

    def record(self) -> dict[str, Any]:
        """What the run was and how it ended, as plain data; of several replicas the first is described."""
        told: dict[str, Any] = {
            "result": "Trajectory",
            "n": self.n,
            "d": self.d,
            "replicas": list(self.replicas),
            "t0": float(self.t0),
            "t1": float(self.ts[-1]),
            "steps": int(self.steps),
            "solver": self.solver,
            "engine": self.engine,
            "engine_error": self.engine_error,
            "tol": self.tol,
            "dt": self.dt,
            "max_steps": self.max_steps,
            "method": self.method,
            "seconds": self.seconds,
            "complete": self.status.complete,
            "status": self.status.value,
        }
        if self.model.traits.space == "sphere" and (self.n <= 5000 or self.d == 2):
            ends = [self.frame(i).reshape((-1, self.n, self.d))[0] for i in (0, -1)]
            told["clusters"] = [cluster_count(x) for x in ends]
            told["order_parameter"] = [float(order_parameter(jnp.asarray(x))) for x in ends]
        return plain(told | {"parameters": self.parameters, "seed": self.seed, "versions": self.versions})

    def facts(self) -> list[str]:
        told = self.record()
        ensemble = "" if not self.replicas else f" x {' x '.join(map(str, self.replicas))} replicas"
        lines = [
            f"{self.n} tokens in dimension {self.d}{ensemble}, t = {told['t0']:g} to {told['t1']:g}",
            f"{self.steps} steps of {self.solver} ({self._sums()}), {self._control()}, {self.seconds:.2f} s",
            self.status.value,
        ]
        if "clusters" in told:
            counts, orders = told["clusters"], told["order_parameter"]
            lines.append(f"clusters {counts[0]} -> {counts[1]}, order parameter {orders[0]:.4f} -> {orders[1]:.4f}")
        return lines

    def summary(self) -> str:
        """A few lines for the terminal."""
        return "\n".join(self.facts())

    def _control(self) -> str:
        return f"tolerance {self.tol:g}" if self.tol is not None else f"fixed steps of {self.dt:g}, no error control"

    def _sums(self) -> str:
        return f"{self.engine} sums" + (f" to {self.engine_error:.0e}" if self.engine_error else "")
