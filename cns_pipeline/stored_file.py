"""The contract of the file systems of the tables, and a file as they list it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cns_pipeline.location import Location

NEW = ".new"
"""The ending of a file that is being written."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a directory: its path from there, and its size."""

    path: str
    size_bytes: int


def is_visible(path: str) -> bool:
    """Whether Spark reads a file of this path below a table."""
    return not any(name.startswith(("_", ".")) for name in path.split("/"))


class FileStore(Protocol):
    """Operations of every file system. A missing file raises FileNotFoundError, other failures OSError or Py4JError."""

    def exists(self, at: Location) -> bool: ...

    def names(self, directory: Location) -> list[str]:
        """Names in a directory, sorted; none for a missing one."""
        ...

    def files(self, directory: Location) -> list[StoredFile]:
        """All files below a directory but those that Spark passes over: a part of their path begins with `_` or `.`."""
        ...

    def modified_ms(self, at: Location) -> int: ...

    def read(self, file: Location) -> bytes: ...

    def write(self, file: Location, data: bytes) -> None:
        """Write the whole file or nothing, in place of an earlier one; make its directory."""
        ...

    def create(self, file: Location, data: bytes) -> None:
        """As `write`, but raise FileExistsError if there is a file."""
        ...

    def rename(self, source: Location, target: Location) -> None:
        """Atomic except on object stores, where a directory is copied file by file."""
        ...

    def delete(self, at: Location) -> None:
        """Delete a file or a directory with all below it; a missing one is no error."""
        ...

    def make_directory(self, directory: Location) -> None: ...

    def sync(self, directory: Location) -> None:
        """Make what was written below a directory outlast a power cut, where that is left to the caller."""
        ...
