"""The receives of one transaction. Receives of one standard queue share a statement, FIFO receives run one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from cns_common.sqlite.waiting_work import Work
from cqs.engines.contract import (
    ATTEMPT_WINDOW_MS,
    IN_FLIGHT_MAX,
    SPENT_HIDE_MS,
    Message,
    QueueRef,
    ReceiveResult,
)
from cqs.engines.embedded import schema
from cqs.engines.embedded.handles import make_handle
from cqs.engines.embedded.queue_state import QueueState
from cqs.engines.embedded.transaction import TransactionState

TENANTS_EXAMINED_MAX = 200
"""Tenants of a fair queue that one receive examines for a quiet one, before it takes the oldest message of any tenant.
"""
EXPIRED_ROUNDS_MAX = 10
EXPIRED_BATCH = 100
"""Batches of expired messages that one receive removes before it returns what it has."""

Row = tuple[int, int, int, int, int, str, str, bytes]  # seq, visible_at, born_at, deliveries, first_at, group, id, body


class EmbeddedReceive:
    """The receive of one caller."""

    __slots__ = ("attempt_id", "n", "now_ms", "q", "visible_at_ms")

    def __init__(self, q: QueueRef, n: int, visible_at_ms: int, now_ms: int, attempt_id: str) -> None:
        self.q = q
        self.n = n
        self.visible_at_ms = visible_at_ms
        self.now_ms = now_ms
        self.attempt_id = attempt_id


class ReceiveStage:
    """Runs all receives of a transaction."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state
        self._connection = state.connection
        self._leases: list[tuple[int, int, int, int, int, int]] = []

    def run(self, batch: list[Work[EmbeddedReceive]]) -> list[tuple[Work[EmbeddedReceive], object]]:
        self._leases = []
        answers: list[tuple[Work[EmbeddedReceive], object]] = []
        standard: dict[str, list[Work[EmbeddedReceive]]] = {}
        for work in batch:
            if work.item.q.fifo:
                answers.append((work, self._receive_fifo(work.item)))
            else:
                standard.setdefault(work.item.q.id, []).append(work)
        for works in standard.values():
            self._receive_standard(works)
        return answers

    # -- standard queues ----------------------------------------------------------------------------------------------

    def _receive_standard(self, works: list[Work[EmbeddedReceive]]) -> None:
        first = works[0].item
        queue = self._state.queue_state(first.q, first.now_ms)
        if queue is None:
            for work in works:
                work.answer(ReceiveResult(dropped=True))
            return
        now_ms = max(work.item.now_ms for work in works)
        queue.hidden.expire(now_ms)
        room = IN_FLIGHT_MAX - queue.hidden.in_flight
        wanted = sum(work.item.n for work in works)
        visible = self._visible(queue, min(wanted, room), now_ms) if room > 0 else []
        rows = iter(visible)
        for work in works:
            work.answer(self._lease_standard(queue, work.item, rows, full=len(visible) >= room))
        if self._leases:
            self._connection.executemany(schema.LEASE, self._leases)
            self._leases = []
        self._state.mark_changed(queue)

    def _lease_standard(
        self, queue: QueueState, request: EmbeddedReceive, rows: Iterator[Row], *, full: bool
    ) -> ReceiveResult:
        lease = self._state.leases.take()
        messages, spent = [], []
        limit = request.q.max_receives
        for row in islice(rows, request.n):
            if limit and row[3] >= limit:
                spent.append(self._spend(queue, row, lease, request.now_ms))
            else:
                messages.append(self._lease(queue, row, lease, request))
        if messages or spent:
            return ReceiveResult(tuple(messages), tuple(spent))
        if full:
            return ReceiveResult(limit_reached=True)
        return ReceiveResult(next_due_ms=self._next_due(queue, request.now_ms))

    def _lease(self, queue: QueueState, row: Row, lease: int, request: EmbeddedReceive) -> Message:
        seq, _, born_at, deliveries, first_at, group, message_id, body = row
        visible_at = request.visible_at_ms
        first_at = first_at or request.now_ms
        deliveries += 1
        self._leases.append((visible_at, visible_at, deliveries, lease, first_at, seq))
        if visible_at > request.now_ms:
            queue.hidden.add(request.now_ms, visible_at, True, group)
        return Message(message_id, make_handle(seq, lease), body, seq, deliveries, first_at, born_at, group)

    def _spend(self, queue: QueueState, row: Row, lease: int, now_ms: int) -> Message:
        """Lease a spent message for the service to move. This is not a delivery: the count stays."""
        seq, _, born_at, deliveries, first_at, group, message_id, body = row
        visible_at = now_ms + SPENT_HIDE_MS
        self._leases.append((visible_at, visible_at, deliveries, lease, first_at, seq))
        queue.hidden.add(now_ms, visible_at, True, group)
        return Message(message_id, make_handle(seq, lease), body, seq, deliveries, first_at, born_at, group)

    def _visible(self, queue: QueueState, n: int, now_ms: int) -> list[Row]:
        noisy = queue.hidden.noisy(now_ms) if queue.fair else {}
        batch = n
        for _ in range(EXPIRED_ROUNDS_MAX):
            if noisy:
                rows = self._quiet_first(queue, noisy, batch, now_ms)
            else:
                rows = self._state.rows(schema.DUE, (queue.generation, now_ms, batch))
            oldest = now_ms - queue.retention_ms
            expired = [row for row in rows if row[2] <= oldest]
            if not expired:
                return rows[:n]
            for row in expired:
                self._expire(queue, row, now_ms)
            rows = [row for row in rows if row[2] > oldest]
            if rows:
                return rows[:n]
            batch = max(n, EXPIRED_BATCH)
        return []

    def _quiet_first(self, queue: QueueState, noisy: dict[str, int], n: int, now_ms: int) -> list[Row]:
        """Visible messages in this order: the oldest ones if they belong to quiet tenants, then those of each quiet
        tenant in turn, then those of the tenants in `noisy`."""
        due = self._state.rows(schema.TENANTS_DUE, (queue.generation, now_ms, n + 1))
        if len(due) <= n:  # these are all visible messages
            turns = {tenant: turn for turn, tenant in enumerate(noisy, 1)}
            due.sort(key=lambda each: turns.get(each[1], 0))
            return [self._state.row(schema.DELIVERY, (seq,)) for seq, _ in due]
        rows: list[Row] = [self._state.row(schema.DELIVERY, (seq,)) for seq, tenant in due[:n] if tenant not in noisy]
        if len(rows) < n:
            share = max(1, n // 4)
            left: list[str] = []  # quiet tenants that may have more
            for tenant in islice(chain([""], self._next_tenants(queue)), TENANTS_EXAMINED_MAX):
                queue.tenant_cursor = tenant or queue.tenant_cursor  # '' for messages without a tenant: always examined
                if tenant not in noisy and self._append_of_tenant(
                    rows, queue, tenant, min(share, n - len(rows)), now_ms
                ):
                    left.append(tenant)
                if len(rows) >= n:
                    return rows
            for tenant in chain(left, islice(noisy, TENANTS_EXAMINED_MAX)):
                self._append_of_tenant(rows, queue, tenant, n, now_ms)
                if len(rows) >= n:
                    return rows[:n]
        return rows or self._state.rows(schema.DUE, (queue.generation, now_ms, n))

    def _append_of_tenant(self, rows: list[Row], queue: QueueState, tenant: str, n: int, now_ms: int) -> bool:
        """Append up to `n` visible messages of the tenant. Returns whether it may have more."""
        known = {row[0] for row in rows}
        found = self._state.rows(schema.DUE_OF_TENANT, (queue.generation, tenant, now_ms, n))
        rows += [row for row in found if row[0] not in known]
        return len(found) == n

    def _next_tenants(self, queue: QueueState) -> Iterator[str]:
        """Each tenant once, beginning after the last one examined."""
        tenant = start = queue.tenant_cursor
        wrapped = not start
        while not (wrapped and tenant > start > ""):
            row = self._state.row(schema.NEXT_TENANT, (queue.generation, tenant))
            if row is not None:
                tenant = row[0]
                yield tenant
            elif wrapped:
                return
            else:
                wrapped, tenant = True, ""

    def _next_due(self, queue: QueueState, now_ms: int) -> int | None:
        row = self._state.row(schema.NEXT_DUE, (queue.generation,))
        queue.known_empty = row is None
        return max(row[0], now_ms) if row else None

    def _expire(self, queue: QueueState, row: Row, now_ms: int) -> None:
        self._state.record_expired(queue, row[6], row[5], now_ms)
        self._connection.execute(schema.DELETE_SLOT, (row[0],))
        self._connection.execute(schema.DELETE_BODY, (row[0],))
        queue.total -= 1

    # -- FIFO queues --------------------------------------------------------------------------------------------------

    def _receive_fifo(self, request: EmbeddedReceive) -> ReceiveResult:
        queue = self._state.queue_state(request.q, request.now_ms)
        if queue is None:
            return ReceiveResult(dropped=True)
        self._state.mark_changed(queue)
        queue.hidden.expire(request.now_ms)
        if request.attempt_id and request.visible_at_ms > request.now_ms:
            again = self._repeat_attempt(queue, request)
            if again is not None:
                return again
        room = IN_FLIGHT_MAX - queue.hidden.in_flight
        if room <= 0:
            return ReceiveResult(limit_reached=True)
        lease = self._state.leases.take()
        messages, spent = self._lease_groups(queue, request, min(request.n, room), lease)
        self._flush_fifo()
        if request.attempt_id and messages and request.visible_at_ms > request.now_ms:
            seqs = ",".join(str(message.sequence) for message in messages)
            until = request.now_ms + ATTEMPT_WINDOW_MS
            self._connection.execute(schema.KEEP_ATTEMPT, (queue.generation, request.attempt_id, until, lease, seqs))
        next_due = None if messages or spent else self._next_due(queue, request.now_ms)
        return ReceiveResult(tuple(messages), tuple(spent), next_due, received_at_ms=request.now_ms)

    def _lease_groups(
        self, queue: QueueState, request: EmbeddedReceive, n: int, lease: int
    ) -> tuple[list[Message], list[Message]]:
        messages: list[Message] = []
        spent: list[Message] = []
        batch = n
        for _ in range(EXPIRED_ROUNDS_MAX):
            heads = self._state.rows(schema.HEADS_DUE, (queue.generation, request.now_ms, batch))
            for (seq,) in heads:
                if len(messages) + len(spent) >= n:
                    break
                for row in self._visible_of_group(queue, request, seq, n - len(messages) - len(spent), batch):
                    if request.q.max_receives and row[3] >= request.q.max_receives:
                        spent.append(self._spend(queue, row, lease, request.now_ms))
                        break  # the rest of the group waits until the spent message is moved
                    messages.append(self._lease(queue, row, lease, request))
            if messages or spent or not heads:
                break
            batch = max(n, EXPIRED_BATCH)  # all messages so far were expired
        return messages, spent

    def _visible_of_group(
        self, queue: QueueState, request: EmbeddedReceive, head_seq: int, n: int, batch: int
    ) -> list[Row]:
        """Up to `n` of the first `batch` messages of a group, ending before the first hidden one. Removes expired
        messages."""
        oldest = request.now_ms - queue.retention_ms
        head: Row = self._state.row(schema.DELIVERY, (head_seq,))
        group = head[5]
        rows: list[Row] = []
        promote = False
        behind: list[Row] = self._state.rows(schema.BEHIND_HEAD, (queue.generation, group, batch))
        for row in [head, *behind]:
            if row[1] > request.now_ms or len(rows) >= n:
                break
            if row[2] <= oldest:
                self._expire(queue, row, request.now_ms)
                promote = promote or row[0] == head_seq
            else:
                rows.append(row)
        if promote:
            self._connection.execute(schema.PROMOTE, (queue.generation, group))
        return rows

    def _repeat_attempt(self, queue: QueueState, request: EmbeddedReceive) -> ReceiveResult | None:
        """Lease the messages of an earlier receive with this attempt id again; None if one was deleted, changed or
        received since."""
        known = self._state.row(schema.FIND_ATTEMPT, (queue.generation, request.attempt_id, request.now_ms))
        if known is None:
            return None
        lease, until = known[0], known[2]
        seqs = [int(seq) for seq in known[1].split(",")]
        rows: list[Row] = []
        for seq in seqs:
            row = self._state.row(schema.LEASED, (seq, lease))
            if row is None:
                return None
            rows.append(row)
        messages = []
        for row in rows:
            queue.hidden.remove(request.now_ms, row[1], True, row[5])
            counted_before = (*row[:3], row[3] - 1, *row[4:])
            messages.append(self._lease(queue, counted_before, lease, request))
        self._flush_fifo()
        return ReceiveResult(tuple(messages), received_at_ms=until - ATTEMPT_WINDOW_MS)

    def _flush_fifo(self) -> None:
        if self._leases:
            self._connection.executemany(schema.LEASE_FIFO, [lease[1:] for lease in self._leases])
            self._leases = []
