"""Derives a delivery history per subscription from events, jobs and stored data: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cns.delivery.failure_causes import FinalCause
from cns.delivery.jobs import QUARANTINE, DirectJob
from cns.filters.model import Scope
from cns.filters.parser import compile_stored
from cns.filters.reasons import asked_of
from cns.subscriptions.endpoint_syntax import masked_endpoint
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns_backend.explain.current_filters import NOT_EVALUABLE, PASSES, CurrentFilterResult, MessageFilter
from cns_backend.explain.model import DeliveryHistory, DeliveryStatus, FinalOutcome, JobLocation
from cns_backend.explain.queue_search import DIRECT, FoundJob
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    DeliveryFiltered,
    NotificationDropped,
    NotificationEvent,
    PublishAccepted,
)

GONE = "the subscription no longer exists"
FILTERED_SOME = (
    "filters rejected the message for {} subscriptions, too many to record each; the message is no longer stored, so"
    " this one's policy cannot be evaluated"
)

StatusAndReason = tuple[DeliveryStatus, str]


@dataclass(slots=True)
class SubscriptionTrace:
    """The traces of one message for one subscription."""

    attempts: list[DeliveryAttempted] = field(default_factory=list)
    outcomes: list[FinalOutcome] = field(default_factory=list)
    locations: list[JobLocation] = field(default_factory=list)


@dataclass(slots=True)
class MessageTrace:
    """The traces of one message in events and queues."""

    accepted: PublishAccepted | None = None
    filtered: int | None = None
    filter_keys: dict[str, str] = field(default_factory=dict)  # subscription id → key of its policy that did not match
    drops: list[FinalOutcome] = field(default_factory=list)
    fan_outs: list[JobLocation] = field(default_factory=list)
    by_subscription: dict[str, SubscriptionTrace] = field(default_factory=dict)
    direct_endpoint: str = ""

    def add_event(self, event: NotificationEvent) -> None:
        """Add an event. Events come in order of time."""
        match event:
            case PublishAccepted():
                self.accepted = self.accepted or event
            case DeliveryFiltered():
                self.filtered = event.filtered
                self.filter_keys |= dict(zip(event.subscription_ids, event.filter_keys, strict=True))
            case DeliveryAttempted():
                self._trace(event.subscription).attempts.append(event)
            case DeliveryDelivered() | DeliveryDeadLettered():
                self._trace(event.subscription).outcomes.append(_outcome(event))
            case NotificationDropped():
                of_one = event.subscription or not event.topic
                (self._trace(event.subscription).outcomes if of_one else self.drops).append(_outcome(event))

    def add_job(self, found: FoundJob) -> None:
        if found.location.all_subscriptions:
            self.fan_outs.append(found.location)
        if isinstance(found.job, DirectJob):
            self.direct_endpoint = found.job.endpoint
        for target in found.targets:
            self._trace(target).locations.append(found.location)

    def _trace(self, subscription: str) -> SubscriptionTrace:
        return self.by_subscription.setdefault(subscription, SubscriptionTrace())

    def dropped_for_all(self, cause: str) -> bool:
        return any(drop.cause == cause for drop in self.drops)


def _outcome(event: DeliveryDelivered | DeliveryDeadLettered | NotificationDropped) -> FinalOutcome:
    match event:
        case DeliveryDelivered():
            return FinalOutcome(
                at_ms=event.at_ms,
                status=DeliveryStatus.DELIVERED,
                attempt=event.attempt,
                since_publish_ms=event.since_publish_ms,
            )
        case DeliveryDeadLettered():
            return FinalOutcome(
                at_ms=event.at_ms,
                status=DeliveryStatus.DEAD_LETTERED,
                attempt=event.attempt,
                cause=event.cause,
                queue=event.queue,
                since_publish_ms=event.since_publish_ms,
            )
        case NotificationDropped():
            return FinalOutcome(
                at_ms=event.at_ms,
                status=DeliveryStatus.DROPPED,
                attempt=event.attempt,
                cause=event.cause,
                reason=event.reason,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The stored data that concerns the message, as it is now. Unknown times are 0."""

    subscriptions: Mapping[str, Subscription]  # by ARN
    message_filter: MessageFilter | None  # None: the message itself is no longer stored
    published_ms: int
    replays: Mapping[str, str]  # subscription ARN → state of its replay
    lists_untraced: bool
    """Whether subscriptions without a trace are listed: not if some traces were not read."""


def histories(trace: MessageTrace, snapshot: Snapshot, only: str = "") -> Iterator[DeliveryHistory]:
    """Return a history for each subscription with a trace and for each present one, or for the ARN `only`."""
    arns = {**trace.by_subscription, **(snapshot.subscriptions if snapshot.lists_untraced else {})}
    for arn in [only] if only else arns:
        subscription = snapshot.subscriptions.get(arn)
        own = trace.by_subscription.get(arn)
        if own is not None:
            yield _traced(arn, own, subscription, trace.direct_endpoint)
        elif subscription is not None:
            yield _untraced(subscription, trace, snapshot)


def _traced(
    arn: str, own: SubscriptionTrace, subscription: Subscription | None, direct_endpoint: str
) -> DeliveryHistory:
    status, reason = _traced_status(own)
    if subscription is None and arn != DIRECT:
        reason = f"{reason}; {GONE}" if reason else GONE
    return DeliveryHistory(
        subscription=arn,
        protocol=own.attempts[0].protocol if own.attempts else subscription.protocol if subscription else "",
        endpoint=masked_endpoint(subscription.endpoint) if subscription else direct_endpoint,
        status=status,
        reason=reason,
        attempts=tuple(own.attempts),
        outcomes=tuple(own.outcomes),
        locations=tuple(own.locations),
    )


