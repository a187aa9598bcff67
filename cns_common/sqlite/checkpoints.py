"""Checkpoints: the write-ahead log is copied back into the store's file once it is long, beside running commits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from cns_common.process.kill_points import STORE_CHECKPOINT, kill_point
from cns_common.sqlite.disk_space import DiskSpace, is_full
from cns_common.sqlite.opening import PAGE_BYTES, connect

CHECKPOINT_PAGES = 4096
"""The length of the log, 16 MiB, at which a checkpoint begins."""
CHECKPOINT_PAGES_FULL = 256
"""The same while the disk is full: the log must not grow."""


class Checkpointer:
    """A thread copies the log but for its newest frames, the next commit copies these, and then the log starts over.

    On a disk that is nearly full, each commit copies the log back itself. `on_full` is called in the thread when the
    disk has no room for a copy.
    """

    def __init__(self, path: Path, vfs: str | None, space: DiskSpace, on_full: Callable[[], None]) -> None:
        self._path = path
        self._vfs = vfs
        self._space = space
        self._on_full = on_full
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._requested = False
        self._finishes = False
        self._copying = threading.Lock()
        self._pages_before = 0
        self._commit_pages_max = 0
        self.wal_pages = 0
        self._lacks_room = False
        self.disk_is_full = False
        """Whether a commit found no room to copy the log back. The database handles that, and sets it to False."""

    @property
    def is_due(self) -> bool:
        """Whether the next commit may copy the log back, which takes long."""
        return self._finishes or self._lacks_room

    def request(self) -> None:
        """Begin a checkpoint, unless one is under way."""
        if not self._requested:
            self._requested = True
            self._requests.put(True)

    def stop(self) -> None:
        """End `run`."""
        self._requests.put(False)

    def count_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """SQLite calls this within each commit (the WAL hook)."""
        self.wal_pages = pages
        if pages >= (CHECKPOINT_PAGES_FULL if self._space.needs_check else CHECKPOINT_PAGES):
            self.request()
        return apsw.SQLITE_OK

    def after_commit(self, connection: apsw.Connection, *, committed: bool) -> None:
        """Call this where the commit ran, after each try."""
        if committed:
            self._keep_room_for_log(connection)
        if self._finishes:
            self._finishes = False
            kill_point(STORE_CHECKPOINT)
            with suppress(apsw.Error):  # the commit stays valid, and a later commit requests another checkpoint
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._requested = False

    def run(self) -> None:
        """The thread: a pass for each request, until `stop`."""
        connection = connect(str(self._path), self._vfs)
        while self._requests.get():
            try:
                with self._copying:
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._finishes = True
            except apsw.Error as error:  # the log grows on, and the next commit requests another checkpoint
                self._requested = False
                if is_full(error, connection):
                    self._on_full()
        connection.close()

    def _keep_room_for_log(self, connection: apsw.Connection) -> None:
        """On a disk that is nearly full, copy the log back before the next commit. A log that is larger than the room
        left could not be copied back any more, and then not even a delete could be written."""
        commit_pages = self.wal_pages - self._pages_before
        self._pages_before = self.wal_pages
        self._commit_pages_max = max(self._commit_pages_max, commit_pages)
        self._lacks_room = not self._space.has_room_for_checkpoint(
            self.wal_pages * PAGE_BYTES, self._commit_pages_max * PAGE_BYTES
        )
        if not self._lacks_room:
            return
        try:
            with self._copying:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:  # the next commit tries again
            self.disk_is_full = is_full(error, connection)
        self.disk_is_full = self.disk_is_full or self._space.is_nearly_full()
