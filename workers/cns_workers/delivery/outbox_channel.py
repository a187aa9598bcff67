"""The channels of protocols that this service does not send itself: into the outbox, or to the operator's gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cns.delivery.envelope import ConfirmationNotice
from cns.delivery.gateway import Gateway
from cns.delivery.outbox import OutboxItem
from cns.delivery.payloads import PayloadRenderer
from cns.delivery.target import Target
from cns.endpoints.contract import Request
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.notification import Notification
from cns.stores.contract import OutboxStore
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.text_size import utf8_bytes
from cns_workers.delivery.channel import Attempt, Channel, PoolChannel, since_ms
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.loops import now_s


class OutboxChannel(Channel):
    """Stores deliveries for `cns outbox` to show."""

    def __init__(self, outbox: OutboxStore, payloads: PayloadRenderer) -> None:
        self._outbox = outbox
        self._payloads = payloads

    def traffic_key(self, target: Target) -> str:
        return ""

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return asyncio.ensure_future(self._store(lambda: self._payloads.notification(target, notification)))

    def confirm(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Attempt:
        return asyncio.ensure_future(self._store(lambda: self._payloads.confirmation(target, confirmation, base_url)))

    async def _store(self, make: Callable[[], OutboxItem]) -> Outcome:
        started_s = now_s()
        item = await asyncio.to_thread(make)  # a signature takes longer than everything else
        try:
            await self._outbox.put(item)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return Failed(Cause.OUTBOX, str(error), since_ms(started_s))
        return Delivered(200, since_ms(started_s), item.id, size_bytes=utf8_bytes(item.body))


class GatewayChannel(PoolChannel):
    """Posts deliveries to the operator's one URL."""

    def __init__(self, pool: DeliveryPool, gateway: Gateway, payloads: PayloadRenderer) -> None:
        super().__init__(pool)
        self._gateway = gateway
        self._payloads = payloads

    def traffic_key(self, target: Target) -> str:
        return "gateway"

    def _request(self, target: Target, notification: Notification) -> Request:
        return self._gateway.request(self._payloads.notification(target, notification))

    def _confirmation(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Request:
        return self._gateway.request(self._payloads.confirmation(target, confirmation, base_url))


class RecipientCheckChannel(Channel):
    """Checks before each delivery whether the recipient may be sent to, and passes the delivery on to another channel.

    A direct publish, whose target has no ARN, was checked when it was accepted.
    """

    def __init__(self, channel: Channel, objection: Callable[[Target, Notification], Awaitable[Cause | None]]) -> None:
        self._channel = channel
        self._objection = objection

    def traffic_key(self, target: Target) -> str:
        return self._channel.traffic_key(target)

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        if not target.arn:
            return self._channel.deliver(target, notification)
        return asyncio.ensure_future(self._deliver(target, notification))

    def confirm(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Attempt:
        return self._channel.confirm(target, confirmation, base_url)

    async def _deliver(self, target: Target, notification: Notification) -> Outcome:
        started_s = now_s()
        try:
            cause = await self._objection(target, notification)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return Failed(Cause.STORE, str(error), since_ms(started_s))
        if cause is not None:
            return Failed(cause, f"{target.endpoint} is sent nothing", since_ms(started_s), permanent=True)
        return await self._channel.deliver(target, notification)
