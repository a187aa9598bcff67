"""Reads and writes the messages of queues for a move between engines."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apsw

from cns_common.errors import StoreUnavailable
from cns_common.sqlite.database import Database
from cqs.engines.contract import Engine, QueueRef, SentEntry
from cqs.engines.embedded import schema
from cqs.engines.embedded.transaction import TransactionState
from cqs.engines.moved_message import PAGE_ROWS, Arrival, FifoMemory, MovedMessage, Original, Transfer


class EmbeddedTransfer(Transfer):
    def __init__(self, engine: Engine, database: Database, state: TransactionState) -> None:
        self._engine = engine
        self._database = database
        self._state = state

    async def messages(self, q: QueueRef, *, cached: bool = True) -> AsyncIterator[list[MovedMessage]]:
        """Their numbers, 8 bytes for each, are in memory at once."""
        await self._database.flush()
        line = self._state.committed_generation(q)
        if line is None:
            return
        rows: Any = self._database.reader.execute(schema.ALL_SEQS, (line,))
        seqs = array("q", sorted([seq for (seq,) in rows]))
        for at in range(0, len(seqs), PAGE_ROWS):
            page: Any = self._database.reader.executemany(
                schema.DELIVERY, [(seq,) for seq in seqs[at : at + PAGE_ROWS]]
            )
            yield [
                MovedMessage(message_id, body, born_at, visible_at, deliveries, first_at, group, seq if q.fifo else 0)
                for seq, visible_at, born_at, deliveries, first_at, group, message_id, body in page
            ]

    async def memory(self, q: QueueRef, now_ms: int) -> FifoMemory:
        await self._database.flush()
        line = self._state.committed_generation(q)
        rows: Any = self._database.reader.execute(schema.ORIGINALS, (line, now_ms))
        return FifoMemory(self._state.sequences.next, tuple([Original(*row) for row in rows]))

    async def begin(self, q: QueueRef, memory: FifoMemory, now_ms: int) -> Arrival:
        await self._engine.purge(q, now_ms)
        await self._database.write(lambda connection: self._rise_to(memory.next_sequence, connection))
        numbers = {original.sequence: original.sequence for original in memory.originals}
        return _EmbeddedArrival(self._engine, self._database, self._state, q, memory, now_ms, numbers)

    def _rise_to(self, number: int, connection: apsw.Connection) -> None:
        connection.execute(schema.RAISE_BOOT, (self._state.sequences.rise_to(number),))


@dataclass(slots=True)
class _EmbeddedArrival(Arrival):
    engine: Engine
    database: Database
    state: TransactionState
    q: QueueRef
    memory: FifoMemory
    now_ms: int
    new: dict[int, int]
    """The numbers of originals, by their former ones: those of messages change."""

    async def add(self, messages: Sequence[MovedMessage]) -> list[MovedMessage]:
        sent = await self.engine.send(self.q, [message.entry() for message in messages], self.now_ms)
        stored: list[MovedMessage] = []
        for message, answer in zip(messages, sent, strict=True):
            if not isinstance(answer, SentEntry):
                raise StoreUnavailable(f"the queue {self.q.id} is dropped")
            if message.sequence in self.new:
                self.new[message.sequence] = answer.sequence
            stored.append(replace(message, sequence=answer.sequence) if self.q.fifo else message)
        return stored

    async def finish(self) -> FifoMemory:
        originals = tuple([one._replace(sequence=self.new[one.sequence]) for one in self.memory.originals])
        await self.database.write(lambda connection: self._store(originals, connection))
        return FifoMemory(self.state.sequences.next, originals)

    def _store(self, originals: Sequence[Original], connection: apsw.Connection) -> None:
        queue = self.state.queue_state(self.q, self.now_ms)
        if queue is not None:
            rows = [(queue.generation, one.key, one.until_ms, one.id, one.sequence) for one in originals]
            connection.executemany(schema.REMEMBER_DEDUP, rows)
