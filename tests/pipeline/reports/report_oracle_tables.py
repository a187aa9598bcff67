"""The tables of a report beside those of figures, in plain Python: a function for each, by the name of the table."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby, pairwise
from typing import TypedDict, TypeVar

from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    NotificationDropped,
    NotificationEvent,
    PublishAccepted,
    QueueCounted,
    RequestsCounted,
)
from cns_pipeline.reports.document import (
    DeadLetter,
    Drop,
    Failure,
    LatencyBin,
    QueueRow,
    Recovery,
    RetryBin,
    Slow,
    Usage,
)
from tests.pipeline.reports.report_oracle import Oracle, account_of, day_of, is_of_notification

Target = tuple[str, str]
"""A topic and an endpoint."""
AnyTarget = TypeVar("AnyTarget", DeliveryAttempted, DeliveryDelivered, DeliveryDeadLettered, NotificationDropped)
_QUEUE_SUMS = ("sent", "received", "deleted", "moved_in", "moved_out")
_DEPTHS = ("visible", "in_flight", "delayed", "oldest_age_s")


def retries(oracle: Oracle) -> tuple[RetryBin, ...]:
    bins: dict[int, Counter[str]] = defaultdict(Counter)
    for ends in oracle.ends.values():
        if ends["DeliveryDelivered"]:
            bins[min([event.attempt for event in ends["DeliveryDelivered"]])]["delivered"] += 1
        for kind, name in (("DeliveryDeadLettered", "dead_lettered"), ("NotificationDropped", "dropped")):
            if ends[kind]:
                bins[max([event.attempt for event in ends[kind]])][name] += 1
    return tuple([RetryBin(attempts=attempts, **bins[attempts]) for attempts in sorted(bins)])


def latency(oracle: Oracle) -> tuple[LatencyBin, ...]:
    times = oracle.tables["totals"][("", "", "", "")].times
    bounds = [0, *[2**power for power in range(50)]]
    bins = [
        LatencyBin(from_ms=low, to_ms=high, deliveries=len([ms for ms in times if low <= ms < high]))
        for low, high in pairwise(bounds)
    ]
    while bins and not bins[-1].deliveries:
        bins.pop()
    return tuple(bins)


def failures(oracle: Oracle) -> tuple[Failure, ...]:
    kinds: dict[tuple[str, int, str], list[DeliveryAttempted]] = defaultdict(list)
    for event in _of_notifications(oracle, DeliveryAttempted):
        if event.outcome == "failed":
            kinds[(event.cause, event.status, event.phase)].append(event)
    found = [
        Failure(
            cause=cause,
            status=status,
            phase=phase,
            attempts=len(events),
            subscriptions=len({event.subscription for event in events}),
            first_ms=min([event.at_ms for event in events]),
            last_ms=max([event.at_ms for event in events]),
            reason=max([event.reason for event in events]),
        )
        for (cause, status, phase), events in kinds.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.attempts, one.cause, one.status, one.phase)))


def drops(oracle: Oracle) -> tuple[Drop, ...]:
    causes: dict[str, list[int]] = defaultdict(list)
    targets: dict[str, Counter[Target]] = defaultdict(Counter)
    for event in _of_notifications(oracle, NotificationDropped):
        causes[event.cause].append(event.subscriptions)
        targets[event.cause][event.topic, event.endpoint] += event.subscriptions or 1
    found = [
        Drop(
            cause=cause,
            events=len(counts),
            subscriptions=sum(counts),
            fanouts=counts.count(0),
            **_most(targets[cause]),
        )
        for cause, counts in causes.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.subscriptions, -one.fanouts, one.cause)))


def dead_letters(oracle: Oracle) -> tuple[DeadLetter, ...]:
    found: dict[tuple[str, str], Counter[Target]] = defaultdict(Counter)
    for event in _of_notifications(oracle, DeliveryDeadLettered):
        found[event.cause, event.queue][event.topic, event.endpoint] += 1
    rows = [
        DeadLetter(cause=cause, queue=queue, messages=targets.total(), **_most(targets))
        for (cause, queue), targets in found.items()
    ]
    return tuple(sorted(rows, key=lambda one: (-one.messages, one.cause, one.queue)))


class _Most(TypedDict):
    topic: str
    endpoint: str
    most: int


def _most(targets: Counter[Target]) -> _Most:
    most, (topic, endpoint) = max([(number, target) for target, number in targets.items()])
    return {"topic": topic, "endpoint": endpoint, "most": most}


def slowest(oracle: Oracle) -> tuple[Slow, ...]:
    found = []
    for (message, target), ends in oracle.ends.items():
        if ends["DeliveryDelivered"]:
            first = min(ends["DeliveryDelivered"], key=lambda event: event.at_ms)
            assert isinstance(first, DeliveryDelivered)
            slow = Slow(
                message_id=message,
                topic=first.topic,
                subscription=first.subscription,
                since_publish_ms=max(first.since_publish_ms, 0),
                attempts=min([event.attempt for event in ends["DeliveryDelivered"]]),
                at_ms=first.at_ms,
            )
            found.append((-slow.since_publish_ms, slow.at_ms, message, target, slow))
    return tuple([one[-1] for one in sorted(found, key=lambda one: one[:-1])][:50])


def recoveries(oracle: Oracle) -> tuple[Recovery, ...]:
    by_endpoint: dict[str, list[tuple[int, str, int, bool]]] = defaultdict(list)
    for one in oracle.numbered:
        event = one.event
        if isinstance(event, DeliveryAttempted) and event.message_type == "Notification" and event.endpoint:
            attempt = (event.at_ms, one.boot, one.sequence, event.outcome == "failed")
            by_endpoint[event.endpoint].append(attempt)
    found = []
    for endpoint, attempts in by_endpoint.items():
        runs = [(failed, [at_ms for at_ms, *_ in run]) for failed, run in groupby(sorted(attempts), lambda one: one[3])]
        for at, (failed, times) in enumerate(runs):
            if failed:
                recovered_ms = runs[at + 1][1][0] if at + 1 < len(runs) else None
                found.append(
                    Recovery(
                        endpoint=endpoint,
                        failed_from_ms=times[0],
                        last_failed_ms=times[-1],
                        recovered_at_ms=recovered_ms,
                        failures=len(times),
                    )
                )
    return tuple(sorted(found, key=_longest_first))


def usage(oracle: Oracle) -> tuple[Usage, ...]:
    used: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for event in oracle.events:
        if isinstance(event, RequestsCounted):
            names = ("requests", "errors", "request_bytes", "response_bytes")
            used[(event.account, day_of(event.at_ms))].update({name: getattr(event, name) for name in names})
        elif is_of_notification(event):
            used[(account_of(event), day_of(event.at_ms))].update(_used(event))
    for ends in oracle.ends.values():  # duplicates count on the day of the first delivery
        if delivered := ends["DeliveryDelivered"]:
            first = min(delivered, key=lambda event: event.at_ms)
            used[(account_of(first), day_of(first.at_ms))].update(deliveries=len(delivered))
    counted_on = {day_of(event.at_ms) for event in oracle.events if isinstance(event, RequestsCounted)}
    for (_, day), counts in used.items():
        if day in counted_on:
            counts.update(dict.fromkeys(("requests", "errors", "request_bytes", "response_bytes"), 0))
    return tuple([Usage(account=account, day=day, **used[(account, day)]) for account, day in sorted(used)])


def queues(oracle: Oracle) -> tuple[QueueRow, ...]:
    found: dict[str, list[QueueCounted]] = defaultdict(list)
    for event in oracle.events:
        if isinstance(event, QueueCounted):
            found[event.queue].append(event)
    rows = []
    for queue, events in found.items():
        sums = {name: sum([getattr(event, name) for event in events]) for name in _QUEUE_SUMS}
        known = [event for event in events if event.visible >= 0]
        depths = dict.fromkeys(_DEPTHS, -1)
        if known:
            latest = max(known, key=lambda event: (event.at_ms, *[getattr(event, name) for name in _DEPTHS]))
            depths = {name: getattr(latest, name) for name in _DEPTHS}
        rows.append(QueueRow(queue=queue, **sums, **depths))
    return tuple(sorted(rows, key=lambda row: (-row.sent - row.received, row.queue)))


def _of_notifications(oracle: Oracle, kind: type[AnyTarget]) -> list[AnyTarget]:
    return [event for event in oracle.events if isinstance(event, kind) and event.message_type == "Notification"]


def _used(event: NotificationEvent) -> dict[str, int]:
    if isinstance(event, PublishAccepted):
        return {"published": 1, "published_bytes": event.size_bytes}
    if isinstance(event, DeliveryDelivered):
        return {"delivered_bytes": event.size_bytes, "deliveries": int(event.replayed)}
    return {}


def _longest_first(one: Recovery) -> tuple[int, int, str, int]:
    ended_ms = one.last_failed_ms if one.recovered_at_ms is None else one.recovered_at_ms
    return one.failed_from_ms - ended_ms, -one.failures, one.endpoint, one.failed_from_ms
