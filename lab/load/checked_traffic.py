"""Senders and receivers that check each message: how often it came, and how long each call took."""

from __future__ import annotations

import asyncio
import re
from array import array
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

from lab.load.queues import BATCH, BODY_BYTES, Client, accepted, handles_in
from lab.load.wire import Lane
from lab.measure.figures import NS_PER_S

NUMBER_DIGITS = 10
FILLER = "x" * (BODY_BYTES - NUMBER_DIGITS)
IDLE_S = 30.0
"""A run ends this long after its last new message."""

_NUMBER = re.compile(rb'"Body": *"(\d{%d})' % NUMBER_DIGITS)


class MessageCheck:
    """Counts how often each message was received. A message is the number at the beginning of its body. No lease ends
    within a run, so a repeated delivery is a fault of the service."""

    def __init__(self) -> None:
        self._counts = bytearray()
        self.distinct = 0
        self.repeated = 0
        self.last_new_ns = perf_counter_ns()

    @property
    def sent(self) -> int:
        return len(self._counts)

    @property
    def missing(self) -> int:
        return self.sent - self.distinct

    def body(self) -> str:
        """The body of the next message."""
        number = len(self._counts)
        self._counts.append(0)
        return f"{number:0{NUMBER_DIGITS}d}{FILLER}"

    def receive(self, answer: bytes) -> list[bytes]:
        """Count the messages of an answer. Returns their receipt handles."""
        for text in _NUMBER.findall(answer):
            number = int(text)
            if self._counts[number]:
                self.repeated += 1
            else:
                self._counts[number] = 1
                self.distinct += 1
                self.last_new_ns = perf_counter_ns()
        return handles_in(answer)

    def is_idle(self) -> bool:
        return perf_counter_ns() - self.last_new_ns > IDLE_S * NS_PER_S


@dataclass(slots=True)
class Traffic:
    """One run: its messages, its calls, and whether senders still work."""

    check: MessageCheck = field(default_factory=MessageCheck)
    took_ns: array[int] = field(default_factory=lambda: array("q"))
    """The times of all calls."""
    receives: int = 0
    empty: int = 0
    sending: bool = True

    @property
    def is_over(self) -> bool:
        return not self.sending and (self.check.missing == 0 or self.check.is_idle())

    async def send_at_rate(self, client: Client, lane: Lane, per_s: float, seconds: float) -> None:
        """Send single messages. A sender that is late sends at once, and does not wait for the next planned time."""
        planned_ns = perf_counter_ns()
        end_ns = planned_ns + int(seconds * NS_PER_S)
        while planned_ns < end_ns and (now_ns := perf_counter_ns()) < end_ns:
            if planned_ns > now_ns:
                await asyncio.sleep((planned_ns - now_ns) / NS_PER_S)
            await self._ask(lane, client.call("SendMessage", MessageBody=self.check.body()))
            planned_ns += int(NS_PER_S / per_s)

    async def send_batches(self, client: Client, lane: Lane, messages: int) -> None:
        """Send batches of ten."""
        for _ in range(messages // BATCH):
            batch = client.send_batch([{"MessageBody": self.check.body()} for _ in range(BATCH)])
            accepted(await self._ask(lane, batch))

    async def receive_single(self, client: Client, lane: Lane, work_s: float) -> None:
        """Receive one message at a time, work for `work_s`, delete it. Receives do not wait for messages."""
        while not self.is_over:
            for handle in await self._receive(client, lane, 1):
                await asyncio.sleep(work_s)
                await self._ask(lane, client.delete(handle))

    async def receive_batches(self, client: Client, lane: Lane) -> None:
        """Receive up to ten messages and delete them in one call."""
        while not self.is_over:
            if handles := await self._receive(client, lane, BATCH):
                accepted(await self._ask(lane, client.delete_batch(handles)))

    async def run(
        self, senders: Sequence[Coroutine[Any, Any, None]], receivers: Sequence[Coroutine[Any, Any, None]]
    ) -> None:
        """Until the senders have sent all, and the receivers have it or no new message comes."""
        receiving = [asyncio.create_task(receiver) for receiver in receivers]
        await asyncio.gather(*senders)
        self.sending = False
        self.check.last_new_ns = perf_counter_ns()
        await asyncio.gather(*receiving)

    async def _receive(self, client: Client, lane: Lane, n: int) -> list[bytes]:
        handles = self.check.receive(await self._ask(lane, client.receive(n)))
        self.receives += 1
        self.empty += not handles
        return handles

    async def _ask(self, lane: Lane, request: bytes) -> bytes:
        began_ns = perf_counter_ns()
        answer = await lane.ask(request)
        self.took_ns.append(perf_counter_ns() - began_ns)
        return answer
