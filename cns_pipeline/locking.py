"""Locks of jobs: one process at a time writes the table of events, or the tables of an audit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cns_common.data_directory import lock_directory
from cns_pipeline.arguments import LOCK, Arguments


@contextmanager
def table_lock(arguments: Arguments) -> Iterator[None]:
    """Hold the lock, or raise a StartError. Of a table elsewhere it keeps only this machine's other writers away."""
    with directory_lock(arguments.local, LOCK):
        yield


@contextmanager
def directory_lock(directory: Path, name: str) -> Iterator[None]:
    """Hold the directory's lock of this name, or raise a StartError."""
    fd = lock_directory(directory, name)
    try:
        yield
    finally:
        os.close(fd)
