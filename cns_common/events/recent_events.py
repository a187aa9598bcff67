"""Finds the newest events: about a topic, a subscription or a message, or all of one account, at a bounded cost.

Folders are read from the newest hour back, and each segment from its end, until there are enough events or a number of
bytes was read. A segment that was opened in an earlier hour than its last events is met with that hour.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from cns_common.arn import parse_arn
from cns_common.errors import UNREADABLE
from cns_common.events.reverse_reader import Reach, folders_backwards, lines_backwards
from cns_common.events.schema import (
    SCHEMA_VERSION,
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    Event,
    NotificationDropped,
    NotificationEvent,
    Origin,
    PublishAccepted,
    QueueCounted,
)

BYTES_MAX = 32 * 1024 * 1024
RECENT_BYTES_MAX = 4 * 1024 * 1024
"""The bytes that pages and commands for people read: about 12,000 events, in some 50 ms."""
FOLDERS_MIN = 2
"""The least number of folders that are read: a segment of the hour before may have newer events than one of this
hour."""

DeliveryEvent = DeliveryAttempted | DeliveryDelivered | DeliveryDeadLettered | NotificationDropped
AccountEvent = NotificationEvent | QueueCounted
_decode_event = msgspec.json.Decoder(Event).decode
_decode_delivery = msgspec.json.Decoder(DeliveryEvent).decode
_decode_origin = msgspec.json.Decoder(Origin).decode
_OUTCOMES_WITHOUT = (b'"event":"delivery.dead_lettered"', b'"event":"notification.dropped"')
ALL = (b'"event":"delivery.attempted"', b'"event":"delivery.delivered"', *_OUTCOMES_WITHOUT)
"""Each line of a delivery event has one of these."""
FAILURES = (b'"outcome":"failed"', *_OUTCOMES_WITHOUT)
"""Each line of a failed attempt or of an end without a delivery has one of these."""


class NewestEvents(msgspec.Struct, frozen=True, kw_only=True):
    events: tuple[DeliveryEvent, ...]  # newest first
    complete: bool  # there are no older ones: all that is kept was read
    read_bytes: int
    segments: int


class HasTime(Protocol):
    @property
    def at_ms(self) -> int: ...


Timed = TypeVar("Timed", bound=HasTime)


class Newest(NamedTuple, Generic[Timed]):
    """See `NewestEvents`."""

    events: tuple[Timed, ...]
    complete: bool
    read_bytes: int
    segments: int


def field(name: str, text: str) -> bytes:
    """A member of an event as its line has it. `text` needs no escapes: an ARN, or an id."""
    return f'"{name}":"{text}"'.encode()


def newest_events(
    directories: Sequence[Path],
    needle: bytes,
    marks: Sequence[bytes],
    wanted: Callable[[DeliveryEvent], bool],
    n: int,
    bytes_max: int = BYTES_MAX,
) -> NewestEvents:
    """Up to `n` of the newest delivery events that are `wanted`, of lines with the needle and one of the marks."""
    found: Newest[DeliveryEvent] = newest_of(directories, _read, needle, marks, wanted, n, bytes_max)
    return NewestEvents(
        events=found.events, complete=found.complete, read_bytes=found.read_bytes, segments=found.segments
    )


def newest_of(
    directories: Sequence[Path],
    read: Callable[[bytes], Timed | None],
    needle: bytes,
    marks: Sequence[bytes],
    wanted: Callable[[Timed], bool],
    n: int,
    bytes_max: int,
) -> Newest[Timed]:
    """As `newest_events`, for events that `read` makes of lines; None for another line."""
    reach = Reach(bytes_max)
    newest: list[tuple[int, int, Timed]] = []
    segments = found = 0
    complete = True
    for number, folder in enumerate(folders_backwards(directories)):
        if reach.cut or (found >= n and number >= FOLDERS_MIN):
            complete = False
            break
        for segment in folder:
            segments += 1
            for event in islice(filter(wanted, _events(segment.path, read, needle, marks, reach)), n):
                found += 1
                entry = (event.at_ms, -found, event)
                if len(newest) < n:
                    heapq.heappush(newest, entry)
                else:
                    heapq.heappushpop(newest, entry)
    events = tuple([event for *_, event in sorted(newest, key=lambda one: one[:2], reverse=True)])
    return Newest(events, complete and not reach.cut and found < n, reach.used, segments)


def _events(
    path: Path, read: Callable[[bytes], Timed | None], needle: bytes, marks: Sequence[bytes], reach: Reach
) -> Iterator[Timed]:
    for line in lines_backwards(path, needle, reach):
        if any(mark in line for mark in marks) and (event := read(line)) is not None:
            yield event


def _read(line: bytes) -> DeliveryEvent | None:
    """None for a line that this version cannot read."""
    try:
        if _decode_origin(line).version > SCHEMA_VERSION:
            return None
        event: DeliveryEvent = _decode_delivery(line)
    except UNREADABLE:
        return None
    return event


# -- of an account -----------------------------------------------------------------------------------------------------


class RecentEvents(NamedTuple):
    """`since_ms`: events before this time may be missing; 0: there are no others."""

    events: tuple[AccountEvent, ...] = ()  # by time
    since_ms: int = 0


def recent_events(
    directories: Sequence[Path], account: str, region: str, bytes_max: int = RECENT_BYTES_MAX
) -> RecentEvents:
    """The events about topics and queues of an account in a region, and about what it published to no topic."""
    reach = Reach(bytes_max)
    found: list[AccountEvent] = []
    for segment in (one for folder in folders_backwards(directories) for one in folder):
        lines = lines_backwards(segment.path, account.encode(), reach)
        found += [event for event in map(_account_event, lines) if event is not None and _is_of(event, account, region)]
        if reach.cut:
            found.sort(key=lambda event: event.at_ms)
            return RecentEvents(tuple(found), found[0].at_ms if found else int(segment.modified_s * 1000))
    found.sort(key=lambda event: event.at_ms)
    return RecentEvents(tuple(found), 0)


def _account_event(line: bytes) -> AccountEvent | None:
    """None for other events, and for those of another version."""
    try:
        event: Event = _decode_event(line)
    except UNREADABLE:
        return None
    return event if isinstance(event, AccountEvent) else None


def _is_of(event: AccountEvent, account: str, region: str) -> bool:
    arn = parse_arn(event.queue if isinstance(event, QueueCounted) else event.topic)
    if arn is not None:
        return (arn.account, arn.region) == (account, region)
    if isinstance(event, QueueCounted):
        return False
    publisher = getattr(event, "account", "")
    return bool(publisher == account) and (isinstance(event, PublishAccepted) or not event.topic)
