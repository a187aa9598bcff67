"""The newest deliveries of a topic, a subscription or a message, and failures by cause."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from fastapi import Path as PathParameter
from msgspec.structs import replace

from cns.rest.deliveries import Deliveries, Delivery, FailureList, Failures
from cns_common.events.recent_events import ALL, FAILURES, DeliveryEvent, NewestEvents, field, newest_events
from cns_common.events.schema import (
    DeliveryAttempted,
    DeliveryDeadLettered,
    DeliveryDelivered,
    NotificationDropped,
)
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.dependencies import Begun
from cns_server.rest.queues import AccountId
from cns_server.rest.topics import SubscriptionId, TopicName

SHOWN_MAX = 200
COUNTED_MAX = 10_000
"""Failures that are counted by cause: the newest ones."""
SEARCHES_MAX = 2
"""Searches at the same time in a process: others wait."""
_UUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
MessageId = Annotated[str, PathParameter(pattern=_UUID)]
Limit = Annotated[int, Query(ge=1, le=SHOWN_MAX)]
OnlyFailures = Annotated[bool, Query(alias="onlyFailures")]
Wanted = Callable[[DeliveryEvent], bool]


class EventSource(NamedTuple):
    """The directory of events that this process reads. `every_machine`: it has the events of all machines."""

    directory: Path
    every_machine: bool


class RecentDeliveries:
    """Searches events outside the event loop, a few searches at a time."""

    def __init__(self, source: EventSource) -> None:
        self.source = source
        self._turns = asyncio.Semaphore(SEARCHES_MAX)

    async def _search(self, needle: bytes, wanted: Wanted, n: int, *, only_failures: bool) -> NewestEvents:
        marks = FAILURES if only_failures else ALL
        async with self._turns:
            return await asyncio.to_thread(newest_events, [self.source.directory], needle, marks, wanted, n)

    async def newest(self, needle: bytes, wanted: Wanted, n: int, *, only_failures: bool = False) -> Deliveries:
        found = await self._search(needle, wanted, n, only_failures=only_failures)
        return Deliveries(
            deliveries=[delivery_of(event) for event in found.events],
            complete=found.complete,
            every_machine=self.source.every_machine,
        )

    async def failures(self, needle: bytes, wanted: Wanted) -> FailureList:
        found = await self._search(needle, wanted, COUNTED_MAX, only_failures=True)
        return FailureList(
            failures=by_cause(found),
            read=len(found.events),
            complete=found.complete,
            every_machine=self.source.every_machine,
        )


class DeliveryRoutes:
    def __init__(self, calls: RestCalls, recent: RecentDeliveries) -> None:
        self._calls = calls
        self._recent = recent

    def add_to(self, router: APIRouter) -> None:
        topic = "/accounts/{account}/topics/{topic}"
        subscription = topic + "/subscriptions/{subscription}"
        add = router.add_api_route
        add(topic + "/deliveries", self.topic_deliveries, methods=["GET"], response_model=Deliveries)
        add(topic + "/failures", self.topic_failures, methods=["GET"], response_model=FailureList)
        add(
            topic + "/messages/{message}/deliveries",
            self.message_deliveries,
            methods=["GET"],
            response_model=Deliveries,
        )
        add(subscription + "/deliveries", self.subscription_deliveries, methods=["GET"], response_model=Deliveries)
        add(subscription + "/failures", self.subscription_failures, methods=["GET"], response_model=FailureList)

    async def topic_deliveries(
        self, rest: Begun, account: AccountId, topic: TopicName, limit: Limit = 50, only_failures: OnlyFailures = False
    ) -> Deliveries:
        """The newest attempts and outcomes of a topic's deliveries."""
        arn = await self._topic(rest, account, topic)
        return await self._recent.newest(field("topic", arn), about(arn), limit, only_failures=only_failures)

    async def topic_failures(self, rest: Begun, account: AccountId, topic: TopicName) -> FailureList:
        """The newest failures of a topic's deliveries, counted by cause and subscription."""
        arn = await self._topic(rest, account, topic)
        return await self._recent.failures(field("topic", arn), about(arn))

    async def message_deliveries(
        self, rest: Begun, account: AccountId, topic: TopicName, message: MessageId, limit: Limit = 50
    ) -> Deliveries:
        """The newest attempts and outcomes of one message. `cns explain` knows more of it."""
        arn = await self._topic(rest, account, topic)
        return await self._recent.newest(field("message_id", message), about(arn), limit)

    async def subscription_deliveries(
        self,
        rest: Begun,
        account: AccountId,
        topic: TopicName,
        subscription: SubscriptionId,
        limit: Limit = 50,
        only_failures: OnlyFailures = False,
    ) -> Deliveries:
        """The newest attempts and outcomes of the deliveries to a subscription."""
        topic_arn, arn = await self._subscription(rest, account, topic, subscription)
        wanted = about(topic_arn, arn)
        return await self._recent.newest(field("subscription", arn), wanted, limit, only_failures=only_failures)

    async def subscription_failures(
        self, rest: Begun, account: AccountId, topic: TopicName, subscription: SubscriptionId
    ) -> FailureList:
        """The newest failures of the deliveries to a subscription, counted by cause."""
        topic_arn, arn = await self._subscription(rest, account, topic, subscription)
        return await self._recent.failures(field("subscription", arn), about(topic_arn, arn))

    async def _topic(self, rest: RestCall, account: str, topic: str) -> str:
        """The ARN of a topic whose subscriptions the caller may read: deliveries name them with their endpoints."""
        arn = rest.topic_arn(account, topic)
        await self._calls.run(rest, "sns:GetTopicAttributes", {"TopicArn": arn}, account=account)
        await self._calls.run(rest, "sns:ListSubscriptionsByTopic", {"TopicArn": arn}, account=account)
        return arn

    async def _subscription(self, rest: RestCall, account: str, topic: str, subscription: str) -> tuple[str, str]:
        topic_arn = rest.topic_arn(account, topic)
        arn = f"{topic_arn}:{subscription}"
        await self._calls.run(rest, "sns:GetSubscriptionAttributes", {"SubscriptionArn": arn}, account=account)
        return topic_arn, arn


