"""Dead-letter queues of an account: what sends to them, how much they hold, and why their messages are there."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

import msgspec
from fastapi import APIRouter, Query

from cns.delivery.failure_causes import End, FinalCause
from cns.rest.deliveries import DeadLetter, DeadLetterDepth, DeadLetterQueue, DeadLetterQueues, DeadLetters, Delivery
from cns.rest.models import BrowsedMessage
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import SubscriptionState
from cns_common.arn import parse_arn
from cns_common.errors import UNREADABLE, RequestError
from cns_common.events.recent_events import field
from cns_common.events.schema import DeliveryDeadLettered
from cns_server.rest.calls import RestCall, RestCalls
from cns_server.rest.deliveries.routes import COUNTED_MAX, RecentDeliveries
from cns_server.rest.dependencies import Begun
from cns_server.rest.messages import BROWSED_MAX, MessageRoutes
from cns_server.rest.problems import Problem
from cns_server.rest.queues import AccountId, After, QueueName, QueueRoutes
from cqs.authorization import QueueAccess
from cqs.service import QueueService

SCANNED = 500
"""Queues, and subscriptions, whose redrive policies one page reads."""
SCANS_MAX = 10
"""A page on which nothing was found reads on, so many times in all."""
RECEIVES_SPENT = f"{End.SPENT}:{FinalCause.RECEIVES}"
"""The cause of a message that came from a queue: it was received as often as the queue's redrive policy allows."""


class _Envelope(msgspec.Struct):
    """The members of a notification's envelope that name it and, in the link, its subscription."""

    MessageId: str
    TopicArn: str
    UnsubscribeURL: str = ""


class _Position(NamedTuple):
    """Where the next page begins in the two lists that are scanned; None at the end of a list."""

    queues: str | None
    subscriptions: str | None


_END = _Position(None, None)


class DeadLetterRoutes:
    def __init__(
        self,
        calls: RestCalls,
        queues: QueueService,
        queue_routes: QueueRoutes,
        messages: MessageRoutes,
        subscriptions: SubscriptionStore,
        recent: RecentDeliveries,
    ) -> None:
        self._calls = calls
        self._access = QueueAccess(queues.cache, queues.clock)
        self._clock = queues.clock
        self._queues = queue_routes
        self._messages = messages
        self._subscriptions = subscriptions
        self._recent = recent

    def add_to(self, router: APIRouter) -> None:
        queues = "/accounts/{account}/deadLetterQueues"
        router.add_api_route(queues, self.list_dead_letter_queues, methods=["GET"], response_model=DeadLetterQueues)
        letters = "/accounts/{account}/queues/{queue}/deadLetters"
        router.add_api_route(letters, self.list_dead_letters, methods=["GET"], response_model=DeadLetters)

    async def list_dead_letter_queues(self, rest: Begun, account: AccountId, after: After = "") -> DeadLetterQueues:
        """The dead-letter queues of some of the account's queues and subscriptions. The same one may be on later
        pages with further sources."""
        self._calls.check_own(rest, account)
        position = _read_position(after)
        found: dict[str, DeadLetterQueue] = {}
        for _ in range(SCANS_MAX):
            position = _Position(
                await self._add_queues(rest, account, position.queues, found),
                await self._add_subscriptions(rest, account, position.subscriptions, found),
            )
            if found or position == _END:
                break
        shown = [found[arn] for arn in sorted(found)]
        depths = await asyncio.gather(*[self._depth(rest, one.arn) for one in shown])
        return DeadLetterQueues(
            dead_letter_queues=[
                msgspec.structs.replace(one, depth=depth) for one, depth in zip(shown, depths, strict=True)
            ],
            next=_write_position(position),
        )

    async def _add_queues(
        self, rest: RestCall, account: str, after: str | None, found: dict[str, DeadLetterQueue]
    ) -> str | None:
        """Add the dead-letter queues of a page of queues. Return where the next page begins."""
        if after is None:
            return None
        page = await self._queues.list_queues(rest, account, "", after, SCANNED)
        targets = await asyncio.gather(*[self._target(rest, account, name) for name in page.queues])
        for name, target in zip(page.queues, targets, strict=True):
            if target:
                _entry(found, target).queues.append(name)
        return page.next

    async def _target(self, rest: RestCall, account: str, name: str) -> str:
        """The ARN of a queue's dead-letter queue; '' if it has none, or the caller may not see it."""
        try:
            self._calls.check(rest, "sqs:GetQueueAttributes", account=account, queue=name)
            view = await self._access.queue_by_name(rest.call, account, name, "GetQueueAttributes")
        except (RequestError, Problem):
            return ""
        key = view.dead_letter_key
        return "" if key is None else f"arn:aws:sqs:{key[1]}:{key[0]}:{key[2]}"

    async def _add_subscriptions(
        self, rest: RestCall, account: str, after: str | None, found: dict[str, DeadLetterQueue]
    ) -> str | None:
        """Add the dead-letter queues of a page of subscriptions. Return where the next page begins."""
        if after is None:
            return None
        self._calls.check(rest, "sns:ListSubscriptions", account=account)
        self._calls.check(rest, "sns:GetSubscriptionAttributes", account=account)
        page = await self._subscriptions.page_of_owner(account, rest.region, after, SCANNED)
        for subscription in page:
            if subscription.dead_letter_arn and subscription.state is SubscriptionState.CONFIRMED:
                _entry(found, subscription.dead_letter_arn).subscriptions.append(subscription.arn)
        return page[-1].id if len(page) == SCANNED else None

    async def _depth(self, rest: RestCall, arn: str) -> DeadLetterDepth | None:
        """None for a queue that does not exist, is in another region, or whose policy denies it."""
        parsed = parse_arn(arn)
        if parsed is None or parsed.region != rest.region:
            return None
        try:
            self._calls.check(rest, "sqs:GetQueueAttributes", account=parsed.account, queue=parsed.resource)
            view = await self._access.queue_by_name(rest.call, parsed.account, parsed.resource, "GetQueueAttributes")
        except (RequestError, Problem):
            return None
        now_ms = self._clock.now_ms()
        counts = await view.engine.counts(view.ref, now_ms, oldest=True)
        born_ms = counts.oldest_born_at_ms
        return DeadLetterDepth(
            visible=counts.visible,
            in_flight=counts.in_flight,
            delayed=counts.delayed,
            oldest_sent_at=born_ms or None,
            oldest_age_seconds=max(now_ms - born_ms, 0) // 1000 if born_ms else None,
        )

    async def list_dead_letters(
        self,
        rest: Begun,
        account: AccountId,
        queue: QueueName,
        after: After = "",
        limit: Annotated[int, Query(ge=1, le=BROWSED_MAX)] = 10,
    ) -> DeadLetters:
        """Look at the messages of a dead-letter queue without leasing them: where each came from, and why."""
        page = await self._messages.browse_messages(rest, account, queue, after, limit)
        arn = rest.queue_arn(account, queue)
        if all(one.dead_letter_source_arn for one in page.messages):  # all came from queues: no events about them
            return DeadLetters(messages=[_letter(one, {}) for one in page.messages], next=page.next)
        events = await self._recent.newest(
            field("queue", arn),
            lambda event: isinstance(event, DeliveryDeadLettered) and event.queue == arn,
            COUNTED_MAX,
            only_failures=True,
        )
        moves = _by_message(events.deliveries)
        return DeadLetters(
            messages=[_letter(one, moves) for one in page.messages],
            next=page.next,
            complete=events.complete,
            every_machine=events.every_machine,
        )


