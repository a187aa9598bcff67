"""The contract of file systems for tables, and the entry of their listings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cns_pipeline.location import Location

NEW = ".new"
"""The suffix of a file that is being written."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a directory: its path from there, and its size."""

    path: str
    size_bytes: int


def is_visible(path: str) -> bool:
    """Whether Spark reads a file at this path below a table."""
    return not any(name.startswith(("_", ".")) for name in path.split("/"))


class FileStore(Protocol):
    """Operations of every file system. A missing file raises FileNotFoundError, other failures OSError or Py4JError."""

    def exists(self, at: Location) -> bool: ...

    def names(self, directory: Location) -> list[str]:
        """Names in a directory, sorted; empty for a missing directory."""
        ...

    def files(self, directory: Location) -> list[StoredFile]:
        """All files below a directory that Spark does not ignore: no part of the path begins with `_` or `.`."""
        ...

    def modified_ms(self, at: Location) -> int: ...

    def read(self, file: Location) -> bytes: ...

    def write(self, file: Location, data: bytes) -> None:
        """Write the whole file or nothing, also over an existing file; create its directory."""
        ...

    def create(self, file: Location, data: bytes) -> None:
        """As `write`, but raise FileExistsError if the file exists."""
        ...

    def rename(self, source: Location, target: Location) -> None:
        """Atomic, except on object stores, which copy a directory file by file."""
        ...

    def delete(self, at: Location) -> None:
        """Delete a file, or a directory with its content. A missing one is no error."""
        ...

    def make_directory(self, directory: Location) -> None: ...

    def sync(self, directory: Location) -> None:
        """Make written files below a directory durable, where the file system leaves that to the caller."""
        ...