def about(topic: str, subscription: str = "") -> Wanted:
    """Whether an event is about a topic and, if one is named, a subscription."""
    return lambda event: event.topic == topic and subscription in ("", event.subscription)


def is_failure(event: DeliveryEvent) -> bool:
    match event:
        case DeliveryAttempted(outcome=outcome):
            return outcome == "failed"
        case DeliveryDelivered():
            return False
        case _:
            return True


def delivery_of(event: DeliveryEvent) -> Delivery:
    """The event as the API shows it."""
    shown = Delivery(
        at=event.at_ms,
        event="attempted",
        message_id=event.message_id,
        message_type=event.message_type,
        subscription_arn=event.subscription or None,
        protocol=event.protocol,
        endpoint=event.endpoint,
        attempt=event.attempt,
        outcome="failed" if is_failure(event) else "delivered",
        replayed=event.replayed,
    )
    match event:
        case DeliveryAttempted():
            more = {
                "cause": event.cause or None,
                "status": event.status or None,
                "reason": event.reason or None,
                "duration_ms": event.duration_ms,
            }
        case DeliveryDelivered():
            more = {"event": "delivered", "since_publish_ms": event.since_publish_ms}
        case DeliveryDeadLettered():
            more = {
                "event": "deadLettered",
                "cause": event.cause,
                "dead_letter_queue": event.queue,
                "since_publish_ms": event.since_publish_ms,
            }
        case NotificationDropped():
            more = {"event": "dropped", "cause": event.cause, "reason": event.reason or None}
    return replace(shown, **more)


def by_cause(found: NewestEvents) -> list[Failures]:
    """The failures, counted by cause; the most frequent first."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    newest: dict[tuple[str, str | None, str], Delivery] = {}
    for event in found.events:  # newest first
        shown = delivery_of(event)
        key = (shown.event, shown.subscription_arn, shown.cause or "")
        counts[key] += 1
        newest.setdefault(key, shown)
    return [
        Failures(
            cause=cause,
            event=event,
            subscription_arn=subscription,
            count=count,
            last_at=newest[event, subscription, cause].at,
            last_status=newest[event, subscription, cause].status,
            last_reason=newest[event, subscription, cause].reason,
        )
        for (event, subscription, cause), count in counts.most_common()
    ]
