"""The ways by which deliveries leave: posted, published, put into a queue, handed to the gateway, kept in the outbox.

Each begins one attempt and gives a future of its outcome; which protocol goes by which way is a table of `delivery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol

from cns.endpoints.http import HttpRequest
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.redis import RedisRequest
from cns.endpoints.senders import Request
from cns.envelope import Confirmation, MessageType, http_headers, signed_confirmation
from cns.forms import Forms
from cns.gateway import Gateway
from cns.limits import FIFO_SUFFIX
from cns.model import Notification
from cns.outbox import OutboxItem
from cns.queue_port import QueueMessage, QueuePort, Refused
from cns.stores.contract import OutboxStore
from cns.target import Target
from common.errors import OutcomeUnknown, StoreUnavailable
from workers.envelopes import Envelopes
from workers.pools import DeliveryPool

CONFIRMATION_GROUP = "Subscription"
"""Of confirmations in FIFO queues."""
RAW_ATTRIBUTES_MAX = 10
"""SQS takes no more attributes; a raw delivery with more fails as the client's error (sns.md §8)."""

QUEUE_SENDS_MAX = 1_000
"""Under way before more jobs are taken: each has its body in memory, here and in the store host."""

Attempt = asyncio.Future[Outcome]


class Way(Protocol):
    def deliver(self, target: Target, notification: Notification) -> Attempt: ...

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt: ...


class HttpWay:
    def __init__(self, pool: DeliveryPool, envelopes: Envelopes) -> None:
        self._pool = pool
        self._envelopes = envelopes

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._pool.send(lambda: self._request(target, notification))

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        return self._pool.send(lambda: self._confirmation(target, confirmation, base_url))

    def _request(self, target: Target, notification: Notification) -> Request:
        headers = http_headers(
            MessageType.NOTIFICATION,
            notification.id,
            notification.topic_arn,
            target.arn,
            target.content_type,
            raw=target.raw,
        )
        return HttpRequest(target.endpoint, headers, self._envelopes.body(target, notification))

    def _confirmation(self, target: Target, confirmation: Confirmation, base_url: str) -> Request:
        headers = http_headers(
            confirmation.type,
            confirmation.id,
            confirmation.topic_arn,
            confirmation.subscription_arn,
            target.content_type,
        )
        body = signed_confirmation(confirmation, self._envelopes.rendering.signer, base_url)
        return HttpRequest(target.endpoint, headers, body)


class RedisWay:
    """The body that an HTTP endpoint would get, without its headers."""

    def __init__(self, pool: DeliveryPool, envelopes: Envelopes) -> None:
        self._pool = pool
        self._envelopes = envelopes

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._pool.send(lambda: RedisRequest(target.endpoint, self._envelopes.body(target, notification)))

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        signer = self._envelopes.rendering.signer
        return self._pool.send(
            lambda: RedisRequest(target.endpoint, signed_confirmation(confirmation, signer, base_url))
        )


