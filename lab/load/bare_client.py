"""The bare sending client: the workers' delivery pool and sender post one body to many endpoints; no queue, no store.

    python -m lab.load.bare_client BODY --urls 'http://127.0.0.1:6060/e/{}' … --count 10000 --at-once 32 --numbers 7 8

Endpoint n is at URL n modulo the number of URLs. Each number is one round, and replaces the number in BODY; the first
round warms up. Prints the result of the last round as a line of JSON (`PostResult`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from functools import partial
from pathlib import Path
from time import perf_counter_ns

import msgspec
import uvloop

from cns.delivery.envelope import MessageType, http_headers
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.contract import Senders
from cns.endpoints.http import HttpRequest, HttpSender
from cns.endpoints.outcome import Delivered
from cns_common.configuration.settings import LOOPBACK, Settings
from cns_common.tls import client_context
from cns_workers.delivery.pool.pool import DeliveryPool
from lab.load.endpoints import NUMBER

GRACE_S = 5.0
TOPIC = "arn:aws:sns:us-east-1:000000000000:bare"


class PostResult(msgspec.Struct, frozen=True, kw_only=True):
    delivered: int
    seconds: float
    cpu_s: float


class Poster:
    """Posts to all endpoints. Construct it on a running loop."""

    def __init__(self, urls: list[str], count: int, at_once: int) -> None:
        self._urls = [urls[n % len(urls)].format(n) for n in range(count)]
        self._at_once = at_once
        settings = Settings()
        guard, context = AddressGuard(LOOPBACK), client_context(None)

        def make_senders() -> Senders:
            timeout_s = settings.delivery_timeout_s
            return Senders({HttpRequest: HttpSender(guard, timeout_s=timeout_s, wall_s=time.time, verify=context)})

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


def _request(url: str, body: bytes) -> HttpRequest:
    """Called in the pool's thread, as in a worker."""
    return HttpRequest(url, http_headers(MessageType.NOTIFICATION, TOPIC, TOPIC, f"{TOPIC}:{url}"), body)


async def post_rounds(options: argparse.Namespace) -> PostResult:
    if options.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # the pool's threads inherit it
    poster, body = Poster(options.urls, options.count, options.at_once), options.body.read_bytes()
    for number in options.numbers:
        posted = await poster.post(NUMBER.sub(b"number=%d " % number, body))
    await poster.close()
    return posted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("body", type=Path)
    parser.add_argument("--urls", nargs="+", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, required=True)
    parser.add_argument("--one-core", action="store_true", help="keep all threads on one core")
    parser.add_argument("--numbers", type=int, nargs="+", required=True)
    print(msgspec.json.encode(uvloop.run(post_rounds(parser.parse_args()))).decode())


if __name__ == "__main__":
    main()
