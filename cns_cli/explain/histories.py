"""What became of each subscription, folded from what was told, what is queued, and what is stored: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cns.delivery.jobs import QUARANTINE, DirectJob
from cns.filters.model import Scope
from cns.publishing.matching import UNANSWERABLE
from cns.subscriptions.endpoint_syntax import shown
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns_cli.explain.current_filters import PASSES, Filtering
from cns_cli.explain.current_filters import UNANSWERABLE as CANNOT_BE_ASKED
from cns_cli.explain.model import End, Fate, Life, Place
from cns_cli.explain.queue_search import DIRECT, Queued
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    DeliveryFiltered,
    Event,
    NotificationDropped,
    PublishAccepted,
)

GONE = "the subscription is not there any more"
LOST = "notification_lost"
FILTERED_SOME = (
    "filters kept the message from {} subscriptions; of so many it is not noted which, and as the message is not stored"
    " any more, this one's policy cannot be asked"
)


@dataclass(slots=True)
class _Evidence:
    """Of one subscription."""

    attempts: list[DeliveryAttempted] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class Evidence:
    """Of one message."""

    accepted: PublishAccepted | None = None
    filtered: int | None = None
    keys: dict[str, str] = field(default_factory=dict)  # subscription id: the key of its policy that was not met
    drops: list[End] = field(default_factory=list)
    fan_outs: list[Place] = field(default_factory=list)
    of: dict[str, _Evidence] = field(default_factory=dict)
    direct_endpoint: str = ""

    def take(self, event: Event) -> None:
        """In the order of time."""
        match event:
            case PublishAccepted():
                self.accepted = self.accepted or event
            case DeliveryFiltered():
                self.filtered = event.filtered
                self.keys |= dict(zip(event.subscription_ids, event.filter_keys, strict=True))
            case DeliveryAttempted():
                self._of(event.subscription).attempts.append(event)
            case DeliveryDelivered():
                self._of(event.subscription).ends.append(
                    End(
                        at_ms=event.at_ms,
                        fate=Fate.DELIVERED,
                        attempt=event.attempt,
                        since_publish_ms=event.since_publish_ms,
                    )
                )
            case DeliveryDeadLettered():
                self._of(event.subscription).ends.append(
                    End(
                        at_ms=event.at_ms,
                        fate=Fate.DEAD_LETTERED,
                        attempt=event.attempt,
                        cause=event.cause,
                        queue=event.queue,
                        since_publish_ms=event.since_publish_ms,
                    )
                )
            case NotificationDropped():
                end = End(
                    at_ms=event.at_ms,
                    fate=Fate.DROPPED,
                    attempt=event.attempt,
                    cause=event.cause,
                    reason=event.reason,
                )
                of_one = event.subscription or not event.topic
                (self._of(event.subscription).ends if of_one else self.drops).append(end)

    def find(self, queued: Queued) -> None:
        if queued.place.all_subscriptions:
            self.fan_outs.append(queued.place)
        if isinstance(queued.job, DirectJob):
            self.direct_endpoint = queued.job.endpoint
        for target in queued.targets:
            self._of(target).places.append(queued.place)

    def _of(self, subscription: str) -> _Evidence:
        return self.of.setdefault(subscription, _Evidence())

    def dropped_for_all(self, cause: str) -> bool:
        return any(drop.cause == cause for drop in self.drops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is stored, beside the evidence. Times are 0 where they are not known."""

    subscriptions: Mapping[str, Subscription]
    filtering: Filtering | None  # None: the message itself is stored nowhere any more
    published_ms: int
    replays: Mapping[str, str]  # the states of those that the topic's subscriptions have, by ARN
    is_notification: bool


def lives(evidence: Evidence, scene: Scene, only: str = "") -> Iterator[Life]:
    """Of everybody who is known to have been meant, and of those subscribed now."""
    arns = {**evidence.of, **(scene.subscriptions if scene.is_notification else {})}
    for arn in [only] if only else arns:
        subscription = scene.subscriptions.get(arn)
        own = evidence.of.get(arn)
        if own is not None:
            yield _told(arn, own, subscription, evidence.direct_endpoint)
        elif subscription is not None:
            yield _untold(subscription, evidence, scene)


