r"""What the sphere and saved times ask of a step, as wrappers around any Runge-Kutta method of diffrax.

`Projected`: back to the sphere after every step, $x \leftarrow y/|y|$. A Runge-Kutta step on the extended field leaves
the sphere by its own error. With error control that is below the tolerance; a fixed step may be coarse, and then the
length would grow from step to step and slow the tokens down. With the projection every method keeps its order, and the
Euler method is the layer map of a Transformer with normalisation after each block.

`Dense`: saved times between two steps are read off the interpolant p of the method, whose order is lower than that of
the steps. Its error e obeys $\dot e = \delta + f'(p)\,e$ with the defect $\delta = \dot p - f(p)$, which one evaluation
of the field measures. It joins the error that the steps are adapted to.
"""

from __future__ import annotations

from typing import Any

import diffrax
import jax
import jax.numpy as jnp

from sphereflow.sphere import normalise

# Where in a step the defect is measured (it is near its largest value there, for every method we have), and the share
# of h times the defect that counts: the error of the interpolant is 0.1 to 0.3 of it, and may be several times the
# local tolerance, which is a tenth of the one promised.
PLACE, SHARE = 0.9, 0.05


class Wrapped(diffrax.AbstractWrappedSolver):
    """A method with something added to its step."""

    solver: diffrax.AbstractSolver  # type: ignore[misc]

    @property
    def term_structure(self) -> Any:
        return self.solver.term_structure

    @property
    def interpolation_cls(self) -> Any:  # type: ignore[override]
        return self.solver.interpolation_cls

    @property
    def scan_kind(self) -> Any:  # diffrax sets it for forward-mode derivatives
        return getattr(self.solver, "scan_kind", "lax")

    @property
    def root_finder(self) -> Any:  # diffrax looks for it in implicit methods
        return self.solver.root_finder  # type: ignore[attr-defined]

    def order(self, terms: Any) -> int | None:
        return self.solver.order(terms)

    def strong_order(self, terms: Any) -> Any:
        return self.solver.strong_order(terms)

    def error_order(self, terms: Any) -> Any:
        return self.solver.error_order(terms)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        return self.solver.init(terms, t0, t1, y0, args)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return self.solver.func(terms, t0, y0, args)


class Projected(Wrapped):
    """A method whose steps end on the sphere."""

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any) -> Any:
        # What the method remembers is the field at y/|y|, which the projection does not change.
        y1, *rest = self.solver.step(terms, t0, t1, y0, args, solver_state, made_jump)
        return normalise(y1), *rest


class Dense(Wrapped):
    """A method whose error estimate covers what lies between its steps."""

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any) -> Any:
        error: Any
        y1, error, between, *rest = self.solver.step(terms, t0, t1, y0, args, solver_state, made_jump)
        interpolant = self.interpolation_cls(t0=t0, t1=t1, **between)
        h = t1 - t0
        t = t0 + PLACE * h
        p, rise = jax.jvp(interpolant.evaluate, (t,), (h,))
        wanted = terms.vf_prod(t, p, args, terms.contr(t0, t1))  # h times the field, also where time runs backwards

        def with_defect(e: Any, r: Any, w: Any) -> Any:
            return jnp.maximum(jnp.abs(e), SHARE * jnp.abs(r - w))

        return y1, jax.tree.map(with_defect, error, rise, wanted), between, *rest
