"""The data directory: made when it is missing, and locked, so that one process at a time has the use of it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from common.errors import StartError

EXIT_DATA_IN_USE = 73
EXIT_DATA_UNUSABLE = 74


def lock_directory(directory: Path, name: str) -> int:
    """Hold the directory's lock of this name until the file descriptor returned is closed."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise StartError(f"{directory} is in use by another cns (process {owner})", EXIT_DATA_IN_USE) from None
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        os.close(fd)
        raise _unusable(directory, error) from error
    return fd


def _unusable(directory: Path, error: OSError) -> StartError:
    return StartError(f"cannot write to the data directory {directory}: {error.strerror}", EXIT_DATA_UNUSABLE)