def _told(arn: str, own: _Evidence, subscription: Subscription | None, direct_endpoint: str) -> Life:
    fate, reason = _fate(own)
    if subscription is None and arn != DIRECT:
        reason = f"{reason}; {GONE}" if reason else GONE
    return Life(
        subscription=arn,
        protocol=own.attempts[0].protocol if own.attempts else subscription.protocol if subscription else "",
        endpoint=shown(subscription.endpoint) if subscription else direct_endpoint,
        fate=fate,
        reason=reason,
        attempts=tuple(own.attempts),
        ends=tuple(own.ends),
        places=tuple(own.places),
    )


def _fate(own: _Evidence) -> tuple[Fate, str]:
    if own.ends:
        best = next((end for end in own.ends if end.fate is Fate.DELIVERED), own.ends[-1])
        times = sum(end.fate is Fate.DELIVERED for end in own.ends)
        return best.fate, f"{times} times: by a replay, or a worker died before it could note it" if times > 1 else ""
    if any(place.queue == QUARANTINE for place in own.places):
        return Fate.QUARANTINED, "its job was begun again and again and never finished: `cns quarantine list`"
    if own.places:
        return (Fate.UNDER_WAY if any(place.under_way for place in own.places) else Fate.WAITING), ""
    return Fate.UNKNOWN, "what followed the last attempt was not told, and it is in none of the queues"


def _untold(subscription: Subscription, evidence: Evidence, scene: Scene) -> Life:
    fate, reason = _guess_free(subscription, evidence, scene)
    return Life(
        subscription=subscription.arn,
        protocol=subscription.protocol,
        endpoint=shown(subscription.endpoint),
        fate=fate,
        reason=reason,
        attempts=(),
        ends=(),
        places=(),
    )


def _guess_free(subscription: Subscription, evidence: Evidence, scene: Scene) -> tuple[Fate, str]:
    """Of one that no attempt was told of: only what follows from what is known."""
    if subscription.id in evidence.keys:
        return Fate.FILTERED, _why_filtered(subscription, evidence.keys[subscription.id], scene.filtering)
    if scene.published_ms and subscription.created_ms > scene.published_ms:
        return Fate.LATER, f"subscribed {_after(subscription.created_ms, scene)}"
    if scene.published_ms and subscription.confirmed_ms > scene.published_ms:
        return Fate.UNCONFIRMED, f"confirmed {_after(subscription.confirmed_ms, scene)}"
    if subscription.state is not SubscriptionState.CONFIRMED:
        return Fate.UNCONFIRMED, f"now {subscription.state.name.lower()}"
    if evidence.dropped_for_all(LOST):
        return Fate.DROPPED, LOST
    passes = PASSES
    if subscription.filter_policy:
        if scene.filtering is not None:
            passes = scene.filtering.verdict(subscription)
        elif _asks_attributes(subscription) and evidence.dropped_for_all(UNANSWERABLE):
            passes = CANNOT_BE_ASKED
        elif evidence.filtered:
            return Fate.UNKNOWN, FILTERED_SOME.format(evidence.filtered)
    if passes.passes is None:
        return Fate.DROPPED, f"{UNANSWERABLE}: its policy looks at attributes, and one of the message's is malformed"
    if not passes.passes:
        return Fate.FILTERED, f"by its present policy: {passes.reason}"
    if any(place.cursor < subscription.id for place in evidence.fan_outs):
        return Fate.WAITING, "the fan-out has not come to it yet"
    if subscription.arn in scene.replays:
        return Fate.UNKNOWN, f"it has a replay ({scene.replays[subscription.arn]}), which sends what is in the archive"
    if evidence.accepted is not None and not evidence.accepted.jobs:
        return Fate.UNKNOWN, "when the message was accepted no subscription was to get it: this one has changed since"
    return Fate.UNKNOWN, "nothing was told of it, and it is in none of the queues"


def _after(at_ms: int, scene: Scene) -> str:
    return f"{(at_ms - scene.published_ms) / 1000:.3f} s after it was published"


def _why_filtered(subscription: Subscription, key: str, filtering: Filtering | None) -> str:
    """What was told when it was filtered, and where it can be had still, the values."""
    then = f"key `{key}` of its policy was not met" if key else "its policy was not met"
    if filtering is None or not subscription.filter_policy:
        return then
    now = filtering.verdict(subscription)
    if now.passes:
        return f"{then}; its present policy lets the message through"
    return now.reason if now.reason.startswith(f"key `{key}`") else f"{then}; by its present policy: {now.reason}"


def _asks_attributes(subscription: Subscription) -> bool:
    return subscription.filter_scope == Scope.ATTRIBUTES
