"""Sends, deletes and changes of one transaction: all callers' sends first, in one statement a table, then the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cns_common.sqlite.stages import Work
from cqs.engines.contract import DEDUP_WINDOW_MS, Change, Entry, Outcome, QueueRef, Rejected, Sent, Settled
from cqs.engines.embedded import schema
from cqs.engines.embedded.handles import NEWEST, parts
from cqs.engines.embedded.queue_state import Line
from cqs.engines.embedded.transaction import State


class Step:
    """What one caller wants done in one transaction."""

    __slots__ = ("changes", "deletes", "now_ms", "sends", "whole")

    def __init__(
        self,
        now_ms: int,
        sends: Sequence[tuple[QueueRef, Entry]] = (),
        deletes: Sequence[tuple[QueueRef, bytes]] = (),
        changes: Sequence[tuple[QueueRef, Change]] = (),
        *,
        whole: bool = False,
    ) -> None:
        self.now_ms = now_ms
        self.sends = sends
        self.deletes = deletes
        self.changes = changes
        self.whole = whole  # a rejected send stops the rest, too

    @property
    def grows(self) -> bool:
        """Whether it makes the store larger: while the disk is full it is refused."""
        return bool(self.sends) or any(change.body is not None for _, change in self.changes)

    @property
    def may_be_lost(self) -> bool:
        """Other visibility times of standard queues' messages, and nothing else: a crash may repeat a message."""
        if self.sends or self.deletes:
            return False
        return not any(q.fifo or change.body is not None for q, change in self.changes)


class _Delete(NamedTuple):
    """A delete of a standard queue, and where its outcome goes."""

    line: Line
    now_ms: int
    outcomes: list[Outcome]
    position: int


