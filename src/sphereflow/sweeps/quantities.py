"""What a sweep can measure by name: for every area one quantity, from parameters to numbers.

A quantity is evaluated for many cells at once, so that small cells share one compiled call; a cell's numbers depend on
its own parameters alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sphereflow.errors import SphereflowError, one_of, real_number, whole_number
from sphereflow.parameters import model_name

Cell = Mapping[str, Any]
Values = dict[str, np.ndarray]
FAILED = "failed"  # among the values of a shipped quantity: which cells have none, because no solution was found


@dataclass(frozen=True)
class Quantity:
    """Parameters with their defaults (None: must be given), the dimensions of what is returned, and how to get it.

    `evaluate(cells)` returns, for each variable, an array whose first axis counts the cells. `coordinates(fixed)` gives
    the values along the dimensions that a cell has of its own, such as time. `variables` is None where only a first
    call can show, for a function of the user. `batch` is how many cells one call takes. Parameters that decide the
    coordinates are `fixed_only`: all cells share them.
    """

    name: str
    about: str
    parameters: Mapping[str, Any]
    variables: Mapping[str, tuple[str, ...]] | None
    evaluate: Callable[[Sequence[Cell]], Values]
    coordinates: Callable[[Cell], Values] = lambda fixed: {}
    batch: int = 1
    fixed_only: tuple[str, ...] = ()

    @property
    def shipped(self) -> bool:
        """Whether this is one of the package's own, and not a function of the user."""
        return self.variables is not None

    def check_axes(self, names: Sequence[str]) -> None:
        """Refuse axes along which the cells would have coordinates of their own."""
        for name in names:
            if name in self.fixed_only:
                raise SphereflowError(
                    f"'{name}' cannot be an axis of '{self.name}', because it decides at which times all cells are "
                    "measured: fix it, and read values at earlier times off the dimension 't'."
                )

    def completed(self, cell: Cell) -> dict[str, Any]:
        """The cell with defaults filled in; says which name is unknown or missing."""
        for name in cell:
            if name not in self.parameters:
                raise SphereflowError(
                    f"the quantity '{self.name}' has no parameter '{name}'; it has {', '.join(self.parameters)}."
                )
        whole = {**self.parameters, **cell}
        for name, value in whole.items():
            if value is None:
                raise SphereflowError(f"the quantity '{self.name}' needs a value of '{name}', as an axis or fixed.")
        return whole


QUANTITIES: dict[str, Quantity] = {}


def quantity(name: str) -> Quantity:
    """The quantity of this name."""
    return QUANTITIES[one_of("quantity", name, tuple(QUANTITIES))]


def _register(made: Quantity) -> None:
    QUANTITIES[made.name] = made


# --- clustering -----------------------------------------------------------------------------------------------------


def _times(cell: Cell) -> np.ndarray:
    t1 = real_number("t1", cell["t1"], above=0)
    return np.linspace(0.0, t1, whole_number("times", cell["times"], least=2))


def _clustering(cells: Sequence[Cell]) -> Values:
    """Tokens under attention, all cells that share sizes in one call."""
    import jax.numpy as jnp

    from sphereflow.sphere import draw
    from sphereflow.sweeps.replicas import histories

    frames: dict[int, list[np.ndarray]] = {}
    for (model, n, d, start), members in _alike(cells, ("model", "n", "d", "start")).items():
        padded = members + members[-1:] * (round_up(len(members)) - len(members))
        x0 = np.stack(
            [
                np.asarray(draw(start, whole_number("n", n, least=2), whole_number("d", d), cells[i]["seed"]))
                for i in padded
            ]
        )
        beta, tol = (
            np.array([real_number(name, cells[i][name], **limits) for i in padded], dtype=float)
            for name, limits in (("beta", {"least": 0}), ("tol", {"least": 1e-13, "most": 0.1}))
        )
        measured = histories(
            model_name(model),
            jnp.asarray(x0),
            jnp.asarray(beta),
            jnp.asarray(_times(cells[0])),
            jnp.asarray(tol),
        )
        for row, i in enumerate(members):
            frames[i] = [np.asarray(part[row]) for part in measured]
    columns = zip(*(frames[i] for i in range(len(cells))), strict=True)
    return dict(zip(("close_pairs", "mean_overlap", "energy", FAILED), map(np.stack, columns), strict=True))


