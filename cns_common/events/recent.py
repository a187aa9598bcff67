"""Reads the latest events of one account from the newest segments, up to a number of bytes: for people who look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from cns_common.arn import parse_arn
from cns_common.events.files import NEW, OPEN, SEALED, has_audit_events
from cns_common.events.schema import Event, NotificationEvent, PublishAccepted, QueueCounted

READ_BYTES_MAX = 4 * 1024 * 1024
"""Of all segments together: about 12,000 events, which take some 50 ms."""

_decoder = msgspec.json.Decoder(Event)
AccountEvent = NotificationEvent | QueueCounted


class RecentEvents(NamedTuple):
    """`since_ms`: events before this time may be missing; 0: there are no others."""

    events: tuple[AccountEvent, ...] = ()  # by time
    since_ms: int = 0


class _Tail(NamedTuple):
    path: Path
    size_bytes: int
    modified_s: float


def recent_events(
    directories: Sequence[Path], account: str, region: str, bytes_max: int = READ_BYTES_MAX
) -> RecentEvents:
    """The events about topics and queues of an account in a region, and about what it published to no topic."""
    needle = account.encode()
    found: list[AccountEvent] = []
    left, since_ms = bytes_max, 0
    for tail in _newest(directories, bytes_max):
        if left <= 0:
            since_ms = int(tail.modified_s * 1000)
            break
        if tail.size_bytes > left:
            since_ms = int(tail.modified_s * 1000)
        found += _read(tail, left, needle, account, region)
        left -= tail.size_bytes
    found.sort(key=lambda event: event.at_ms)
    if since_ms and found:
        since_ms = found[0].at_ms
    return RecentEvents(tuple(found), since_ms)


def _newest(directories: Sequence[Path], bytes_max: int) -> Iterator[_Tail]:
    """Segments, the last written first. Older folders are not listed once there is enough to read."""
    enough = 0
    for folder in _folders(directories):
        tails = sorted(filter(None, map(_tail, folder.glob("*"))), key=lambda tail: -tail.modified_s)
        yield from tails
        enough += sum([tail.size_bytes for tail in tails])
        if enough > 2 * bytes_max:  # a segment may have been written into the next hour
            return


def _folders(directories: Sequence[Path]) -> list[Path]:
    """The folders of hours, the newest first."""
    folders = [folder for directory in directories for folder in directory.glob("*/*") if folder.is_dir()]
    return sorted(folders, key=lambda folder: (folder.parent.name, folder.name), reverse=True)


def _tail(path: Path) -> _Tail | None:
    name = path.name
    if name.endswith(NEW) or not name.endswith((SEALED, OPEN)) or has_audit_events(path):
        return None
    try:
        status = path.stat()
    except FileNotFoundError:  # sealed or removed since
        return None
    return _Tail(path, status.st_size, status.st_mtime)


def _read(tail: _Tail, bytes_max: int, needle: bytes, account: str, region: str) -> Iterator[AccountEvent]:
    """The account's events in the last bytes of a segment."""
    try:
        file = tail.path.open("rb")
    except FileNotFoundError:
        try:
            file = tail.path.with_name(tail.path.name.removesuffix(OPEN) + SEALED).open("rb")  # sealed since
        except FileNotFoundError:
            return
    with file:
        skipped = max(tail.size_bytes - bytes_max, 0)
        file.seek(skipped)
        lines = file.read(bytes_max).split(b"\n")
    for line in lines[1 if skipped else 0 : -1]:
        if needle in line:
            event = _decode(line)
            if event is not None and _is_of(event, account, region):
                yield event


def _decode(line: bytes) -> AccountEvent | None:
    """None for other events, and for those of another version."""
    try:
        event: Event = _decoder.decode(line)
    except msgspec.DecodeError:
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
