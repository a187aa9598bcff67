"""Receives of one transaction: callers of one standard queue share a statement, each FIFO call goes alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from cns_common.sqlite.stages import Work
from cqs.engines.contract import (
    ATTEMPT_WINDOW_MS,
    IN_FLIGHT_MAX,
    SPENT_HIDE_MS,
    Message,
    QueueRef,
    Received,
)
from cqs.engines.embedded import schema
from cqs.engines.embedded.handles import handle
from cqs.engines.embedded.queue_state import Line
from cqs.engines.embedded.transaction import State

TENANTS_LOOKED_AT_MAX = 200
"""How many tenants of a fair queue one receive looks at for a quiet one, before it serves whoever is oldest."""
EXPIRED_ROUNDS_MAX = 10
EXPIRED_BATCH = 100
"""How many batches of messages past their retention one receive clears away before it answers with what it has."""

Row = tuple[int, int, int, int, int, str, str, bytes]  # seq, visible_at, born_at, deliveries, first_at, group, id, body


class Want:
    """One caller's receive."""

    __slots__ = ("attempt_id", "n", "now_ms", "q", "visible_at_ms")

    def __init__(self, q: QueueRef, n: int, visible_at_ms: int, now_ms: int, attempt_id: str) -> None:
        self.q = q
        self.n = n
        self.visible_at_ms = visible_at_ms
        self.now_ms = now_ms
        self.attempt_id = attempt_id