_register(
    Quantity(
        "clustering",
        "share of token pairs with inner product above 0.999, mean overlap and energy against time",
        {
            "n": 32,
            "d": 2,
            "beta": None,
            "t1": 30.0,
            "times": 61,
            "model": "sa",
            "start": "uniform",
            "seed": 0,
            "tol": 1e-4,
        },
        {"close_pairs": ("t",), "mean_overlap": ("t",), "energy": ("t",)},
        _clustering,
        lambda fixed: {"t": _times(fixed)},
        batch=64,
        fixed_only=("t1", "times"),
    )
)


# --- metastability --------------------------------------------------------------------------------------------------


def _lifetime(cells: Sequence[Cell]) -> Values:
    from sphereflow.metastability import coarsen_to_one
    from sphereflow.sphere import draw

    first, last = [], []
    for cell in cells:
        x0 = draw(cell["start"], whole_number("n", cell["n"], least=2), whole_number("d", cell["d"]), cell["seed"])
        history = coarsen_to_one(cell["model"], x0, cell["beta"], tol=cell["tol"], errors=False, progress=False)
        first.append(history.log_times[0])
        last.append(history.log_times[-1])
    return {"log_first_merger": np.array(first), "log_last_merger": np.array(last)}


_register(
    Quantity(
        "lifetime",
        "logarithm of the time of the first and the last merger of clusters, to t = e^1000 and beyond",
        {"n": 6, "d": 2, "beta": None, "model": "sa", "start": "uniform", "seed": 0, "tol": 1e-8},
        {"log_first_merger": (), "log_last_merger": ()},
        _lifetime,
    )
)


# --- memory ---------------------------------------------------------------------------------------------------------


def _memory(cells: Sequence[Cell]) -> Values:
    """The planes of all kernels that occur, at the loads and temperatures that occur, read off cell by cell."""
    from sphereflow.memory.phases import phase_diagram

    region, escape = np.empty(len(cells)), np.empty(len(cells))
    for (kernel, sharpness, size), members in _alike(cells, ("kernel", "sharpness", "size")).items():
        loads = np.unique([real_number("alpha", cells[i]["alpha"], above=0) for i in members])
        temperatures = np.unique([real_number("temperature", cells[i]["temperature"], above=0) for i in members])
        plane = phase_diagram(kernel, sharpness, loads=loads, temperatures=temperatures, sizes=(size,))
        for i in members:
            at = (np.searchsorted(temperatures, cells[i]["temperature"]), np.searchsorted(loads, cells[i]["alpha"]))
            region[i], escape[i] = plane.region[at], plane.log_escape[size][at]
    return {"region": region, "log_escape_time": escape}


_register(
    Quantity(
        "memory",
        "region of the (alpha, T) plane of a dense associative memory, and ln of the escape time at size N",
        {"kernel": "lse", "sharpness": 1.0, "alpha": None, "temperature": None, "size": 100},
        {"region": (), "log_escape_time": ()},
        _memory,
        batch=1024,
    )
)


# --- retrieval ------------------------------------------------------------------------------------------------------


def _retrieval(cells: Sequence[Cell]) -> Values:
    from sphereflow.retrieval.closed_form import profile

    rows = []
    for cell in cells:
        shape = profile(cell["beta"], cell["slope"], cell["t"], cell["vocab"], readout=cell["readout"])
        worst = shape.minimiser
        low, end = float(shape.score(worst if worst is not None else 1.0)), float(shape.score(1.0))
        rows.append((np.nan if worst is None else worst, low, end / low if low else np.nan))
    table = np.array(rows, dtype=float)
    return {"worst_position": table[:, 0], "worst_score": table[:, 1], "recency": table[:, 2]}


