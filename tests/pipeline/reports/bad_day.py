"""A day on which much goes wrong, with its history, as segments: 200 topics, 25 endpoints, and faults planted at known
times. `PLANTED` is what a report of the day must say, and all that it may say.

A topic publishes each half hour to one endpoint; of the eight topics of the first four endpoints two publish each two
minutes. One notification in 199 fails once and is delivered by its first retry, on clean days too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from cns_common.durations import DAY_MS, HOUR_MS
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    Event,
    NotificationDropped,
    PublishAccepted,
)
from tests.pipeline.ingest.segments import AT_MS, write_segment

BAD_MS = AT_MS
"""2024-10-04, a Friday."""
CLEAN_MS = AT_MS - 7 * DAY_MS
HISTORY_MS = (CLEAN_MS, AT_MS - 3 * DAY_MS, AT_MS - 2 * DAY_MS, AT_MS - DAY_MS)
MINUTE_MS = 60_000
TOPICS = 200
ENDPOINTS = 25
BUSY_EACH_MS = 2 * MINUTE_MS
QUIET_EACH_MS = 30 * MINUTE_MS
BUSY_TOPICS, BUSY_ENDPOINTS = 50, 4
TOOK_MS = 20
SLOW_MS = 2_100
ANSWERED_MS = 40
"""From publish to the first attempt's start."""
RETRY_MS = 20_000
DROPS = 12
DUPLICATES = 31
UNKNOWN = 57
ACCOUNT = "000000000000"
DEAD_LETTERS = f"arn:aws:sqs:us-east-1:{ACCOUNT}:topic-000-dead"
REASON = "<script>alert('off')</script> \x1b[2J maintenance"

PLANTED = (
    "12 notifications dropped: given up at once: "
    "the endpoint answered with an error (permanent:status); all of topic-003 → e03.example.com",
    "e00.example.com failed 100% of 294 attempts (usually 0%) from 14:00 to 15:18 on 4 Oct, mostly: status 503",
    "e01.example.com failed 42.9% of 252 attempts (usually 0%) from 09:00 to 10:58 on 4 Oct, mostly: "
    "the endpoint did not answer in time",
    "40 notifications moved to topic-000-dead: all attempts are spent: "
    "the endpoint answered with an error (spent:status); all of topic-000 → "
    "e00.example.com",
    "e02.example.com took 2.1 s to answer (median), 105× its usual 20 ms, from 16:00 to 20:00 on 4 Oct",
    "Delivery (p99 from publish) took 20 s, 333× the 60 ms of the week before",
    "31 deliveries repeated: the subscription had the message already; all of topic-001 → e01.example.com",
    "57 events missing: the report lacks what they recorded",
)


def write_bad_day(directory: Path) -> None:
    """Write the bad day, the clean day a week before, and the attempts of three days between."""
    for number, day_ms in enumerate(HISTORY_MS):
        events = _day(day_ms, Faults())
        kept = events if day_ms == CLEAN_MS else [one for one in events if isinstance(one, DeliveryAttempted)]
        write_segment(directory, f"day{number}", 1, kept, at_ms=day_ms)
    events = _day(BAD_MS, Faults(planted=True))
    middle = len(events) // 2
    write_segment(directory, "bad", 1, events[:middle])
    write_segment(directory, "bad", 1 + middle + UNKNOWN, events[middle:])


def write_clean_day(directory: Path) -> None:
    """Write a clean day and the one a week before."""
    for number, day_ms in enumerate((CLEAN_MS, BAD_MS)):
        write_segment(directory, f"day{number}", 1, _day(day_ms, Faults()), at_ms=day_ms)


