"""Why a solve ended, in the words the user reads."""

from __future__ import annotations

import enum


class Status(enum.Enum):
    """The outcome of a solve; the value is the sentence shown to the user."""

    REACHED_END = "The final time was reached."
    EVENT = "The event was met before the final time."
    STEP_LIMIT = "The step limit was reached before the final time: raise max_steps, or loosen tol."
    NOT_FINITE = "The tokens stopped being finite numbers: the field overflows, or the step is too large."
    INTERRUPTED = "The run was interrupted; the frames up to then are kept."

    @property
    def complete(self) -> bool:
        """Whether the run did what was asked."""
        return self in (Status.REACHED_END, Status.EVENT)
