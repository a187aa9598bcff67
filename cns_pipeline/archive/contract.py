"""The contract of the readers of archives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from cns.archives.model import ArchivedMessage
from cns.topics.topic import Topic


class ArchiveReader(Protocol):
    """The driver of one kind of store."""

    def topics(self) -> Iterator[Topic]:
        """All topics that have an archive."""
        ...

    def days(self, archive_id: str, since_ms: int, until_ms: int) -> list[int]:
        """The days, counted from the epoch, with messages published in [since_ms, until_ms); perhaps some more."""
        ...

    def messages(self, archive_id: str, since_ms: int, until_ms: int) -> Iterator[ArchivedMessage]:
        """The messages published in [since_ms, until_ms). One may come twice."""
        ...
