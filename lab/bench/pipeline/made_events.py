"""Makes segments of a day of deliveries, quickly: about 400,000 events a second.

A publish to one of TOPICS topics has TARGETS subscriptions. One attempt in 20 fails, and is retried with success a
minute later; one delivery in 200 ends in a dead-letter queue. Times spread evenly over the day.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from cns_common.durations import DAY_MS
from cns_common.events.audit_events import AuditEvent
from cns_common.events.files import SEALED, encoder, fact_line, folder_at, origin_of, segment_name
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    Event,
    PublishAccepted,
    SegmentOpened,
    SegmentSealed,
)

SEGMENT_EVENTS = 40_000  # about 16 MiB, at which a segment is sealed
TOPICS = 200
TARGETS = 3
PUBLISH_EVENTS = 1 + 2 * TARGETS
"""Events of a publish without failures."""
HOST = "receiver.example.com"
ARN = "arn:aws:sns:us-east-1:111111111111"


def write_day(directory: Path, start_ms: int, events: int, seed: int = 1) -> int:
    """Write segments with `events` events of the day that begins at `start_ms`; return their bytes."""
    made = islice(day(start_ms, events, random.Random(seed)), events)
    size_bytes, first, boot = 0, 1, f"{seed:016x}"
    while batch := list(islice(made, SEGMENT_EVENTS)):
        size_bytes += write_segment(directory, boot, first, batch)
        first += len(batch)
    return size_bytes


def write_segment(directory: Path, boot: str, first: int, events: Sequence[Event | AuditEvent]) -> int:
    """Write a sealed segment; return its bytes."""
    last = first + len(events) - 1
    origin = origin_of(boot)
    lines = [b"%b%d,%b\n" % (origin, number, encoder.encode(event)[1:]) for number, event in enumerate(events, first)]
    opened = SegmentOpened(at_ms=events[0].at_ms, process="bench", first_sequence=first)
    sealed = SegmentSealed(
        at_ms=events[-1].at_ms,
        process="bench",
        first_sequence=first,
        last_sequence=last,
        events=len(events),
        torn_bytes=0,
        recovered=False,
    )
    folder = directory / folder_at(events[0].at_ms)
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join([fact_line(boot, opened), *lines, fact_line(boot, sealed)])
    (folder / (segment_name("bench", boot, first) + SEALED)).write_bytes(data)
    return len(data)


def day(start_ms: int, events: int, chance: random.Random) -> Iterator[Event]:
    """At least `events` events, at times that rise but for retries."""
    publishes = events // PUBLISH_EVENTS + 1
    for number in range(publishes):
        at_ms = start_ms + number * (DAY_MS - 120_000) // publishes
        yield from publish(number, at_ms, chance)


def publish(number: int, at_ms: int, chance: random.Random) -> Iterator[Event]:
    message_id = f"{chance.getrandbits(128):032x}"
    message_id = f"{message_id[:8]}-{message_id[8:12]}-{message_id[12:16]}-{message_id[16:20]}-{message_id[20:]}"
    name = f"topic-{number % TOPICS}"
    topic = f"{ARN}:{name}"
    yield PublishAccepted(
        at_ms=at_ms,
        message_id=message_id,
        topic=topic,
        account="111111111111",
        size_bytes=200 + number % 800,
        has_subject=False,
        jobs=1,
        matched=TARGETS,
    )
    for target in range(TARGETS):
        yield from deliver(
            message_id, topic, f"{topic}:{target:08x}-0000-0000-0000-{number % TOPICS:012x}", at_ms, chance
        )


def deliver(message_id: str, topic: str, subscription: str, at_ms: int, chance: random.Random) -> Iterator[Event]:
    took_ms = int(chance.lognormvariate(3.0, 1.0)) + 1
    fails = chance.random() < 0.05
    if fails:
        yield attempted(message_id, topic, subscription, at_ms + took_ms, 1, "status")
        if chance.random() < 0.1:
            yield DeliveryDeadLettered(
                at_ms=at_ms + took_ms,
                message_id=message_id,
                message_type="Notification",
                topic=topic,
                subscription=subscription,
                protocol="http",
                attempt=1,
                cause="spent:status",
                queue="arn:aws:sqs:us-east-1:111111111111:dead",
                since_publish_ms=took_ms,
                endpoint=HOST,
            )
            return
        took_ms += 60_000
    yield attempted(message_id, topic, subscription, at_ms + took_ms, 2 if fails else 1, "")
    yield DeliveryDelivered(
        at_ms=at_ms + took_ms,
        message_id=message_id,
        message_type="Notification",
        topic=topic,
        subscription=subscription,
        protocol="http",
        attempt=2 if fails else 1,
        since_publish_ms=took_ms,
        endpoint=HOST,
        size_bytes=900,
    )


def attempted(
    message_id: str, topic: str, subscription: str, at_ms: int, attempt: int, cause: str
) -> DeliveryAttempted:
    return DeliveryAttempted(
        at_ms=at_ms,
        message_id=message_id,
        message_type="Notification",
        topic=topic,
        subscription=subscription,
        protocol="http",
        attempt=attempt,
        phase="first" if attempt == 1 else "backoff",
        outcome="failed" if cause else "delivered",
        cause=cause,
        status=503 if cause else 200,
        duration_ms=12,
        reason="Service Unavailable" if cause else "",
        endpoint=HOST,
    )
