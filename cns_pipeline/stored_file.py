"""A file as every file system of the tables lists it."""

from __future__ import annotations

from dataclasses import dataclass

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
