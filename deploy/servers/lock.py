"""Serialises commands that would do the same work: the second waits, and finds it done."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory; create the directory if needed."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
