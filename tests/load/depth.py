"""Each operation's time at a depth: one connection, one call at a time, and the depth the same after each cycle."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from tests.load.figures import NS_PER_MS, US_PER_S
from tests.load.queues import BATCH, HIDE_S, Client, delete_batch_request, delete_request, handles_in, send_batches
from tests.load.wire import LoadError, Script

BLOCK = 20
"""The depths take turns every so many cycles, so that the machine is equally fast or slow for all of them."""
FILL_SECONDS_MAX = 300.0


class DepthFigures(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    depth: int
    cycles: int
    mean_ms: dict[str, float]  # by operation
    cpu_us: float  # the server's, per cycle


async def fill(client: Client, depth: int) -> None:
    await send_batches(client, depth, FILL_SECONDS_MAX)


async def compare(clients: Sequence[tuple[int, Client]], cycles: int, *, bare: bool) -> list[DepthFigures]:
    """Servers filled to different depths take turns; `bare` leaves out what the floor does not know."""
    times: list[defaultdict[str, list[int]]] = [defaultdict(list) for _ in clients]
    for _, client in clients:
        await client.lanes[0].start(_cycles(client, BLOCK, defaultdict(list), bare=bare))  # warms up
    before_s = [client.server.cpu_s() for _, client in clients]
    for _ in range(cycles // BLOCK):
        for (_, client), taken in zip(clients, times, strict=True):
            await client.lanes[0].start(_cycles(client, BLOCK, taken, bare=bare))
    used_s = [client.server.cpu_s() - before for (_, client), before in zip(clients, before_s, strict=True)]
    return [
        DepthFigures(
            server=client.server.name,
            depth=depth,
            cycles=cycles,
            mean_ms={name: round(statistics.fmean(ns) / NS_PER_MS, 4) for name, ns in taken.items()},
            cpu_us=round(used / cycles * US_PER_S, 1),
        )
        for (depth, client), taken, used in zip(clients, times, used_s, strict=True)
    ]


def _cycles(client: Client, n: int, times: defaultdict[str, list[int]], *, bare: bool) -> Script:
    for _ in range(n):
        yield times["send"], client.call("SendMessage", MessageBody=client.body())
        (handle,) = _held((yield times["receive"], _receive(client, 1)), 1)
        if not bare:
            text = handle.decode()
            yield (
                times["change visibility"],
                client.call("ChangeMessageVisibility", ReceiptHandle=text, VisibilityTimeout=HIDE_S),
            )
            yield times["get attributes"], client.call("GetQueueAttributes", AttributeNames=["All"])
        yield times["delete"], delete_request(client, handle)
        entries = [{"Id": str(n), "MessageBody": client.body()} for n in range(BATCH)]
        yield times["batch send"], client.call("SendMessageBatch", Entries=entries)
        handles = _held((yield times["batch receive"], _receive(client, BATCH)), BATCH)
        yield times["batch delete"], delete_batch_request(client, handles)


def _receive(client: Client, n: int) -> bytes:
    return client.call("ReceiveMessage", MaxNumberOfMessages=n, VisibilityTimeout=HIDE_S)


def _held(answer: bytes, n: int) -> list[bytes]:
    handles = handles_in(answer)
    if len(handles) != n:
        raise LoadError(f"a receive of {n} gave {len(handles)} although as many are there")
    return handles
