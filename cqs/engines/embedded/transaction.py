"""The queues of the store host, and what the running transaction did to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cqs.engines.contract import Counts, QueueRef
from cqs.engines.embedded import schema
from cqs.engines.embedded.handles import NumberSequence
from cqs.engines.embedded.queue_state import QueueState
from cqs.engines.waiters import WaiterRegistry

QUEUES_IN_MEMORY_MAX = 20_000


class TransactionState:
    """Everything here is derived from the tables. A rollback clears it, and it is read again when needed."""

    def __init__(self, database: Database, waiters: WaiterRegistry, clock: Clock) -> None:
        self.connection = database.connection
        self._reader = database.reader
        self._clock = clock
        self.waiters = waiters
        self.sequences = NumberSequence(database.boot)
        self.leases = NumberSequence(database.boot)
        self._queues: dict[str, QueueState] = {}
        self._dropped: set[str] = set()
        self._changed: dict[QueueState, int] = {}  # and how many of its messages may have become visible
        self.maintenance_cursor = 0  # the generation examined last for expired messages
        self._wakeups: list[tuple[str, int]] = []
        self._timers: list[tuple[str, int]] = []
        database.before_commit(self._before_commit)
        database.on_commit(self._on_commit)
        database.on_rollback(self._reset)

    # apsw types a column as the union of all column types; with these two, the caller's unpacking decides

    def rows(self, statement: str, bindings: tuple[object, ...]) -> list[Any]:
        return self.connection.execute(statement, bindings).fetchall()

    def row(self, statement: str, bindings: tuple[object, ...]) -> Any:
        return self.connection.execute(statement, bindings).fetchone()

    # -- queues -------------------------------------------------------------------------------------------------------

    def queue_state(self, q: QueueRef, now_ms: int) -> QueueState | None:
        """The queue's state, created at its first use; None if the queue was dropped. It takes over the attributes of
        `q` unless it has those of a newer version: a long poll has those of its start."""
        queue = self._queues.get(q.id)
        if queue is None:
            if q.id in self._dropped:
                return None
            queue = self._load(q, now_ms)
            if queue is None:
                return None
        if q.version >= queue.version:
            queue.version = q.version
            if queue.retention_ms != q.retention_ms or queue.audit != q.audit:
                queue.retention_ms, queue.audit = q.retention_ms, q.audit
                self.mark_changed(queue)
        return queue

    def is_empty(self, q: QueueRef) -> bool:
        """Whether the queue is known to have no messages, without a look at the table.

        A waiter that is registered misses nothing: a later send is in a later transaction, whose end wakes the waiters.
        """
        queue = self._queues.get(q.id)
        return queue is not None and queue.known_empty

    def mark_changed(self, queue: QueueState, visible: int = 0) -> None:
        """The state of `queue` changed, and `visible` more of its messages may be received."""
        self._changed[queue] = self._changed.get(queue, 0) + visible

    def committed_generation(self, q: QueueRef) -> int | None:
        """The queue's generation as committed; None if it has none."""
        row = self._reader.execute(schema.FIND_GENERATION, (q.id,)).fetchone()
        return row[0] if row else None

    def _load(self, q: QueueRef, now_ms: int) -> QueueState | None:
        row = self.row(schema.FIND_GENERATION, (q.id,))
        if row is None:
            if self.row(schema.IS_DROPPED, (q.id,)):
                self._dropped.add(q.id)
                return None
            generation = self.connection.execute(schema.NEW_GENERATION, (q.id, q.retention_ms)).get
            queue = QueueState(generation, q.id, 0, False, q.retention_ms, "")
        else:
            generation, total, fair, retention_ms, audit = row
            queue = QueueState(generation, q.id, total, bool(fair), retention_ms, audit)
            if queue.fair:
                queue.hidden.become_fair()
            bindings = {"line": generation, "now": now_ms, "fair": queue.fair}
            for visible_at, delivered, tenant, n in self.connection.execute(schema.COUNT_HIDDEN, bindings):
                queue.hidden.add(now_ms, visible_at, bool(delivered), tenant, n)
        self._queues[q.id] = queue
        return queue

    # -- control ------------------------------------------------------------------------------------------------------

    def counts(self, q: QueueRef, now_ms: int, *, oldest: bool) -> Counts:
        queue = self.queue_state(q, now_ms)
        if queue is None:
            return Counts()
        in_flight, delayed = self._hidden(queue, now_ms)
        found = self.row(schema.OLDEST, (queue.generation,)) if oldest else None
        return Counts(max(queue.total - in_flight - delayed, 0), in_flight, delayed, found[0] if found else 0)

    def _hidden(self, queue: QueueState, now_ms: int) -> tuple[int, int]:
        """(in flight, delayed) at `now_ms`: the histogram, with the current tenth of a second counted in the table."""
        queue.hidden.expire(now_ms)
        ending_in_flight, ending_delayed, end_ms = queue.hidden.ending(now_ms)
        found = {False: 0, True: 0}
        bindings = {"line": queue.generation, "now": now_ms, "end": end_ms}
        for delivered, n in self.connection.execute(schema.COUNT_HIDDEN_UNTIL, bindings):
            found[bool(delivered)] += n
        return (
            queue.hidden.in_flight - ending_in_flight + found[True],
            queue.hidden.delayed - ending_delayed + found[False],
        )

    def purge(self, q: QueueRef) -> None:
        queue = self._queues.pop(q.id, None)
        self._changed.pop(queue, None) if queue else None
        row = self.row(schema.FIND_GENERATION, (q.id,))
        if row is not None:
            self.connection.execute(schema.RETIRE_GENERATION, (row[0],))

    def drop(self, q: QueueRef, now_ms: int) -> None:
        self.purge(q)
        self.connection.execute(schema.MARK_DROPPED, (q.id, now_ms))
        self._dropped.add(q.id)

    def forget_dropped(self, until_ms: int, limit: int) -> int:
        """Forget up to `limit` queues that were dropped until then; return how many."""
        forgotten = self.rows(schema.FORGET_DROPPED, (until_ms, limit))
        self._dropped.difference_update([queue for (queue,) in forgotten])
        return len(forgotten)

    def record_expired(self, queue: QueueState, message_id: str, group: str, now_ms: int) -> None:
        """Call it before a message is removed for its age."""
        if queue.audit:
            self.connection.execute(schema.ADD_EXPIRED, (now_ms, queue.audit, message_id, group))

    def redelay(self, q: QueueRef, seqs: Sequence[int], delay_ms: int, now_ms: int) -> None:
        """Make these messages visible `delay_ms` after they were sent, unless they were delivered before."""
        queue = self.queue_state(q, now_ms)
        if queue is None:
            return
        for seq in seqs:
            lease = self.row(schema.LEASE_STATE, (seq,))
            changed = self.row(schema.REDELAY, (delay_ms, seq, queue.generation))
            if changed is None:
                continue
            before, after = lease[2], changed[0]
            if before > now_ms:
                queue.hidden.remove(now_ms, before, False)
            if after > now_ms:
                queue.hidden.add(now_ms, after, False)
        self.mark_changed(queue, len(seqs))

    # -- around a commit ----------------------------------------------------------------------------------------------

    def _before_commit(self) -> None:
        changed = []
        now_ms = self._clock.now_ms()
        for queue, visible in self._changed.items():
            if queue.counters != queue.stored_counters:
                queue.stored_counters = queue.counters
                changed.append((*queue.stored_counters, queue.generation))
            if queue.id in self.waiters:
                self._plan_wakeups(queue, visible, now_ms)
        if changed:
            self.connection.executemany(schema.STORE_COUNTERS, changed)
        self._changed.clear()
        if len(self._queues) > QUEUES_IN_MEMORY_MAX:
            self._queues.clear()  # only here all are stored and none is in use: two states would miscount

    def _plan_wakeups(self, queue: QueueState, visible: int, now_ms: int) -> None:
        row = self.row(schema.NEXT_DUE, (queue.generation,))
        if row is None:
            return
        if row[0] <= now_ms:
            self._wakeups.append((queue.id, max(visible, 1)))
        else:
            self._timers.append((queue.id, row[0]))

    def _on_commit(self) -> None:
        wakeups, self._wakeups = self._wakeups, []
        timers, self._timers = self._timers, []
        for queue_id, n in wakeups:
            self.waiters.wake(queue_id, n)
        for queue_id, due_ms in timers:
            if queue_id in self.waiters:
                self.waiters.wake_at(queue_id, due_ms)

    def _reset(self) -> None:
        self._queues.clear()
        self._dropped.clear()
        self._changed.clear()
        self._wakeups.clear()
        self._timers.clear()
