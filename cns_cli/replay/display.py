"""Shows the progress of a replay on standard error: a bar on a terminal, otherwise lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cns.delivery.envelope import timestamp_text
from cns_cli.replay.progress import Progress

LINE_EVERY_MESSAGES = 10_000

Show = Callable[[Progress], None]


@contextmanager
def progress_display(first_ms: int, until_ms: int) -> Iterator[Show]:
    """Show the progress by publish time, from the first message to the end of the period."""
    if sys.stderr.isatty():
        with _bar(first_ms, until_ms) as show:
            yield show
    else:
        yield _lines()


@contextmanager
def _bar(first_ms: int, until_ms: int) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        total = max(until_ms - first_ms, 1)
        task = bar.add_task("0 messages", total=total)

        def show(progress: Progress) -> None:
            bar.update(task, completed=progress.at_ms - first_ms, description=describe(progress))

        yield show
        bar.update(task, completed=total)  # the last message is older than the end of the period


def _lines() -> Show:
    shown = -1

    def show(progress: Progress) -> None:
        nonlocal shown
        if shown < 0:
            shown = progress.read // LINE_EVERY_MESSAGES
        if progress.read // LINE_EVERY_MESSAGES > shown:
            shown = progress.read // LINE_EVERY_MESSAGES
            print(f"{describe(progress)}, up to {timestamp_text(progress.at_ms)}", file=sys.stderr, flush=True)

    return show


def warn(text: str) -> None:
    """Print a line above the bar."""
    print(f"cns: {text}", file=sys.stderr, flush=True)


def describe(progress: Progress) -> str:
    return f"{progress.sent} of {progress.read} messages"