class Settling:
    """The stage that runs all steps of a turn."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._connection = state.connection
        self._slots: list[tuple[object, ...]] = []
        self._bodies: list[tuple[int, str, bytes]] = []
        self._deletes: dict[tuple[int, int, int], _Delete] = {}  # by sequence, line, lease

    def run(self, batch: list[Work[Step]]) -> list[tuple[Work[Step], object]]:
        self._slots = []
        self._bodies = []
        self._deletes = {}
        sent = [self._send_all(work.item) if work.item.sends else () for work in batch]
        self._insert()
        refused = [
            work.item.whole and any(isinstance(one, Rejected) for one in sends)
            for work, sends in zip(batch, sent, strict=True)
        ]
        deleted = [[] if no else self._begin_deletes(work.item) for work, no in zip(batch, refused, strict=True)]
        self._delete_standard()
        changed = [() if no else self._change_all(work.item) for work, no in zip(batch, refused, strict=True)]
        answers: list[tuple[Work[Step], object]] = []
        for work, sends, deletes, changes in zip(batch, sent, deleted, changed, strict=True):
            settled = Settled(tuple(deletes), sends, changes)
            if work.item.may_be_lost:
                work.answer(settled)
            else:
                answers.append((work, settled))
        return answers

    # -- sends --------------------------------------------------------------------------------------------------------

    def _send_all(self, step: Step) -> tuple[Sent | Rejected, ...]:
        now_ms = step.now_ms
        if step.whole:
            dropped = [self._state.line(q, now_ms) is None for q, _ in step.sends]
            if any(dropped):
                return tuple([Rejected("no_such_queue" if gone else "another_rejected") for gone in dropped])
        return tuple([self._send(q, entry, now_ms) for q, entry in step.sends])

    def _send(self, q: QueueRef, entry: Entry, now_ms: int) -> Sent | Rejected:
        line = self._state.line(q, now_ms)
        if line is None:
            return Rejected()
        if q.fifo:
            return self._send_fifo(line, entry, now_ms)
        seq = self._state.sequences.take()
        group: str | None = entry.group or None
        if group is not None:
            if not line.fair:
                line.fair = True
                line.hidden.become_fair()
        elif line.fair:
            group = ""  # its own tenant, found by the tenant index beside the others
        self._add(line, entry, seq, entry.visible_at_ms, group, now_ms)
        return Sent(entry.id, seq)

    def _send_fifo(self, line: Line, entry: Entry, now_ms: int) -> Sent:
        execute = self._connection.execute
        self._insert()  # what this one follows or repeats may be in the same batch
        if entry.dedup:
            known = self._state.row(schema.FIND_DUPLICATE, (line.key, entry.dedup, now_ms))
            if known is not None:
                return Sent(known[0], known[1], duplicate=True)
        seq = self._state.sequences.take()
        if entry.dedup:
            execute(schema.REMEMBER, (line.key, entry.dedup, now_ms + DEDUP_WINDOW_MS, entry.id, seq))
        behind = self._state.row(schema.GROUP_WAITS, (line.key, entry.group)) is not None
        self._add(line, entry, seq, None if behind else entry.visible_at_ms, entry.group, now_ms)
        return Sent(entry.id, seq)

    def _add(self, line: Line, entry: Entry, seq: int, due: int | None, group: str | None, now_ms: int) -> None:
        visible_at = entry.visible_at_ms
        self._slots.append(
            (seq, line.key, due, visible_at, entry.born_at_ms, entry.deliveries, entry.first_received_ms, group)
        )
        self._bodies.append((seq, entry.id, entry.body))
        line.total += 1
        line.empty = False
        if visible_at > now_ms:
            line.hidden.add(now_ms, visible_at, entry.deliveries > 0, group or "")
        self._state.touch(line, 1)

    def _insert(self) -> None:
        if self._slots:
            self._connection.executemany(schema.INSERT_SLOT, self._slots)
            self._connection.executemany(schema.INSERT_BODY, self._bodies)
            self._slots = []
            self._bodies = []

    # -- deletes ------------------------------------------------------------------------------------------------------

    def _begin_deletes(self, step: Step) -> list[Outcome]:
        """The outcomes of a step's deletes; those of standard queues are filled in by `_delete_standard`."""
        outcomes = [Outcome.MALFORMED] * len(step.deletes)
        for index, (q, handle) in enumerate(step.deletes):
            key = parts(handle)
            if key is None:
                continue
            line = self._state.line(q, step.now_ms)
            if line is None:
                outcomes[index] = Outcome.GONE
            elif q.fifo:
                outcomes[index] = self._delete_fifo(line, *key, step.now_ms)
            else:
                outcomes[index] = Outcome.GONE
                lease = NEWEST if q.older_handles else key[1]
                self._deletes.setdefault((key[0], line.key, lease), _Delete(line, step.now_ms, outcomes, index))
        return outcomes

    def _delete_standard(self) -> None:
        """All callers' deletes in one statement a table."""
        if not self._deletes:
            return
        deletes = self._deletes
        deleted: list[Any] = self._connection.executemany(schema.DELETE_LEASED, list(deletes)).fetchall()
        for seq, key, lease, visible_at, deliveries, tenant in deleted:
            line, now_ms, outcomes, index = deletes.pop((seq, key, lease))
            outcomes[index] = Outcome.DONE
            line.total -= 1
            if visible_at > now_ms:
                line.hidden.remove(now_ms, visible_at, deliveries > 0, tenant)
            self._state.touch(line)
        self._connection.executemany(schema.DELETE_BODY, [(row[0],) for row in deleted])
        for (seq, key, _), delete in deletes.items():
            held = self._state.row(schema.HELD, (seq,))
            if held is not None and held[0] == key:
                delete.outcomes[delete.position] = Outcome.STALE

    def _delete_fifo(self, line: Line, seq: int, lease: int, now_ms: int) -> Outcome:
        held = self._hold(line, seq, lease, now_ms, fifo=True)
        if isinstance(held, Outcome):
            return held
        due, visible_at, deliveries, group = held
        execute = self._connection.execute
        execute(schema.DELETE_SLOT, (seq,))
        execute(schema.DELETE_BODY, (seq,))
        line.total -= 1
        line.hidden.remove(now_ms, visible_at, deliveries > 0, group)
        if due is not None:
            execute(schema.PROMOTE, (line.key, group))
        self._state.touch(line)
        return Outcome.DONE

    def _hold(
        self, line: Line, seq: int, lease: int, now_ms: int, *, fifo: bool
    ) -> Outcome | tuple[int | None, int, int, str]:
        """(due, visible_at, deliveries, group) of the message if `lease` still names its newest delivery."""
        row = self._state.row(schema.HELD, (seq,))
        if row is None or row[0] != line.key:
            return Outcome.GONE
        _, due, visible_at, deliveries, newest, group = row
        if lease < newest:
            return Outcome.STALE
        if fifo and visible_at <= now_ms:
            return Outcome.EXPIRED
        return due, visible_at, deliveries, group

    # -- changes ------------------------------------------------------------------------------------------------------

    def _change_all(self, step: Step) -> tuple[Outcome, ...]:
        return tuple([self._change(q, change, step.now_ms) for q, change in step.changes])

    def _change(self, q: QueueRef, change: Change, now_ms: int) -> Outcome:
        key = parts(change.handle)
        if key is None:
            return Outcome.MALFORMED
        line = self._state.line(q, now_ms)
        if line is None:
            return Outcome.GONE
        seq, lease = key
        older = q.older_handles and not q.fifo and change.body is None
        held = self._hold(line, seq, NEWEST if older else lease, now_ms, fifo=q.fifo)
        if isinstance(held, Outcome):
            return held
        _, visible_at, deliveries, group = held
        if q.fifo:
            self._connection.execute(schema.FORGET_ATTEMPT, (lease,))
        if change.visible_at_ms is not None:
            self._connection.execute(schema.MOVE, (change.visible_at_ms, seq))
            if visible_at > now_ms:
                line.hidden.remove(now_ms, visible_at, deliveries > 0, group)
            if change.visible_at_ms > now_ms:
                line.hidden.add(now_ms, change.visible_at_ms, deliveries > 0, group)
            self._state.touch(line, 1)
        if change.body is not None:
            self._connection.execute(schema.REPLACE_BODY, (change.body, seq))
        return Outcome.DONE