_register(
    Quantity(
        "retrieval",
        "position that causal attention retrieves worst, its score, and the score of the last position over it",
        {"beta": None, "slope": 0.0, "t": None, "vocab": 8, "readout": "soft"},
        {"worst_position": (), "worst_score": (), "recency": ()},
        _retrieval,
        batch=32,
    )
)


# --- landscape ------------------------------------------------------------------------------------------------------


def _landscape(cells: Sequence[Cell]) -> Values:
    from sphereflow.landscape import Problem, maximise, minimise

    rows = []
    for cell in cells:
        problem = Problem.random(
            cell["beta"],
            cell["d"],
            cell["neurons"],
            seed=cell["seed"],
            scale=cell["scale"],
            activation=cell["activation"],
        )
        solve = minimise if one_of("sign", cell["sign"], ("minimise", "maximise")) == "minimise" else maximise
        minimiser = solve(problem)
        rows.append((len(minimiser.masses), minimiser.energy, minimiser.gap, minimiser.masses.max()))
    table = np.array(rows, dtype=float)
    return dict(zip(("atoms", "energy", "gap", "largest_mass"), table.T, strict=True))


_register(
    Quantity(
        "landscape",
        "atoms, energy, proved duality gap and largest mass of the best measure under attention plus perceptron",
        {"beta": None, "d": 2, "neurons": 3, "activation": "relu", "scale": 1.0, "sign": "minimise", "seed": 0},
        {"atoms": (), "energy": (), "gap": (), "largest_mass": ()},
        _landscape,
    )
)


# --- collapse -------------------------------------------------------------------------------------------------------


def _collapse(cells: Sequence[Cell]) -> Values:
    from sphereflow.random_transformers.collapse import Architecture, predict

    predictions = [predict(Architecture(**cell)) for cell in cells]
    return {
        "half_depth": np.array([each.depths[0] for each in predictions]),
        "folding_depth": np.array([each.folding for each in predictions]),
        "final_overlap": np.array([each.final_overlap for each in predictions]),
    }


_register(
    Quantity(
        "collapse",
        "layer at which the mean overlap of a random Transformer reaches one half, e-folding depth, overlap at the end",
        {
            "d": 64,
            "n": 32,
            "layers": 1000,
            "heads": 4,
            "step": 0.1,
            "beta": None,
            "weight_scale": 1.0,
            "value_scale": 1.0,
        },
        {"half_depth": (), "folding_depth": (), "final_overlap": ()},
        _collapse,
    )
)


# --- drifting -------------------------------------------------------------------------------------------------------


def _drifting(cells: Sequence[Cell]) -> Values:
    from sphereflow.drifting.surrogate import iterate

    paths = [iterate(cell["start"], cell["step"], cell["count"], cell["kernel"], cell["width"]) for cell in cells]
    return {
        "distance": np.array([float(path[-1]) for path in paths]),
        "swing": np.array([float(np.ptp(path[-64:])) for path in paths]),
    }


_register(
    Quantity(
        "drifting",
        "distance to the target at which two drifting particles end, and the swing of their last 64 steps",
        {"step": None, "start": 0.05, "count": 2000, "width": 1.0, "kernel": "laplace"},
        {"distance": (), "swing": ()},
        _drifting,
        batch=32,
    )
)


def round_up(count: int) -> int:
    """The next power of two: blocks of any size then share a few compiled programs."""
    return 1 << (count - 1).bit_length()


def _alike(cells: Sequence[Cell], names: tuple[str, ...]) -> dict[tuple[Any, ...], list[int]]:
    """Which cells share the parameters that decide shapes and branches."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, cell in enumerate(cells):
        groups.setdefault(tuple(cell[name] for name in names), []).append(i)
    return groups
