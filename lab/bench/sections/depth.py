"""Times of operations at a depth: one connection, one call at a time; each cycle leaves the depth as it was."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from lab.bench.sections.queue_kinds import QueueFiller
from lab.load.queues import BATCH, HIDE_S, Client, delete_batch_request, delete_request, handles_in
from lab.load.wire import LoadError, Script
from lab.measure.figures import NS_PER_MS, US_PER_S

BLOCK = 20
"""The depths alternate after this number of cycles, so that the machine's speed is the same for all."""

Times = defaultdict[str, list[int]]
"""Operation → times in ns."""


class Side(NamedTuple):
    """One of the compared depths: a server, and the cycle of operations to repeat there."""

    depth: int
    client: Client
    cycle: Callable[[Times], Script]


class DepthFigures(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    depth: int
    cycles: int
    mean_ms: dict[str, float]  # by operation
    cpu_us: float  # the server's, per cycle


async def compare(sides: Sequence[Side], cycles: int) -> list[DepthFigures]:
    """Measure servers that are filled to different depths, alternating."""
    times: list[Times] = [defaultdict(list) for _ in sides]
    for side in sides:
        await side.client.connect_anew()  # the server may have closed the first while the last was filled
        await _run(side, min(BLOCK, cycles), defaultdict(list))  # warms up
    before_s = [side.client.server.cpu_s() for side in sides]
    for begun in range(0, cycles, BLOCK):
        for side, taken in zip(sides, times, strict=True):
            await _run(side, min(BLOCK, cycles - begun), taken)
    used_s = [side.client.server.cpu_s() - before for side, before in zip(sides, before_s, strict=True)]
    return [
        DepthFigures(
            server=side.client.server.name,
            depth=side.depth,
            cycles=cycles,
            mean_ms=means(taken),
            cpu_us=round(used / cycles * US_PER_S, 1),
        )
        for side, taken, used in zip(sides, times, used_s, strict=True)
    ]


async def _run(side: Side, cycles: int, times: Times) -> None:
    def script() -> Script:
        for _ in range(cycles):
            yield from side.cycle(times)

    await side.client.lanes[0].start(script())


def means(times: Times) -> dict[str, float]:
    return {name: round(statistics.fmean(ns) / NS_PER_MS, 4) for name, ns in times.items()}


# -- what is done -----------------------------------------------------------------------------------------------------


def messages(filler: QueueFiller, times: Times) -> Script:
    """One cycle of all message operations, single and in batches of ten."""
    client = filler.client
    yield times["send"], filler.send()
    (handle,) = handles_of((yield times["receive"], receive(client, 1)), 1)
    visibility = {"ReceiptHandle": handle.decode(), "VisibilityTimeout": HIDE_S}
    yield times["change visibility"], client.call("ChangeMessageVisibility", **visibility)
    yield times["get attributes"], client.call("GetQueueAttributes", AttributeNames=["All"])
    yield times["delete"], delete_request(client, handle)
    yield times["batch send"], filler.send_batch()
    handles = handles_of((yield times["batch receive"], receive(client, BATCH)), BATCH)
    changed = yield times["batch change visibility"], _change_batch(client, handles)
    deleted = yield times["batch delete"], delete_batch_request(client, handles)
    if b'"Failed"' in changed + deleted:
        raise LoadError("an entry of a batch was refused")


def receive(client: Client, n: int, hide_s: int = HIDE_S) -> bytes:
    return client.call("ReceiveMessage", MaxNumberOfMessages=n, VisibilityTimeout=hide_s)


def handles_of(answer: bytes, n: int) -> list[bytes]:
    handles = handles_in(answer)
    if len(handles) != n:
        raise LoadError(f"a receive of {n} gave {len(handles)} although as many are there")
    return handles


def _change_batch(client: Client, handles: list[bytes]) -> bytes:
    entries = [
        {"Id": str(place), "ReceiptHandle": handle.decode(), "VisibilityTimeout": HIDE_S}
        for place, handle in enumerate(handles)
    ]
    return client.call("ChangeMessageVisibilityBatch", Entries=entries)
