"""The floor's storage: one table, one index, and a group commit: one fsync for all callers of a loop turn.

It has the guarantees of the real engine (sends and deletes are answered after the fsync, receives at once) and nothing
else: no retention, no counts, no groups, no wake-up when a message becomes visible by time.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

CHECKPOINT_PAGES = 4096
CACHE_KIB = 65_536

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS queues(queue INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS messages(seq INTEGER PRIMARY KEY, queue INTEGER NOT NULL, visible_at INTEGER NOT NULL,"
    " lease INTEGER NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS messages_by_time ON messages(queue, visible_at)",
)
NEW_QUEUE = "INSERT INTO queues(name) VALUES (?) ON CONFLICT DO NOTHING"
ALL_QUEUES = "SELECT name, queue FROM queues"
INSERT = "INSERT INTO messages VALUES (?, ?, ?, 0, ?)"
VISIBLE = (
    "SELECT seq, lease + 1, body FROM messages WHERE queue = ? AND visible_at <= ? ORDER BY visible_at, seq LIMIT ?"
)
LEASE = "UPDATE messages SET visible_at = ?, lease = ? WHERE seq = ?"
DELETE = "DELETE FROM messages WHERE seq = ? AND lease = ?"

Answer = Callable[[Any], object]
Handle = tuple[int, int]
"""(sequence number of the message, number of the delivery)"""
Delivery = tuple[int, int, str]


class Receive:
    """One receive, and whether it may still wait for a message."""

    __slots__ = ("answer", "hide_ms", "n", "timer", "wait_s")

    def __init__(self, answer: Answer, n: int, hide_ms: int, wait_s: float) -> None:
        self.answer = answer
        self.n = n
        self.hide_ms = hide_ms
        self.wait_s = wait_s
        self.timer: asyncio.TimerHandle | None = None


class Store:
    """Use it from the loop that made it. Every call takes the callback for its answer."""

    def __init__(self, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._loop = loop
        self._connection = apsw.Connection(str(directory / "floor.db"))
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            f"cache_size=-{CACHE_KIB}",
            f"wal_autocheckpoint={CHECKPOINT_PAGES}",
        ):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        for statement in SCHEMA:
            self._connection.execute(statement)
        self._seq: int = self._connection.execute("SELECT coalesce(max(seq), 0) FROM messages").get
        self._queues: dict[str, int] = dict(self._connection.execute(ALL_QUEUES))
        self._creates: list[tuple[Answer, str]] = []
        self._sends: list[tuple[Answer, int, list[str]]] = []
        self._receives: list[tuple[int, Receive]] = []
        self._deletes: list[tuple[Answer, list[Handle]]] = []
        self._waiters: dict[int, deque[Receive]] = {}
        self._unanswered: list[tuple[Answer, object]] = []
        self._sent: Counter[int] = Counter()
        self._flush_asked = False
        self._committing = False
        self._commits: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._commit_forever, name="commit", daemon=True)
        self._thread.start()

    # -- calls --------------------------------------------------------------------------------------------------------

    def create(self, answer: Answer, name: str) -> None:
        self._creates.append((answer, name))
        self._ask_flush()

    def send(self, answer: Answer, name: str, bodies: list[str]) -> None:
        """Answers the sequence number of the first message; the others follow it."""
        self._sends.append((answer, self._queues[name], bodies))
        self._ask_flush()

    def receive(self, answer: Answer, name: str, n: int, hide_ms: int, wait_s: float) -> None:
        """Answers the deliveries."""
        self._receives.append((self._queues[name], Receive(answer, n, hide_ms, wait_s)))
        self._ask_flush()

    def delete(self, answer: Answer, handles: list[Handle]) -> None:
        self._deletes.append((answer, handles))
        self._ask_flush()

    def close(self) -> None:
        self._commits.put(False)
        self._thread.join()
        self._connection.close()

    # -- one transaction ----------------------------------------------------------------------------------------------

    def _ask_flush(self) -> None:
        if not self._flush_asked:
            self._flush_asked = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._committing:
            return  # `_committed` calls it again
        self._flush_asked = False
        execute = self._connection.execute
        execute("BEGIN")
        changed = bool(self._creates or self._sends or self._deletes)
        if self._creates:
            self._run_creates()
        if self._receives:  # first: they must not see sends that are not durable yet
            changed |= self._run_receives()
        if self._deletes:
            self._run_deletes()
        if self._sends:
            self._run_sends()
        if changed:
            self._committing = True
            self._commits.put(True)
        else:
            execute("COMMIT")

    def _run_creates(self) -> None:
        creates, self._creates = self._creates, []
        self._connection.executemany(NEW_QUEUE, [(name,) for _, name in creates])
        self._queues = dict(self._connection.execute(ALL_QUEUES))
        self._unanswered += [(answer, None) for answer, _ in creates]

    def _run_receives(self) -> bool:
        receives, self._receives = self._receives, []
        by_queue: dict[int, list[Receive]] = {}
        for key, receive in receives:
            by_queue.setdefault(key, []).append(receive)
        now_ms = int(time.time() * 1000)
        leases: list[tuple[int, int, int]] = []
        for key, receives_of_queue in by_queue.items():
            total = sum([receive.n for receive in receives_of_queue])
            rows: list[Any] = self._connection.execute(VISIBLE, (key, now_ms, total)).fetchall()
            rest = iter(rows)
            for receive in receives_of_queue:
                taken = list(islice(rest, receive.n))
                if taken or not receive.wait_s:
                    receive.answer(taken)
                    if receive.timer is not None:
                        receive.timer.cancel()
                    visible_at_ms = now_ms + receive.hide_ms
                    leases += [(visible_at_ms, lease, seq) for seq, lease, _ in taken]
                else:
                    self._wait(key, receive)
        if leases:
            self._connection.executemany(LEASE, leases)
        return bool(leases)

    def _run_deletes(self) -> None:
        deletes, self._deletes = self._deletes, []
        self._connection.executemany(DELETE, [handle for _, handles in deletes for handle in handles])
        self._unanswered += [(answer, None) for answer, _ in deletes]

    def _run_sends(self) -> None:
        sends, self._sends = self._sends, []
        now_ms = int(time.time() * 1000)
        seq = self._seq
        rows: list[tuple[int, int, int, str]] = []
        for answer, key, bodies in sends:
            self._unanswered.append((answer, seq + 1))
            for body in bodies:
                seq += 1
                rows.append((seq, key, now_ms, body))
            if key in self._waiters:
                self._sent[key] += len(bodies)
        self._seq = seq
        self._connection.executemany(INSERT, rows)

    # -- long polls ---------------------------------------------------------------------------------------------------

    def _wait(self, key: int, receive: Receive) -> None:
        self._waiters.setdefault(key, deque()).append(receive)
        if receive.timer is None:
            receive.timer = self._loop.call_later(receive.wait_s, self._give_up, key, receive)

    def _give_up(self, key: int, receive: Receive) -> None:
        if key in self._waiters and receive in self._waiters[key]:
            self._waiters[key].remove(receive)
            receive.answer([])

    # -- the commit ---------------------------------------------------------------------------------------------------

    def _commit_forever(self) -> None:
        while self._commits.get():
            self._connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._committed)

    def _committed(self) -> None:
        answers, self._unanswered = self._unanswered, []
        self._committing = False
        for answer, result in answers:
            answer(result)
        if self._sent:
            self._wake()
        if self._creates or self._receives or self._deletes or self._sends:
            self._flush()
        else:
            self._flush_asked = False

    def _wake(self) -> None:
        """Repeat as many waiting receives as messages arrived, now that those are durable."""
        for key, n in self._sent.items():
            waiters = self._waiters[key]
            for _ in range(min(n, len(waiters))):
                self._receives.append((key, waiters.popleft()))
            if not waiters:
                del self._waiters[key]
        self._sent.clear()
