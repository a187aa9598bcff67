"""A SQLite VFS that logs all writes and syncs of all files in one order.

`lab.faults.power.disk` derives from the log what a disk may hold after a power cut at any position. Not recorded: the
shared-memory index, which does not outlive its processes, and files that are not SQLite's (lock, master key).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


@dataclass(frozen=True, slots=True)
class EntryChange:
    """The directory's entry `name` now names the file with number `file`; with None, it was removed."""

    name: str
    file: int | None


@dataclass(frozen=True, slots=True)
class Write:
    file: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    file: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Everything written to `file` before position `since` is on the disk."""

    file: int
    since: int


@dataclass(frozen=True, slots=True)
class DirectorySync:
    """Every directory entry made or removed before position `since` is on the disk."""

    since: int


Record = EntryChange | Write | Truncate | Sync | DirectorySync


class Log:
    """Events in order. A change is logged before its effect, a sync after it: a cut between allows both outcomes."""

    def __init__(self, base: dict[str, bytes] | None = None) -> None:
        self.base = base or {}
        self.records: list[Record] = []
        self.names: dict[int, str] = dict(
            enumerate(self.base)
        )  # contents at the start, of every file that ever existed
        self.entries: dict[str, int] = {name: file for file, name in self.names.items()}
        self._under_way: dict[int, set[int]] = {}  # positions of changes that are not finished yet, by any thread
        self._lock = threading.Lock()

    @property
    def position(self) -> int:
        return len(self.records)

    @contextmanager
    def changing(self, change: Write | Truncate) -> Iterator[None]:
        """Record the change and then, in the block, make it."""
        with self._lock:
            position = len(self.records)
            self.records.append(change)
            self._under_way.setdefault(change.file, set()).add(position)
        yield
        with self._lock:
            self._under_way[change.file].discard(position)

    def covered(self, file: int) -> int:
        """A sync of `file` that begins now covers what was recorded before this position."""
        with self._lock:
            return min(self._under_way.get(file, ()), default=len(self.records))

    def file(self, name: str) -> int:
        """The number of the last file with this name."""
        return max(file for file, its_name in self.names.items() if its_name == name)

    def link(self, name: str) -> int:
        """The number of the file with this name; makes an entry if there is none."""
        file = self.entries.get(name)
        if file is None:
            file = self.entries[name] = len(self.names)
            self.names[file] = name
            self.records.append(EntryChange(name, file))
        return file

    def unlink(self, name: str) -> None:
        if self.entries.pop(name, None) is not None:
            self.records.append(EntryChange(name, None))


class RecordingVfs(apsw.VFS):
    """Registered under `name` until `unregister`. `syncs_count=False` makes a disk that lies about its syncs."""

    def __init__(self, name: str, log: Log, *, syncs_count: bool = True) -> None:
        super().__init__(name, "")
        self._log = log
        self._syncs_count = syncs_count

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> RecordedFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "temporary files stay in memory"
        opened = RecordedFile(name, flags, self._log, syncs_count=self._syncs_count)
        opened.file = self._log.link(Path(path).name)
        return opened

    def xDelete(self, name: str, syncdir: bool) -> None:
        self._log.unlink(Path(name).name)
        since = self._log.position
        super().xDelete(name, syncdir)
        if syncdir and self._syncs_count:
            self._log.records.append(DirectorySync(since))


class RecordedFile(apsw.VFSFile):
    """Logs calls and forwards them to the operating system's file."""

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], log: Log, *, syncs_count: bool) -> None:
        # SQLite syncs the directory with a new journal's first sync (os_unix.c, UNIXFILE_DIRSYNC)
        self._directory_too = bool(flags[0] & _JOURNALS and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__("", name, flags)
        self._log = log
        self._syncs_count = syncs_count
        self.file = -1

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._log.changing(Write(self.file, offset, bytes(data))):
            super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        with self._log.changing(Truncate(self.file, newsize)):
            super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        since, directory_since = self._log.covered(self.file), self._log.position
        super().xSync(flags)
        if not self._syncs_count:
            return
        self._log.records.append(Sync(self.file, since))
        if self._directory_too:
            self._directory_too = False
            self._log.records.append(DirectorySync(directory_since))