def _entry(found: dict[str, DeadLetterQueue], arn: str) -> DeadLetterQueue:
    entry = found.get(arn)
    if entry is None:
        entry = found[arn] = DeadLetterQueue(name=arn.rpartition(":")[2], arn=arn, queues=[], subscriptions=[])
    return entry


def _by_message(moves: Iterable[Delivery]) -> dict[str, list[Delivery]]:
    """The moves to the queue by the id of their notification, the newest first."""
    found: dict[str, list[Delivery]] = {}
    for move in moves:
        found.setdefault(move.message_id, []).append(move)
    return found


def _letter(message: BrowsedMessage, moves: Mapping[str, list[Delivery]]) -> DeadLetter:
    shown = msgspec.structs.asdict(message)
    if message.dead_letter_source_arn:
        return DeadLetter(**shown, source_arn=message.dead_letter_source_arn, cause=RECEIVES_SPENT)
    try:
        envelope = msgspec.json.decode(message.body, type=_Envelope)
    except UNREADABLE:  # another text
        return DeadLetter(**shown)
    candidates = moves.get(envelope.MessageId, [])
    named = [one for one in candidates if one.subscription_arn and one.subscription_arn in envelope.UnsubscribeURL]
    move = next(iter(named or candidates), None)
    several = not named and len({one.subscription_arn for one in candidates}) > 1
    if move is None or several:  # one notification, several subscriptions, and the message does not say which
        return DeadLetter(**shown, notification_id=envelope.MessageId, topic_arn=envelope.TopicArn)
    return DeadLetter(
        **shown,
        source_arn=move.subscription_arn,
        notification_id=envelope.MessageId,
        topic_arn=envelope.TopicArn,
        cause=move.cause,
        dead_lettered_at=move.at,
    )


def _read_position(after: str) -> _Position:
    """Raises Problem for text that no earlier page returned."""
    if not after:
        return _Position("", "")
    try:
        return msgspec.json.decode(base64.b64decode(after, altchars=b"-_", validate=True), type=_Position)
    except UNREADABLE:
        raise Problem(400, "InvalidRequest", "`after` is not the `next` of an earlier page.") from None


def _write_position(position: _Position) -> str | None:
    if position == _END:
        return None
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode("ascii")
