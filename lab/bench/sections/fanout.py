"""The section `fanout`: one publish to 10,000 HTTP subscriptions against the bare sending client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import NamedTuple

import uvloop

from lab.bench.servers import QUIET_S_MAX, service
from lab.bench.tables import bar_cell, joined, table
from lab.harness.server import Server
from lab.harness.usage import await_quiet
from lab.load.bare_client import PostResult, post_rounds
from lab.load.endpoint_process import EndpointProcess, SubscriptionRequest, endpoint_process, subscribe
from lab.load.endpoints import Arrival, Kind
from lab.load.queues import open_client
from lab.load.topics import RAW, Topic
from lab.load.wire import LoadError
from lab.measure.figures import NS_PER_MS, NS_PER_S, US_PER_S

CONNECTIONS = 16
NUMBERS_FROM = 100_000
"""Numbers of equal length, so that bodies have equal length."""
MESSAGE_BYTES = 1024
AT_ONCE = 32
"""Concurrent posts of the bare client; more make it slower."""
POLL_INTERVAL_S = 0.05
ARRIVAL_S_MAX = 300.0
RATIO_BAR = 0.5
SERVICE_SIDE, BARE_SIDE, BARE_ON_ONE_CORE = "service", "bare client", "bare client on one core"
BARE_SIDES = (BARE_SIDE, BARE_ON_ONE_CORE)


class Size(NamedTuple):
    subscriptions: int
    settled_s: float = 2.5  # wait after the last arrival: a worker settles within a second


FULL = Size(subscriptions=10_000)
QUICK = Size(subscriptions=300, settled_s=1.2)


class FanOut(NamedTuple):
    """The delivery of one message to all endpoints."""

    side: str
    form: str  # raw or signed
    arrived: int
    first_ms: float  # from the publish's start, or the first post's
    per_s: float  # from the first arrival to the last
    from_start_per_s: float  # from the publish's start, or the first post's
    sender_us: float  # CPU per delivery: of the whole service, or of the bare client
    endpoints_us: float


class _FanOutTopic:
    """A topic to which all endpoints are subscribed."""

    def __init__(self, topic: Topic, endpoints: EndpointProcess, numbers: count[int]) -> None:
        self.server = topic.client.server
        self.endpoints = endpoints
        self._topic = topic
        self._numbers = numbers

    async def open(self, form: str) -> None:
        await self._topic.client.connect_anew()
        await self._topic.open(f"fan-out-{form}")
        attributes, n = RAW if form == "raw" else {}, len(self.endpoints.kinds)
        requests = [SubscriptionRequest(self._topic.arn, each, attributes) for each in range(n)]
        await subscribe(self._topic, self.endpoints, requests)
        await self._topic.client.connect_anew()

    async def publish(self) -> tuple[int, int]:
        """Publish and wait until all endpoints got the message. Returns its number and the start time."""
        number = next(self._numbers)
        before = (await self.endpoints.status()).accepted
        message = f"number={number} ".ljust(MESSAGE_BYTES, "x")
        began_ns = perf_counter_ns()
        await self._topic.client.lanes[0].ask(self._topic.publish(message))
        async with asyncio.timeout(ARRIVAL_S_MAX):
            while (await self.endpoints.status()).accepted < before + len(self.endpoints.kinds):
                await asyncio.sleep(POLL_INTERVAL_S)
        return number, began_ns

    async def arrivals(self, number: int) -> list[Arrival]:
        return [arrival for arrival in await self.endpoints.arrivals() if arrival.number == number]

    async def service(self, form: str, settled_s: float) -> FanOut:
        sender_s, endpoints_s = self.server.cpu_s(), self.endpoints.cpu_s()
        number, began_ns = await self.publish()
        await asyncio.sleep(settled_s)
        used = self.server.cpu_s() - sender_s, self.endpoints.cpu_s() - endpoints_s
        return figures_of(SERVICE_SIDE, form, await self.arrivals(number), began_ns, used)

    async def bare(self, form: str, side: str) -> FanOut:
        """Post the same body to the same endpoints; the first of two rounds opens the connections."""
        warm, number = next(self._numbers), next(self._numbers)
        endpoints_s = self.endpoints.cpu_s()
        posted = await self._post(warm, number, one_core=side == BARE_ON_ONE_CORE)
        used = posted.cpu_s, (self.endpoints.cpu_s() - endpoints_s) / 2
        arrivals = await self.arrivals(number)
        began_ns = max(arrival.at_ns for arrival in arrivals) - int(posted.seconds * NS_PER_S)
        return figures_of(side, form, arrivals, began_ns, used)

    async def _post(self, *numbers: int, one_core: bool) -> PostResult:
        body, urls = await self.endpoints.last_body(), list(map(self.endpoints.url, range(len(self.endpoints.kinds))))
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            posting = pool.submit(post_rounds, body, urls, AT_ONCE, numbers, one_core)
            posted = await asyncio.wrap_future(posting)
        if posted.delivered != len(urls):
            raise LoadError(f"the bare client delivered {posted.delivered} of {len(urls)}")
        return posted


def figures_of(side: str, form: str, arrivals: Sequence[Arrival], began_ns: int, used_s: tuple[float, float]) -> FanOut:
    n, last_ns = len(arrivals), max(arrival.at_ns for arrival in arrivals)
    first_ns = min(arrival.at_ns for arrival in arrivals)
    arrived, first_ms = len({arrival.endpoint for arrival in arrivals}), (first_ns - began_ns) / NS_PER_MS
    per_s, from_start_per_s = (n - 1) / (last_ns - first_ns) * NS_PER_S, n / (last_ns - began_ns) * NS_PER_S
    sender_us, endpoints_us = (used / n * US_PER_S for used in used_s)
    return FanOut(side, form, arrived, first_ms, per_s, from_start_per_s, sender_us, endpoints_us)


# -- runs -------------------------------------------------------------------------------------------------------------


async def measure(server: Server, size: Size, runs: int, seed: int) -> list[FanOut]:
    """Measure service and bare client in turn, first raw, then signed."""
    found: list[FanOut] = []
    numbers = count(NUMBERS_FROM)
    async with endpoint_process({Kind.HEALTHY: size.subscriptions}) as endpoints:
        client = await open_client(server, CONNECTIONS, seed)
        for form in ("raw", "signed"):
            topic = _FanOutTopic(Topic(client), endpoints, numbers)
            await topic.open(form)
            await topic.publish()  # warms up
            for _ in range(runs):
                found.append(await topic.service(form, size.settled_s))
                found += [await topic.bare(form, side) for side in BARE_SIDES]
                print(*found[-1 - len(BARE_SIDES) :], sep="\n", flush=True)
        client.close()
    return found


# -- the section ------------------------------------------------------------------------------------------------------


def quick(scratch: Path, seed: int) -> dict[str, str]:
    """One small run; wrong is a side that missed endpoints, which does not depend on the machine's speed."""
    found = runs(scratch, QUICK, 1, seed, quiet_s=0)
    print("\n".join(lines(found, QUICK)))
    return {"fan-out": "; ".join(f"{one.side}, {one.form}" for one in found if one.arrived != QUICK.subscriptions)}


