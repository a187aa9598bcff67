"""Segments as the service writes them, with the events of a test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cns_common.durations import DAY_MS
from cns_common.events.audit_events import AuditEvent
from cns_common.events.files import SEALED, encoder, fact_line, folder_at, origin_of, segment_name
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDelivered,
    Event,
    PublishAccepted,
    SegmentOpened,
    SegmentSealed,
)

AT_MS = 20_000 * DAY_MS
DATE = "2024-10-04"


def write_segment(
    directory: Path,
    boot: str,
    first_sequence: int,
    events: Sequence[Event | AuditEvent],
    junk: bytes = b"",
    at_ms: int = AT_MS,
) -> Path:
    """Write a segment that was opened and sealed at `at_ms`, with `junk` between its events and its last line."""
    last_sequence = first_sequence + len(events) - 1
    path = directory / folder_at(at_ms) / (segment_name("test", boot, first_sequence) + SEALED)
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = SegmentOpened(at_ms=at_ms, process="test", first_sequence=first_sequence)
    sealed = SegmentSealed(
        at_ms=at_ms,
        process="test",
        first_sequence=first_sequence,
        last_sequence=last_sequence,
        events=len(events),
        torn_bytes=0,
        recovered=False,
    )
    lines = [event_line(boot, first_sequence + at, event) for at, event in enumerate(events)]
    path.write_bytes(b"".join([fact_line(boot, opened), *lines, junk, fact_line(boot, sealed)]))
    return path


def event_line(boot: str, sequence: int, event: Event | AuditEvent | SegmentOpened | SegmentSealed) -> bytes:
    return origin_of(boot) + b"%d," % sequence + encoder.encode(event)[1:] + b"\n"


def publish(topic: str = "t", at_ms: int = AT_MS, size_bytes: int = 10) -> PublishAccepted:
    return PublishAccepted(
        at_ms=at_ms, message_id="m", topic=topic, account="a", size_bytes=size_bytes, has_subject=False, jobs=1
    )


def attempt(topic: str, subscription: str, cause: str = "", message_type: str = "Notification") -> DeliveryAttempted:
    return DeliveryAttempted(
        at_ms=AT_MS,
        message_id="m",
        message_type=message_type,
        topic=topic,
        subscription=subscription,
        protocol="http",
        attempt=1,
        phase="first",
        outcome="failed" if cause else "delivered",
        cause=cause,
        status=500 if cause else 200,
        duration_ms=3,
    )


def delivery(
    topic: str,
    subscription: str,
    since_publish_ms: int,
    message_type: str = "Notification",
    *,
    replayed: bool = False,
) -> Event:
    return DeliveryDelivered(
        at_ms=AT_MS,
        message_id="m",
        message_type=message_type,
        topic=topic,
        subscription=subscription,
        protocol="http",
        attempt=1,
        since_publish_ms=since_publish_ms,
        replayed=replayed,
    )
