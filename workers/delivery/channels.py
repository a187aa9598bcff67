"""The ways by which deliveries leave: posted, published, put into a queue, handed to the gateway, kept in the outbox.

Each begins one attempt and gives a future of its outcome; which protocol goes by which way is a table of `delivery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Protocol

from cns.delivery.envelope import Confirmation, MessageType, http_headers, signed_confirmation
from cns.delivery.gateway import Gateway
from cns.delivery.outbox import OutboxItem
from cns.delivery.payloads import PayloadRenderer
from cns.delivery.target import Target
from cns.endpoints.contract import Request
from cns.endpoints.http import HttpRequest
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.redis_channel import RedisRequest
from cns.notification import Notification
from cns.queue_port.contract import QueueMessage, QueuePort, Refusal
from cns.stores.contract import OutboxStore
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from workers.delivery.envelope_cache import Envelopes
from workers.delivery.pool.pool import DeliveryPool
from workers.delivery.queue_routes import Place, QueueRoutes
from workers.delivery.sqs_message import confirmation_for, message_for, objection_to, refused

QUEUE_SENDS_MAX = 1_000
"""Under way before more jobs are taken: each has its body in memory, here and in the store host."""

Attempt = asyncio.Future[Outcome]


class Way(Protocol):
    def traffic_key(self, target: Target) -> str:
        """Name the endpoint that a send may find slow or dead: sends with the same key share its limits
        (`workers.delivery.traffic`). '' where the destination cannot hang."""
        ...

    def deliver(self, target: Target, notification: Notification) -> Attempt: ...

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt: ...


class HttpWay:
    def __init__(self, pool: DeliveryPool, envelopes: Envelopes) -> None:
        self._pool = pool
        self._envelopes = envelopes

    def traffic_key(self, target: Target) -> str:
        return target.endpoint_key

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._pool.send(partial(self._request, target, notification), target.group)

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        return self._pool.send(partial(self._confirmation, target, confirmation, base_url), target.group)

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

    def traffic_key(self, target: Target) -> str:
        return target.endpoint_key

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._pool.send(
            lambda: RedisRequest(target.endpoint, self._envelopes.body(target, notification)), target.group
        )

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        signer = self._envelopes.rendering.signer
        return self._pool.send(
            lambda: RedisRequest(target.endpoint, signed_confirmation(confirmation, signer, base_url)), target.group
        )


class QueueWay:
    def __init__(self, port: QueuePort, envelopes: Envelopes) -> None:
        self._routes = QueueRoutes(port)
        self._envelopes = envelopes
        self._under_way = 0
        self._room = asyncio.Event()

    async def room(self) -> int:
        """How many more sends may begin; waits until there is one. A pool's wait without their bodies: see there."""
        while self._under_way >= QUEUE_SENDS_MAX:
            self._room.clear()
            await self._room.wait()
        return QUEUE_SENDS_MAX - self._under_way

    def traffic_key(self, target: Target) -> str:
        return ""

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._begin(self.send(target.endpoint, target, notification))

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        return self._begin(self._confirm(target.endpoint, confirmation, base_url))

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
        objection = objection_to(target, notification)
        if objection is not None:
            return objection
        with self._routes.place(queue_arn, notification.topic_arn) as place:
            if not target.raw:
                await self._envelopes.sign_beside(target, notification)
            return await self._put(place, message_for(queue_arn, target, notification, self._envelopes))

    async def _confirm(self, queue_arn: str, confirmation: Confirmation, base_url: str) -> Outcome:
        with self._routes.place(queue_arn, confirmation.topic_arn) as place:
            return await self._put(place, confirmation_for(queue_arn, confirmation, self._envelopes, base_url))

    async def _put(self, place: Place, message: QueueMessage) -> Outcome:
        started_s = _now_s()
        try:
            answer = await place.send(message)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return Failed(Cause.QUEUE, str(error), _since_ms(started_s))
        if isinstance(answer, Refusal):
            return refused(answer, _since_ms(started_s))
        return Delivered(200, _since_ms(started_s), answer)


class OutboxWay:
    """Kept, to be looked at."""

    def __init__(self, outbox: OutboxStore, forms: PayloadRenderer) -> None:
        self._outbox = outbox
        self._forms = forms

    def traffic_key(self, target: Target) -> str:
        return ""

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

    def __init__(self, pool: DeliveryPool, gateway: Gateway, forms: PayloadRenderer) -> None:
        self._pool = pool
        self._gateway = gateway
        self._forms = forms

    def traffic_key(self, target: Target) -> str:
        return "gateway"

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._pool.send(
            lambda: self._gateway.request(self._forms.notification(target, notification)), target.group
        )

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        return self._pool.send(
            lambda: self._gateway.request(self._forms.confirmation(target, confirmation, base_url)), target.group
        )


class AskingWay:
    """Asks first whether the recipient is to be sent anything. What was published to it itself was asked then."""

    def __init__(self, way: Way, objection: Callable[[Target, Notification], Awaitable[Cause | None]]) -> None:
        self._way = way
        self._objection = objection

    def traffic_key(self, target: Target) -> str:
        return self._way.traffic_key(target)

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        if not target.arn:
            return self._way.deliver(target, notification)
        return asyncio.ensure_future(self._deliver(target, notification))

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        return self._way.confirm(target, confirmation, base_url)

    async def _deliver(self, target: Target, notification: Notification) -> Outcome:
        started_s = _now_s()
        try:
            cause = await self._objection(target, notification)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return Failed(Cause.STORE, str(error), _since_ms(started_s))
        if cause is not None:
            return Failed(cause, f"{target.endpoint} is sent nothing", _since_ms(started_s), permanent=True)
        return await self._way.deliver(target, notification)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _since_ms(started_s: float) -> int:
    return int((_now_s() - started_s) * 1000)
