"""A progress bar with an estimate of the time left, on terminals, for work that takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

# A bar that flashes by is noise: it appears only once the work has lasted this long.
_PATIENCE_SECONDS = 1.0


class Bar:
    """Counts finished pieces of work; draws itself once the work has lasted a while."""

    def __init__(self, title: str, total: int, completed: int, shown: bool):
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(title, total=total, completed=completed)
        self._shown, self._drawing, self._began = shown, False, time.monotonic()

    def advance(self, by: int = 1) -> None:
        self._progress.advance(self._task, by)
        if self._shown and not self._drawing and time.monotonic() - self._began > _PATIENCE_SECONDS:
            self._progress.start()
            self._drawing = True

    def close(self) -> None:
        if self._drawing:
            self._progress.stop()


@contextmanager
def progress_bar(title: str, shown: bool | None, *, total: int, completed: int = 0) -> Iterator[Bar]:
    """A bar for `total` pieces of work; `shown=None` means on terminals only."""
    bar = Bar(title, total, completed, sys.stderr.isatty() if shown is None else shown)
    try:
        yield bar
    finally:
        bar.close()
