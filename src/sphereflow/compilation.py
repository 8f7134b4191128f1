"""How functions that loop over the layers of a network are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import equinox as eqx

Program = TypeVar("Program", bound=Callable[..., Any])

# Loops over layers run equally fast at the last two levels of the compiler's effort, and are compiled twice as fast.
_EFFORT = {"xla_backend_optimization_level": 2}


def compiled(function: Program) -> Program:
    """The function, compiled once for each structure of its arguments."""
    return cast(Program, eqx.filter_jit(function, compiler_options=_EFFORT))  # type: ignore[call-overload]
