"""The sends, deletes and changes of one transaction: first the sends of all callers, with one statement per table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cns_common.sqlite.waiting_work import Work
from cqs.engines.contract import (
    DEDUP_WINDOW_MS,
    Change,
    Entry,
    Outcome,
    QueueRef,
    RejectedEntry,
    SentEntry,
    SettlementResult,
)
from cqs.engines.embedded import schema
from cqs.engines.embedded.handles import NEWEST, parse_handle
from cqs.engines.embedded.queue_state import QueueState
from cqs.engines.embedded.transaction import TransactionState


class EmbeddedSettle:
    """The sends, deletes and changes of one caller. `atomic`: if a send is rejected, the rest is not done."""

    __slots__ = ("atomic", "changes", "deletes", "idle", "now_ms", "sends")

    def __init__(
        self,
        now_ms: int,
        sends: Sequence[tuple[QueueRef, Entry]] = (),
        deletes: Sequence[tuple[QueueRef, bytes]] = (),
        changes: Sequence[tuple[QueueRef, Change]] = (),
        idle: Sequence[tuple[QueueRef, str]] = (),
        *,
        atomic: bool = False,
    ) -> None:
        self.now_ms = now_ms
        self.sends = sends
        self.deletes = deletes
        self.changes = changes
        self.idle = idle
        self.atomic = atomic

    @property
    def grows(self) -> bool:
        """Whether this makes the store larger. Such requests are refused while the disk is full."""
        return bool(self.sends) or any(change.body is not None for _, change in self.changes)

    @property
    def loss_tolerable(self) -> bool:
        """Whether it only changes the visibility of standard queues' messages: a crash may lose that and repeat a
        message."""
        if self.sends or self.deletes:
            return False
        return not any(q.fifo or change.body is not None for q, change in self.changes)


class _PendingDelete(NamedTuple):
    """A delete on a standard queue, and the position of its outcome."""

    queue: QueueState
    now_ms: int
    outcomes: list[Outcome]
    position: int


class SettleStage:
    """Runs all `EmbeddedSettle`s of a transaction."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state
        self._connection = state.connection
        self._slots: list[tuple[object, ...]] = []
        self._bodies: list[tuple[int, str, bytes]] = []
        self._deletes: dict[tuple[int, int, int], _PendingDelete] = {}  # by sequence, generation and lease

    def run(self, batch: list[Work[EmbeddedSettle]]) -> list[tuple[Work[EmbeddedSettle], object]]:
        self._slots = []
        self._bodies = []
        self._deletes = {}
        busy = [self._busy(work.item) if work.item.idle else () for work in batch]
        sent = [
            self._send_all(work.item) if work.item.sends and not groups else ()
            for work, groups in zip(batch, busy, strict=True)
        ]
        self._insert()
        refused = [
            bool(groups) or (work.item.atomic and any(isinstance(one, RejectedEntry) for one in sends))
            for work, sends, groups in zip(batch, sent, busy, strict=True)
        ]
        deleted = [[] if no else self._prepare_deletes(work.item) for work, no in zip(batch, refused, strict=True)]
        self._run_standard_deletes()
        changed = [() if no else self._change_all(work.item) for work, no in zip(batch, refused, strict=True)]
        answers: list[tuple[Work[EmbeddedSettle], object]] = []
        for work, sends, deletes, changes, groups in zip(batch, sent, deleted, changed, busy, strict=True):
            settled = SettlementResult(tuple(deletes), sends, changes, groups)
            if work.item.loss_tolerable:
                work.answer(settled)
            else:
                answers.append((work, settled))
        return answers

    def _busy(self, request: EmbeddedSettle) -> tuple[int, ...]:
        """The positions of the groups in `idle` that have messages, as of the transactions before this one."""
        return tuple([n for n, (q, group) in enumerate(request.idle) if self._has_messages(q, group, request.now_ms)])

    def _has_messages(self, q: QueueRef, group: str, now_ms: int) -> bool:
        queue = self._state.queue_state(q, now_ms)
        if queue is None or not queue.total:
            return False
        return self._state.row(schema.GROUP_HAS_MESSAGES, (queue.generation, group)) is not None

    # -- sends --------------------------------------------------------------------------------------------------------

    def _send_all(self, request: EmbeddedSettle) -> tuple[SentEntry | RejectedEntry, ...]:
        now_ms = request.now_ms
        if request.atomic:
            dropped = [self._state.queue_state(q, now_ms) is None for q, _ in request.sends]
            if any(dropped):
                return tuple([RejectedEntry("no_such_queue" if gone else "another_rejected") for gone in dropped])
        return tuple([self._send(q, entry, now_ms) for q, entry in request.sends])

    def _send(self, q: QueueRef, entry: Entry, now_ms: int) -> SentEntry | RejectedEntry:
        queue = self._state.queue_state(q, now_ms)
        if queue is None:
            return RejectedEntry()
        if q.fifo:
            return self._send_fifo(queue, entry, now_ms)
        seq = self._state.sequences.take()
        group: str | None = entry.group or None
        if group is not None:
            if not queue.fair:
                queue.fair = True
                queue.hidden.become_fair()
        elif queue.fair:
            group = ""  # messages without a tenant are one tenant to the tenant index
        self._add(queue, entry, seq, entry.visible_at_ms, group, now_ms)
        return SentEntry(entry.id, seq)

    def _send_fifo(self, queue: QueueState, entry: Entry, now_ms: int) -> SentEntry:
        execute = self._connection.execute
        self._insert()  # the entry's original, or its group, may be in the same batch
        if entry.dedup:
            known = self._state.row(schema.FIND_DUPLICATE, (queue.generation, entry.dedup, now_ms))
            if known is not None:
                return SentEntry(known[0], known[1], duplicate=True)
        seq = self._state.sequences.take()
        if entry.dedup:
            execute(schema.REMEMBER_DEDUP, (queue.generation, entry.dedup, now_ms + DEDUP_WINDOW_MS, entry.id, seq))
        behind = self._state.row(schema.GROUP_HAS_MESSAGES, (queue.generation, entry.group)) is not None
        self._add(queue, entry, seq, None if behind else entry.visible_at_ms, entry.group, now_ms)
        return SentEntry(entry.id, seq)

    def _add(self, queue: QueueState, entry: Entry, seq: int, due: int | None, group: str | None, now_ms: int) -> None:
        visible_at = entry.visible_at_ms
        self._slots.append(
            (seq, queue.generation, due, visible_at, entry.born_at_ms, entry.deliveries, entry.first_received_ms, group)
        )
        self._bodies.append((seq, entry.id, entry.body))
        queue.total += 1
        queue.known_empty = False
        if visible_at > now_ms:
            queue.hidden.add(now_ms, visible_at, entry.deliveries > 0, group or "")
        self._state.mark_changed(queue, 1)

    def _insert(self) -> None:
        if self._slots:
            self._connection.executemany(schema.INSERT_SLOT, self._slots)
            self._connection.executemany(schema.INSERT_BODY, self._bodies)
            self._slots = []
            self._bodies = []

    # -- deletes ------------------------------------------------------------------------------------------------------

    def _prepare_deletes(self, request: EmbeddedSettle) -> list[Outcome]:
        """The outcomes of a request's deletes. `_run_standard_deletes` fills in those of standard queues."""
        outcomes = [Outcome.MALFORMED] * len(request.deletes)
        for index, (q, handle) in enumerate(request.deletes):
            key = parse_handle(handle)
            if key is None:
                continue
            queue = self._state.queue_state(q, request.now_ms)
            if queue is None:
                outcomes[index] = Outcome.GONE
            elif q.fifo:
                outcomes[index] = self._delete_fifo(queue, *key, request.now_ms)
            else:
                outcomes[index] = Outcome.GONE
                lease = NEWEST if q.older_handles else key[1]
                self._deletes.setdefault(
                    (key[0], queue.generation, lease), _PendingDelete(queue, request.now_ms, outcomes, index)
                )
        return outcomes

    def _run_standard_deletes(self) -> None:
        """Delete for all callers with one statement per table."""
        if not self._deletes:
            return
        deletes = self._deletes
        deleted: list[Any] = self._connection.executemany(schema.DELETE_LEASED, list(deletes)).fetchall()
        for seq, key, lease, visible_at, deliveries, tenant in deleted:
            queue, now_ms, outcomes, index = deletes.pop((seq, key, lease))
            outcomes[index] = Outcome.DONE
            queue.total -= 1
            if visible_at > now_ms:
                queue.hidden.remove(now_ms, visible_at, deliveries > 0, tenant)
            self._state.mark_changed(queue)
        self._connection.executemany(schema.DELETE_BODY, [(row[0],) for row in deleted])
        for (seq, key, _), delete in deletes.items():
            held = self._state.row(schema.LEASE_STATE, (seq,))
            if held is not None and held[0] == key:
                delete.outcomes[delete.position] = Outcome.STALE

    def _delete_fifo(self, queue: QueueState, seq: int, lease: int, now_ms: int) -> Outcome:
        held = self._leased(queue, seq, lease, now_ms, fifo=True)
        if isinstance(held, Outcome):
            return held
        due, visible_at, deliveries, group = held
        execute = self._connection.execute
        execute(schema.DELETE_SLOT, (seq,))
        execute(schema.DELETE_BODY, (seq,))
        queue.total -= 1
        queue.hidden.remove(now_ms, visible_at, deliveries > 0, group)
        if due is not None:
            execute(schema.PROMOTE, (queue.generation, group))
        self._state.mark_changed(queue)
        return Outcome.DONE

    def _leased(
        self, queue: QueueState, seq: int, lease: int, now_ms: int, *, fifo: bool
    ) -> Outcome | tuple[int | None, int, int, str]:
        """(due, visible_at, deliveries, group) of the message if `lease` is its newest delivery; else the outcome."""
        row = self._state.row(schema.LEASE_STATE, (seq,))
        if row is None or row[0] != queue.generation:
            return Outcome.GONE
        _, due, visible_at, deliveries, newest, group = row
        if lease < newest:
            return Outcome.STALE
        if fifo and visible_at <= now_ms:
            return Outcome.EXPIRED
        return due, visible_at, deliveries, group

    # -- changes ------------------------------------------------------------------------------------------------------

    def _change_all(self, request: EmbeddedSettle) -> tuple[Outcome, ...]:
        return tuple([self._change(q, change, request.now_ms) for q, change in request.changes])

    def _change(self, q: QueueRef, change: Change, now_ms: int) -> Outcome:
        key = parse_handle(change.handle)
        if key is None:
            return Outcome.MALFORMED
        queue = self._state.queue_state(q, now_ms)
        if queue is None:
            return Outcome.GONE
        seq, lease = key
        older = q.older_handles and not q.fifo and change.body is None
        held = self._leased(queue, seq, NEWEST if older else lease, now_ms, fifo=q.fifo)
        if isinstance(held, Outcome):
            return held
        _, visible_at, deliveries, group = held
        if q.fifo:
            self._connection.execute(schema.REMOVE_ATTEMPT, (lease,))
        if change.visible_at_ms is not None:
            self._connection.execute(schema.SET_VISIBLE_AT, (change.visible_at_ms, seq))
            if visible_at > now_ms:
                queue.hidden.remove(now_ms, visible_at, deliveries > 0, group)
            if change.visible_at_ms > now_ms:
                queue.hidden.add(now_ms, change.visible_at_ms, deliveries > 0, group)
            self._state.mark_changed(queue, 1)
        if change.body is not None:
            self._connection.execute(schema.REPLACE_BODY, (change.body, seq))
        return Outcome.DONE
