"""The data directory: made if it is missing, and locked, so that one process at a time uses it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from cns_common.errors import StartError

EXIT_DATA_IN_USE = 73
EXIT_DATA_UNUSABLE = 74
EXIT_DATA_FULL = 79
"""The disk has no room. The supervisor tries again, as room may be made."""
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)


def lock_directory(directory: Path, name: str) -> int:
    """Hold the directory's lock of this name until the file descriptor returned is closed."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(f"cannot write to the data directory {directory}", error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise StartError(f"{directory} is in use by another cns (process {owner})", EXIT_DATA_IN_USE) from None
    owner_line = f"{os.getpid()}\n".encode()
    try:
        os.pwrite(fd, owner_line, 0)
        os.ftruncate(fd, len(owner_line))
    except OSError as error:
        if error.errno not in _FULL_ERRNOS:  # on a full disk the lock holds without the owner's number
            os.close(fd)
            raise unusable(f"cannot write to the data directory {directory}", error) from error
    return fd


def lock_owner(directory: Path, name: str) -> int:
    """The process that holds the directory's lock of this name; 0 if nobody does."""
    try:
        fd = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return int(os.pread(fd, 32, 0) or b"0")
    finally:
        os.close(fd)
    return 0


def unusable(what: str, error: OSError) -> StartError:
    """The error that ends a start. Its exit code distinguishes a full disk from faults that only a person can mend."""
    code = EXIT_DATA_FULL if error.errno in _FULL_ERRNOS else EXIT_DATA_UNUSABLE
    return StartError(f"{what}: {error.strerror or error}", code)


def sync_directory(directory: Path) -> None:
    """Make new, renamed and removed entries durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