@dataclass(frozen=True, slots=True)
class Notification:
    message_id: str
    topic: int
    at_ms: int
    number: int  # within the day
    of_topic: int

    @property
    def endpoint(self) -> int:
        return self.topic % ENDPOINTS

    @property
    def arn(self) -> str:
        return f"arn:aws:sns:us-east-1:{ACCOUNT}:topic-{self.topic:03}"

    @property
    def hour(self) -> float:
        return self.at_ms % DAY_MS / HOUR_MS

    def attempt(self, number: int, at_ms: int, took_ms: int = TOOK_MS, status: int = 200) -> DeliveryAttempted:
        failed = status != 200
        return DeliveryAttempted(
            at_ms=at_ms + took_ms,
            message_id=self.message_id,
            message_type="Notification",
            topic=self.arn,
            subscription=f"{self.arn}:s",
            protocol="https",
            attempt=number,
            phase="first" if number == 1 else "pre-backoff",
            outcome="failed" if failed else "delivered",
            cause=("status" if status else "timeout") if failed else "",
            status=status,
            duration_ms=took_ms,
            reason=REASON if failed else "",
            endpoint=f"e{self.endpoint:02}.example.com",
        )

    def delivered(self, attempt: DeliveryAttempted) -> DeliveryDelivered:
        return DeliveryDelivered(
            at_ms=attempt.at_ms,
            message_id=self.message_id,
            message_type="Notification",
            topic=self.arn,
            subscription=attempt.subscription,
            protocol="https",
            attempt=attempt.attempt,
            since_publish_ms=attempt.at_ms - self.at_ms,
            endpoint=attempt.endpoint,
            size_bytes=1_000,
        )

    def dead_lettered(self, attempt: DeliveryAttempted) -> DeliveryDeadLettered:
        return DeliveryDeadLettered(
            at_ms=attempt.at_ms,
            message_id=self.message_id,
            message_type="Notification",
            topic=self.arn,
            subscription=attempt.subscription,
            protocol="https",
            attempt=attempt.attempt,
            cause="spent:status",
            queue=DEAD_LETTERS,
            since_publish_ms=attempt.at_ms - self.at_ms,
            endpoint=attempt.endpoint,
        )

    def dropped(self, attempt: DeliveryAttempted) -> NotificationDropped:
        return NotificationDropped(
            at_ms=attempt.at_ms,
            message_id=self.message_id,
            message_type="Notification",
            topic=self.arn,
            subscription=attempt.subscription,
            attempt=attempt.attempt,
            cause="permanent:status",
            endpoint=attempt.endpoint,
            protocol="https",
        )


@dataclass(frozen=True, slots=True)
class Faults:
    """The fate of a notification."""

    planted: bool = False

    def outcome(self, one: Notification) -> Iterator[Event]:
        start_ms = one.at_ms + ANSWERED_MS
        if self.planted and one.endpoint == 0 and 14 <= one.hour < 15.31:
            yield from self._outage(one, start_ms)
        elif self.planted and one.endpoint == 1 and 9 <= one.hour < 11:
            yield from self._retried(one, start_ms, 0 if one.number % 4 else 200)  # three of seven attempts fail
        elif self.planted and one.endpoint == 2 and 16 <= one.hour < 20:
            yield from self._attempted(one, start_ms, SLOW_MS)
        elif self.planted and one.topic == 3 and one.of_topic % 60 == 7:
            refused = one.attempt(1, start_ms, status=404)
            yield from (refused, one.dropped(refused))
        else:
            yield from self._retried(one, start_ms, 500 if one.number % 199 == 198 else 200)

    def _outage(self, one: Notification, start_ms: int) -> Iterator[Event]:
        """The first topic has a dead-letter queue and gives up after three attempts; the others wait."""
        attempts = [one.attempt(number, start_ms + (number - 1) * RETRY_MS, status=503) for number in (1, 2, 3)]
        yield from attempts
        if one.topic == 0:
            yield one.dead_lettered(attempts[-1])
        else:
            yield from self._attempted(one, one.at_ms - one.at_ms % DAY_MS + 16 * HOUR_MS, number=4)

    def _retried(self, one: Notification, start_ms: int, status: int) -> Iterator[Event]:
        if status != 200:
            yield one.attempt(1, start_ms, status=status)
            yield from self._attempted(one, start_ms + RETRY_MS, number=2)
        else:
            yield from self._attempted(one, start_ms)

    def _attempted(self, one: Notification, at_ms: int, took_ms: int = TOOK_MS, number: int = 1) -> Iterator[Event]:
        attempt = one.attempt(number, at_ms, took_ms)
        delivered = one.delivered(attempt)
        yield from (attempt, delivered)
        if self.planted and one.number in DUPLICATED:
            yield delivered


DUPLICATED = frozenset(range(1_000, 1_000 + 10 * DUPLICATES, 10))


def _day(day_ms: int, faults: Faults) -> list[Event]:
    """The events of a day in the order in which they happened."""
    return sorted(_events(day_ms, faults), key=lambda one: one.at_ms)


def _events(day_ms: int, faults: Faults) -> Iterator[Event]:
    numbers = count()
    for topic in range(TOPICS):
        busy = topic < BUSY_TOPICS and topic % ENDPOINTS < BUSY_ENDPOINTS
        each_ms = BUSY_EACH_MS if busy else QUIET_EACH_MS
        for of_topic, at_ms in enumerate(range(day_ms + topic * 100, day_ms + DAY_MS, each_ms)):
            number = next(numbers)
            one = Notification(f"{day_ms // DAY_MS}-{number}", topic, at_ms, number, of_topic)
            yield PublishAccepted(
                at_ms=at_ms,
                message_id=one.message_id,
                topic=one.arn,
                account=ACCOUNT,
                size_bytes=900,
                has_subject=False,
                jobs=1,
                matched=1,
            )
            yield from faults.outcome(one)
