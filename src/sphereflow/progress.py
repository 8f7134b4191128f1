"""A progress bar with an estimate of the time left, on terminals and in notebooks, for work that takes long.

`progress=` of every function: None (a bar where someone looks), True or False, or a function that is called with the
share of the work done and a few words.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

Report = Callable[[float, str], None]
Progress = bool | Report | None

# A bar that flashes by is noise: it appears only once the work has lasted this long.
_PATIENCE_SECONDS = 1.0

# The estimate of the time left averages over this much of the past: pieces of work differ in length.
_MEMORY_SECONDS = 600.0

_bars: list[Bar] = []

# Set while a command was asked to be quiet.
silent = False


# A notebook is told at most so often.
_BETWEEN_SECONDS = 0.25


def in_notebook() -> bool:
    """Whether this process serves the cells of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class _Cell:
    """A bar in the cell of a notebook, drawn by the browser."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._last = 0.0

    def show(self, task: Task) -> None:
        from IPython.display import HTML, display

        if self._handle is not None and time.monotonic() - self._last < _BETWEEN_SECONDS:
            return
        self._last = time.monotonic()
        left = "" if task.time_remaining is None else f", {task.time_remaining:.0f} s left"
        words = f"{html.escape(task.description)}: {task.completed:.0f} of {task.total or 0:.0f}{left}"
        bar = HTML(f'<progress value="{task.completed}" max="{task.total}"></progress> {words}')
        if self._handle is None:
            self._handle = display(bar, display_id=True)
        else:
            self._handle.update(bar)

    def close(self) -> None:
        from IPython.display import HTML

        if self._handle is not None:
            self._handle.update(HTML(""))
            self._handle = None


class Bar:
    """Counts finished pieces of work; draws itself on the error stream once the work has lasted a while.

    Where there is a `report`, it is called instead.
    """

    def __init__(
        self, title: str, total: int, completed: int, shown: bool, patience: float, report: Report | None = None
    ):
        self._progress = RichProgress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            console=Console(stderr=True),
            transient=True,
            expand=True,
            redirect_stdout=False,
            redirect_stderr=False,
            speed_estimate_period=_MEMORY_SECONDS,
        )
        self._task = self._progress.add_task(title, total=total, completed=completed)
        self._shown, self._drawing, self._report = shown, False, report
        self._due = time.monotonic() + patience
        self._cell = _Cell() if shown and in_notebook() else None

    def advance(self, by: int = 1) -> None:
        self._progress.advance(self._task, by)
        self._update()

    def move_to(self, completed: float, title: str) -> None:
        """Say how many pieces are done, parts of one included, and what is being done now."""
        self._progress.update(self._task, completed=completed, description=title)
        self._update()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while something else is printed; it comes back with the next piece of work."""
        self.close()
        yield

    def close(self) -> None:
        if self._cell is not None:
            self._cell.close()
        if self._drawing:
            self._progress.stop()
            self._drawing = False

    def _update(self) -> None:
        if self._report is not None:
            [task] = self._progress.tasks
            self._report(task.completed / max(task.total or 0, 1), task.description)
        if not self._shown or time.monotonic() < self._due:
            return
        if self._cell is not None:
            self._cell.show(self._progress.tasks[0])
        elif not self._drawing:
            self._progress.start()
            self._drawing = True


@contextmanager
def progress_bar(
    title: str, progress: Progress, *, total: int, completed: int = 0, patience: float = _PATIENCE_SECONDS
) -> Iterator[Bar]:
    """A bar for `total` pieces of work.

    There is one bar at a time: work that is a piece of other work stays silent.
    """
    report = progress if callable(progress) else None
    wanted = (sys.stderr.isatty() or in_notebook()) if progress is None else report is None and bool(progress)
    bar = Bar(title, total, completed, wanted and not (_bars or silent), patience, report)
    _bars.append(bar)
    try:
        yield bar
    finally:
        _bars.pop()
        bar.close()


@contextmanager
def reporting(title: str, progress: Progress) -> Iterator[Report]:
    """A function of the share of the work done and a few words, for work that is not made of equal pieces."""
    with progress_bar(title, progress, total=1000) as bar:
        yield lambda share, words: bar.move_to(1000 * share, words)
