"""The bare client: the delivery pool and sender of a worker post one body to many endpoints; no queue, no store."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from functools import partial
from time import perf_counter_ns
from typing import NamedTuple

import uvloop

from cns.delivery.envelope import MessageType, http_headers
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.contract import Senders
from cns.endpoints.http import EndpointRequest, HttpSender
from cns.endpoints.outcome import Delivered
from cns_common.configuration.settings import LOOPBACK, Settings
from cns_common.tls import client_context
from cns_workers.delivery.pool.pool import DeliveryPool
from lab.load.endpoints import NUMBER

GRACE_S = 5.0
TOPIC = "arn:aws:sns:us-east-1:000000000000:bare"


class PostResult(NamedTuple):
    delivered: int
    seconds: float
    cpu_s: float


class Poster:
    """Posts to all endpoints. Construct it on a running loop."""

    def __init__(self, urls: Sequence[str], at_once: int) -> None:
        self._urls = urls
        self._at_once = at_once
        settings = Settings()
        guard, context = AddressGuard(LOOPBACK), client_context(None)

        def make_senders() -> Senders:
            timeout_s = settings.delivery_timeout_s
            return Senders({EndpointRequest: HttpSender(guard, timeout_s=timeout_s, wall_s=time.time, verify=context)})

        self._pool = DeliveryPool("bare", settings.delivery_threads, make_senders)

    async def post(self, body: bytes) -> PostResult:
        """Post to all endpoints, `at_once` at a time."""
        left, delivered = iter(self._urls), 0

        async def post() -> None:
            nonlocal delivered
            for url in left:
                outcome = await self._pool.send(partial(_request, url, body), TOPIC)
                delivered += isinstance(outcome, Delivered)

        used_s, began_ns = time.process_time(), perf_counter_ns()
        await asyncio.gather(*[post() for _ in range(self._at_once)])
        return PostResult(
            delivered=delivered,
            seconds=(perf_counter_ns() - began_ns) / 1e9,
            cpu_s=time.process_time() - used_s,
        )

    async def close(self) -> None:
        await self._pool.close(GRACE_S)


def _request(url: str, body: bytes) -> EndpointRequest:
    """Called in the pool's thread, as in a worker."""
    return EndpointRequest(url, http_headers(MessageType.NOTIFICATION, TOPIC, TOPIC, f"{TOPIC}:{url}"), body)


def post_rounds(body: bytes, urls: Sequence[str], at_once: int, numbers: Sequence[int], one_core: bool) -> PostResult:
    """Post to all URLs in a process of its own. Each number is one round, and replaces the number in the body; the
    result is that of the last one."""
    if one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the pool's threads inherit it
    return uvloop.run(_post_rounds(body, urls, at_once, numbers))


async def _post_rounds(body: bytes, urls: Sequence[str], at_once: int, numbers: Sequence[int]) -> PostResult:
    poster = Poster(urls, at_once)
    for number in numbers:
        posted = await poster.post(NUMBER.sub(b"number=%d " % number, body))
    await poster.close()
    return posted
