"""The lines of the store host and what one transaction has done to them, until it is committed or rolled back."""

from __future__ import annotations

from typing import Any

from cns_common.clock import Clock
from cns_common.sqlite.database import Database
from cqs.engines.contract import Counts, QueueRef
from cqs.engines.embedded import schema
from cqs.engines.embedded.handles import Numbers
from cqs.engines.embedded.queue_state import Line
from cqs.engines.waiters import Waiters

LINES_IN_MEMORY_MAX = 20_000


class State:
    """Everything here is derived from the tables; a rollback forgets it, and it is read again when needed."""

    def __init__(self, database: Database, waiters: Waiters, clock: Clock) -> None:
        self.connection = database.connection
        self._reader = database.reader
        self._clock = clock
        self.waiters = waiters
        self.sequences = Numbers(database.boot)
        self.leases = Numbers(database.boot)
        self._lines: dict[str, Line] = {}
        self._dead: set[str] = set()
        self._touched: dict[Line, int] = {}  # with how many messages may have become visible
        self.upkeep_cursor = 0  # the line looked at last for messages past their retention
        self._calls: list[tuple[str, int]] = []
        self._timers: list[tuple[str, int]] = []
        database.before_commit(self._before_commit)
        database.on_commit(self._on_commit)
        database.on_rollback(self._reset)

    # apsw types a row as the union of all column types; these say instead that the statement decides

    def rows(self, statement: str, bindings: tuple[object, ...]) -> list[Any]:
        return self.connection.execute(statement, bindings).fetchall()

    def row(self, statement: str, bindings: tuple[object, ...]) -> Any:
        return self.connection.execute(statement, bindings).fetchone()

    # -- lines --------------------------------------------------------------------------------------------------------

    def line(self, q: QueueRef, now_ms: int) -> Line | None:
        """The queue's line, made at its first use; None once the queue is dropped."""
        line = self._lines.get(q.id)
        if line is None:
            if q.id in self._dead:
                return None
            line = self._load(q, now_ms)
            if line is None:
                return None
        if line.retention_ms != q.retention_ms:
            line.retention_ms = q.retention_ms
            self.touch(line)
        return line

    def is_empty(self, q: QueueRef) -> bool:
        """Whether it is known without a look at the table that there is nothing to receive or to wait for.

        A waiter that has joined sleeps through nothing: whatever is sent from then on is sent in a later transaction,
        at whose end he is seen.
        """
        line = self._lines.get(q.id)
        return line is not None and line.empty

    def touch(self, line: Line, visible: int = 0) -> None:
        """Something of `line` changed, and `visible` more of its messages may be received."""
        self._touched[line] = self._touched.get(line, 0) + visible

    def peek_line(self, q: QueueRef) -> int | None:
        """The number of the queue's line, as far as it is committed."""
        row = self._reader.execute(schema.FIND_LINE, (q.id,)).fetchone()
        return row[0] if row else None

    def _load(self, q: QueueRef, now_ms: int) -> Line | None:
        row = self.row(schema.FIND_LINE, (q.id,))
        if row is None:
            if self.row(schema.IS_DEAD, (q.id,)):
                self._dead.add(q.id)
                return None
            key = self.connection.execute(schema.NEW_LINE, (q.id, q.retention_ms)).get
            line = Line(key, q.id, 0, False, q.retention_ms)
        else:
            key, total, fair, retention_ms = row
            line = Line(key, q.id, total, bool(fair), retention_ms)
            if line.fair:
                line.hidden.become_fair()
            bindings = {"line": key, "now": now_ms, "fair": line.fair}
            for visible_at, delivered, tenant, n in self.connection.execute(schema.HIDDEN, bindings):
                line.hidden.add(now_ms, visible_at, bool(delivered), tenant, n)
        self._lines[q.id] = line
        return line

    # -- control ------------------------------------------------------------------------------------------------------

    def counts(self, q: QueueRef, now_ms: int) -> Counts:
        line = self.line(q, now_ms)
        if line is None:
            return Counts()
        in_flight, delayed = self._hidden(line, now_ms)
        oldest = self.row(schema.OLDEST, (line.key,))
        return Counts(max(line.total - in_flight - delayed, 0), in_flight, delayed, oldest[0] if oldest else 0)

    def _hidden(self, line: Line, now_ms: int) -> tuple[int, int]:
        """(in flight, delayed) at `now_ms`: the histogram, its running tenth of a second looked up in the table."""
        line.hidden.expire(now_ms)
        ending_in_flight, ending_delayed, end_ms = line.hidden.ending(now_ms)
        found = {False: 0, True: 0}
        bindings = {"line": line.key, "now": now_ms, "end": end_ms}
        for delivered, n in self.connection.execute(schema.HIDDEN_UNTIL, bindings):
            found[bool(delivered)] += n
        return (
            line.hidden.in_flight - ending_in_flight + found[True],
            line.hidden.delayed - ending_delayed + found[False],
        )

    def purge(self, q: QueueRef) -> None:
        line = self._lines.pop(q.id, None)
        self._touched.pop(line, None) if line else None
        row = self.row(schema.FIND_LINE, (q.id,))
        if row is not None:
            self.connection.execute(schema.DOOM_LINE, (row[0],))

    def drop(self, q: QueueRef) -> None:
        self.purge(q)
        self.connection.execute(schema.KILL_QUEUE, (q.id,))
        self._dead.add(q.id)

    # -- around a commit ----------------------------------------------------------------------------------------------

    def _before_commit(self) -> None:
        changed = []
        now_ms = self._clock.now_ms()
        for line, visible in self._touched.items():
            if line.to_keep != line.kept:
                line.kept = line.to_keep
                changed.append((*line.kept, line.key))
            if line.queue in self.waiters:
                self._plan_calls(line, visible, now_ms)
        if changed:
            self.connection.executemany(schema.KEEP_LINE, changed)
        self._touched.clear()
        if len(self._lines) > LINES_IN_MEMORY_MAX:
            self._lines.clear()  # here, where nobody holds one and all are kept: two of one queue would miscount

    def _plan_calls(self, line: Line, visible: int, now_ms: int) -> None:
        row = self.row(schema.NEXT_DUE, (line.key,))
        if row is None:
            return
        if row[0] <= now_ms:
            self._calls.append((line.queue, max(visible, 1)))
        else:
            self._timers.append((line.queue, row[0]))

    def _on_commit(self) -> None:
        calls, self._calls = self._calls, []
        timers, self._timers = self._timers, []
        for queue, n in calls:
            self.waiters.wake(queue, n)
        for queue, due_ms in timers:
            if queue in self.waiters:
                self.waiters.wake_at(queue, due_ms)

    def _reset(self) -> None:
        self._lines.clear()
        self._dead.clear()
        self._touched.clear()
        self._calls.clear()
        self._timers.clear()
