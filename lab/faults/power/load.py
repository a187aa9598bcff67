"""A seeded load on the embedded engine: all kinds of calls concurrently, each answer noted with its log position."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import apsw
import msgspec

from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cqs.engines.contract import Change, Entry, Message, QueueRef, ReceiveResult, RejectedEntry, SentEntry, Settlement
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.faults.power.journal import (
    DEAD_LETTERS,
    FIFO,
    MOVED,
    PURGED,
    PURGED_FIFO,
    REDRIVE,
    STANDARD,
    Journal,
    SentMessage,
    StoreCall,
    existing_calls,
)
from lab.faults.power.recording_vfs import Log

LONG_LEASE_MS = 3_600_000
SHORT_LEASE_MS = 15
BODY_BYTES = (10, 300, 300, 1_000, 5_000, 20_000)
GROUPS_PER_SENDER = 3
REDRIVE_AFTER_TWO = msgspec.structs.replace(REDRIVE, max_receives=2)
PURGED_KEYS = 4
"""Few, so that keys repeat after a purge."""
NUMBERS_PER_RUN = 100_000
SCHEMA = ("CREATE TABLE IF NOT EXISTS probe(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",)
UPSERT = "INSERT INTO probe VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


class Load:
    """Concurrent actors on one engine; `journal` has their calls."""

    def __init__(self, database: Database, engine: EmbeddedEngine, clock: Clock, log: Log, random: Random) -> None:
        self.journal = Journal(existing_calls(database.connection))
        self._database = database
        self._engine = engine
        self._clock = clock
        self._log = log
        self._random = random
        self._prefix = f"{database.boot}-"
        self._numbers = database.boot * NUMBERS_PER_RUN  # values of records only rise, also across runs
        self._committed = 0
        database.on_commit(self._note_commit)

    def _note_commit(self) -> None:
        # a commit resolves its futures just before this; the callers continue just after
        self._committed = self._log.position

    async def run(self, steps: int) -> None:
        actors: list[Callable[[], Awaitable[None]]] = [
            self._send_standard,
            self._send_standard,
            self._consume_standard,
            self._consume_standard,
            self._consume_standard,
            self._consume_fifo,
            self._consume_fifo,
            self._settle_moved,
            self._fill_and_purge,
            self._fill_and_purge_fifo,
            self._receive_redrive,
            self._receive_redrive,
            self._write_record("a"),
            self._write_record("b"),
            self._maintain,
            *[self._fifo_sender(FIFO, sender) for sender in range(3)],
            self._fifo_sender(REDRIVE, 3),
        ]
        await asyncio.gather(*[self._repeat(actor, steps) for actor in actors])

    async def _repeat(self, actor: Callable[[], Awaitable[None]], steps: int) -> None:
        for _ in range(steps):
            await actor()

    # -- senders ------------------------------------------------------------------------------------------------------

    async def _send_standard(self) -> None:
        await self._send(STANDARD, [self._put(STANDARD) for _ in range(self._random.randint(1, 4))])

    def _fifo_sender(self, q: QueueRef, sender: int) -> Callable[[], Awaitable[None]]:
        """Each group has one sender, which waits for each answer, so the order of its sends is known."""
        used: list[str] = []

        async def step() -> None:
            puts = []
            for _ in range(self._random.randint(1, 3)):
                repeat = used and self._random.random() < 0.15
                group = f"{sender}.{self._random.randrange(GROUPS_PER_SENDER)}"
                dedup = self._random.choice(used) if repeat else f"{self._prefix}{sender}-{self._numbers}"
                used.append(dedup)
                puts.append(self._put(q, group, dedup))
            await self._send(q, puts)

        return step

    async def _fill_and_purge(self) -> None:
        if self._random.random() < 0.15:
            await self._purge(PURGED)
        else:
            await self._send(PURGED, [self._put(PURGED) for _ in range(self._random.randint(1, 5))])

    async def _fill_and_purge_fifo(self) -> None:
        """Repeats deduplication keys: they count for five minutes, or until the next purge."""
        if self._random.random() < 0.25:
            await self._purge(PURGED_FIFO)
        else:
            keys = self._random.sample(range(PURGED_KEYS), 2)
            await self._send(PURGED_FIFO, [self._put(PURGED_FIFO, f"{key}", f"{self._prefix}{key}") for key in keys])

    async def _purge(self, q: QueueRef) -> None:
        call = self._begin(StoreCall(began=self._log.position, purges=q))
        await self._engine.purge(q, self._clock.now_ms())
        self._end(call)

    async def _send(self, q: QueueRef, puts: list[SentMessage]) -> None:
        call = self._begin(StoreCall(began=self._log.position, puts=tuple(puts)))
        now_ms = self._clock.now_ms()
        answers = await self._engine.send(q, [self._entry(put, now_ms) for put in puts], now_ms)
        self._end(call, answers)

    # -- consumers ----------------------------------------------------------------------------------------------------

    async def _consume_standard(self) -> None:
        for message in await self._receive(STANDARD, self._random.randint(1, 5)):
            choice = self._random.random()
            if choice < 0.4:
                await self._delete(STANDARD, [message])
            elif choice < 0.6:
                put = self._put(MOVED)
                await self._settle([(STANDARD, message)], [put])
            elif choice < 0.8:
                body = f"{message.id} changed {self._number()}".encode()
                await self._change(STANDARD, message, body)
            elif choice < 0.85:
                await self._change(STANDARD, message)

    async def _consume_fifo(self) -> None:
        messages = await self._receive(FIFO, self._random.randint(1, 4))
        choice = self._random.random()
        if messages and choice < 0.65:
            await self._delete(FIFO, messages)
        elif messages and choice < 0.8:
            await self._change(FIFO, messages[0])

    async def _settle_moved(self) -> None:
        """Each settlement replaces one message by three, in two other queues."""
        for message in await self._receive(MOVED, 2):
            puts = [self._put(STANDARD), self._put(PURGED), self._put(STANDARD)]
            await self._settle([(MOVED, message)], puts)

    async def _receive_redrive(self) -> None:
        """Deletes few messages; the others are moved to the dead-letter queue after two deliveries."""
        now_ms, began = self._clock.now_ms(), self._log.position
        received = await self._engine.receive(REDRIVE_AFTER_TWO, 4, now_ms + SHORT_LEASE_MS, now_ms)
        for message in (*received.messages, *received.spent):
            self.journal.handles.setdefault(message.id, []).append((began, message.handle))
        for message in received.spent:
            await self._settle([(REDRIVE, message)], [self._put(DEAD_LETTERS, message.group, message.id)])
        if received.messages and self._random.random() < 0.2:
            await self._delete(REDRIVE, received.messages)

    async def _receive(self, q: QueueRef, want: int) -> tuple[Message, ...]:
        now_ms = self._clock.now_ms()
        lease_ms = self._random.choice((SHORT_LEASE_MS, LONG_LEASE_MS))
        began = self._log.position
        received: ReceiveResult = await self._engine.receive(q, want, now_ms + lease_ms, now_ms)
        for message in received.messages:
            self.journal.handles.setdefault(message.id, []).append((began, message.handle))
        if q.fifo and received.messages:
            call = self._begin(StoreCall(began=began, leases=received.messages, leased_until_ms=now_ms + lease_ms))
            self._end(call)
        return received.messages

    async def _delete(self, q: QueueRef, messages: list[Message] | tuple[Message, ...]) -> None:
        call = self._begin(StoreCall(began=self._log.position, removes=tuple([(q, message) for message in messages])))
        handles = [message.handle for message in messages]
        call.outcomes = tuple(await self._engine.delete(q, handles, self._clock.now_ms()))
        self._end(call)

    async def _change(self, q: QueueRef, message: Message, body: bytes | None = None) -> None:
        replaces = () if body is None else ((message, body),)
        call = self._begin(StoreCall(began=self._log.position, replaces=replaces, touches=message))
        now_ms = self._clock.now_ms()
        change = Change(message.handle, now_ms + self._random.choice((0, LONG_LEASE_MS)), body)
        call.replaced = tuple(await self._engine.change(q, [change], now_ms))
        self._end(call)

    async def _settle(self, removes: list[tuple[QueueRef, Message]], puts: list[SentMessage]) -> None:
        call = self._begin(StoreCall(began=self._log.position, removes=tuple(removes), puts=tuple(puts)))
        now_ms = self._clock.now_ms()
        settlement = Settlement(
            deletes=tuple([(q, message.handle) for q, message in removes]),
            sends=tuple([(put.queue, self._entry(put, now_ms)) for put in puts]),
        )
        settled = await self._engine.settle(settlement, now_ms)
        call.outcomes = settled.deletes
        self._end(call, settled.sends)

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _write_record(self, key: str) -> Callable[[], Awaitable[None]]:
        async def step() -> None:
            value = self._number()
            call = self._begin(StoreCall(began=self._log.position, writes=(key, value)))

            def change(connection: apsw.Connection) -> None:
                connection.execute(UPSERT, (key, value))

            await self._database.write(change)
            self._end(call)

        return step

    async def _maintain(self) -> None:
        await self._engine.maintain(self._random.choice((10, 200)), self._clock.now_ms())

    # -- notes --------------------------------------------------------------------------------------------------------

    def _begin(self, call: StoreCall) -> StoreCall:
        self.journal.calls.append(call)
        return call

    def _end(
        self, call: StoreCall, answers: list[SentEntry | RejectedEntry] | tuple[SentEntry | RejectedEntry, ...] = ()
    ) -> None:
        sent = [answer for answer in answers if isinstance(answer, SentEntry)]
        assert len(sent) == len(call.puts)
        call.sequences = tuple([answer.sequence for answer in sent])
        call.originals = tuple([answer.id for answer in sent])
        call.answered = self._committed

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _put(self, q: QueueRef, group: str = "", dedup: str = "") -> SentMessage:
        message_id = f"{self._prefix}{self._number()}"
        size = self._random.choice(BODY_BYTES)
        return SentMessage(queue=q, id=message_id, body=message_id.encode().ljust(size, b"."), group=group, dedup=dedup)

    def _entry(self, put: SentMessage, now_ms: int) -> Entry:
        delay_ms = self._random.choice((0, 0, 0, SHORT_LEASE_MS)) if not put.group else 0
        return Entry(put.id, put.body, now_ms, now_ms + delay_ms, put.group, put.dedup)
