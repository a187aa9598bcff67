"""The section `fairness`: dwell time of quiet tenants' messages beside a noisy tenant's backlog, with and without
fairness."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from pathlib import Path
from time import perf_counter_ns

import msgspec
import uvloop

from lab.bench.sections.runs import SERVICE, served
from lab.harness.server import Server
from lab.load.queues import BATCH, Client, delete_batch_request, handles_in
from lab.load.wire import Lane, LoadError, connect
from lab.measure.figures import NS_PER_MS, bar_cell, percentile

CONSUMERS = 4
WORK_S = 0.05
"""Working time of a consumer for ten messages, before it deletes them."""
FEEDERS = 4
QUIET = 4
QUIET_EVERY_S = 1.0
LATE_S_MAX = 120.0
P99_MS_MAX = 150.0
NOISY = "noisy"

_BODY = re.compile(rb'"Body": *"(\w+) (\d+)')


class Size(msgspec.Struct, frozen=True, kw_only=True):
    backlog: int
    each: int  # messages of each quiet tenant
    each_without: int  # likewise in the queue without tenants, where each message waits for the whole backlog


FULL = Size(backlog=10_000, each=50, each_without=15)


class Dwell(msgspec.Struct, frozen=True, kw_only=True):
    """Dwell time of the quiet tenants' messages, from the send's first byte to the arrival at a consumer."""

    messages: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    noisy_per_s: float


class _SharedQueue:
    """A queue in which one tenant keeps a backlog, and its consumers."""

    def __init__(self, client: Client, backlog: int, *, tenants: bool) -> None:
        self._client = client
        self._backlog = backlog
        self._tenants = tenants
        self._noisy_left = 0
        self._expected = 0
        self._bodies = [client.body() for _ in range(100)]
        self.dwell_ns: list[int] = []
        self.noisy_taken = 0
        self.is_over = False

    async def fill(self, lane: Lane) -> None:
        while self._noisy_left < self._backlog:
            await self._feed(lane)

    async def keep_full(self, lane: Lane) -> None:
        while not self.is_over:
            await (self._feed(lane) if self._noisy_left < self._backlog else asyncio.sleep(WORK_S / CONSUMERS))

    async def consume(self, lane: Lane, begin_s: float) -> None:
        await asyncio.sleep(begin_s)
        while not self.is_over:
            answer = await lane.ask(self._client.call("ReceiveMessage", MaxNumberOfMessages=BATCH, WaitTimeSeconds=1))
            self._arrived(answer, perf_counter_ns())
            handles = handles_in(answer)
            if handles:
                await asyncio.sleep(WORK_S)
                await lane.ask(delete_batch_request(self._client, handles))

    async def send_quietly(self, lane: Lane, tenant: str, n: int) -> None:
        """Send at a random moment of each second, so that sends are independent of the consumers' phase."""
        for _ in range(n):
            before_s = self._client.random.uniform(0, QUIET_EVERY_S)
            await asyncio.sleep(before_s)
            self._expected += 1
            body = f"quiet {perf_counter_ns()}"
            await lane.ask(self._client.call("SendMessage", MessageBody=body, **self._group_id(tenant)))
            await asyncio.sleep(QUIET_EVERY_S - before_s)

    async def arrive(self) -> None:
        """Wait until the last quiet message has arrived."""
        async with asyncio.timeout(LATE_S_MAX):
            while len(self.dwell_ns) < self._expected:  # filled by the consumers
                await asyncio.sleep(WORK_S)

    async def _feed(self, lane: Lane) -> None:
        self._noisy_left += BATCH
        entries = [
            {
                "Id": str(n),
                "MessageBody": f"noisy 0 {self._client.random.choice(self._bodies)}",
                **self._group_id(NOISY),
            }
            for n in range(BATCH)
        ]
        if b'"Failed"' in await lane.ask(self._client.call("SendMessageBatch", Entries=entries)):
            raise LoadError("an entry of a batch was refused")

    def _group_id(self, tenant: str) -> dict[str, str]:
        return {"MessageGroupId": tenant} if self._tenants else {}

    def _arrived(self, answer: bytes, now_ns: int) -> None:
        for kind, began_ns in _BODY.findall(answer):
            if kind == b"quiet":
                self.dwell_ns.append(now_ns - int(began_ns))
            else:
                self._noisy_left -= 1
                self.noisy_taken += 1


async def dwell(server: Server, size: Size, seed: int, queue: str, *, tenants: bool) -> Dwell:
    client = Client(server, await connect(server.port, FEEDERS + CONSUMERS + QUIET), seed)
    await client.use_queue(queue)
    shared_queue = _SharedQueue(client, size.backlog, tenants=tenants)
    feeders, rest = client.lanes[:FEEDERS], client.lanes[FEEDERS:]
    consumers, quiet = rest[:CONSUMERS], rest[CONSUMERS:]
    await asyncio.gather(*[shared_queue.fill(lane) for lane in feeders])
    began_ns = perf_counter_ns()
    async with asyncio.TaskGroup() as work:
        for lane in feeders:
            work.create_task(shared_queue.keep_full(lane))
        for lane in consumers:
            work.create_task(shared_queue.consume(lane, client.random.uniform(0, WORK_S)))
        each = size.each if tenants else size.each_without
        senders: list[Awaitable[None]] = [
            shared_queue.send_quietly(lane, f"quiet-{n}", each) for n, lane in enumerate(quiet)
        ]
        await asyncio.gather(*senders)
        await shared_queue.arrive()
        shared_queue.is_over = True
    times_ms = sorted(ns / NS_PER_MS for ns in shared_queue.dwell_ns)
    seconds = (perf_counter_ns() - began_ns) / 1e9
    client.close()
    return Dwell(
        messages=len(times_ms),
        p50_ms=round(percentile(times_ms, 50), 1),
        p99_ms=round(percentile(times_ms, 99), 1),
        max_ms=round(times_ms[-1], 1),
        noisy_per_s=round(shared_queue.noisy_taken / seconds, 1),
    )


# -- the section ------------------------------------------------------------------------------------------------------


def table(scratch: Path, n: int, seed: int) -> list[str]:
    with served("service", SERVICE, scratch / "fairness") as server:
        fair = [uvloop.run(dwell(server, FULL, seed + i, f"fair-{i}", tenants=True)) for i in range(n)]
        plain = uvloop.run(dwell(server, FULL, seed, "plain", tenants=False))
    return lines(fair, plain)


def lines(fair: list[Dwell], plain: Dwell) -> list[str]:
    worst_first = sorted(fair, key=lambda run: -run.p99_ms)
    rows = [
        ("a group id each", run, bar_cell(f"≤ {P99_MS_MAX:.0f}", met=run.p99_ms <= P99_MS_MAX)) for run in worst_first
    ]
    return [
        f"{CONSUMERS} consumers receive ten messages at a time and work {WORK_S * 1000:.0f} ms on them; a noisy tenant"
        f" keeps up a backlog of {FULL.backlog:,}; {QUIET} quiet tenants send one message a second each, at random.",
        "",
        "| quiet tenants | messages | time in the queue: p50, p99, max ms | bar: p99 | noisy messages/s |",
        "|---|---|---|---|---|",
        *[
            f"| {name} | {run.messages} | {run.p50_ms:,.1f}, **{run.p99_ms:,.1f}**, {run.max_ms:,.1f} | {bar} |"
            f" {run.noisy_per_s:,.0f} |"
            for name, run, bar in [*rows, ("no group ids, for contrast", plain, "")]
        ],
    ]
