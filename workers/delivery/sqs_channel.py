"""The way to queues: those of this service by the queue port, those of others signed, from a pool's thread."""

from __future__ import annotations

import asyncio

from cns.delivery.envelope import Confirmation
from cns.delivery.remote_queues import RemoteQueue, RemoteQueueResolver
from cns.delivery.target import Target
from cns.endpoints.outcome import Outcome
from cns.endpoints.sqs import RemoteQueueRequest
from cns.notification import Notification
from workers.delivery.channels import Attempt, QueueWay
from workers.delivery.envelope_cache import Envelopes
from workers.delivery.pool.pool import DeliveryPool
from workers.delivery.sqs_message import confirmation_for, message_for, objection_to


class AnyQueueWay:
    """Another service may be slow or away: its queues are endpoints like those on the web, and share no room with
    `own`."""

    def __init__(self, own: QueueWay, pool: DeliveryPool, envelopes: Envelopes, places: RemoteQueueResolver) -> None:
        self._own = own
        self._pool = pool
        self._envelopes = envelopes
        self._places = places

    async def room(self) -> int:
        """Of our own."""
        return await self._own.room()

    def traffic_key(self, target: Target) -> str:
        if self._places.find(target.endpoint) is None:
            return self._own.traffic_key(target)
        return f"{target.account} {target.endpoint}"

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        queue = self._places.find(target.endpoint)
        if queue is None:
            return self._own.deliver(target, notification)
        return self._begin(queue, target, notification)

    def confirm(self, target: Target, confirmation: Confirmation, base_url: str) -> Attempt:
        queue = self._places.find(target.endpoint)
        if queue is None:
            return self._own.confirm(target, confirmation, base_url)
        return self._pool.send(
            lambda: RemoteQueueRequest(queue, confirmation_for(queue.arn, confirmation, self._envelopes, base_url)),
            target.group,
        )

    async def send(self, queue_arn: str, target: Target, notification: Notification) -> Outcome:
        """To the queue of a target's dead letters."""
        queue = self._places.find(queue_arn)
        if queue is None:
            return await self._own.send(queue_arn, target, notification)
        return await self._begin(queue, target, notification)

    def _begin(self, queue: RemoteQueue, target: Target, notification: Notification) -> Attempt:
        objection = objection_to(target, notification)
        if objection is not None:
            attempt: Attempt = asyncio.get_running_loop().create_future()
            attempt.set_result(objection)
            return attempt
        return self._pool.send(
            lambda: RemoteQueueRequest(queue, message_for(queue.arn, target, notification, self._envelopes)),
            target.group,
        )