class QueueWay:
    def __init__(self, port: QueuePort, envelopes: Envelopes) -> None:
        self._port = port
        self._envelopes = envelopes
        self._under_way = 0
        self._room = asyncio.Event()

    async def room(self) -> int:
        """How many more sends may begin; waits until there is one. A pool's wait without their bodies: see there."""
        while self._under_way >= QUEUE_SENDS_MAX:
            self._room.clear()
            await self._room.wait()
        return QUEUE_SENDS_MAX - self._under_way

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._begin(self.send(target.endpoint, target, notification))

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        body = signed_confirmation(confirmation, self._envelopes.rendering.signer, base_url).decode()
        message = QueueMessage(body)
        if target.endpoint.endswith(FIFO_SUFFIX):
            message = QueueMessage(body, group=CONFIRMATION_GROUP, dedup=confirmation.id)
        return self._begin(self._put(target.endpoint, message, confirmation.topic_arn))

    def _begin(self, sending: Coroutine[None, None, Outcome]) -> Attempt:
        attempt = asyncio.ensure_future(sending)
        self._under_way += 1
        attempt.add_done_callback(self._ended)
        return attempt

    def _ended(self, _: Attempt) -> None:
        self._under_way -= 1
        self._room.set()

    async def send(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        """To the endpoint's queue, or to that of its dead letters: both get the same."""
        ids = _ids(queue_arn, notification)
        if target.raw:
            if len(notification.attributes) > RAW_ATTRIBUTES_MAX and target.protocol == "sqs":
                return Failed(Cause.QUEUE, "more than 10 attributes in a raw delivery", 0, permanent=True)
            text = notification.text_for(target.protocol)
            message = QueueMessage(
                text, target.queue_attributes(notification), *ids, trace_header=notification.trace_header
            )
        else:
            await self._envelopes.sign_beside(target, notification)
            body = self._envelopes.body(target, notification).decode()
            message = QueueMessage(body, {}, *ids, trace_header=notification.trace_header)
        return await self._put(queue_arn, message, notification.topic_arn)

    async def _put(self, queue_arn: str, message: QueueMessage, topic: str) -> Outcome:
        started_s = _now_s()
        try:
            answer = await self._port.deliver(queue_arn, message, topic)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return Failed(Cause.QUEUE, str(error), _since_ms(started_s))
        if isinstance(answer, Refused):
            return Failed(
                Cause.QUEUE, f"{answer.code}: {answer.text}", _since_ms(started_s), permanent=answer.permanent
            )
        return Delivered(200, _since_ms(started_s), answer)


class OutboxWay:
    """Kept, to be looked at."""

    def __init__(self, outbox: OutboxStore, forms: Forms) -> None:
        self._outbox = outbox
        self._forms = forms

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return asyncio.ensure_future(self._keep(lambda: self._forms.notification(target, notification)))

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        return asyncio.ensure_future(self._keep(lambda: self._forms.confirmation(target, confirmation, base_url)))

    async def _keep(self, make: Callable[[], OutboxItem]) -> Outcome:
        started_s = _now_s()
        item = await asyncio.to_thread(make)  # a signature takes longer than all else
        try:
            await self._outbox.put(item)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return Failed(Cause.OUTBOX, str(error), _since_ms(started_s))
        return Delivered(200, _since_ms(started_s), item.id)


class GatewayWay:
    """Posted to the one URL that takes all that this service has no way of its own for."""

    def __init__(self, pool: DeliveryPool, gateway: Gateway, forms: Forms) -> None:
        self._pool = pool
        self._gateway = gateway
        self._forms = forms

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._pool.send(lambda: self._gateway.request(self._forms.notification(target, notification)))

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        return self._pool.send(lambda: self._gateway.request(self._forms.confirmation(target, confirmation, base_url)))


class AskingWay:
    """Asks first whether the recipient is to be sent anything. What was published to it itself was asked then."""

    def __init__(self, way: Way, objection: Callable[[Target], Awaitable[Cause | None]]) -> None:
        self._way = way
        self._objection = objection

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        if not target.arn:
            return self._way.deliver(target, notification)
        return asyncio.ensure_future(self._deliver(target, notification))

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        return self._way.confirm(target, confirmation, base_url)

    async def _deliver(self, target: Target, notification: Notification) -> Outcome:
        started_s = _now_s()
        try:
            cause = await self._objection(target)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return Failed(Cause.STORE, str(error), _since_ms(started_s))
        if cause is not None:
            return Failed(cause, f"{target.endpoint} is sent nothing", _since_ms(started_s), permanent=True)
        return await self._way.deliver(target, notification)


def _ids(queue_arn: str, notification: Notification) -> tuple[str, str]:
    """Group and deduplication id. A FIFO topic's mean nothing to a standard queue; a FIFO queue for the dead letters of
    a standard topic, where messages may have none, must not lose them for it."""
    group, dedup = notification.message_group_id, notification.message_deduplication_id
    if queue_arn.endswith(FIFO_SUFFIX):
        return group or notification.id, dedup or notification.id
    return ("", "") if notification.fifo else (group, "")


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _since_ms(started_s: float) -> int:
    return int((_now_s() - started_s) * 1000)
