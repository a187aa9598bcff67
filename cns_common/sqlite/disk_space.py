"""Room on the store's disk: a reserve file whose room is released when the disk is full, so that deletes still work."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw
import structlog

RESERVE_FILE = "reserve"
RESERVE_BYTES = 16 * 1024 * 1024
RESERVE_SHARE = 8
"""On a small disk the reserve takes at most one part in this many."""
ROOM_BYTES = 1024 * 1024
"""This much must be free beside the reserve before it is made again and writes that grow the store are accepted."""
ROOM_BESIDE_LOG_BYTES = 8 * 1024 * 1024
"""While less than this is free besides the room that a checkpoint may take, each commit copies the log back."""
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_COMMIT_ERRORS = (apsw.SQLITE_IOERR_WRITE,)
"""Codes, besides SQLITE_FULL, of a commit that found no room and was not made. Neither a failed sync nor an index
without room is among them: after those the commit may be in the log."""
_WRITE_ERRORS = (
    *_COMMIT_ERRORS,
    apsw.SQLITE_IOERR_TRUNCATE,
    apsw.SQLITE_IOERR_SHMSIZE,
    apsw.SQLITE_IOERR_SHMOPEN,
    apsw.SQLITE_CANTOPEN,
)

log = structlog.get_logger(__name__)


def is_full(error: BaseException, connection: apsw.Connection | None = None, *, committing: bool = False) -> bool:
    """Whether a write was refused for lack of space. `connection` raised the apsw error, if it is still open."""
    if isinstance(error, OSError):
        return error.errno in _FULL_ERRNOS
    if isinstance(error, apsw.FullError):
        return True
    code = getattr(error, "extendedresult", 0)
    codes = _COMMIT_ERRORS if committing else _WRITE_ERRORS
    return connection is not None and code in codes and connection.system_errno in _FULL_ERRNOS


class DiskSpace:
    """Decides which writes the store's disk has room for.

    While `refusing`, only writes that do not grow the store are accepted. `reason` tells a person why; it is '' again
    once a write has succeeded after `refusing` ended.
    """

    def __init__(self, directory: Path, free_bytes: Callable[[Path], int] | None = None) -> None:
        self._directory = directory
        self._path = directory / RESERVE_FILE
        self._free_bytes = free_bytes or _free_bytes
        self._reserve_bytes = 0
        self._lacks_reserve = False
        self._has_been_full = False  # since the reserve was made last
        self.refusing = False
        self.reason = ""

    def keep_reserve(self, reserve_bytes: int) -> None:
        """Have a reserve of this size from now on, as soon as there is room for it; 0 is none."""
        self._reserve_bytes = min(reserve_bytes, _disk_bytes(self._directory) // RESERVE_SHARE)
        self._lacks_reserve = self._reserve_bytes > 0
        if self._lacks_reserve and not self._make_reserve() and self._path.exists():
            self.mark_full()  # an earlier process released it, and no other room is left
        elif not self._lacks_reserve and self._reserve_bytes == 0:
            self._path.unlink(missing_ok=True)

    def release_reserve(self) -> None:
        """Free the reserve's bytes. The empty file tells later processes that this was needed."""
        with suppress(OSError):
            os.truncate(self._path, 0)
        self._lacks_reserve = self._reserve_bytes > 0

    def has_room_for_checkpoint(self, log_bytes: int, commit_bytes_max: int) -> bool:
        """Whether there is room to copy the log back into the store, whose file may grow by as much, and for two more
        commits of the largest size."""
        return self._free_bytes(self._directory) >= log_bytes + max(2 * commit_bytes_max, ROOM_BESIDE_LOG_BYTES)

    def is_nearly_full(self) -> bool:
        """Whether growing writes should end before one fails.

        Always False from the first full disk until the reserve is made again.
        """
        return not self._has_been_full and self._free_bytes(self._directory) < ROOM_BYTES

    @property
    def needs_check(self) -> bool:
        """Whether `check` may change anything."""
        return self.refusing or self._lacks_reserve

    def mark_full(self) -> bool:
        """Call this when a write was refused for lack of space. Returns False when writes are being refused already."""
        is_news = not self.refusing
        self.refusing = self._has_been_full = True
        if not self.reason:
            log.error("store.disk_filled", free_bytes=self._free_bytes(self._directory))
        self.reason = "the disk is full: what would grow the store is refused, deletes and purges are not"
        self.release_reserve()
        return is_news

    def check(self, unused_bytes: Callable[[], int]) -> None:
        """Set `refusing` by the room on the disk, or at least within the store, which has `unused_bytes`."""
        free_bytes = self._free_bytes(self._directory)
        if free_bytes >= self._reserve_bytes + ROOM_BYTES and (not self._lacks_reserve or self._make_reserve()):
            self.refusing = self._has_been_full = False
        elif self._has_been_full:
            # The store's file does not shrink, but deleted rows leave free pages in it. The refusal begins again at
            # half of the room that ends it, so that it does not begin again with the next write.
            enough_bytes = max(self._reserve_bytes, ROOM_BYTES)
            if unused_bytes() < (enough_bytes if self.refusing else enough_bytes // 2):
                self.mark_full()
            else:
                self.refusing = False

    def mark_written(self) -> None:
        """Call this when a write that may grow the store has succeeded."""
        if self.reason and not self.refusing:
            self.reason = ""
            log.info("store.space_recovered")

    def _make_reserve(self) -> bool:
        """Make the reserve if there is room for it and ROOM_BYTES more; returns whether it exists."""
        try:
            if self._path.stat().st_size == self._reserve_bytes:
                self._lacks_reserve = False
                return True
        except OSError:
            pass  # there is no reserve
        if self._free_bytes(self._directory) < self._reserve_bytes + ROOM_BYTES:
            return False
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, self._reserve_bytes)
            finally:
                os.close(fd)
        except OSError as error:
            log.warning("store.reserve_failed", error=error.strerror)
            with suppress(OSError):
                os.truncate(self._path, 0)
            return False
        self._lacks_reserve = False
        return True


def _free_bytes(directory: Path) -> int:
    """The room that this user may still fill; 0 when it is unknown."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize


def _disk_bytes(directory: Path) -> int:
    try:
        disk = os.statvfs(directory)
    except OSError:
        return 0
    return disk.f_blocks * disk.f_frsize
