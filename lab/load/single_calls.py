"""Single sends, receives and deletes: separately, in turn, and in an open loop at a rate."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator, Iterator
from itertools import accumulate, cycle
from time import perf_counter_ns

from lab.load.queues import SECONDS_MAX, VARIANTS, Client, delete_request, handles_in, receive_requests, turns
from lab.load.wire import Budget, Lane, LoadError, Script, run
from lab.measure.figures import Figures, Meter

OPERATIONS = ("send", "receive", "delete")
STOCK = 100
EMPTY_MAX = 100
NS_PER_S = 1_000_000_000


async def receive(client: Client, messages: int) -> tuple[Figures, list[bytes]]:
    """Receive one message per call. Also returns the receipt handles."""
    receives = receive_requests(client, 1)
    budget = Budget(messages, SECONDS_MAX)
    times: list[int] = []
    handles: list[bytes] = []

    def script(requests: Iterator[bytes]) -> Script:
        while budget.take():
            handles.append((yield from _receive_one(times, requests)))

    meter = Meter(client.server)
    await run(client.lanes, [script(turns(receives, lane)) for lane in range(len(client.lanes))])
    return meter.read("receive", len(client.lanes), len(handles), times), handles


async def delete(client: Client, handles: list[bytes]) -> Figures:
    """Delete one message per call. Requests are signed between calls, outside the measured time."""
    left = iter(handles)
    times: list[int] = []

    def script() -> Script:
        for handle in left:
            yield times, delete_request(client, handle)

    meter = Meter(client.server)
    await run(client.lanes, [script() for _ in client.lanes])
    return meter.read("delete", len(client.lanes), len(times), times)


async def cycles(client: Client, n: int) -> Figures:
    """Send, receive and delete in a cycle; the unit is a call."""
    sends = [client.call("SendMessage", MessageBody=client.body()) for _ in range(VARIANTS)]
    receives = receive_requests(client, 1)
    budget = Budget(n, SECONDS_MAX)
    times: list[int] = []

    def script(lane: int) -> Script:
        bodies, requests = turns(sends, lane), turns(receives, lane)
        while budget.take():
            yield times, next(bodies)
            handle = yield from _receive_one(times, requests)
            yield times, delete_request(client, handle)

    meter = Meter(client.server)
    await run(client.lanes, [script(lane) for lane in range(len(client.lanes))])
    return meter.read("send, receive, delete", len(client.lanes), len(times), times)


# -- at a rate --------------------------------------------------------------------------------------------------------


async def fill_stock(client: Client) -> list[bytes]:
    """Prepare for `paced`: leave messages to receive, and return handles of received messages to delete."""
    handles: list[bytes] = []

    def script(receives: Iterator[bytes]) -> Script:
        for _ in range(2 * STOCK):
            yield [], client.call("SendMessage", MessageBody=client.body())
        while len(handles) < STOCK:
            handles.append((yield from _receive_one([], receives)))

    await client.lanes[0].start(script(cycle(receive_requests(client, 1))))
    return handles


async def paced(client: Client, handles: list[bytes], per_s: float, seconds: float) -> list[Figures]:
    """Figures by operation; rate and CPU are those of all operations together.

    A call's time starts when it was planned, so that calls delayed by a stall of the server count.
    """
    sends = cycle([client.call("SendMessage", MessageBody=client.body()) for _ in range(VARIANTS)])
    receives = cycle(receive_requests(client, 1))
    free: asyncio.Queue[Lane] = asyncio.Queue()
    for lane in client.lanes:
        free.put_nowait(lane)
    times: dict[str, list[int]] = {operation: [] for operation in OPERATIONS}

    async def call(operation: str, planned_ns: int) -> None:
        lane = await free.get()
        request = next(sends) if operation == "send" else next(receives)
        answer = await lane.ask(delete_request(client, handles.pop(0)) if operation == "delete" else request)
        times[operation].append(perf_counter_ns() - planned_ns)
        free.put_nowait(lane)
        if operation == "receive":
            handles.extend(handles_in(answer))

    meter = Meter(client.server)
    async with asyncio.TaskGroup() as calls:
        began_ns = perf_counter_ns()
        for operation, planned_ns in zip(cycle(OPERATIONS), arrivals_ns(client.random, per_s, seconds), strict=False):
            await _until(began_ns + planned_ns)
            calls.create_task(call(operation, began_ns + planned_ns))
    done = sum(map(len, times.values()))
    return [meter.read(operation, len(client.lanes), done, times[operation]) for operation in OPERATIONS]


def arrivals_ns(chance: random.Random, per_s: float, seconds: float) -> list[int]:
    """A Poisson process (independent callers): several calls may come at once."""
    gaps_s = [chance.expovariate(per_s) for _ in range(int(per_s * seconds))]
    return [int(at_s * NS_PER_S) for at_s in accumulate(gaps_s)]


async def _until(at_ns: int) -> None:
    """Sleep. The loop's timers round up to a millisecond, which counts as the server's time."""
    left_ns = at_ns - perf_counter_ns()
    if left_ns > 0:
        await asyncio.sleep(left_ns / NS_PER_S)


def _receive_one(times: list[int], requests: Iterator[bytes]) -> Generator[tuple[list[int], bytes], bytes, bytes]:
    """Returns a handle. An SQS receive may be empty although messages are left; it counts as a call."""
    for _ in range(EMPTY_MAX):
        handles = handles_in((yield times, next(requests)))
        if handles:
            return handles[0]
    raise LoadError(f"{EMPTY_MAX} empty receives, one after another, although messages are left")
