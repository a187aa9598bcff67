"""Long polls: the time from a send to the answer of a waiting receive, and the cost of 10,000 waiting receives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter_ns

import msgspec

from lab.harness.server import Server
from lab.load.queues import Client, delete_request, handles_in, receive_requests, turns
from lab.load.wire import Lane, LoadError, Script, connect
from lab.measure.figures import Figures, Meter

WAIT_S = 20
ARRIVAL_TIMEOUT_S = 10.0
GAP_MS = (3, 8)
"""Random pause between two sends, in which the poll that got the first message begins again."""
RAMP_AT_ONCE = 200
BYTES_PER_MIB = 1 << 20


class IdleFigures(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    polls: int
    seconds: float
    cpu_share: float  # of one core
    added_mib: float  # resident memory above that of the same server without polls


async def wake(client: Client, rounds: int) -> Figures:
    """One connection sends, all others wait; measures from the first byte of the send to the received message."""
    loop = asyncio.get_running_loop()
    times: list[int] = []
    began_ns = 0
    arrival: asyncio.Future[None]

    def poll(requests: Iterator[bytes]) -> Script:
        while True:
            handles = handles_in((yield [], next(requests)))
            if handles:
                times.append(perf_counter_ns() - began_ns)
                arrival.set_result(None)
                yield [], delete_request(client, handles[0])

    def send_one() -> Script:
        yield [], client.call("SendMessage", MessageBody=client.body())

    sender, *pollers = client.lanes
    receives = receive_requests(client, 1, WaitTimeSeconds=WAIT_S)
    waiting = [lane.start(poll(turns(receives, n))) for n, lane in enumerate(pollers)]
    meter = Meter(client.server)
    for _ in range(rounds):
        await asyncio.sleep(client.random.uniform(*GAP_MS) / 1000)
        arrival = loop.create_future()
        began_ns = perf_counter_ns()
        sent = sender.start(send_one())
        await asyncio.wait([arrival, *waiting], timeout=ARRIVAL_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        for failed in waiting:
            if failed.done():
                failed.result()
        if not arrival.done():
            raise LoadError(f"nobody got what was sent within {ARRIVAL_TIMEOUT_S:.0f} s")
        await sent
    figures = meter.read(f"wake, {len(pollers)} waiting", len(client.lanes), rounds, times)
    client.close()
    return figures


async def idle(server: Server, polls: int, seconds: float) -> IdleFigures:
    """Waiting connections, all on the same empty queue."""
    client = Client(server, await connect(server.port, 1), seed=0)
    await client.use_queue("idle")
    before_bytes = server.resident_bytes()

    def poll() -> Script:
        while True:
            yield [], client.call("ReceiveMessage", WaitTimeSeconds=WAIT_S)

    lanes: list[Lane] = []
    while len(lanes) < polls:
        some = await connect(server.port, min(RAMP_AT_ONCE, polls - len(lanes)))
        for lane in some:
            lane.start(poll())
        lanes += some
        await asyncio.sleep(0)
    await asyncio.sleep(2)
    cpu_s, began_ns = server.cpu_s(), perf_counter_ns()
    await asyncio.sleep(seconds)
    elapsed_s = (perf_counter_ns() - began_ns) / 1e9
    figures = IdleFigures(
        server=server.name,
        polls=polls,
        seconds=round(elapsed_s, 1),
        cpu_share=round((server.cpu_s() - cpu_s) / elapsed_s, 4),
        added_mib=round((server.resident_bytes() - before_bytes) / BYTES_PER_MIB, 1),
    )
    for lane in [*lanes, *client.lanes]:
        lane.close()
    return figures
