"""Random events of notifications, requests and queues: few messages and endpoints, so that much coincides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    DeliveryFiltered,
    Event,
    NotificationDropped,
    NotificationMatched,
    PublishAccepted,
    QueueCounted,
    RequestsCounted,
)
from tests.pipeline.reports.report_oracle import NumberedEvent

BOOTS = ("a", "b", "c")
ACCOUNTS = ("111111111111", "222222222222")
TOPICS = tuple([f"arn:aws:sns:us-east-1:{account}:{name}" for account in ACCOUNTS for name in ("t", "u")])
APPLICATION = "arn:aws:sns:us-east-1:111111111111:endpoint/GCM/app"
ENDPOINTS = (
    ("http", "a.example"),
    ("https", "a.example"),
    ("sqs", "arn:aws:sqs:us-east-1:111111111111:q"),
    ("redis", ""),
)
LOST_SHARE = 0.03
QUICK_MS, SLOW_MS = 40, 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    id: str
    topic: str  # '': direct
    published_ms: int
    account: str = ""
    direct: tuple[str, str] = ("", "")  # protocol and endpoint


def random_log(seed: int, since_ms: int, until_ms: int, messages: int) -> list[NumberedEvent]:
    """Numbered events of messages published within the span; a few events are lost."""
    random = Random(seed)
    events = [
        event
        for n in range(messages)
        for event in _of_message(random, _message(random, f"m{seed}-{n}", since_ms, until_ms))
    ]
    events += [_requests(random, random.randrange(since_ms, until_ms)) for _ in range(messages // 4)]
    events += [_queue(random, random.randrange(since_ms, until_ms)) for _ in range(messages // 4)]
    events.sort(key=lambda event: event.at_ms)
    last, log = Counter[str](), []
    for event in events:
        boot = random.choice(BOOTS)
        last[boot] += 1
        if random.random() >= LOST_SHARE:
            log.append(NumberedEvent(boot=boot, sequence=last[boot], event=event))
    return log


def _message(random: Random, name: str, since_ms: int, until_ms: int) -> Message:
    published_ms = random.randrange(since_ms, until_ms)
    if random.random() < 0.1:
        direct = random.choice((("sms", ""), ("application", APPLICATION)))
        return Message(id=name, topic="", published_ms=published_ms, account=random.choice(ACCOUNTS), direct=direct)
    return Message(id=name, topic=random.choice(TOPICS), published_ms=published_ms)


def _of_message(random: Random, message: Message) -> Iterator[Event]:
    at_ms = message.published_ms + random.randrange(3)
    fanned_out = message.topic != "" and random.random() < 0.3
    if random.random() < 0.95:  # else the event is of another period, or lost
        protocol, endpoint = message.direct
        yield PublishAccepted(
            at_ms=at_ms,
            message_id=message.id,
            topic=f"{endpoint}/device" if protocol == "application" else message.topic,
            account=message.account or message.topic.split(":")[4],
            size_bytes=random.randrange(1000),
            has_subject=False,
            jobs=1,
            matched=0 if fanned_out else random.randrange(1 if message.topic else 2, 5) if message.topic else 1,
        )
    if fanned_out:
        yield from _matches(random, message)
    for _ in range(random.choice((0, 0, 1, 2))):
        if message.topic:
            yield DeliveryFiltered(
                at_ms=at_ms + random.randrange(3),
                message_id=message.id,
                topic=message.topic,
                filtered=random.randrange(4),
                subscription_ids=(),
                filter_keys=(),
            )
    for target in range(random.randrange(4) if message.topic else 1):
        yield from _of_target(random, message, target)
    if message.topic and random.random() < 0.1:
        yield _drop_of_several(random, message, at_ms)


def _matches(random: Random, message: Message) -> Iterator[Event]:
    for part in range(random.randrange(1, 3)):
        for _ in range(random.choice((1, 1, 2))):  # a crash repeats a part
            yield NotificationMatched(
                at_ms=message.published_ms + random.randrange(5),
                message_id=message.id,
                topic=message.topic,
                matched=random.randrange(4),
                part=str(part),
                replayed=random.random() < 0.3,
            )


def _of_target(random: Random, message: Message, number: int) -> Iterator[Event]:
    """Failures, then an end, or none, or several."""
    protocol, endpoint = (
        message.direct if not message.topic else ENDPOINTS[(number + len(message.topic)) % len(ENDPOINTS)]
    )
    subscription = f"{message.topic}:s{number}" if message.topic else ""
    replayed = message.topic != "" and random.random() < 0.15
    kind = "Notification" if random.random() < 0.95 else "SubscriptionConfirmation"
    at_ms, attempt = message.published_ms, 0
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        attempt += 1
        at_ms += random.randrange(SLOW_MS)
        cause = random.choice(("status", "timeout"))
        yield DeliveryAttempted(
            at_ms=at_ms,
            message_id=message.id,
            message_type=kind,
            topic=message.topic,
            subscription=subscription,
            protocol=protocol,
            attempt=attempt,
            phase=random.choice(("first", "backoff")),
            outcome="failed",
            cause=cause,
            status=random.choice((500, 503)) if cause == "status" else 0,
            duration_ms=1,
            reason=random.choice(("", "no", "é <b>")),
            replayed=replayed,
            endpoint=endpoint,
            account=message.account,
        )
    for end in random.choice(
        ((), ("delivered",), ("delivered",), ("delivered",) * 3, ("dead",), ("drop",), ("dead", "dead"))
    ):
        at_ms += random.choice((random.randrange(QUICK_MS), random.randrange(SLOW_MS)))
        common: dict[str, Any] = {
            "at_ms": at_ms,
            "message_id": message.id,
            "message_type": kind,
            "topic": message.topic,
            "subscription": subscription,
            "attempt": attempt + (end == "delivered"),
            "replayed": replayed,
            "account": message.account,
        }
        if end == "drop":
            is_gone = message.topic != "" and random.random() < 0.3
            named: dict[str, Any] = (
                {"protocol": "", "endpoint": ""} if is_gone else {"protocol": protocol, "endpoint": endpoint}
            )
            yield NotificationDropped(**common, **named, cause=random.choice(("spent", "subscription_gone")))
            continue
        common |= {"protocol": protocol, "endpoint": endpoint}
        since_ms = at_ms - message.published_ms
        if end == "dead":
            cause = random.choice(("spent", "permanent"))
            yield DeliveryDeadLettered(
                **common, cause=cause, queue=random.choice(("q", "r")), since_publish_ms=since_ms
            )
            continue
        delivered = DeliveryDelivered(**common, since_publish_ms=since_ms, size_bytes=random.randrange(500))
        yield DeliveryAttempted(
            **{name: getattr(delivered, name) for name in common},
            phase="first",
            outcome="delivered",
            cause="",
            status=200,
            duration_ms=1,
        )
        yield delivered


def _drop_of_several(random: Random, message: Message, at_ms: int) -> Event:
    return NotificationDropped(
        at_ms=at_ms,
        message_id=message.id,
        message_type="Notification",
        topic=message.topic,
        subscription="",
        attempt=0,
        cause=random.choice(("invalid_attributes", "notification_lost")),
        subscriptions=random.randrange(4),
    )


def _requests(random: Random, at_ms: int) -> Event:
    return RequestsCounted(
        at_ms=at_ms,
        since_ms=at_ms - 60_000,
        account=random.choice((*ACCOUNTS, "")),
        service="sns",
        operation="Publish",
        requests=random.randrange(1, 9),
        errors=random.randrange(2),
        request_bytes=random.randrange(999),
        response_bytes=random.randrange(999),
    )


def _queue(random: Random, at_ms: int) -> Event:
    depths = {name: random.randrange(5) for name in ("visible", "in_flight", "delayed", "oldest_age_s")}
    return QueueCounted(
        at_ms=at_ms,
        since_ms=at_ms - 60_000,
        queue=random.choice(("q", "r", "s")),
        sent=random.randrange(9),
        received=random.randrange(9),
        deleted=random.randrange(9),
        moved_in=random.randrange(2),
        **(depths if random.random() < 0.7 else {}),
    )
