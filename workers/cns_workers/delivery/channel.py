"""The contract of delivery channels, and the base of those whose requests are sent by a pool."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from functools import partial
from typing import Protocol

from cns.delivery.envelope import ConfirmationNotice
from cns.delivery.target import Target
from cns.endpoints.contract import Request
from cns.endpoints.outcome import Outcome
from cns.notification import Notification
from cns_workers.delivery.pool.pool import DeliveryPool
from cns_workers.loops import now_s

Attempt = asyncio.Future[Outcome]


class Channel(Protocol):
    """Delivers to the endpoints of a protocol. `deliver` and `confirm` each start one attempt."""

    def traffic_key(self, target: Target) -> str:
        """Name the endpoint that may be slow or down: sends with the same key share its limits
        (`cns_workers.delivery.traffic`). '' where the destination cannot hang."""
        ...

    def deliver(self, target: Target, notification: Notification) -> Attempt: ...

    def confirm(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Attempt: ...


class PoolChannel(ABC, Channel):
    """Its requests are made in the pool's threads, so that signing them does not delay the event loop that settles."""

    def __init__(self, pool: DeliveryPool) -> None:
        self._pool = pool

    @abstractmethod
    def traffic_key(self, target: Target) -> str: ...

    def deliver(self, target: Target, notification: Notification) -> Attempt:
        return self._pool.send(partial(self._request, target, notification), target.group)

    def confirm(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Attempt:
        return self._pool.send(partial(self._confirmation, target, confirmation, base_url), target.group)

    @abstractmethod
    def _request(self, target: Target, notification: Notification) -> Request: ...

    @abstractmethod
    def _confirmation(self, target: Target, confirmation: ConfirmationNotice, base_url: str) -> Request: ...


def since_ms(started_s: float) -> int:
    return int((now_s() - started_s) * 1000)
