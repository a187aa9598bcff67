"""Clearing up in small steps: lines of purged and dropped queues, messages past their retention, old histories."""

from __future__ import annotations

from cqs.engines.contract import QueueRef
from cqs.engines.embedded import schema
from cqs.engines.embedded.transaction import State

STEP_ROWS_MAX = 200
"""Rows one step may look at or remove: a step holds up every other call."""
LOOK_ROWS = 100
"""How many messages of a line, those due first, are looked at for one past its retention."""


def maintain(state: State, budget: int, now_ms: int) -> int:
    """Look at and remove up to `budget` rows; less is done only when nothing else waits."""
    done = _clear_doomed(state, budget)
    done += _clear_histories(state, budget - done, now_ms)
    return done + _clear_expired(state, budget - done, now_ms)


def _clear_doomed(state: State, budget: int) -> int:
    connection = state.connection
    done = 0
    while done < budget:
        row = state.row(schema.DOOMED_LINE, ())
        if row is None:
            break
        seqs = state.rows(schema.SOME_OF_LINE, (row[0], budget - done))
        if seqs:
            connection.executemany(schema.DELETE_SLOT, seqs)
            connection.executemany(schema.DELETE_BODY, seqs)
            done += len(seqs)
        else:
            connection.execute(schema.FORGET_LINE, row)
            done += 1
    return done


def _clear_histories(state: State, budget: int, now_ms: int) -> int:
    connection = state.connection
    before = connection.total_changes()
    for statement in (schema.FORGET_DEDUP, schema.FORGET_ATTEMPTS):
        cleared = connection.total_changes() - before
        connection.execute(statement, (now_ms, budget - cleared))
    return connection.total_changes() - before


def _clear_expired(state: State, budget: int, now_ms: int) -> int:
    """Look at the lines in turn, from where the last call ended; receives clear what they meet themselves."""
    done = 0
    while done < budget:
        row = state.row(schema.NEXT_LINE, (state.upkeep_cursor,))
        if row is None:
            state.upkeep_cursor = 0
            break
        key, queue, retention_ms = row
        due = state.rows(schema.DUE_FIRST, (key, now_ms, min(budget - done, LOOK_ROWS)))
        expired = [(seq, group) for seq, group, born_at in due if born_at <= now_ms - retention_ms]
        if expired:
            _expire(state, QueueRef(queue, False, retention_ms), expired, now_ms)
        else:
            state.upkeep_cursor = key
        done += max(len(due), 1)
    return done


def _expire(state: State, q: QueueRef, expired: list[tuple[int, str]], now_ms: int) -> None:
    line = state.line(q, now_ms)
    if line is None:
        return
    for seq, group in expired:
        state.connection.execute(schema.DELETE_SLOT, (seq,))
        state.connection.execute(schema.DELETE_BODY, (seq,))
        if group:
            state.connection.execute(schema.PROMOTE, (line.key, group))
    line.total -= len(expired)
    state.touch(line)
