"""Figures of the latest events of one account: messages, failures by cause, success and latency. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from cns.delivery.failure_causes import why_failed
from cns_common.errors import UNREADABLE
from cns_common.events.recent_events import AccountEvent
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    DeliveryFiltered,
    NotificationDropped,
    NotificationMatched,
    PublishAccepted,
    QueueCounted,
)

MESSAGES_SHOWN_MAX = 50
FAILURES_SHOWN_MAX = 100
MINUTE_MS = 60_000


class _EventEnvelope(msgspec.Struct, rename={"message_id": "MessageId", "topic": "TopicArn"}):
    """The members that each notification has which is not raw."""

    message_id: str
    topic: str


@dataclass(slots=True)
class RecentMessage:
    """A message as far as the latest events tell of it."""

    id: str
    at_ms: int = 0  # of its first event
    published_ms: int = 0  # 0 if the latest events do not tell
    topic: str = ""  # name
    accepted: bool = False
    has_recipients: bool = False
    matched: int = 0
    delivered: set[str] = field(default_factory=set)
    failing: dict[str, str] = field(default_factory=dict)  # subscription → cause of its last attempt
    lost: dict[str, str] = field(default_factory=dict)  # subscription → cause of its outcome
    filtered: int = 0

    @property
    def tone(self) -> str:
        if self.lost:
            return "bad"
        if self.failing:
            return "wait"
        return "good" if self.delivered else "none"

    @property
    def state(self) -> str:
        """A few words, the worst first."""
        words = [f"{len(self.lost)} not delivered"] if self.lost else []
        words += [f"{len(self.failing)} retried"] if self.failing else []
        words += [f"{len(self.delivered)} delivered"] if self.delivered else []
        words += [f"{self.filtered} filtered"] if self.filtered else []
        if words:
            return ", ".join(words)
        if self.accepted and not self.has_recipients:
            return "for no subscription" if self.topic else "muted"
        return "under way"

    @property
    def causes(self) -> str:
        found = Counter([*self.lost.values(), *self.failing.values()])
        return "; ".join([why_failed(cause).title for cause, _ in found.most_common(2)])


def messages(events: Iterable[AccountEvent], topic: str = "", subscription: str = "") -> list[RecentMessage]:
    """The latest messages, the newest first; of a topic, or of a subscription, if their ARNs are given."""
    found: dict[str, RecentMessage] = {}
    published: dict[str, int] = {}
    for event in events:
        if isinstance(event, QueueCounted) or (topic and event.topic != topic):
            continue
        if isinstance(event, PublishAccepted):
            published[event.message_id] = event.at_ms
        if subscription and getattr(event, "subscription", "") != subscription:
            continue
        row = found.pop(event.message_id, None) or RecentMessage(event.message_id)
        found[event.message_id] = row
        row.at_ms, row.topic = row.at_ms or event.at_ms, event.topic.rpartition(":")[2]
        if isinstance(event, DeliveryDelivered | DeliveryDeadLettered):  # the publish may be older than what is read
            published.setdefault(event.message_id, event.at_ms - event.since_publish_ms)
        row.published_ms = published.get(event.message_id, 0)
        _add(row, event)
    return sorted(found.values(), key=lambda row: -(row.published_ms or row.at_ms))[:MESSAGES_SHOWN_MAX]


def _add(row: RecentMessage, event: AccountEvent) -> None:
    match event:
        case PublishAccepted():
            row.accepted, row.has_recipients, row.matched = True, event.has_recipients, event.matched
        case NotificationMatched():
            row.matched += event.matched
        case DeliveryFiltered():
            row.filtered = event.filtered
        case DeliveryAttempted() if event.cause:
            row.failing[event.subscription] = event.cause
        case DeliveryDelivered():
            row.delivered.add(event.subscription)
            row.failing.pop(event.subscription, None)
        case DeliveryDeadLettered() | NotificationDropped():
            row.lost[event.subscription] = event.cause
            row.failing.pop(event.subscription, None)


# -- failures ----------------------------------------------------------------------------------------------------------


class ActivityFailures(NamedTuple):
    """Attempts that failed for one cause at one place."""

    cause: str
    title: str
    where: str
    link: str  # path of a page about the place, or ''
    n: int
    last_ms: int
    message_id: str  # of the last one
    answer: str


@dataclass(slots=True)
class _Group:
    n: int = 0
    last: DeliveryAttempted | None = None


def failures(events: Iterable[AccountEvent], by: str) -> list[ActivityFailures]:
    """Failed attempts by cause and `by`: topic, subscription or endpoint; the most frequent first."""
    groups: dict[tuple[str, str], _Group] = {}
    for event in events:
        if isinstance(event, DeliveryAttempted) and event.cause:
            group = groups.setdefault((event.cause, getattr(event, by)), _Group())
            group.n += 1
            group.last = event
    rows = [_failures(cause, where, by, group) for (cause, where), group in groups.items()]
    return sorted(rows, key=lambda row: (-row.n, row.cause, row.where))[:FAILURES_SHOWN_MAX]


def _failures(cause: str, where: str, by: str, group: _Group) -> ActivityFailures:
    last = group.last
    assert last is not None, "a group has a failure"
    name = where.rpartition(":")[2]
    links = {
        "topic": f"/ui/topics/{name}",
        "subscription": f"/ui/topics/{where.split(':')[-2:][0]}/subscriptions/{name}",
    }
    return ActivityFailures(
        cause=cause,
        title=why_failed(cause, last.reason).title,
        where=name if by == "topic" else where or last.protocol,
        link=links.get(by, "") if where.startswith("arn:") else "",
        n=group.n,
        last_ms=last.at_ms,
        message_id=last.message_id,
        answer=last.reason,
    )


# -- success and latency -----------------------------------------------------------------------------------------------


class ActivityFigures(NamedTuple):
    attempts: int
    failed: int
    delivered: int
    lost: int
    p50_ms: int | None
    p95_ms: int | None

    @property
    def success(self) -> str:
        """The share of attempts that the endpoints took."""
        return f"{100 * (self.attempts - self.failed) / self.attempts:.1f} %" if self.attempts else "–"


def figures(events: Iterable[AccountEvent], topic: str = "", subscription: str = "") -> ActivityFigures:
    counts: Counter[str] = Counter()
    latencies: list[int] = []
    for event in events:
        if isinstance(event, QueueCounted) or (topic and event.topic != topic):
            continue
        if subscription and getattr(event, "subscription", "") != subscription:
            continue
        match event:
            case DeliveryAttempted():
                counts["attempts"] += 1
                counts["failed"] += bool(event.cause)
            case DeliveryDelivered():
                counts["delivered"] += 1
                if not event.replayed:
                    latencies.append(event.since_publish_ms)
            case DeliveryDeadLettered() | NotificationDropped():
                counts["lost"] += 1
    latencies.sort()
    return ActivityFigures(
        counts["attempts"],
        counts["failed"],
        counts["delivered"],
        counts["lost"],
        _quantile(latencies, 0.5),
        _quantile(latencies, 0.95),
    )


def _quantile(sorted_values: Sequence[int], share: float) -> int | None:
    return sorted_values[min(int(len(sorted_values) * share), len(sorted_values) - 1)] if sorted_values else None


def dead_letter_causes(events: Iterable[AccountEvent], queue: str) -> dict[str, str]:
    """Why notifications are in a dead-letter queue, by their ids."""
    dead = (event for event in events if isinstance(event, DeliveryDeadLettered) and event.queue == queue)
    return {event.message_id: why_failed(event.cause).title for event in dead}


def origin(body: str, causes: Mapping[str, str]) -> tuple[str, str]:
    """The id of the notification that a message of a queue is, and why it is in this dead-letter queue, if known."""
    try:
        envelope = msgspec.json.decode(body, type=_EventEnvelope)
    except UNREADABLE:
        return "", ""
    return envelope.message_id, causes.get(envelope.message_id, "")


def rates(events: Iterable[AccountEvent], queue: str) -> dict[str, list[tuple[int, float]]]:
    """Messages a minute of a queue: for `sent`, `received`, `deleted` the minutes and their figures, by time."""
    sums: dict[str, Counter[int]] = {action: Counter() for action in ("sent", "received", "deleted")}
    for event in events:
        if isinstance(event, QueueCounted) and event.queue == queue:
            minute = event.at_ms // MINUTE_MS
            for action, counted in sums.items():
                counted[minute] += getattr(event, action)
    return {action: sorted((minute, float(n)) for minute, n in counted.items()) for action, counted in sums.items()}
