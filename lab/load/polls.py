"""Long polls: the time from a send to the answer of a waiting receive, and connections that poll again and again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from time import perf_counter_ns

import msgspec

from lab.load.queues import Client, handles_in, turns
from lab.load.wire import Lane, LoadError, Script, connect
from lab.measure.figures import Figures, Meter

WAIT_S = 20
ARRIVAL_TIMEOUT_S = 10.0
GAP_MS = (3, 8)
"""Random pause between two sends, in which the poll that got the first message begins again."""
RAMP_AT_ONCE = 200
BYTES_PER_MIB = 1 << 20

_NUMBER = re.compile(rb'"Body": *"wake (\d+)"')


async def wake(client: Client, rounds: int, request: Callable[[], bytes] | None = None) -> Figures:
    """One connection sends, all others wait; measures from the first byte of the send to the received message.
    `request` makes another call that puts a message into the queue."""
    put = request or (lambda: client.call("SendMessage", MessageBody=client.body()))
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
                yield [], client.delete(handles[0])

    def send_one() -> Script:
        yield [], put()

    sender, *pollers = client.lanes
    receives = client.receives(1, WaitTimeSeconds=WAIT_S)
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


class Polls:
    """Connections of which each polls one queue again and again."""

    def __init__(self, client: Client, wait_s: int) -> None:
        self._client = client
        self._wait_s = wait_s
        self._lanes: list[Lane] = []
        self.answers = 0
        self.arrivals_ns: dict[int, int] = {}  # by number of the message

    async def begin(self, urls: list[str], polls: int) -> None:
        while len(self._lanes) < polls:
            for lane in await connect(self._client.server.port, min(RAMP_AT_ONCE, polls - len(self._lanes))):
                lane.start(self._poll(urls[len(self._lanes) % len(urls)]))
                self._lanes.append(lane)
            await asyncio.sleep(0)

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()

    def _poll(self, url: str) -> Script:
        """Poll forever. The first polls begin together and wait equally long; the second wait has a random length, so
        that from then on an equal share of the polls ends each second, as with independent clients."""
        signer = self._client.signer
        for wait_s in chain((self._wait_s, self._client.random.randint(1, self._wait_s)), repeat(self._wait_s)):
            poll = msgspec.json.encode({"QueueUrl": url, "WaitTimeSeconds": wait_s})
            answer = yield [], signer.call("ReceiveMessage", poll)
            now_ns = perf_counter_ns()
            self.answers += 1
            for number, handle in zip(_NUMBER.findall(answer), handles_in(answer), strict=True):
                self.arrivals_ns[int(number)] = now_ns
                delete = {"QueueUrl": url, "ReceiptHandle": handle.decode()}
                yield [], signer.call("DeleteMessage", msgspec.json.encode(delete))
