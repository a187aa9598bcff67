"""Locks of jobs: one process at a time writes the table of events or the tables of an audit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cns_common.data_directory import lock_directory
from cns_pipeline.arguments import LOCK, Arguments


@contextmanager
def table_lock(arguments: Arguments) -> Iterator[None]:
    """Hold the lock of the table, or raise a StartError. It excludes only writers on this machine."""
    with directory_lock(arguments.local, LOCK):
        yield


@contextmanager
def directory_lock(directory: Path, name: str) -> Iterator[None]:
    """Hold the lock of this name in a directory, or raise a StartError."""
    fd = lock_directory(directory, name)
    try:
        yield
    finally:
        os.close(fd)
