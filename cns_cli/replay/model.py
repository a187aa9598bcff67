"""The contracts of a bulk replay: the source and the destination of messages (ADR 0017)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from cns.archives.model import Archive
from cns.notification import Notification
from cns_common.errors import StartError

PAGE_MESSAGES = 100
"""The number of messages that are read, sent and recorded together: a killed replay repeats at most these."""
EXIT_STOPPED = 1


class PastMessage(msgspec.Struct, frozen=True):
    """An archived message. Positions sort in the order of replay."""

    position: str
    notification: Notification


class ReplaySource(Protocol):
    def messages(self, after: str, after_ms: int) -> AsyncIterator[list[PastMessage]]:
        """Yield pages of at most PAGE_MESSAGES messages after the position `after`, published at `after_ms`."""
        ...


class PastArchive(Protocol):
    """The archived messages of a topic."""

    @property
    def id(self) -> str:
        """The id of a live archive; empty for the table, which has all archives of a topic."""
        ...

    @property
    def first_ms(self) -> int:
        """The lower bound of publish times; ms since the epoch."""
        ...

    def end_ms(self, now_ms: int) -> int:
        """The upper bound of publish times of a replay that begins now."""
        ...

    def is_whole_in(self, archive: Archive, since_ms: int, until_ms: int) -> bool:
        """Whether `archive` has the messages published in [since_ms, until_ms), except expired ones. Raises StartError
        if it has only some of them."""
        ...

    def messages_in(self, since_ms: int, until_ms: int) -> ReplaySource:
        """The messages published in [since_ms, until_ms)."""
        ...


class ReplayDestination(Protocol):
    async def send(self, notifications: Sequence[Notification]) -> int:
        """Send the notifications in order. When this returns, all are durable or answered. Returns how many were sent.

        Raises ReplayStopped: then some of the notifications may have been sent.
        """
        ...


class ReplayStopped(StartError):
    """The destination takes no more messages. The same command continues the replay."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, EXIT_STOPPED)
