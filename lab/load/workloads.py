"""The workloads of a queue: the calls that each connection repeats, one after another or at a rate, and what is
counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import accumulate, cycle
from time import perf_counter_ns

from lab.load.pacing import Schedule
from lab.load.queues import BATCH, VARIANTS, Client, accepted, handles_in, turns
from lab.load.wire import Budget, LoadError, Script, run
from lab.measure.figures import NS_PER_S, Figures, Meter

SECONDS_MAX = 60.0
OPERATIONS = ("send", "receive", "delete")
STOCK = 100
EMPTY_MAX = 100

Receiving = Generator[tuple[list[int], bytes], bytes, bytes]


async def send(client: Client, messages: int, seconds_max: float = SECONDS_MAX) -> Figures:
    """Single sends of 1 KiB."""
    sends, budget, times = client.sends(), Budget(messages, seconds_max), list[int]()

    def script(lane: int) -> Script:
        requests = turns(sends, lane)
        while budget.take():
            yield times, next(requests)

    return await _measure("send", client, budget, times, script)


async def receive(client: Client, messages: int) -> tuple[Figures, list[bytes]]:
    """Receive one message per call. Also returns the receipt handles."""
    receives, budget, times = client.receives(1), Budget(messages, SECONDS_MAX), list[int]()
    handles: list[bytes] = []

    def script(lane: int) -> Script:
        requests = turns(receives, lane)
        while budget.take():
            handles.append((yield from _receive_one(times, requests)))

    return await _measure("receive", client, budget, times, script), handles


async def delete(client: Client, handles: Sequence[bytes]) -> Figures:
    """Delete one message per call. Requests are signed between calls, outside the measured time."""
    left, budget, times = iter(handles), Budget(len(handles), SECONDS_MAX), list[int]()

    def script(_lane: int) -> Script:
        while budget.take():
            yield times, client.delete(next(left))

    return await _measure("delete", client, budget, times, script)


async def receive_delete(client: Client, messages: int, seconds_max: float = SECONDS_MAX) -> Figures:
    """Receive one message and delete it; the unit is the pair, and its time that of both requests."""
    receives, budget, pairs = client.receives(1), Budget(messages, seconds_max), list[int]()

    def script(lane: int) -> Script:
        requests, two = turns(receives, lane), list[int]()
        while budget.take():
            handles = handles_in((yield two, next(requests)))
            if not handles:
                raise LoadError("an empty receive although messages are left")
            yield two, client.delete(handles[0])
            pairs.append(sum(two))
            two.clear()

    return await _measure("receive + delete", client, budget, pairs, script)


async def cycles(client: Client, n: int, seconds_max: float = SECONDS_MAX) -> Figures:
    """Send, receive and delete in a cycle; the unit is a call."""
    sends, receives = client.sends(), client.receives(1)
    budget, times = Budget(n * len(OPERATIONS), seconds_max), list[int]()

    def script(lane: int) -> Script:
        bodies, requests = turns(sends, lane), turns(receives, lane)
        while budget.take(len(OPERATIONS)):
            yield times, next(bodies)
            handle = yield from _receive_one(times, requests)
            yield times, client.delete(handle)

    return await _measure("send, receive, delete", client, budget, times, script)


async def retried_cycles(client: Client, n: int, seconds_max: float = SECONDS_MAX) -> Figures:
    """Cycles in which every second message is given back once; the unit is a call."""
    sends, receives = client.sends(), client.receives(1)
    calls = 2 * len(OPERATIONS) + 2  # of two messages
    budget, times = Budget(n // 2 * calls, seconds_max), list[int]()

    def script(lane: int) -> Script:
        bodies, requests = turns(sends, lane), turns(receives, lane)
        while budget.take(calls):
            for is_given_back in (False, True):
                yield times, next(bodies)
                handle = yield from _receive_one(times, requests)
                if is_given_back:
                    yield (
                        times,
                        client.call("ChangeMessageVisibility", ReceiptHandle=handle.decode(), VisibilityTimeout=0),
                    )
                    handle = yield from _receive_one(times, requests)
                yield times, client.delete(handle)

    return await _measure("send, receive, give back, delete", client, budget, times, script)


async def hold(client: Client, messages: int, seconds_max: float = SECONDS_MAX) -> int:
    """Receive so many messages and keep them in flight. Returns their number."""
    receives, budget = client.receives(BATCH), Budget(messages, seconds_max)

    def script(lane: int) -> Script:
        requests = turns(receives, lane)
        while budget.left > 0 and budget.take(0):
            handles = handles_in((yield [], next(requests)))
            budget.left -= len(handles)
            if not handles:
                return

    await run(client.lanes, [script(lane) for lane in range(len(client.lanes))])
    return messages - budget.left


async def send_batches(client: Client, messages: int, seconds_max: float = SECONDS_MAX) -> Figures:
    """Batches of ten; the unit is a message, the time that of a request."""
    sends = [client.send_batch({"MessageBody": client.body()} for _ in range(BATCH)) for _ in range(VARIANTS // BATCH)]
    budget, times = Budget(messages, seconds_max), list[int]()

    def script(lane: int) -> Script:
        requests = turns(sends, lane)
        while budget.take(BATCH):
            accepted((yield times, next(requests)))

    return await _measure("batch send", client, budget, times, script)


async def drain(client: Client, messages: int, seconds_max: float = SECONDS_MAX, *, patient: bool = False) -> Figures:
    """Receive up to ten and delete them in one batch; the unit is a message. A connection ends with an empty receive,
    as others have the rest in flight. A `patient` one goes on, and takes handles that are refused: an engine that
    delivers twice refuses some."""
    receives, budget, times = client.receives(BATCH), Budget(messages, seconds_max), list[int]()

    def script(lane: int) -> Script:
        requests = turns(receives, lane)
        while budget.left > 0 and budget.take(0):
            handles = handles_in((yield times, next(requests)))
            budget.left -= len(handles)
            if handles:
                answer = yield times, client.delete_batch(handles)
            if not patient:
                if not handles:
                    return
                accepted(answer)

    return await _measure("batch receive + delete", client, budget, times, script)


async def _measure(
    workload: str, client: Client, budget: Budget, times: list[int], script: Callable[[int], Script]
) -> Figures:
    """Run a script on each connection until the budget is spent."""
    messages, scripts = budget.left, [script(lane) for lane in range(len(client.lanes))]
    meter = Meter(client.server)
    await run(client.lanes, scripts)
    figures = meter.read(workload, len(scripts), messages - budget.left, times)
    if budget.left > 0 and not budget.late:
        raise LoadError(f"{workload}: {budget.left} of {messages} messages are missing")
    return figures


# -- at a rate --------------------------------------------------------------------------------------------------------


async def fill_stock(client: Client) -> list[bytes]:
    """Prepare for `paced`: leave messages to receive, and return handles of received messages to delete."""
    handles: list[bytes] = []

    def script(receives: Iterator[bytes]) -> Script:
        for _ in range(2 * STOCK):
            yield [], client.call("SendMessage", MessageBody=client.body())
        while len(handles) < STOCK:
            handles.append((yield from _receive_one([], receives)))

    await client.lanes[0].start(script(cycle(client.receives(1))))
    return handles


async def paced(client: Client, handles: list[bytes], per_s: float, seconds: float) -> list[Figures]:
    """Figures by operation; rate and CPU are those of all operations together.

    A call's time starts when it was planned, so that calls delayed by a stall of the server count.
    """
    sends, receives = cycle(client.sends()), cycle(client.receives(1))
    schedule = Schedule(arrivals_ns(client.random, per_s, seconds))
    times: dict[str, list[int]] = {operation: [] for operation in OPERATIONS}

    def operation_of(number: int) -> str:
        return OPERATIONS[number % len(OPERATIONS)]

    def request(number: int) -> bytes:
        match operation_of(number):
            case "send":
                return next(sends)
            case "receive":
                return next(receives)
            case _:
                return client.delete(handles.pop(0))

    def answered(number: int, answer: bytes) -> None:
        operation = operation_of(number)
        times[operation].append(perf_counter_ns() - schedule.due_ns(number))
        if operation == "receive":
            handles.extend(handles_in(answer))

    meter = Meter(client.server)
    await schedule.run(client.lanes, request, answered)
    done = sum(map(len, times.values()))
    return [meter.read(operation, len(client.lanes), done, times[operation]) for operation in OPERATIONS]


def arrivals_ns(chance: random.Random, per_s: float, seconds: float) -> list[int]:
    """A Poisson process (independent callers): several calls may come at once."""
    gaps_s = [chance.expovariate(per_s) for _ in range(int(per_s * seconds))]
    return [int(at_s * NS_PER_S) for at_s in accumulate(gaps_s)]


def _receive_one(times: list[int], requests: Iterator[bytes]) -> Receiving:
    """Returns a handle. An SQS receive may be empty although messages are left; it counts as a call."""
    for _ in range(EMPTY_MAX):
        handles = handles_in((yield times, next(requests)))
        if handles:
            return handles[0]
    raise LoadError(f"{EMPTY_MAX} empty receives, one after another, although messages are left")
