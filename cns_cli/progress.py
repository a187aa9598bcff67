"""A progress bar for long work: on standard error, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn


class Steps:
    """The progress of a task, whose size may be unknown."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, n: float = 1) -> None:
        self._progress.advance(self._task, n)

    def reach(self, done: float, total: float) -> None:
        self._progress.update(self._task, completed=done, total=total)


@contextmanager
def open_steps(what: str, total: float | None = None) -> Iterator[Steps]:
    """Show a bar while the block runs. rich omits colours under NO_COLOR."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        yield Steps(progress, progress.add_task(what, total=total))
