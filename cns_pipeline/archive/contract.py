"""The contract of drivers that read the archives of topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from cns.archives.model import ArchivedMessage
from cns.topics.topic import Topic


class ArchiveReader(Protocol):
    """A driver for one kind of store."""

    def topics(self) -> Iterator[Topic]:
        """All topics that have an archive."""
        ...

    def days(self, archive_id: str, since_ms: int, until_ms: int) -> list[int]:
        """The days, counted from the epoch, with messages published in [since_ms, until_ms), and perhaps other days."""
        ...

    def messages(self, archive_id: str, since_ms: int, until_ms: int) -> Iterator[ArchivedMessage]:
        """The messages published in [since_ms, until_ms). A message may be returned twice."""
        ...
