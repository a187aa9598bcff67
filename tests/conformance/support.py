"""Shared by the conformance tests: a queue with its own current time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable

import msgspec

from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cqs.engines.contract import (
    Change,
    Engine,
    Entry,
    Message,
    Outcome,
    PeekedMessage,
    QueueRef,
    ReceiveResult,
    RejectedEntry,
    SentEntry,
    Waiter,
)
from lab.harness.waiting import PATIENCE_S

HIDE_MS = 30_000
POLL_S = PATIENCE_S
"""The time that a test waits for an event that must come."""

DONE, GONE, STALE = Outcome.DONE, Outcome.GONE, Outcome.STALE
EXPIRED, MALFORMED = Outcome.EXPIRED, Outcome.MALFORMED


async def until(condition: Callable[[], Awaitable[object] | object], pause_s: float = 0.02) -> None:
    """Wait until `condition`, or what it awaits, is true: of work in the background there is no event to wait for."""
    async with asyncio.timeout(PATIENCE_S):
        while not (await found if isawaitable(found := condition()) else found):
            await asyncio.sleep(pause_s)


def bodies(messages: Iterable[Message | PeekedMessage]) -> list[bytes]:
    return [message.body for message in messages]


def numbered(n: int, prefix: bytes = b"") -> list[bytes]:
    """`n` bodies that sort by number."""
    return [prefix + b"%06d" % i for i in range(n)]


def displacement(order: Sequence[int]) -> float:
    """The mean distance of messages from their turn (seed 004, V.A)."""
    return sum(abs(place - number) for place, number in enumerate(order)) / len(order)


class QueueFixture:
    """One queue and the current time. `advance` moves the time and the engine's clock."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        fifo: bool = False,
        retention_ms: int = DAY_MS,
        max_receives: int = 0,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.q = QueueRef(f"queue-{uuid.uuid4()}", fifo, retention_ms, max_receives)
        self.now_ms = clock.now_ms()

    def at(self, engine: Engine) -> QueueFixture:
        """The same queue and time, in another process or after a restart."""
        queue = QueueFixture(engine, self.clock)
        queue.q = self.q
        queue.now_ms = self.now_ms
        return queue

    @property
    def continues_sequence(self) -> bool:
        """Whether sequence numbers continue after a restart. Otherwise they come from the clock."""
        return self.q.fifo or self.engine.capabilities.atomic_settle

    def set(self, *, retention_ms: int | None = None, max_receives: int | None = None) -> None:
        """Change the queue's settings, like SetQueueAttributes."""
        if retention_ms is not None:
            self.q = msgspec.structs.replace(self.q, retention_ms=retention_ms)
        if max_receives is not None:
            self.q = msgspec.structs.replace(self.q, max_receives=max_receives)

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.clock.advance(ms)

    def entry(self, body: bytes, *, group: str = "", dedup: str = "", delay_ms: int = 0, age_ms: int = 0) -> Entry:
        return Entry(str(uuid.uuid4()), body, self.now_ms - age_ms, self.now_ms + delay_ms, group, dedup)

    async def send_entries(self, entries: Sequence[Entry]) -> list[SentEntry | RejectedEntry]:
        return await self.engine.send(self.q, entries, self.now_ms)

    async def send(
        self, *bodies: bytes, group: str = "", dedup: str = "", delay_ms: int = 0, age_ms: int = 0
    ) -> list[SentEntry]:
        """Send. Fails if an entry is rejected."""
        entries = [self.entry(body, group=group, dedup=dedup, delay_ms=delay_ms, age_ms=age_ms) for body in bodies]
        sent = await self.send_entries(entries)
        accepted = [one for one in sent if isinstance(one, SentEntry)]
        assert len(accepted) == len(bodies)
        return accepted

    async def receive(self, want: int = 10, hide_ms: int = HIDE_MS, attempt_id: str = "") -> ReceiveResult:
        return await self.engine.receive(self.q, want, self.now_ms + hide_ms, self.now_ms, attempt_id)

    async def take(self, want: int = 10, hide_ms: int = HIDE_MS, attempt_id: str = "") -> tuple[Message, ...]:
        return (await self.receive(want, hide_ms, attempt_id)).messages

    async def take_one(self, hide_ms: int = HIDE_MS) -> Message:
        (message,) = await self.take(1, hide_ms)
        return message

    async def drain(self, hide_ms: int = HIDE_MS) -> list[Message]:
        """Receive until no message is left."""
        drained: list[Message] = []
        while messages := await self.take(10, hide_ms):
            drained += messages
        return drained

    async def delete(self, *messages: Message) -> list[Outcome]:
        return await self.engine.delete(self.q, [message.handle for message in messages], self.now_ms)

    async def hide(self, message: Message, ms: int) -> Outcome:
        """Hide a message for `ms` from now."""
        return (await self.engine.change(self.q, [Change(message.handle, self.now_ms + ms)], self.now_ms))[0]

    async def counts(self) -> tuple[int, int, int]:
        """(visible, in flight, delayed)"""
        counts = await self.engine.counts(self.q, self.now_ms)
        return counts.visible, counts.in_flight, counts.delayed

    async def peek_all(self, n: int = 100) -> list[PeekedMessage]:
        """All messages, page by page."""
        peeked: list[PeekedMessage] = []
        cursor = ""
        while True:
            page = await self.engine.peek(self.q, cursor, n, self.now_ms)
            assert len(page.messages) <= n
            peeked += page.messages
            cursor = page.cursor
            if not cursor:
                return peeked

    async def purge(self) -> None:
        await self.engine.purge(self.q, self.now_ms)

    async def drop(self) -> None:
        await self.engine.drop(self.q, self.now_ms)

    async def wait(self) -> Waiter:
        """A waiter whose first receive found nothing."""
        waiter = self.engine.waiter(self.q)
        assert not await self.take()
        return waiter

    async def poll(self, want: int = 1) -> ReceiveResult:
        """A long poll like that of the service, by the engine's clock."""
        waiter = self.engine.waiter(self.q)
        try:
            while True:
                now_ms = self.clock.now_ms()
                received = await self.engine.receive(self.q, want, now_ms + HIDE_MS, now_ms)
                if received.messages or received.dropped:
                    return received
                assert await waiter.wait(POLL_S), "a waiting receive was never woken"
        finally:
            waiter.close()
