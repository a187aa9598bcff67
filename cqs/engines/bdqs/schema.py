"""The engine's tables, statements and limits in Cassandra.

`bdqs_index` has one row per position of a message, sorted by the time from which the message is visible. A position is
written once and removed once. The removal's write timestamp follows from the position's stamp, so that it supersedes
this write, whatever clocks say, and nothing else. A partition of the index, a *slot*, holds one window of time, or a
part of one; `bdqs_slots` lists the slots, so that they are found and retired without a scan.

`bdqs_messages` has the bodies and, in one cell, each message's state; if the index disagrees, this table is right. A
row is inserted with the write timestamp `INSERT_US`, below all later ones: every delete supersedes it. A partition of
bodies, a *bucket*, belongs to one process and is never scanned.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from cns_common.cassandra.session import Consistency, Statement

WINDOW_MS = 20_000
PART_ROWS_MAX = 10_000
"""The most positions that one process writes into one slot; further ones go into the next part of the window."""
LATE_MS_MAX = 60_000
"""A due time that is further in the past is replaced by a newer one when the slot of a position is chosen."""
WRITE_MS_MAX = 60_000
"""A write of a position that takes longer fails: its slot may be retired by now."""
RETIRE_MS = 600_000
"""How long after its window a slot is retired: more than the two times above and minutes of clock difference."""
BUCKET_SPAN_MS = 20_000
BUCKET_ROWS_MAX = 1_000
BUCKET_BYTES_MAX = 8 * 1024 * 1024
TTL_S = 31 * 86_400
"""Longer than any retention (30 days for internal queues): reads decide what has expired."""
INSERT_US = 1
DELETE_AHEAD_US = 60_000_000
"""A delete's write timestamp is this far ahead of the clock, so that it also supersedes states written meanwhile."""
PAGE_ROWS = 1_000

TABLES = (
    "CREATE TABLE IF NOT EXISTS bdqs_index (queue text, slot text, due bigint, seq bigint, bucket text, stamp text,"
    " delivered boolean, born_at bigint, PRIMARY KEY ((queue, slot), due, seq, bucket, stamp))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 3600",
    "CREATE TABLE IF NOT EXISTS bdqs_slots (queue text, slot text, PRIMARY KEY (queue, slot))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS bdqs_messages (queue text, bucket text, seq bigint, id text, body blob, born_at bigint,"
    " tenant text, state text, PRIMARY KEY ((queue, bucket), seq))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS bdqs_expired (one int, at_ms bigint, audit text, id text, tenant text,"
    f" PRIMARY KEY (one, at_ms, audit, id)) WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 0",
)
"""A position that reappears because a node missed its removal is outdated by its message's state, and removed again."""


@cache
def at(statement: Statement, level: Consistency) -> Statement:
    """The statement at another consistency than the session's."""
    return replace(statement, consistency=level)


# -- the index --------------------------------------------------------------------------------------------------------

_POSITION = "queue = ? AND slot = ? AND due = ? AND seq = ? AND bucket = ? AND stamp = ?"
_ENTRY = "due, seq, bucket, stamp, delivered, born_at"
ADD_SENT = Statement(
    "INSERT INTO bdqs_index (queue, slot, due, seq, bucket, stamp, born_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " USING TIMESTAMP ?"
)
ADD_DELIVERED = Statement(
    "INSERT INTO bdqs_index (queue, slot, due, seq, bucket, stamp, born_at, delivered)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, true) USING TIMESTAMP ?"
)
REMOVE_POSITION = Statement(f"DELETE FROM bdqs_index USING TIMESTAMP ? WHERE {_POSITION}")
READ_SLOT = Statement(f"SELECT {_ENTRY} FROM bdqs_index WHERE queue = ? AND slot = ? LIMIT ?")
READ_SLOT_FROM = Statement(
    f"SELECT {_ENTRY} FROM bdqs_index"
    " WHERE queue = ? AND slot = ? AND (due, seq, bucket, stamp) >= (?, ?, ?, ?) LIMIT ?"
)
READ_VISIBLE = Statement(f"SELECT {_ENTRY} FROM bdqs_index WHERE queue = ? AND slot = ? AND due <= ? LIMIT ?")
READ_VISIBLE_FROM = Statement(
    f"SELECT {_ENTRY} FROM bdqs_index"
    " WHERE queue = ? AND slot = ? AND (due, seq, bucket, stamp) >= (?, ?, ?, ?) AND (due) <= (?) LIMIT ?"
)
"""Reads positions that are due. Many later ones are tombstones of messages deleted within their timeouts."""
READ_SLOT_AFTER = Statement(
    f"SELECT {_ENTRY} FROM bdqs_index WHERE queue = ? AND slot = ? AND (due, seq, bucket, stamp) > (?, ?, ?, ?) LIMIT ?"
)
COUNT_VISIBLE = Statement(
    "SELECT COUNT(*) FROM bdqs_index"
    " WHERE queue = ? AND slot = ? AND (due, seq, bucket, stamp) >= (?, ?, ?, ?) AND (due) <= (?)"
)
COUNT_HIDDEN = Statement("SELECT COUNT(*), COUNT(delivered) FROM bdqs_index WHERE queue = ? AND slot = ? AND due > ?")
"""All positions, and those of delivered messages: the column of others has no value."""
EMPTY_SLOT = Statement("DELETE FROM bdqs_index USING TIMESTAMP ? WHERE queue = ? AND slot = ?")

LIST_SLOT = Statement("INSERT INTO bdqs_slots (queue, slot) VALUES (?, ?)")
SLOTS = Statement(f"SELECT slot FROM bdqs_slots WHERE queue = ? AND slot >= ? AND slot < ? LIMIT {PAGE_ROWS}")
UNLIST_SLOT = Statement("DELETE FROM bdqs_slots WHERE queue = ? AND slot = ?")

# -- messages ---------------------------------------------------------------------------------------------------------

INSERT = Statement(
    "INSERT INTO bdqs_messages (queue, bucket, seq, id, body, born_at, tenant, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    f" USING TIMESTAMP {INSERT_US}"
)
READ = Statement(
    "SELECT seq, id, body, born_at, tenant, state FROM bdqs_messages WHERE queue = ? AND bucket = ? AND seq IN ?"
)
READ_STATES = Statement("SELECT seq, id, state FROM bdqs_messages WHERE queue = ? AND bucket = ? AND seq IN ?")
SET_STATE = Statement("UPDATE bdqs_messages USING TIMESTAMP ? SET state = ? WHERE queue = ? AND bucket = ? AND seq = ?")
SET_BODY = Statement(
    "UPDATE bdqs_messages USING TIMESTAMP ? SET state = ?, body = ? WHERE queue = ? AND bucket = ? AND seq = ?"
)
DELETE = Statement("DELETE FROM bdqs_messages USING TIMESTAMP ? WHERE queue = ? AND bucket = ? AND seq = ?")
SET_STATE_IF = Statement(
    "UPDATE bdqs_messages SET state = ? WHERE queue = ? AND bucket = ? AND seq = ? IF state = ?", idempotent=False
)
SET_BODY_IF = Statement(
    "UPDATE bdqs_messages SET state = ?, body = ? WHERE queue = ? AND bucket = ? AND seq = ? IF state = ?",
    idempotent=False,
)
DELETE_IF = Statement(
    "DELETE FROM bdqs_messages WHERE queue = ? AND bucket = ? AND seq = ? IF state = ?", idempotent=False
)