def section(scratch: Path, n: int, seed: int) -> list[str]:
    return lines(runs(scratch, FULL, n, seed, QUIET_S_MAX), FULL)


def runs(scratch: Path, size: Size, n: int, seed: int, quiet_s: float) -> list[FanOut]:
    with service(scratch / "fanout") as server:
        await_quiet(quiet_s)
        return uvloop.run(measure(server, size, n, seed))


def lines(found: Sequence[FanOut], size: Size) -> list[str]:
    return [
        f"One publish of 1 KiB to {size.subscriptions:,} HTTP subscriptions, each with a path of its own in one"
        " receiver. The bare client is the workers' pool and sender in a process of their own, given the same body for"
        f" the same endpoints, {AT_ONCE} at a time: no store, no queue, no envelopes. It also runs pinned to one core,"
        " as by `taskset`. The sides alternate; medians.",
        "",
        *table(
            (
                *("notifications, compared with", "deliveries/s from first to last arrival: service, bare", "ratio"),
                *("from the publish's start: service, bare", "ratio", "bar", "first arrival, ms: service, bare"),
                "CPU µs per delivery: service, bare, receiver",
            ),
            [_compared(found, form, side) for form in dict.fromkeys(one.form for one in found) for side in BARE_SIDES],
        ),
    ]


def _compared(found: Sequence[FanOut], form: str, bare_side: str) -> Sequence[object]:
    service, bare = (
        [one for one in found if (one.side, one.form) == (side, form)] for side in (SERVICE_SIDE, bare_side)
    )
    flows, wholes, firsts_ms, cpu_us = (
        [median(getattr(one, name) for one in side) for side in (service, bare)]
        for name in ("per_s", "from_start_per_s", "first_ms", "sender_us")
    )
    ratio = wholes[0] / wholes[1]
    return (
        f"{form}, {bare_side}",
        joined(flows, 0),
        f"{flows[0] / flows[1]:.2f}",
        joined(wholes, 0),
        f"**{ratio:.2f}**",
        bar_cell(f"≥ {RATIO_BAR}", met=ratio >= RATIO_BAR),
        joined(firsts_ms),
        joined((*cpu_us, median(one.endpoints_us for one in service)), 0),
    )
