"""The record of a replay on disk: its options and its position. A command that finds it continues the replay."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from cns_common.data_directory import EXIT_DATA_UNUSABLE, lock_directory, sync_directory, unusable
from cns_common.errors import UNREADABLE, StartError

DIRECTORY = "replays"
"""The directory of these files, in the data directory."""
_NAME_CHARS = 16


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """`position`: the last message of the last page that was sent completely. Times are ms since the epoch."""

    id: str
    command: str
    """The options of the replay, for a person who finds the file."""
    since_ms: int
    until_ms: int
    archive: str = ""
    """The id of the live archive; empty: the table."""
    position: str = ""
    at_ms: int = 0
    """The publish time of the message at `position`."""
    read: int = 0
    sent: int = 0
    resumed: int = 0
    """The number of times that the replay was continued."""


class ReplayRecord(Protocol):
    """Stores the progress of a replay."""

    def save(self, progress: Progress) -> None: ...


class ProgressFile(ReplayRecord):
    """A context manager that holds the lock of this replay."""

    def __init__(self, data: Path, command: str) -> None:
        self._directory = data / DIRECTORY
        self._name = hashlib.sha256(command.encode()).hexdigest()[:_NAME_CHARS]
        self.path = self._directory / f"{self._name}.json"
        self._lock_path = self._directory / f"{self._name}.lock"
        self._lock_fd = -1

    def __enter__(self) -> ProgressFile:
        self._lock_fd = lock_directory(self._directory, self._lock_path.name)
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if not self.path.exists():
            self._lock_path.unlink(missing_ok=True)
        os.close(self._lock_fd)
        with contextlib.suppress(OSError):  # other replays have files there
            self._directory.rmdir()

    def load(self) -> Progress | None:
        """Returns None for a new replay."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Progress)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            reason = f"{self.path} cannot be read ({error}): remove it to begin the replay anew"
            raise StartError(reason, EXIT_DATA_UNUSABLE) from error

    def save(self, progress: Progress) -> None:
        """Replace the record durably."""
        written = self.path.with_suffix(".new")
        try:
            with written.open("wb") as file:
                file.write(msgspec.json.encode(progress))
                file.flush()
                os.fsync(file.fileno())
            written.replace(self.path)
            sync_directory(self._directory)
        except OSError as error:
            raise unusable(f"cannot write {self.path}", error) from error

    def remove(self) -> None:
        """Remove the record of a complete replay."""
        self.path.with_suffix(".new").unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
