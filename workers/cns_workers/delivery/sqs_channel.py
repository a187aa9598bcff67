"""The channel of SQS queues: this service's own through the queue port, those of other services signed, by a pool.

A remote queue is an endpoint like one on the web: it may be slow or down, so its sends have limits of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from cns.delivery.envelope import ConfirmationNotice
from cns.delivery.envelope_cache import EnvelopeCache
from cns.delivery.queue_message import confirmation_for, failure_of, message_for, size_error
from cns.delivery.remote_queues import RemoteQueue, RemoteQueueResolver
from cns.delivery.target import Target
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.sqs import RemoteQueueRequest
from cns.notification import Notification
from cns.queue_port.contract import QueueMessage, QueuePort, Refusal
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.text_size import utf8_bytes
from cns_workers.delivery.channel import Attempt, Channel, since_ms
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.delivery.queue_routes import RouteSlot, SendRoutes
from cns_workers.loops import now_s

QUEUE_SENDS_MAX = 1_000
"""Sends to own queues in flight before no more jobs are received: the body of each is in memory, here and in the store
host."""


class SqsChannel(Channel):
    def __init__(
        self, port: QueuePort, pool: DeliveryPool, envelopes: EnvelopeCache, remote_queues: RemoteQueueResolver
    ) -> None:
        self._routes = SendRoutes(port)
        self._pool = pool
        self._envelopes = envelopes
        self._remote_queues = remote_queues
        self._in_flight = 0
        self._has_room = asyncio.Event()

    async def room(self) -> int:
        """Wait until a send to an own queue may start. Returns how many may."""
        while self._in_flight >= QUEUE_SENDS_MAX:
            self._has_room.clear()
            await self._has_room.wait()
        return QUEUE_SENDS_MAX - self._in_flight

    def traffic_key(self, target: Target) -> str:
        return "" if self._remote_queues.find(target.endpoint) is None else f"{target.account} {target.endpoint}"

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        remote = self._remote_queues.find(target.endpoint)
        if remote is None:
            return self._start(self._send_own(target.endpoint, target, notification))
        return self._send_remote(remote, target, notification)

    def confirm(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Attempt:
        remote = self._remote_queues.find(target.endpoint)
        if remote is None:
            return self._start(self._confirm_own(target.endpoint, confirmation, base_url))
        return self._pool.send(
            lambda: RemoteQueueRequest(remote, confirmation_for(remote.arn, confirmation, self._envelopes, base_url)),
            target.group,
        )

    async def dead_letter(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        """Send to the subscription's dead-letter queue what its endpoint should have got."""
        remote = self._remote_queues.find(queue_arn)
        if remote is None:
            return await self._send_own(queue_arn, target, notification)
        return await self._send_remote(remote, target, notification)

    # -- own queues ---------------------------------------------------------------------------------------------------

    def _start(self, send: Coroutine[None, None, Outcome]) -> Attempt:
        attempt = asyncio.ensure_future(send)
        self._in_flight += 1
        attempt.add_done_callback(self._end)
        return attempt

    def _end(self, _: Attempt) -> None:
        self._in_flight -= 1
        self._has_room.set()

    async def _send_own(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        objection = size_error(target, notification)
        if objection is not None:
            return objection
        with self._routes.reserve(queue_arn, notification.topic_arn) as slot:
            if not target.raw:
                await self._envelopes.sign_in_thread(target, notification)
            return await _send(slot, message_for(queue_arn, target, notification, self._envelopes))

    async def _confirm_own(self, queue_arn: str, confirmation: ConfirmationNotice, base_url: str) -> Outcome:
        with self._routes.reserve(queue_arn, confirmation.topic_arn) as slot:
            return await _send(slot, confirmation_for(queue_arn, confirmation, self._envelopes, base_url))

    # -- remote queues ------------------------------------------------------------------------------------------------

    def _send_remote(self, queue: RemoteQueue, target: Target, notification: Notification) -> Attempt:
        objection = size_error(target, notification)
        if objection is not None:
            attempt: Attempt = asyncio.get_running_loop().create_future()
            attempt.set_result(objection)
            return attempt
        return self._pool.send(
            lambda: RemoteQueueRequest(queue, message_for(queue.arn, target, notification, self._envelopes)),
            target.group,
        )


async def _send(slot: RouteSlot, message: QueueMessage) -> Outcome:
    started_s = now_s()
    try:
        answer = await slot.send(message)
    except (StoreUnavailable, OutcomeUnknown) as error:
        return Failed(Cause.QUEUE, str(error), since_ms(started_s))
    if isinstance(answer, Refusal):
        return failure_of(answer, since_ms(started_s))
    return Delivered(200, since_ms(started_s), answer, size_bytes=utf8_bytes(message.body))
