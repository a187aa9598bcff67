"""The section `fanout`: one publish to 10,000 HTTP subscriptions against the bare sending client, and rows written."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter_ns

import msgspec
import uvloop

from lab.bench.sections.runs import QUIET_S_MAX, SERVICE, served
from lab.harness.processes import ROOT
from lab.harness.server import Server
from lab.harness.usage import await_quiet
from lab.load.bare_client import PostResult
from lab.load.endpoint_process import EndpointProcess, SubscriptionRequest, endpoint_process, subscribe
from lab.load.endpoints import PORTS_PER_KIND, Arrival, Kind
from lab.load.pacing import NS_PER_S
from lab.load.polls import BYTES_PER_MIB
from lab.load.queues import Client
from lab.load.topics import Topic
from lab.load.wire import LoadError, connect
from lab.measure import row_count
from lab.measure.figures import US_PER_S, bar_cell

CONNECTIONS = 16
NUMBERS_FROM = 100_000
"""Numbers of equal length, so that bodies have equal length."""
MESSAGE_BYTES = 1024
LARGE_BYTES = 256 * 1024
AT_ONCE = 32
"""Concurrent posts of the bare client; more make it slower."""
POLL_INTERVAL_S = 0.05
ARRIVAL_S_MAX = 300.0
RATIO_BAR, ROWS_MIB_BAR = 0.5, 4.0
SERVICE_SIDE, BARE_SIDE, BARE_ON_ONE_CORE = "service", "bare client", "bare client on one core"
BARE_SIDES = (BARE_SIDE, BARE_ON_ONE_CORE)


class Size(msgspec.Struct, frozen=True, kw_only=True):
    subscriptions: int
    settled_s: float = 2.5  # wait after the last arrival: a worker settles within a second


FULL = Size(subscriptions=10_000)
QUICK = Size(subscriptions=300, settled_s=1.2)


class FanOutFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of one message to all endpoints."""

    side: str
    form: str  # raw or signed
    arrived: int
    first_ms: float  # from the publish's start, or the first post's
    seconds: float  # from the first arrival to the last
    per_s: float  # from the first arrival to the last
    from_start_per_s: float  # from the publish's start, or the first post's
    sender_us: float  # CPU per delivery: of the whole service, or of the bare client
    endpoints_us: float


class LargeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery of a message of 256 KiB to all endpoints."""

    arrived: int
    rows: int
    rows_mib: float
    written_mib: float  # `write_bytes` of all of the service's processes
    seconds: float  # from the publish's start to the last arrival


class _FanOutTopic:
    """A topic to which all endpoints are subscribed."""

    def __init__(self, server: Server, client: Client, endpoints: EndpointProcess, numbers: count[int]) -> None:
        self.server = server
        self.endpoints = endpoints
        self._client = client
        self._topic = Topic(client)
        self._numbers = numbers

    async def open(self, form: str) -> None:
        await self._topic.open(f"fan-out-{form}")
        attributes = {"RawMessageDelivery": "true"} if form == "raw" else {}
        n = len(self.endpoints.kinds)
        await subscribe(
            self._topic, self.endpoints, [SubscriptionRequest(self._topic.arn, each, attributes) for each in range(n)]
        )
        await self._client.connect_anew()

    async def publish(self, message_bytes: int = MESSAGE_BYTES) -> tuple[int, int]:
        """Publish and wait until all endpoints got the message. Returns its number and the start time."""
        number = next(self._numbers)
        before = (await self.endpoints.status()).accepted
        message = f"number={number} ".ljust(message_bytes, "x")
        began_ns = perf_counter_ns()
        await self._client.lanes[0].ask(self._topic.publish(message))
        async with asyncio.timeout(ARRIVAL_S_MAX):
            while (await self.endpoints.status()).accepted < before + len(self.endpoints.kinds):
                await asyncio.sleep(POLL_INTERVAL_S)
        return number, began_ns

    async def service(self, form: str, settled_s: float) -> FanOutFigures:
        sender_s, endpoints_s = self.server.cpu_s(), self.endpoints.cpu_s()
        number, began_ns = await self.publish()
        await asyncio.sleep(settled_s)
        used = self.server.cpu_s() - sender_s, self.endpoints.cpu_s() - endpoints_s
        arrivals = [arrival for arrival in await self.endpoints.arrivals() if arrival.number == number]
        return figures_of(SERVICE_SIDE, form, arrivals, began_ns, used)

    async def bare(self, form: str, side: str) -> FanOutFigures:
        """Post the same body to the same endpoints; the first of two rounds opens the connections."""
        body, n = await self.endpoints.last_body(), len(self.endpoints.kinds)
        warm, number = next(self._numbers), next(self._numbers)
        urls = [self.endpoints.url(place).replace(f"/e/{place}", "/e/{}") for place in range(min(PORTS_PER_KIND, n))]
        endpoints_s = self.endpoints.cpu_s()
        posted = await _post(body, urls, n, warm, number, one_core=side == BARE_ON_ONE_CORE)
        used = posted.cpu_s, (self.endpoints.cpu_s() - endpoints_s) / 2
        arrivals = [arrival for arrival in await self.endpoints.arrivals() if arrival.number == number]
        began_ns = max(arrival.at_ns for arrival in arrivals) - int(posted.seconds * NS_PER_S)
        return figures_of(side, form, arrivals, began_ns, used)


async def _post(body: Path, urls: Sequence[str], n: int, *numbers: int, one_core: bool) -> PostResult:
    counts = ["--count", str(n), "--at-once", str(AT_ONCE), "--numbers", *map(str, numbers)]
    words = [str(body.absolute()), "--urls", *urls, *counts, *(["--one-core"] if one_core else [])]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lab.load.bare_client", *words, cwd=ROOT, stdout=PIPE
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise LoadError("the bare client has failed")
    posted = msgspec.json.decode(said, type=PostResult)
    if posted.delivered != n:
        raise LoadError(f"the bare client delivered {posted.delivered} of {n}")
    return posted


def figures_of(
    side: str, form: str, arrivals: Sequence[Arrival], began_ns: int, used_s: tuple[float, float]
) -> FanOutFigures:
    times_ns = sorted(arrival.at_ns for arrival in arrivals)
    n, seconds = len(times_ns), (times_ns[-1] - times_ns[0]) / NS_PER_S
    sender_s, endpoints_s = used_s
    return FanOutFigures(
        side=side,
        form=form,
        arrived=len({arrival.endpoint for arrival in arrivals}),
        first_ms=round((times_ns[0] - began_ns) / 1e6, 1),
        seconds=round(seconds, 3),
        per_s=round((n - 1) / seconds, 1),
        from_start_per_s=round(n / (times_ns[-1] - began_ns) * NS_PER_S, 1),
        sender_us=round(sender_s / n * US_PER_S, 1),
        endpoints_us=round(endpoints_s / n * US_PER_S, 1),
    )


# -- runs -------------------------------------------------------------------------------------------------------------


async def measure(server: Server, size: Size, runs: int, seed: int, out: Path) -> list[FanOutFigures]:
    """Measure service and bare client in turn, first raw, then signed."""
    found: list[FanOutFigures] = []
    numbers = count(NUMBERS_FROM)
    async with endpoint_process({Kind.HEALTHY: size.subscriptions}, out) as endpoints:
        client = Client(server, await connect(server.port, CONNECTIONS), seed)
        for form in ("raw", "signed"):
            topic = _FanOutTopic(server, client, endpoints, numbers)
            await topic.open(form)
            await topic.publish()  # warms up
            for _ in range(runs):
                found.append(await topic.service(form, size.settled_s))
                found += [await topic.bare(form, side) for side in BARE_SIDES]
                print(*found[-1 - len(BARE_SIDES) :], sep="\n", flush=True)
        client.close()
    return found


async def measure_large(server: Server, size: Size, seed: int, counted: Path, out: Path) -> LargeFigures:
    """Measure rows after settlement. Counting rows slows the store, so times of this server are not compared."""
    async with endpoint_process({Kind.HEALTHY: size.subscriptions}, out) as endpoints:
        client = Client(server, await connect(server.port, CONNECTIONS), seed)
        topic = _FanOutTopic(server, client, endpoints, count(NUMBERS_FROM))
        await topic.open("raw")
        await asyncio.sleep(size.settled_s)
        before, written = row_count.rows_in(counted), server.written_bytes()
        number, began_ns = await topic.publish(LARGE_BYTES)
        await asyncio.sleep(size.settled_s)
        after, written_after = row_count.rows_in(counted), server.written_bytes()
        arrivals = [arrival for arrival in await endpoints.arrivals() if arrival.number == number]
        client.close()
    return LargeFigures(
        arrived=len({arrival.endpoint for arrival in arrivals}),
        rows=after.written - before.written,
        rows_mib=round((after.written_bytes - before.written_bytes) / BYTES_PER_MIB, 2),
        written_mib=round((written_after - written) / BYTES_PER_MIB, 2),
        seconds=round((max(arrival.at_ns for arrival in arrivals) - began_ns) / NS_PER_S, 1),
    )


def both(
    scratch: Path, size: Size, runs: int, seed: int, quiet_s: float = QUIET_S_MAX
) -> tuple[list[FanOutFigures], LargeFigures]:
    data, counted = scratch / "fanout", scratch / "rows"
    with served("service", SERVICE, data) as server:
        await_quiet(quiet_s)
        found = uvloop.run(measure(server, size, runs, seed, data / "endpoints"))
    large_data = scratch / "fanout-large"
    with served("counted", SERVICE, large_data, row_count.environment(counted)) as server:
        return found, uvloop.run(measure_large(server, size, seed, counted, large_data / "endpoints"))


# -- the section ------------------------------------------------------------------------------------------------------


def quick(scratch: Path, seed: int) -> list[str]:
    """The failures of one small run."""
    found, large = both(scratch, QUICK, 1, seed, quiet_s=0)
    print("\n".join(lines(found, large, QUICK)))
    return failures(found, large, QUICK)


def table(scratch: Path, n: int, seed: int) -> list[str]:
    return lines(*both(scratch, FULL, n, seed), FULL)


def lines(found: Sequence[FanOutFigures], large: LargeFigures, size: Size) -> list[str]:
    return [
        f"One publish of 1 KiB to {size.subscriptions:,} HTTP subscriptions, each with a path of its own in one"
        " receiver. The bare client is the workers' pool and sender in a process of their own, given the same body for"
        f" the same endpoints, {AT_ONCE} at a time: no store, no queue, no envelopes. It also runs pinned to one core,"
        " as by `taskset`. The sides alternate; medians.",
        "",
        "| notifications, compared with | deliveries/s from first to last arrival: service, bare | ratio |"
        " from the publish's start: service, bare | ratio | bar | first arrival, ms: service, bare |"
        " CPU µs per delivery: service, bare, receiver |",
        "|---|---|---|---|---|---|---|---|",
        *[_compared(found, form, side) for form in dict.fromkeys(one.form for one in found) for side in BARE_SIDES],
        "",
        f"| one publish of 256 KiB to {size.subscriptions:,} | measured | bar |",
        "|---|---|---|",
        f"| rows inserted or updated, full size each time | **{large.rows_mib:.2f} MiB**, {large.rows:,} rows |"
        f" {bar_cell(f'< {ROWS_MIB_BAR:.0f} MiB', met=large.rows_mib < ROWS_MIB_BAR)} |",
        f"| `write_bytes` of all processes, indexes, pages, log and events included | {large.written_mib:.2f} MiB | |",
        f"| all delivered after (while rows were counted) | {large.seconds:.1f} s | |",
    ]


def _compared(found: Sequence[FanOutFigures], form: str, bare_side: str) -> str:
    service, bare = (
        [one for one in found if (one.side, one.form) == (side, form)] for side in (SERVICE_SIDE, bare_side)
    )
    flow, bare_flow = (median(one.per_s for one in side) for side in (service, bare))
    whole, bare_whole = (median(one.from_start_per_s for one in side) for side in (service, bare))
    first_ms, bare_first_ms = (median(one.first_ms for one in side) for side in (service, bare))
    cpu = [median(one.sender_us for one in side) for side in (service, bare)]
    receiver_us = median(one.endpoints_us for one in service)
    return (
        f"| {form}, {bare_side} | {flow:,.0f}, {bare_flow:,.0f} | {flow / bare_flow:.2f} |"
        f" {whole:,.0f}, {bare_whole:,.0f} | **{whole / bare_whole:.2f}** |"
        f" {bar_cell(f'≥ {RATIO_BAR}', met=whole / bare_whole >= RATIO_BAR)} |"
        f" {first_ms:.1f}, {bare_first_ms:.1f} | {cpu[0]:.0f}, {cpu[1]:.0f}, {receiver_us:.0f} |"
    )


def failures(found: Sequence[FanOutFigures], large: LargeFigures, size: Size) -> list[str]:
    """Failures that do not depend on the machine's speed."""
    sides = [f"{one.side}, {one.form}" for one in found if one.arrived != size.subscriptions]
    return [*sides, *(["256 KiB"] if large.arrived != size.subscriptions else [])]