class Receiving:
    """The stage that runs all receives of a turn."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._connection = state.connection
        self._leases: list[tuple[int, int, int, int, int, int]] = []

    def run(self, batch: list[Work[Want]]) -> list[tuple[Work[Want], object]]:
        self._leases = []
        answers: list[tuple[Work[Want], object]] = []
        standard: dict[str, list[Work[Want]]] = {}
        for work in batch:
            if work.item.q.fifo:
                answers.append((work, self._receive_fifo(work.item)))
            else:
                standard.setdefault(work.item.q.id, []).append(work)
        for works in standard.values():
            self._receive_standard(works)
        return answers

    # -- standard queues ----------------------------------------------------------------------------------------------

    def _receive_standard(self, works: list[Work[Want]]) -> None:
        first = works[0].item
        line = self._state.line(first.q, first.now_ms)
        if line is None:
            for work in works:
                work.answer(Received(dropped=True))
            return
        now_ms = max(work.item.now_ms for work in works)
        line.hidden.expire(now_ms)
        room = IN_FLIGHT_MAX - line.hidden.in_flight
        wanted = sum(work.item.n for work in works)
        visible = self._visible(line, first.q, min(wanted, room), now_ms) if room > 0 else []
        rows = iter(visible)
        for work in works:
            work.answer(self._lease_standard(line, work.item, rows, full=len(visible) >= room))
        if self._leases:
            self._connection.executemany(schema.LEASE, self._leases)
            self._leases = []
        self._state.touch(line)

    def _lease_standard(self, line: Line, want: Want, rows: Iterator[Row], *, full: bool) -> Received:
        lease = self._state.leases.take()
        messages, spent = [], []
        limit = want.q.max_receives
        for row in islice(rows, want.n):
            if limit and row[3] >= limit:
                spent.append(self._spend(line, row, lease, want.now_ms))
            else:
                messages.append(self._lease(line, row, lease, want))
        if messages or spent:
            return Received(tuple(messages), tuple(spent))
        if full:
            return Received(limit_reached=True)
        return Received(next_due_ms=self._next_due(line, want.now_ms))

    def _lease(self, line: Line, row: Row, lease: int, want: Want) -> Message:
        seq, _, born_at, deliveries, first_at, group, message_id, body = row
        visible_at = want.visible_at_ms
        first_at = first_at or want.now_ms
        deliveries += 1
        self._leases.append((visible_at, visible_at, deliveries, lease, first_at, seq))
        if visible_at > want.now_ms:
            line.hidden.add(want.now_ms, visible_at, True, group)
        return Message(message_id, handle(seq, lease), body, seq, deliveries, first_at, born_at, group)

    def _spend(self, line: Line, row: Row, lease: int, now_ms: int) -> Message:
        """Lease a spent message for the service to move; that is no delivery, so its count stays."""
        seq, _, born_at, deliveries, first_at, group, message_id, body = row
        visible_at = now_ms + SPENT_HIDE_MS
        self._leases.append((visible_at, visible_at, deliveries, lease, first_at, seq))
        line.hidden.add(now_ms, visible_at, True, group)
        return Message(message_id, handle(seq, lease), body, seq, deliveries, first_at, born_at, group)

    def _visible(self, line: Line, q: QueueRef, n: int, now_ms: int) -> list[Row]:
        noisy = line.hidden.noisy(now_ms) if line.fair else {}
        batch = n
        for _ in range(EXPIRED_ROUNDS_MAX):
            if noisy:
                rows = self._quiet_first(line, noisy, batch, now_ms)
            else:
                rows = self._state.rows(schema.DUE, (line.key, now_ms, batch))
            oldest = now_ms - q.retention_ms
            expired = [row for row in rows if row[2] <= oldest]
            if not expired:
                return rows[:n]
            for row in expired:
                self._expire(line, row)
            rows = [row for row in rows if row[2] > oldest]
            if rows:
                return rows[:n]
            batch = max(n, EXPIRED_BATCH)
        return []

    def _quiet_first(self, line: Line, noisy: dict[str, int], n: int, now_ms: int) -> list[Row]:
        """Visible messages: the quiet tenants' that are oldest, then of each quiet tenant in turn, then of the noisy
        ones in the order given."""
        due = self._state.rows(schema.TENANTS_DUE, (line.key, now_ms, n + 1))
        if len(due) <= n:  # no tenant has more than that
            turns = {tenant: turn for turn, tenant in enumerate(noisy, 1)}
            due.sort(key=lambda each: turns.get(each[1], 0))
            return [self._state.row(schema.DELIVERY, (seq,)) for seq, _ in due]
        rows: list[Row] = [self._state.row(schema.DELIVERY, (seq,)) for seq, tenant in due[:n] if tenant not in noisy]
        if len(rows) < n:
            share = max(1, n // 4)
            left: list[str] = []  # tenants of which more may be there
            for tenant in islice(chain([""], self._tenants(line)), TENANTS_LOOKED_AT_MAX):
                line.tenant_cursor = tenant or line.tenant_cursor  # '' stands for all without one, looked at always
                if tenant not in noisy and self._add_of_tenant(rows, line, tenant, min(share, n - len(rows)), now_ms):
                    left.append(tenant)
                if len(rows) >= n:
                    return rows
            for tenant in chain(left, islice(noisy, TENANTS_LOOKED_AT_MAX)):
                self._add_of_tenant(rows, line, tenant, n, now_ms)
                if len(rows) >= n:
                    return rows[:n]
        return rows or self._state.rows(schema.DUE, (line.key, now_ms, n))

    def _add_of_tenant(self, rows: list[Row], line: Line, tenant: str, n: int, now_ms: int) -> bool:
        """Returns whether the tenant may have more than the `n` that were looked at."""
        known = {row[0] for row in rows}
        found = self._state.rows(schema.DUE_OF_TENANT, (line.key, tenant, now_ms, n))
        rows += [row for row in found if row[0] not in known]
        return len(found) == n

    def _tenants(self, line: Line) -> Iterator[str]:
        """Each tenant once, beginning after the one that was looked at last."""
        tenant = start = line.tenant_cursor
        wrapped = not start
        while not (wrapped and tenant > start > ""):
            row = self._state.row(schema.NEXT_TENANT, (line.key, tenant))
            if row is not None:
                tenant = row[0]
                yield tenant
            elif wrapped:
                return
            else:
                wrapped, tenant = True, ""

    def _next_due(self, line: Line, now_ms: int) -> int | None:
        row = self._state.row(schema.NEXT_DUE, (line.key,))
        line.empty = row is None
        return max(row[0], now_ms) if row else None

    def _expire(self, line: Line, row: Row) -> None:
        self._connection.execute(schema.DELETE_SLOT, (row[0],))
        self._connection.execute(schema.DELETE_BODY, (row[0],))
        line.total -= 1

    # -- FIFO queues --------------------------------------------------------------------------------------------------

    def _receive_fifo(self, want: Want) -> Received:
        line = self._state.line(want.q, want.now_ms)
        if line is None:
            return Received(dropped=True)
        self._state.touch(line)
        line.hidden.expire(want.now_ms)
        if want.attempt_id and want.visible_at_ms > want.now_ms:
            again = self._receive_again(line, want)
            if again is not None:
                return again
        room = IN_FLIGHT_MAX - line.hidden.in_flight
        if room <= 0:
            return Received(limit_reached=True)
        lease = self._state.leases.take()
        messages, spent = self._lease_groups(line, want, min(want.n, room), lease)
        self._flush_fifo()
        if want.attempt_id and messages and want.visible_at_ms > want.now_ms:
            seqs = ",".join(str(message.sequence) for message in messages)
            until = want.now_ms + ATTEMPT_WINDOW_MS
            self._connection.execute(schema.KEEP_ATTEMPT, (line.key, want.attempt_id, until, lease, seqs))
        next_due = None if messages or spent else self._next_due(line, want.now_ms)
        return Received(tuple(messages), tuple(spent), next_due, received_at_ms=want.now_ms)

    def _lease_groups(self, line: Line, want: Want, n: int, lease: int) -> tuple[list[Message], list[Message]]:
        messages: list[Message] = []
        spent: list[Message] = []
        batch = n
        for _ in range(EXPIRED_ROUNDS_MAX):
            heads = self._state.rows(schema.HEADS_DUE, (line.key, want.now_ms, batch))
            for (seq,) in heads:
                if len(messages) + len(spent) >= n:
                    break
                for row in self._visible_of_group(line, want, seq, n - len(messages) - len(spent), batch):
                    if want.q.max_receives and row[3] >= want.q.max_receives:
                        spent.append(self._spend(line, row, lease, want.now_ms))
                        break  # what follows it waits until it is moved
                    messages.append(self._lease(line, row, lease, want))
            if messages or spent or not heads:
                break
            batch = max(n, EXPIRED_BATCH)  # all that was met was past its retention
        return messages, spent

    def _visible_of_group(self, line: Line, want: Want, head_seq: int, n: int, batch: int) -> list[Row]:
        """Up to `n` of the first `batch` messages of a group, up to the first that is hidden.

        Those past their retention are removed.
        """
        oldest = want.now_ms - want.q.retention_ms
        head: Row = self._state.row(schema.DELIVERY, (head_seq,))
        group = head[5]
        rows: list[Row] = []
        promote = False
        behind: list[Row] = self._state.rows(schema.BEHIND, (line.key, group, batch))
        for row in [head, *behind]:
            if row[1] > want.now_ms or len(rows) >= n:
                break
            if row[2] <= oldest:
                self._expire(line, row)
                promote = promote or row[0] == head_seq
            else:
                rows.append(row)
        if promote:
            self._connection.execute(schema.PROMOTE, (line.key, group))
        return rows

    def _receive_again(self, line: Line, want: Want) -> Received | None:
        """The messages an earlier receive with this attempt id got, if none was deleted, changed or received since."""
        known = self._state.row(schema.FIND_ATTEMPT, (line.key, want.attempt_id, want.now_ms))
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
            line.hidden.remove(want.now_ms, row[1], True, row[5])
            counted_before = (*row[:3], row[3] - 1, *row[4:])
            messages.append(self._lease(line, counted_before, lease, want))
        self._flush_fifo()
        return Received(tuple(messages), received_at_ms=until - ATTEMPT_WINDOW_MS)

    def _flush_fifo(self) -> None:
        if self._leases:
            self._connection.executemany(schema.LEASE_FIFO, [lease[1:] for lease in self._leases])
            self._leases = []
