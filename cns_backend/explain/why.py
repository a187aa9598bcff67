"""Says why a message did not arrive: one of `causes` for each subscription, and one for the whole message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from cns.delivery.envelope import timestamp_text
from cns.delivery.failure_causes import Why, why_failed
from cns.delivery.jobs import LANES
from cns.delivery.target import target_of
from cns.subscriptions.subscription import Subscription
from cns.topics.topic import Topic
from cns_backend.explain import causes
from cns_backend.explain.labels import span_text
from cns_backend.explain.model import DeliveryHistory, DeliveryStatus, JobLocation
from cns_common.events.schema import PublishAccepted

_BY_STATUS = {
    DeliveryStatus.DELIVERED: None,
    DeliveryStatus.FILTERED: causes.FILTERED,
    DeliveryStatus.UNCONFIRMED: causes.UNCONFIRMED,
    DeliveryStatus.LATER: causes.LATER,
    DeliveryStatus.QUARANTINED: causes.QUARANTINED,
}


def why_nobody(accepted: PublishAccepted | None, histories: Sequence[DeliveryHistory]) -> Why | None:
    """Why the message has no job, unless its histories say why."""
    if accepted is None or accepted.has_recipients:
        return None
    if accepted.topic:
        return causes.NOBODY
    return None if histories else causes.MUTED  # events of earlier versions have no cause


def with_causes(
    histories: Sequence[DeliveryHistory], subscriptions: Mapping[str, Subscription], topic: Topic | None, now_ms: int
) -> tuple[DeliveryHistory, ...]:
    """The histories, each with its cause. `subscriptions` are the current ones, by ARN."""
    return tuple(replace(one, why=_why(one, subscriptions.get(one.subscription), topic, now_ms)) for one in histories)


def _why(history: DeliveryHistory, subscription: Subscription | None, topic: Topic | None, now_ms: int) -> Why | None:
    if history.status in _BY_STATUS:
        return _BY_STATUS[history.status]
    failed = [attempt for attempt in history.attempts if attempt.cause]
    if history.status in (DeliveryStatus.DEAD_LETTERED, DeliveryStatus.DROPPED):
        if not history.outcomes:
            return why_failed(history.reason)
        last = history.outcomes[-1]
        return why_failed(last.cause, last.reason or (failed[-1].reason if failed else ""))
    in_lane = next((location for location in history.locations if location.queue == LANES), None)
    if history.status is DeliveryStatus.WAITING and subscription is not None:
        target = target_of(subscription, topic)
        if target.paused:
            return causes.PAUSED
        if target.receives_per_second and in_lane is not None:  # a FIFO topic has no lanes
            return causes.throttled(target.receives_per_second, _position(in_lane, target.receives_per_second, now_ms))
    if failed:
        return why_failed(failed[-1].cause, failed[-1].reason)
    return causes.BUSY if in_lane is not None else None


def _position(location: JobLocation, per_second: int, now_ms: int) -> str:
    """The place in the lane, and the time at which it is due at the rate of the lane."""
    if not location.behind:
        return ""
    wait_ms = location.behind * 1_000 // per_second
    return f", {location.behind} before it, due at {timestamp_text(now_ms + wait_ms)}, in {span_text(wait_ms)}"