def _traced_status(own: SubscriptionTrace) -> StatusAndReason:
    if own.outcomes:
        delivered = [outcome for outcome in own.outcomes if outcome.status is DeliveryStatus.DELIVERED]
        times = f"{len(delivered)} times: by a replay, or a worker died before it recorded the delivery"
        return [*delivered, own.outcomes[-1]][0].status, times if len(delivered) > 1 else ""
    if any(location.queue == QUARANTINE for location in own.locations):
        return (
            DeliveryStatus.QUARANTINED,
            "its delivery was started too often and never finished: `cns quarantine list`",
        )
    if any(location.under_way for location in own.locations):
        return DeliveryStatus.UNDER_WAY, ""
    if own.locations:
        return DeliveryStatus.WAITING, ""
    return DeliveryStatus.UNKNOWN, "what followed the last attempt was not recorded, and no delivery waits"


def _untraced(subscription: Subscription, trace: MessageTrace, snapshot: Snapshot) -> DeliveryHistory:
    status, reason = _untraced_status(subscription, trace, snapshot)
    return DeliveryHistory(
        subscription=subscription.arn,
        protocol=subscription.protocol,
        endpoint=masked_endpoint(subscription.endpoint),
        status=status,
        reason=reason,
        attempts=(),
        outcomes=(),
        locations=(),
    )


def _untraced_status(subscription: Subscription, trace: MessageTrace, snapshot: Snapshot) -> StatusAndReason:
    """Infer the status of a subscription without a trace. A guess counts as unknown."""
    if subscription.id in trace.filter_keys:
        key = trace.filter_keys[subscription.id]
        return DeliveryStatus.FILTERED, _why_filtered(subscription, key, snapshot.message_filter)
    return (
        _status_by_subscription(subscription, snapshot)
        or _status_by_filter(subscription, trace, snapshot)
        or _status_by_fan_out(subscription, trace, snapshot)
    )


def _status_by_subscription(subscription: Subscription, snapshot: Snapshot) -> StatusAndReason | None:
    """Return a status if the subscription could not get the message when it was published."""
    published_ms = snapshot.published_ms
    if published_ms and subscription.created_ms > published_ms:
        return DeliveryStatus.LATER, f"subscribed {_after(subscription.created_ms, published_ms)}"
    if published_ms and subscription.confirmed_ms > published_ms:
        return DeliveryStatus.UNCONFIRMED, f"confirmed {_after(subscription.confirmed_ms, published_ms)}"
    if subscription.state is not SubscriptionState.CONFIRMED:
        return DeliveryStatus.UNCONFIRMED, f"now {subscription.state.name.lower()}"
    return None


def _status_by_filter(subscription: Subscription, trace: MessageTrace, snapshot: Snapshot) -> StatusAndReason | None:
    """Return a status if the message was dropped for all, or the subscription's filter decides."""
    if trace.dropped_for_all(FinalCause.NOTIFICATION_LOST):
        return DeliveryStatus.DROPPED, FinalCause.NOTIFICATION_LOST
    result = _filter_result(subscription, trace, snapshot)
    if result is None:
        return DeliveryStatus.UNKNOWN, FILTERED_SOME.format(trace.filtered)
    if result.passes is None:
        text = f"{FinalCause.INVALID_ATTRIBUTES}: its policy looks at attributes, and one of the message's is malformed"
        return DeliveryStatus.DROPPED, text
    return None if result.passes else (DeliveryStatus.FILTERED, f"by its present policy: {result.reason}")


def _filter_result(subscription: Subscription, trace: MessageTrace, snapshot: Snapshot) -> CurrentFilterResult | None:
    """Return None if the filter may have rejected the message, which is no longer stored."""
    if not subscription.filter_policy:
        return PASSES
    if snapshot.message_filter is not None:
        return snapshot.message_filter.evaluate(subscription)
    if subscription.filter_scope == Scope.ATTRIBUTES and trace.dropped_for_all(FinalCause.INVALID_ATTRIBUTES):
        return NOT_EVALUABLE
    return None if trace.filtered else PASSES


def _status_by_fan_out(subscription: Subscription, trace: MessageTrace, snapshot: Snapshot) -> StatusAndReason:
    """Return the status of a subscription that should get the message."""
    if any(location.cursor < subscription.id for location in trace.fan_outs):
        return DeliveryStatus.WAITING, "the distribution has not reached it yet"
    if subscription.arn in snapshot.replays:
        replay = snapshot.replays[subscription.arn]
        return DeliveryStatus.UNKNOWN, f"it has a replay ({replay}), which sends messages of the archive"
    if trace.accepted is not None and not trace.accepted.has_recipients:
        text = "no subscription was to get the message when it was accepted: this one has changed since"
        return DeliveryStatus.UNKNOWN, text
    return DeliveryStatus.UNKNOWN, "no event is about it, and no delivery waits"


def _after(at_ms: int, published_ms: int) -> str:
    return f"{(at_ms - published_ms) / 1000:.3f} s after it was published"


def _why_filtered(subscription: Subscription, key: str, message_filter: MessageFilter | None) -> str:
    """Return the recorded key and, if the message is still stored, the values."""
    then = f"key `{key}` of its policy was not met" if key else "its policy was not met"
    if not subscription.filter_policy:
        return then
    if message_filter is None:
        policy = compile_stored(subscription.filter_policy, Scope(subscription.filter_scope))
        return then + "".join(f"; it asks now for one of [{asked}]" for asked in asked_of(policy, key))
    now = message_filter.evaluate(subscription)
    if now.passes:
        return f"{then}; its present policy accepts the message"
    return now.reason if now.reason.startswith(f"key `{key}`") else f"{then}; by its present policy: {now.reason}"
