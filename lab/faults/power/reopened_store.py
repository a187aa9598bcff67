"""Opens the store that a power cut left and checks its guarantees; every broken guarantee is a line of text."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import apsw

from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.errors import CnsError, StartError
from cns_common.sqlite.database import Database
from cqs.engines.contract import Entry, Outcome, QueueRef, SentEntry
from cqs.engines.embedded.engine import EmbeddedEngine
from lab.faults.accounting.ledger import grouped
from lab.faults.power.expectation import expect
from lab.faults.power.journal import (
    FIFO,
    QUEUES,
    RECORDS,
    SCAN,
    Journal,
    SentMessage,
)
from lab.faults.power.snapshots import digest

BODILESS = "SELECT count(*) FROM slots WHERE seq NOT IN (SELECT seq FROM bodies)"
SLOTLESS = "SELECT count(*) FROM bodies WHERE seq NOT IN (SELECT seq FROM slots)"
DEDUP_CHECKED_MAX = 12
WANT = 1_000


class ReopenedStore:
    """A directory as a power cut left it. `check` returns the faults."""

    def __init__(self, directory: Path, position: int, journal: Journal, allowed: Collection[bytes]) -> None:
        self._directory = directory
        self._position = position
        self._expected = expect(journal, position)
        self._journal = journal
        self._allowed = allowed
        self._clock = Clock()
        self._scanned: dict[str, list[tuple[str, bytes, int]]] = {}
        self._engine: EmbeddedEngine
        self.faults: list[str] = []

    async def check(self) -> list[str]:
        try:
            database = Database(self._directory, self._clock)
        except StartError as error:
            return [f"does not open: {error}"]
        try:
            self._check_tables(database.connection)
            self._engine = EmbeddedEngine(database, self._clock)
            database.start(asyncio.get_running_loop())
            self._check_messages(database.connection)
            await self._check_engine()
        except (apsw.Error, CnsError) as error:
            self.faults.append(f"does not work: {error}")
        finally:
            await database.close()
        return self.faults

    def _fault(self, kind: str, what: object) -> None:
        self.faults.append(f"{kind}: {what}")

    # -- the tables ---------------------------------------------------------------------------------------------------

    def _check_tables(self, connection: apsw.Connection) -> None:
        for (line,) in connection.execute("PRAGMA integrity_check").fetchall():
            if line != "ok":
                self._fault("integrity", line)
        if digest(connection) not in self._allowed:
            self._fault("state", "not the state after any transaction from the last answered one on")

    def _check_messages(self, connection: apsw.Connection) -> None:
        expected = self._expected
        for statement in (BODILESS, SLOTLESS):
            if connection.execute(statement).get:
                self._fault("orphans", statement)
        for q in QUEUES:
            rows: list[Any] = connection.execute(SCAN, (q.id,)).fetchall()
            self._scanned[q.id] = [row[:3] for row in rows]
        there = self._check_scanned()
        for message_id in sorted(expected.certain - there.keys()):
            self._fault("lost", message_id)
        for message_id in sorted(expected.gone & there.keys()):
            self._fault("came back", message_id)
        for puts, message in expected.pairs:
            self._check_pair([put.id in there for put in puts], message.id, message.id in there)
        if expected.records:
            self._check_records(connection)

    def _check_scanned(self) -> dict[str, str]:
        """Check each message by itself. Returns message id → queue."""
        there: dict[str, str] = {}
        for queue, found in self._scanned.items():
            for message_id, body, seq in found:
                self._check_message(queue, message_id, body, seq)
                if message_id in there:
                    self._fault("twice", f"{message_id} in {queue} and {there[message_id]}")
                there[message_id] = queue
        return there

    def _check_message(self, queue: str, message_id: str, body: bytes, seq: int) -> None:
        expected = self._expected
        put = expected.possible.get(message_id)
        if put is None or put.queue.id != queue:
            self._fault("invented", f"{message_id} in {queue}")
        elif body not in expected.bodies.get(message_id, [put.body]):
            self._fault("body", f"{message_id} has {body[:50]!r}")
        if seq != expected.sequences.get(message_id, seq):
            self._fault("sequence", f"{message_id} has {seq}, {expected.sequences[message_id]} was acknowledged")

    def _check_pair(self, puts_there: list[bool], removed: str, removed_there: bool) -> None:
        """A settlement is atomic: either its delete and all its sends are there, or none."""
        if puts_there and not all(there is not removed_there for there in puts_there):
            self._fault("half settled", f"{removed} is there: {removed_there}; what was made of it: {puts_there}")

    def _check_records(self, connection: apsw.Connection) -> None:
        rows: list[Any] = connection.execute(RECORDS).fetchall()
        values: dict[str, int] = dict(rows)
        for key, (low, high) in self._expected.records.items():
            value = values.get(key, 0)
            if not low <= value <= high:
                self._fault("record", f"{key} is {value}, not within {low} and {high}")

    # -- the engine on them -------------------------------------------------------------------------------------------

    async def _check_engine(self) -> None:
        now_ms = self._clock.now_ms()
        for q in QUEUES:
            counts = await self._engine.counts(q, now_ms)
            total = counts.visible + counts.in_flight + counts.delayed
            if total != len(self._scanned[q.id]):
                self._fault("counts", f"{q.id}: {total} counted, {len(self._scanned[q.id])} found")
        await self._check_locks(now_ms)
        await self._check_dedup(now_ms)
        await self._check_sequences(now_ms)
        for q in QUEUES:
            await self._drain(q, now_ms + DAY_MS)

    async def _check_locks(self, now_ms: int) -> None:
        """An acknowledged FIFO lease still blocks its group, and its handle is still valid."""
        received = await self._engine.receive(FIFO, WANT, now_ms + 1, now_ms)
        delivered = {message.group for message in received.messages}
        for group, (until_ms, message) in self._expected.locks.items():
            if until_ms <= now_ms:
                continue
            if group in delivered:
                self._fault("lock", f"group {group} is delivered beside {message.id}, which is in flight")
            if await self._engine.delete(FIFO, [message.handle], now_ms) != [Outcome.DONE]:
                self._fault("handle", f"the lease of {message.id} is not known any more")
            self._scanned[FIFO.id] = [row for row in self._scanned[FIFO.id] if row[0] != message.id]

    async def _check_dedup(self, now_ms: int) -> None:
        for put in self._last_of_each_queue(self._expected.dedup.values()):
            (answer,) = await self._engine.send(put.queue, [_entry(put, f"again-{put.id}", now_ms)], now_ms)
            known = SentEntry(put.id, self._expected.sequences[put.id], duplicate=True)
            if answer != known:
                self._fault("dedup", f"{answer} for {put.id}, sent before as {known}")
        for put in self._expected.forgotten.values():
            (answer,) = await self._engine.send(put.queue, [_entry(put, f"anew-{put.id}", now_ms)], now_ms)
            if not isinstance(answer, SentEntry) or answer.duplicate:
                self._fault("dedup", f"{answer} for {put.id}, whose key was purged")
                continue
            self._scanned[put.queue.id].append((answer.id, put.body, answer.sequence))

    @staticmethod
    def _last_of_each_queue(puts: Iterable[SentMessage]) -> list[SentMessage]:
        of_queues = grouped(puts, lambda put: put.queue.id).values()
        return [put for of_queue in of_queues for put in of_queue[-DEDUP_CHECKED_MAX:]]

    async def _check_sequences(self, now_ms: int) -> None:
        entry = Entry("new", b"new", now_ms, now_ms, "new", "new")
        (answer,) = await self._engine.send(FIFO, [entry], now_ms)
        assert isinstance(answer, SentEntry)
        highest = max(self._expected.sequences.values(), default=0)
        if answer.sequence <= highest:
            self._fault("sequence", f"{answer.sequence} is given out after {highest}")
        self._scanned[FIFO.id].append(("new", b"new", answer.sequence))

    async def _drain(self, q: QueueRef, now_ms: int) -> None:
        """Every message is received, in order within its group, and handles from before the cut delete nothing now."""
        left = {message_id: seq for message_id, _, seq in self._scanned[q.id]}
        last: dict[str, int] = {}
        while messages := (await self._engine.receive(q, WANT, now_ms + DAY_MS, now_ms)).messages:
            for message in messages:
                if left.pop(message.id, None) is None:
                    self._fault("invented", f"{message.id} came out of {q.id}")
                    return
                if q.fifo and message.sequence <= last.get(message.group, 0):
                    self._fault("order", f"{message.id} of group {message.group} came late")
                last[message.group] = message.sequence
            stale = [handle for message in messages for handle in self._journal.handles_of(message.id, self._position)]
            if Outcome.DONE in await self._engine.delete(q, stale, now_ms):
                self._fault("handle", f"a handle from before the cut deleted a later delivery in {q.id}")
            handles = [message.handle for message in messages]
            if set(await self._engine.delete(q, handles, now_ms)) != {Outcome.DONE}:
                self._fault("handle", f"a delete of a message just received did nothing in {q.id}")
        for message_id in left:
            self._fault("stuck", f"{message_id} is in {q.id} and never comes out")
        if counted := (await self._engine.counts(q, now_ms)).visible:
            self._fault("counts", f"{counted} counted in the empty {q.id}")


def _entry(put: SentMessage, message_id: str, now_ms: int) -> Entry:
    return Entry(message_id, put.body, now_ms, now_ms, put.group, put.dedup)
