"""The clients of a kill round: senders, publishers and consumers that repeat what was not answered, as SDKs do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from random import Random

from lab.faults.accounting.ledger import Ledger
from lab.faults.service.consumers import Consumer
from lab.faults.service.resources import RoundResources
from lab.faults.service.senders import FifoSender, Sender
from lab.faults.service.wire import Wire

ORDERED_SIZES = (1, 1, 1, 1, 10, 1, 1, 1, 1, 1, 20)
"""Sizes in units of the padding. The copies of large bodies exceed one batch together, so they are stored once."""
SENDERS = (("standard", "s", 4, 0.004), ("news", "n", 2, 0.015), ("wide", "w", 1, 0.4))
"""Target, prefix of the texts, how many, and the pause of each in seconds."""
FIFO_SENDERS = (("fifo", "g", 3, 0.004, (1,)), ("redrive", "w", 2, 0.2, (1,)), ("ordered", "o", 2, 0.05, ORDERED_SIZES))
"""The same, and the sizes of the bodies."""
FAILING_PAUSE_S = 0.04
CONSUMERS = {
    "standard": 3,
    "fifo": 3,
    "redrive": 2,
    "dead_letter_queue": 1,
    "news_queue": 1,
    "in_order": 2,
    "in_envelopes": 1,
    "in_part": 1,
}
"""How many, by queue."""
POLL_S = 1
DRAIN_PAUSE_S = 0.03

Step = Callable[[], Awaitable[None]]


class LoadClients:
    """All clients run from `start`; `stop_sending` ends senders and publishers, `close` ends the consumers."""

    def __init__(self, resources: RoundResources, ledger: Ledger, random: Random, prefix: str = "") -> None:
        """`prefix` makes texts unique among rounds that share queues."""
        self._prefix = prefix
        self._resources = resources
        self._ledger = ledger
        self._random = random
        self._wires: list[Wire] = []
        self._producers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []
        self._turns: list[asyncio.Lock] = []
        self._sending = True

    def start(self) -> None:
        resources = self._resources
        producers = [
            self._sender(getattr(resources, target), f"{name}{number}", pause_s)
            for target, name, n, pause_s in SENDERS
            for number in range(n)
        ] + [
            self._fifo_sender(getattr(resources, target), f"{name}{number}", pause_s, sizes)
            for target, name, n, pause_s, sizes in FIFO_SENDERS
            for number in range(n)
        ]
        consumers = [self._consumer(getattr(resources, queue)) for queue, n in CONSUMERS.items() for _ in range(n)]
        if resources.failing_endpoints is not None:
            producers.append(self._sender(resources.failing_endpoints.topic, "a", FAILING_PAUSE_S))
            consumers.append(self._consumer(resources.failing_endpoints.undelivered))
        self._producers = [asyncio.create_task(self._while_sending(step)) for step in producers]
        self._consumers = [asyncio.create_task(self._for_ever(step)) for step in consumers]

    async def stop_sending(self) -> None:
        """Stop the producers and wait until every message they began is acknowledged."""
        self._sending = False
        await asyncio.gather(*self._producers)

    async def pause(self) -> None:
        """Stop the consumers and wait until none holds a message."""
        for turn in self._turns:
            await turn.acquire()

    def resume(self) -> None:
        for turn in self._turns:
            turn.release()

    async def close(self) -> None:
        for task in [*self._producers, *self._consumers]:
            task.cancel()
        done = await asyncio.gather(*self._producers, *self._consumers, return_exceptions=True)
        for wire in self._wires:
            wire.close()
        for result in done:
            if isinstance(result, Exception):
                raise result

    def failed(self) -> bool:
        """Whether a client ended with an exception."""
        return any(
            task.done() and not task.cancelled() and task.exception() for task in [*self._producers, *self._consumers]
        )

    async def _while_sending(self, step: Step) -> None:
        while self._sending:
            await step()

    async def _for_ever(self, step: Step) -> None:
        turn = asyncio.Lock()
        self._turns.append(turn)
        while True:
            async with turn:
                await step()
            if not self._sending:
                await asyncio.sleep(DRAIN_PAUSE_S)

    def _wire(self) -> Wire:
        wire = self._resources.wire()
        self._wires.append(wire)
        return wire

    # -- steps --------------------------------------------------------------------------------------------------------

    def _sender(self, target: str, name: str, pause_s: float) -> Step:
        sender, numbers = Sender(self._wire(), self._ledger, target), count()
        return _with_pauses(lambda: sender.send_new(f"{self._prefix}{name}-{next(numbers)}"), pause_s)

    def _fifo_sender(self, target: str, name: str, pause_s: float, sizes: Sequence[int]) -> Step:
        sender = FifoSender(self._wire(), self._ledger, self._random, target, f"{self._prefix}{name}", sizes)
        return _with_pauses(sender.step, pause_s)

    def _consumer(self, queue: str) -> Step:
        consumer = Consumer(self._wire(), self._resources, self._ledger)
        counts = (10,) if queue == self._resources.redrive else (1, 5, 10)
        return lambda: consumer.receive(queue, self._random.choice(counts), POLL_S if self._sending else 0)


def _with_pauses(step: Step, pause_s: float) -> Step:
    async def paused() -> None:
        await step()
        await asyncio.sleep(pause_s)

    return paused
