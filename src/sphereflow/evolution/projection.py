r"""Back to the sphere after every step: $x \leftarrow y/|y|$.

A Runge-Kutta step on the extended field leaves the sphere by its own error. With error control that is below the
tolerance; a fixed step may be coarse, and then the length would grow from step to step and slow the tokens down. With
the projection every method keeps its order, and the Euler method is the layer map of a Transformer with
normalisation after each block.
"""

from __future__ import annotations

from typing import Any

import diffrax

from sphereflow.sphere import normalise


class Projected(diffrax.AbstractWrappedSolver):
    """A solver whose steps end on the sphere."""

    solver: diffrax.AbstractSolver  # type: ignore[misc]

    @property
    def term_structure(self) -> Any:
        return self.solver.term_structure

    @property
    def interpolation_cls(self) -> Any:  # type: ignore[override]
        return self.solver.interpolation_cls

    def order(self, terms: Any) -> int | None:
        return self.solver.order(terms)

    def strong_order(self, terms: Any) -> Any:
        return self.solver.strong_order(terms)

    def error_order(self, terms: Any) -> Any:
        return self.solver.error_order(terms)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        return self.solver.init(terms, t0, t1, y0, args)

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any) -> Any:
        # What the solver remembers is the field at y/|y|, which the projection does not change.
        y1, *rest = self.solver.step(terms, t0, t1, y0, args, solver_state, made_jump)
        return normalise(y1), *rest

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return self.solver.func(terms, t0, y0, args)
