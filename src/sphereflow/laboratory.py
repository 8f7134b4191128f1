"""`simulate`: draw tokens and let attention move them, to a given time or until all are in one cluster."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from sphereflow.dynamics import SA, USA, Dynamics
from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.evolution import FRAMES, evolve
from sphereflow.interaction.choice import METHODS
from sphereflow.kernels import KERNEL_SCALES
from sphereflow.parameters import model_name
from sphereflow.progress import Progress
from sphereflow.seeds import Seed
from sphereflow.sphere import draw


def simulate(
    n: int = 64,
    d: int = 3,
    beta: float = 1.0,
    t1: float | str = 10.0,
    *,
    model: str | Dynamics = "sa",
    causal: bool = False,
    start: str = "uniform",
    seed: Seed = 0,
    saves: int = FRAMES,
    tol: float = 1e-8,
    kernel_scale: str = "peak",
    method: str = "auto",
    solver: str = "dopri8",
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress = None,
) -> Any:
    """Draw n tokens on S^{d-1} and let attention move them until t1.

    **Arguments:**

    - `model`: "sa" (softmax) or "usa" (unnormalised, kernel exp(beta(<x,y>-1)); `kernel_scale="raw"` for
      exp(beta<x,y>)); `causal` lets tokens look back only. Or any dynamics; `beta`, `causal` and `kernel_scale` then
      stay out, since it has its own.
    - `start`: one of uniform, hemisphere, vmf, orthogonal, mixture, fibonacci, grid; `seed`: a number or a JAX key.
    - `saves`: the number of frames; `tol`, `method`, `solver`, `out`, `overwrite` and `progress` as for `evolve`.

    `t1="inf"` runs until everything is one cluster, however long that takes (times of e^1000 are no problem), and
    returns the history of mergers instead of a trajectory; `out` is then a checkpoint (a JSON file) from which an
    interrupted run goes on. There are no frames and all pairs are summed, so other `saves`, `method` and
    `solver` are refused, and `overwrite`.

    **Returns:** a `Trajectory`, or a `MergeHistory` if `t1="inf"`.

    ```python
    import sphereflow as sf
    run = sf.simulate(n=64, d=3, beta=9.0, t1=30.0)
    run.cluster_count()[-1]
    sf.simulate(n=5, d=2, beta=200.0, t1="inf").merges
    ```
    """
    if isinstance(model, Dynamics):
        name, beta = _of_dynamics(model, beta, causal, kernel_scale)
    else:
        name = model_name(model)
    one_of("kernel_scale", kernel_scale, KERNEL_SCALES)
    one_of("method", method, METHODS)
    n, d = whole_number("n", n, most=10**8), whole_number("d", d, most=10**5)
    beta = real_number("beta", beta, least=0, most=700 if kernel_scale == "raw" and name == "usa" else 1e6)
    whole_number("saves", saves, least=2)
    if isinstance(t1, float) and t1 == math.inf:
        t1 = "inf"
    if not isinstance(causal, (bool, np.bool_)):
        raise SphereflowError(f"causal must be True or False, got {causal!r}.")
    if isinstance(t1, str):
        _refuse_what_needs_an_end(t1, causal, kernel_scale, saves, method)
        if solver != "dopri8" or overwrite:
            raise SphereflowError("a run to the single cluster (t1='inf') takes neither solver nor overwrite.")
    else:
        real_number("t1", t1, above=0)
    x0 = draw(start, n, d, seed)
    if isinstance(t1, str):
        from sphereflow.metastability import coarsen_to_one  # most runs do without it, and start sooner

        return coarsen_to_one(model, x0, beta, tol=tol, checkpoint=out, seed=seed, progress=progress)
    parameters: dict[str, Any] = {"n": n, "d": d, "beta": beta, "t1": t1, "model": name, "start": start}
    dynamics = model
    if isinstance(dynamics, str):
        options: dict[str, Any] = {"causal": bool(causal), "kernel_scale": kernel_scale}
        dynamics = (SA if name == "sa" else USA)(beta, **options)
        parameters |= options
    run: dict[str, Any] = {"saveat": saves, "tol": tol, "method": method, "out": out, "progress": progress}
    run |= {"solver": solver, "overwrite": overwrite}
    return evolve(dynamics, x0, t1, seed=seed, parameters=parameters, **run)


def _of_dynamics(model: Dynamics, beta: float, causal: bool, kernel_scale: str) -> tuple[str, float]:
    """What to call a dynamics that was given as an object, and its beta, 1 if it has none."""
    if beta != 1.0 or causal or kernel_scale != "peak":
        raise SphereflowError("beta, causal and kernel_scale belong to the model: leave them out.")
    return type(model).__name__, float(getattr(model, "beta", 1.0))


def _refuse_what_needs_an_end(t1: str, causal: bool, kernel_scale: str, saves: int, method: str) -> None:
    """A run to the single cluster takes no argument that it would have to ignore."""
    if t1 != "inf":
        raise SphereflowError(f"t1 must be a number or 'inf', got {t1!r}.")
    if causal or kernel_scale == "raw":
        raise SphereflowError("a run to the single cluster (t1='inf') is for attention without mask, peak kernel.")
    if saves != FRAMES:
        raise SphereflowError(f"a run to the single cluster (t1='inf') has no frames: leave out saves={saves}.")
    if method not in ("auto", "direct"):
        raise SphereflowError(
            f"a run to the single cluster (t1='inf') sums all pairs: method must be auto or direct, got {method!r}."
        )
