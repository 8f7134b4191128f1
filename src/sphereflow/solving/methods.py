"""Runge-Kutta methods by name, and how their steps are chosen: to a tolerance, or on a grid of times."""

from __future__ import annotations

import dataclasses
from typing import Any

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optimistix
from jaxtyping import Array, Float

from sphereflow.dynamics import Traits
from sphereflow.errors import SphereflowError, enough_memory
from sphereflow.solving.kinks import AtKinks

# Name: (method, order of convergence). The last two are implicit, for stiff problems.
SOLVERS: dict[str, tuple[diffrax.AbstractSolver, int]] = {
    "dopri8": (diffrax.Dopri8(), 8),
    "tsit5": (diffrax.Tsit5(), 5),
    "bosh3": (diffrax.Bosh3(), 3),
    "heun": (diffrax.Heun(), 2),
    "euler": (diffrax.Euler(), 1),
    "kvaerno5": (diffrax.Kvaerno5(), 5),
    "kvaerno3": (diffrax.Kvaerno3(), 3),
}

# Steps of one length, that of the first.
CONSTANT = diffrax.ConstantStepSize()

# Of every fixed step, while the grid of them is made.
_GRID_BYTES = 32

# A local tolerance below the one promised: measured global errors then stay below the promise.
_SAFETY = 0.1


def check_method(solver: Any, controller: Any, first_step: Any, adjoint: Any) -> None:
    """Say in one sentence what is wrong with how a solve shall be done, if something is."""
    for name, given, kind, example in (
        ("solver", solver, diffrax.AbstractSolver, "diffrax.Tsit5()"),
        ("controller", controller, diffrax.AbstractStepSizeController, "diffrax.PIDController(rtol=1e-6, atol=1e-6)"),
        ("adjoint", adjoint, diffrax.AbstractAdjoint, "diffrax.ForwardMode()"),
    ):
        if not isinstance(given, kind) and (given is not None or name == "solver"):
            raise SphereflowError(f"{name} must be an object of diffrax such as {example}, got {given!r}.")
    if isinstance(controller, diffrax.ConstantStepSize):
        if first_step is None:
            raise SphereflowError("a constant step needs its length: give first_step.")
    elif isinstance(controller, diffrax.StepTo):
        if first_step is not None:
            raise SphereflowError("steps at given times have their lengths: leave out first_step.")
    elif not isinstance(solver, diffrax.AbstractAdaptiveSolver):
        raise SphereflowError(
            f"{type(solver).__name__} has no error estimate: give it steps, as in "
            "controller=diffrax.ConstantStepSize(), first_step=0.1."
        )


def local_tolerance(tol: Float[Array, ""], solver: diffrax.AbstractSolver, kinked: bool) -> Float[Array, ""]:
    """The error that a step may make for `tol` to hold at the end.

    Flows with kinks were seen to magnify errors up to 300 times on their way. Methods of high order have that in hand,
    others are given less of the tolerance, by their order.
    """
    order = solver.order(None) or 1  # type: ignore[arg-type]
    return tol * (_SAFETY * (1.0 if not kinked or order > 5 else 0.2 if order > 3 else 0.05))


def step_controller(
    chosen: diffrax.AbstractStepSizeController | None,
    traits: Traits,
    local: Float[Array, ""],
    origin: Float[Array, ""],
    stops: Float[Array, " T"] | None,
    kinked: bool,
) -> diffrax.AbstractStepSizeController:
    """The controller chosen, or one that keeps the local tolerance, made to respect what the field says of itself.

    Steps end at `stops`, times from `origin` on, at the times where the field jumps, and at its kinks if it has any.
    """
    if isinstance(chosen, (diffrax.StepTo, diffrax.ConstantStepSize)):
        return chosen
    found: Any = diffrax.PIDController(rtol=local, atol=local, norm=optimistix.max_norm) if chosen is None else chosen
    if traits.max_step is not None:
        if not isinstance(found, diffrax.PIDController):
            raise SphereflowError(f"this dynamics limits the step, which {type(found).__name__} cannot do.")
        longest = jnp.asarray(traits.max_step, local.dtype)
        found = dataclasses.replace(found, dtmax=longest if found.dtmax is None else jnp.minimum(found.dtmax, longest))
    if kinked:
        found = _at_kinks(found)
    jumps = None if traits.jump_times is None else jnp.asarray(traits.jump_times - origin, local.dtype)
    if stops is None and jumps is None:
        return found
    return diffrax.ClipStepSizeController(found, step_ts=stops, jump_ts=jumps)


def _at_kinks(controller: Any) -> Any:
    if isinstance(controller, diffrax.ClipStepSizeController):  # its stops hold for steps to kinks too
        return eqx.tree_at(lambda clip: clip.controller, controller, _at_kinks(controller.controller))
    return AtKinks(controller=controller)  # type: ignore[call-arg]


def step_grid(
    times: Float[np.ndarray, " T"],
    jumps: Float[np.ndarray, " k"] | None,
    dt: float,
    dtype: str,
    max_steps: int = 100_000,
) -> Float[np.ndarray, " S"]:
    """Times dt apart on the clock of `solve`, from each saved time to the next, which surround every jump.

    A jump of the field lies between two neighbours of it on the grid, so that no step sees much of both sides. Beyond
    the first `max_steps`, after which a solve gives up, times may be further apart.
    """
    start = clock_origin(times, dtype)
    clock = (times - start).astype(dtype)
    if dt < 4 * float(np.finfo(dtype).eps) * float(np.abs(clock).max()):
        raise SphereflowError(f"dt={dt:g} is too short: {dtype} cannot tell the times of such steps apart.")
    sides = (
        [] if jumps is None else [np.nextafter(s, end) for s in (jumps - start).astype(dtype) for end in clock[[0, -1]]]
    )
    stops = np.unique(np.concatenate([clock, np.clip(sides, clock[0], clock[-1])]).astype(dtype))
    counts = np.clip(np.ceil(np.diff(stops) / dt * (1 - 1e-9)), 1, max_steps + 1)
    counts = np.clip(max_steps + 1 - (np.cumsum(counts) - counts), 1, counts).astype(int)
    total = int(counts.sum())
    enough_memory(float(_GRID_BYTES * total), f"a grid of {total} steps", "take longer ones")
    pieces = [a + dt * np.arange(k) for a, k in zip(stops[:-1], counts, strict=True)]
    return np.unique(np.append(np.concatenate(pieces), stops[-1]).astype(dtype))


def clock_origin(times: Any, dtype: Any) -> Any:
    """Where the clock of `solve` starts: at zero if it is as precise as the times, else at the first of them."""
    return times[0] if times.dtype != dtype else times[0] * 0
