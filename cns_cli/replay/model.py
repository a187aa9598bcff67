"""The contracts of a bulk replay: where messages come from, and where they go. ADR 0017 has the decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from cns.archives.model import Archive
from cns.notification import Notification
from cns_common.errors import StartError

PAGE_MESSAGES = 100
"""Messages read, sent and recorded together. A replay that is killed repeats at most as many."""
EXIT_STOPPED = 1


class PastMessage(msgspec.Struct, frozen=True):
    """An archived message. Positions sort in the order of replay."""

    position: str
    notification: Notification


class ReplaySource(Protocol):
    def messages(self, after: str, after_ms: int) -> AsyncIterator[list[PastMessage]]:
        """Pages of at most PAGE_MESSAGES messages behind the position `after`, which was published at `after_ms`."""
        ...


class PastArchive(Protocol):
    """The archived messages of a topic."""

    @property
    def id(self) -> str:
        """The id of a live archive; empty for the table, which has all of them."""
        ...

    @property
    def first_ms(self) -> int:
        """No message was published earlier; ms since the epoch."""
        ...

    def end_ms(self, now_ms: int) -> int:
        """Messages of a replay that begins now were published earlier than this."""
        ...

    def is_whole_in(self, archive: Archive, since_ms: int, until_ms: int) -> bool:
        """Whether the messages published in [since_ms, until_ms) are in this archive of a topic, but for those that it
        keeps no more. Raises StartError where it has some of them alone."""
        ...

    def messages_in(self, since_ms: int, until_ms: int) -> ReplaySource:
        """The messages published in [since_ms, until_ms)."""
        ...


class ReplayDestination(Protocol):
    async def send(self, notifications: Sequence[Notification]) -> int:
        """Send in order; all is durable or answered when this returns. Returns how many were sent.

        Raises ReplayStopped, after which a part of the notifications may have been sent.
        """
        ...


class ReplayStopped(StartError):
    """The destination takes no more messages. The same command continues the replay."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, EXIT_STOPPED)
