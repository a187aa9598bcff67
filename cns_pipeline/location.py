"""The location of a file or directory: a local path, or a URL of one of Hadoop's file systems."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_FILE = "file"


@dataclass(frozen=True, slots=True)
class Location:
    """`text` is an absolute path, or a URL such as `hdfs://host/tables`, as Spark takes it. See `located`."""

    text: str

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.text.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        return self.text.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Location:
        return Location(self.text.rstrip("/").rpartition("/")[0] or "/")

    @property
    def scheme(self) -> str:
        """The scheme of the URL; empty for a path."""
        found = _SCHEME.match(self.text)
        return found[1].lower() if found else ""

    @property
    def local(self) -> Path | None:
        """The path on this machine; None for a URL of another scheme than `file:`."""
        if self.scheme == _FILE:
            return Path(urlsplit(self.text).path)
        return None if self.scheme else Path(self.text)


def located(at: Location | Path | str) -> Location:
    """Make a relative path absolute, since the tasks of a cluster run in another working directory."""
    if isinstance(at, Location):
        return at
    text = str(at)
    return Location(text.rstrip("/") if _SCHEME.match(text) else str(Path(text).absolute()))


def from_encoded(url: str) -> str:
    """Decode a URL of Spark's logs and `_metadata`, such as `file:///a%20b`; a local one becomes a path."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    return path if parts.scheme == _FILE else f"{parts.scheme}://{parts.netloc}{path}"
