"""Shows the progress of Spark on a terminal: the tasks of the running stage, and the time since the job began.

It shows nothing if standard error is not a terminal. The line is removed at the end, so that only results stay.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark import SparkContext
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

INTERVAL_S = 0.5
START = "starting Spark"


@contextmanager
def progress_shown(name: str) -> Iterator[None]:
    """Show the progress of the job of this name while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w")  # standard error becomes the log of Java while it starts
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(file=terminal)
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    stopping = threading.Event()
    poll = threading.Thread(target=_poll, args=(bar, name, stopping), name="progress", daemon=True)
    with terminal, bar:
        poll.start()
        try:
            yield
        finally:
            stopping.set()
            poll.join()


def _poll(bar: Progress, name: str, stopping: threading.Event) -> None:
    task = bar.add_task(START, total=None)
    while not stopping.wait(INTERVAL_S):
        context = SparkContext._active_spark_context
        if context is not None:
            total, done = _tasks(context)
            bar.update(task, description=name, total=total or None, completed=done)


def _tasks(context: SparkContext) -> tuple[int, int]:
    """The number of tasks of the running stages, and of those that are done."""
    try:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (Py4JError, OSError):  # the session ends
        return 0, 0
    running = [stage for stage in stages if stage is not None]
    return sum([stage.numTasks for stage in running]), sum([stage.numCompletedTasks for stage in running])
