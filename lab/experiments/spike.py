"""A calm load, then many times as much for some seconds, while receivers go on at their pace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import NamedTuple

from lab.bench.order.caller import Caller
from lab.load.queues import BATCH

FILLER = "x" * 1_000
TICK_S = 0.1
QUEUE = "spike"
EMPTY_POLLS = 3


class Spike(NamedTuple):
    base_per_s: int
    factor: int
    calm_s: int
    spike_s: int
    receivers: int
    work_s: float  # of a receiver, for each message


class Outcome(NamedTuple):
    sent: int
    errors: int
    spike_per_s: float
    backlog: int
    drained_s: float
    lost: int
    duplicates: int


@dataclass(slots=True)
class _State:
    sent: set[int] = field(default_factory=set)
    received: list[int] = field(default_factory=list)
    errors: int = 0
    over: bool = False


async def drive_spike(make: Caller, attributes: dict[str, str], spike: Spike, random: Random) -> Outcome:
    made = await make.ask("CreateQueue", QueueName=QUEUE, Attributes={**attributes, "VisibilityTimeout": "120"})
    make.account = made["QueueUrl"].split("/")[-2]
    state, numbers = _State(), iter(range(10**9))
    receivers = [
        asyncio.create_task(_receive(make.another(n, random), state, spike.work_s)) for n in range(spike.receivers)
    ]
    await _send_at(make, state, numbers, spike.base_per_s, spike.calm_s, batch=1)
    before, began_s = len(state.sent), perf_counter()
    await _send_at(make, state, numbers, spike.base_per_s * spike.factor, spike.spike_s, batch=BATCH)
    ended_s, backlog = perf_counter(), len(state.sent) - len(set(state.received))
    spike_per_s = (len(state.sent) - before) / (ended_s - began_s)
    state.over = True
    await asyncio.gather(*receivers)
    make.close()
    last_s = max([task.result() for task in receivers])
    distinct = set(state.received)
    return Outcome(
        sent=len(state.sent),
        errors=state.errors,
        spike_per_s=spike_per_s,
        backlog=backlog,
        drained_s=max(last_s - ended_s, 0.0),
        lost=len(state.sent - distinct),
        duplicates=len(state.received) - len(distinct),
    )


async def _send_at(
    make: Caller, state: _State, numbers: Iterator[int], per_s: int, seconds: int, *, batch: int
) -> None:
    """Open loop: calls start when they are due, however long the others take."""
    free: list[Caller] = []

    async def call() -> None:
        caller = free.pop() if free else make.another(len(state.sent), Random(1))
        of_call = [next(numbers) for _ in range(batch)]
        entries = [{"Id": str(n), "MessageBody": f"{n:010d}{FILLER}"} for n in of_call]
        answer = await caller.call("SendMessageBatch", QUEUE, Entries=entries)
        done = len((answer or {}).get("Successful", []))
        state.errors += done != batch
        state.sent.update(of_call if done == batch else ())
        free.append(caller)

    began_s = perf_counter()
    async with asyncio.TaskGroup() as calls:
        due = 0
        while (passed_s := perf_counter() - began_s) < seconds:
            while due < passed_s * per_s / batch:
                calls.create_task(call())
                due += 1
            await asyncio.sleep(TICK_S)
    for caller in free:
        caller.close()


async def _receive(caller: Caller, state: _State, work_s: float) -> float:
    """Receive in batches, work on each message, and delete, until the queue stays empty.

    Returns when the last message was deleted.
    """
    empty, last_s = 0, 0.0
    while empty < EMPTY_POLLS:
        answer = await caller.call("ReceiveMessage", QUEUE, MaxNumberOfMessages=BATCH, WaitTimeSeconds=1)
        messages = (answer or {}).get("Messages", [])
        empty = empty + 1 if state.over and not messages else 0
        state.errors += answer is None
        if messages:
            state.received += [int(message["Body"][:10]) for message in messages]
            await asyncio.sleep(work_s * len(messages))
            entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
            await caller.call("DeleteMessageBatch", QUEUE, Entries=entries)
            last_s = perf_counter()
    caller.close()
    return last_s
