"""Clean-up in small steps: messages of purged and dropped queues, expired messages, ended FIFO windows, old drops."""

from __future__ import annotations

from cqs.engines.contract import QueueRef
from cqs.engines.embedded import schema
from cqs.engines.embedded.transaction import TransactionState

STEP_ROWS_MAX = 200
"""The most rows that one step examines or removes: a step delays every other call."""
EXAMINED_ROWS = 100
"""Messages of a queue, soonest due first, that are examined for expired ones."""

REMEMBER_DROPPED_MS = 2 * 86_400_000
"""How long a dropped queue is remembered, so that a late request for it cannot create it again."""


def maintain(state: TransactionState, budget: int, now_ms: int) -> int:
    """Examine and remove up to `budget` rows. Fewer means that no work is left."""
    done = _clear_retired(state, budget)
    done += _clear_fifo_windows(state, budget - done, now_ms)
    done += state.forget_dropped(now_ms - REMEMBER_DROPPED_MS, budget - done)
    return done + _clear_expired(state, budget - done, now_ms)


def _clear_retired(state: TransactionState, budget: int) -> int:
    connection = state.connection
    done = 0
    while done < budget:
        row = state.row(schema.RETIRED_GENERATION, ())
        if row is None:
            break
        seqs = state.rows(schema.SOME_MESSAGES, (row[0], budget - done))
        if seqs:
            connection.executemany(schema.DELETE_SLOT, seqs)
            connection.executemany(schema.DELETE_BODY, seqs)
            done += len(seqs)
        else:
            connection.execute(schema.REMOVE_GENERATION, row)
            done += 1
    return done


def _clear_fifo_windows(state: TransactionState, budget: int, now_ms: int) -> int:
    connection = state.connection
    before = connection.total_changes()
    for statement in (schema.REMOVE_OLD_DEDUP, schema.REMOVE_OLD_ATTEMPTS):
        cleared = connection.total_changes() - before
        connection.execute(statement, (now_ms, budget - cleared))
    return connection.total_changes() - before


def _clear_expired(state: TransactionState, budget: int, now_ms: int) -> int:
    """Examine the queues in turn, beginning after the last one examined. Receives remove the expired messages they
    meet."""
    done = 0
    while done < budget:
        row = state.row(schema.NEXT_GENERATION, (state.maintenance_cursor,))
        if row is None:
            state.maintenance_cursor = 0
            break
        generation, queue_id, retention_ms, audit = row
        due = state.rows(schema.FIRST_DUE, (generation, now_ms, min(budget - done, EXAMINED_ROWS)))
        expired = [(seq, group) for seq, group, born_at in due if born_at <= now_ms - retention_ms]
        if expired:
            _expire(state, QueueRef(queue_id, False, retention_ms, audit=audit), expired, now_ms)
        else:
            state.maintenance_cursor = generation
        done += max(len(due), 1)
    return done


def _expire(state: TransactionState, q: QueueRef, expired: list[tuple[int, str]], now_ms: int) -> None:
    queue = state.queue_state(q, now_ms)
    if queue is None:
        return
    for seq, group in expired:
        if queue.audit:
            state.record_expired(queue, state.row(schema.MESSAGE_ID, (seq,))[0], group, now_ms)
        state.connection.execute(schema.DELETE_SLOT, (seq,))
        state.connection.execute(schema.DELETE_BODY, (seq,))
        if group:
            state.connection.execute(schema.PROMOTE, (queue.generation, group))
    queue.total -= len(expired)
    state.mark_changed(queue)
