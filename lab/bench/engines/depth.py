"""The times of single calls on a queue of 1,000 messages and on one that is filled as deep as the time allows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from lab.bench.engines.filler import fill_by_engine
from lab.bench.engines.sides import NAIVE, Side
from lab.bench.sections.depth import DepthFigures, Times, compare
from lab.bench.sections.depth import Side as DepthSide
from lab.load.queues import BATCH, HIDE_S, Client, delete_request, handles_in
from lab.load.wire import Budget, LoadError, Script, run

SHALLOW = 1_000
FILLERS = 16
BODY = "x" * 100
"""Small, so that the fill is of messages and not of bytes."""
EMPTY_MAX = 100
OPERATIONS = ("send", "receive", "delete")


class Depths(NamedTuple):
    shallow: DepthFigures
    deep: DepthFigures


async def by_depth(side: Side, depth: int, fill_s: float, cycles: int, seed: int) -> Depths:
    """`fill_s` limits the time of the fill: the depth reached is in the figures."""
    compared = []
    for name, messages in (("shallow", SHALLOW), ("deep", depth)):
        client = await side.client(FILLERS, seed, f"depth-{name}")
        reached = await _fill_deep(side, client, messages, fill_s)
        compared.append(DepthSide(reached, client, partial(_cycle, client)))
    shallow, deep = await compare(compared, cycles)
    for one in compared:
        one.client.close()
    return Depths(shallow, deep)


async def _fill_deep(side: Side, client: Client, messages: int, seconds: float) -> int:
    """Through the engine itself, where this process can open it: ten times as fast as over HTTP."""
    if side.place is None or side.engine == NAIVE:
        return await fill(client, messages, seconds)
    answer = await client.ask("GetQueueAttributes", QueueUrl=client.url, AttributeNames=["QueueArn"])
    attributes = msgspec.convert(answer["Attributes"], dict[str, str])
    return await fill_by_engine(side.place, side.engine, attributes["QueueArn"], BODY, messages, seconds)


async def fill(client: Client, messages: int, seconds: float) -> int:
    """Send in batches of ten over all connections. Returns how many were sent in time."""
    budget = Budget(messages, seconds)
    entries = [{"Id": str(n), "MessageBody": BODY} for n in range(BATCH)]

    def script() -> Script:
        while budget.take(BATCH):
            if b'"Failed"' in (yield [], client.call("SendMessageBatch", Entries=entries)):
                raise LoadError("an entry of a batch was refused")

    await run(client.lanes, [script() for _ in client.lanes])
    return messages - budget.left


def _cycle(client: Client, times: Times) -> Script:
    yield times["send"], client.call("SendMessage", MessageBody=BODY)
    handles: list[bytes] = []
    for _ in range(EMPTY_MAX):
        request = client.call("ReceiveMessage", MaxNumberOfMessages=1, VisibilityTimeout=HIDE_S)
        handles = handles_in((yield times["receive"], request))
        if handles:
            break
    yield times["delete"], delete_request(client, handles[0])


def table(found: Mapping[str, Depths]) -> list[str]:
    lines = [
        f"| engine | depth reached | {' | '.join(f'{name}: mean ms at {SHALLOW:,}, deep' for name in OPERATIONS)} |"
        " CPU µs of a cycle: service | deep : shallow |",
        "|---" * (len(OPERATIONS) + 4) + "|",
    ]
    for engine, (shallow, deep) in found.items():
        times = " | ".join(f"{shallow.mean_ms[name]:.1f}, {deep.mean_ms[name]:.1f}" for name in OPERATIONS)
        ratio = sum(deep.mean_ms[name] for name in OPERATIONS) / sum(shallow.mean_ms[name] for name in OPERATIONS)
        lines.append(
            f"| `{engine}` | {deep.depth:,} | {times} | {shallow.cpu_us:.0f}, {deep.cpu_us:.0f} | **{ratio:.2f}** |"
        )
    return lines
