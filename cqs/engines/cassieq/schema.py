"""The engine's tables, statements and limits in Cassandra.

A queue's key is its id and its generation, as the original's was name and version: a purge begins a new key. A *bucket*
is a partition of `BucketSize` consecutive message numbers, the *monotons*.

A message's row is inserted once, with the write timestamp `INSERTED_US`, below all others: a repeated or late insert
changes nothing. All later writes of the row are conditional, so Cassandra sets their timestamps. `version` counts the
deliveries; it is `MOVED` once repair has given the message another monoton, `moved_to`.

`sealed_at` is the bucket's seal. It outlives the bucket's rows, for longer than a sender may need until it checks it.
"""

from __future__ import annotations

from cns_common.cassandra.session import Statement

TTL_S = 31 * 86_400
"""Longer than any retention (30 days for internal queues): reads decide what has expired."""
INSERTED_US = 1
MOVED = -1
SEAL_S = 7 * 86_400
REPAIRER_S = 30
"""The lease of a queue's repairer, by Cassandra's clock."""
REMOVED_AHEAD_US = 60_000_000
"""How far a bucket's removal is dated ahead: Cassandra's nodes date conditional writes by clocks that may differ."""
PAGE_ROWS = 1_000

TABLES = (
    "CREATE TABLE IF NOT EXISTS cassieq_monotons (queue text PRIMARY KEY, value bigint, bucket_size int)",
    "CREATE TABLE IF NOT EXISTS cassieq_pointers (queue text, kind text, value bigint, PRIMARY KEY ((queue, kind)))",
    "CREATE TABLE IF NOT EXISTS cassieq_messages (queue text, bucket bigint, monoton bigint, sealed_at bigint static,"
    " id text, body blob, born_at bigint, tenant text, tag text, visible_at bigint, version int, deliveries int,"
    " first_at bigint, acked boolean, lease text, moved_to bigint, PRIMARY KEY ((queue, bucket), monoton))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cassieq_hidden (queue text, due_at bigint, monoton bigint, nonce text,"
    " PRIMARY KEY (queue, due_at, monoton, nonce))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cassieq_repairers (queue text PRIMARY KEY, node text) WITH gc_grace_seconds = 3600",
    "CREATE TABLE IF NOT EXISTS cassieq_expired (one int, at_ms bigint, audit text, id text, tenant text,"
    f" PRIMARY KEY (one, at_ms, audit, id)) WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 0",
)

# -- monotons and pointers -------------------------------------------------------------------------------------------

READ_MONOTON = Statement("SELECT value, bucket_size FROM cassieq_monotons WHERE queue = ?")
FIRST_MONOTON = Statement(
    "UPDATE cassieq_monotons SET value = ?, bucket_size = ? WHERE queue = ? IF value = null", idempotent=False
)
NEXT_MONOTON = Statement("UPDATE cassieq_monotons SET value = ? WHERE queue = ? IF value = ?", idempotent=False)
REMOVE_MONOTON = Statement("DELETE FROM cassieq_monotons WHERE queue = ? IF EXISTS", idempotent=False)

READ_POINTER = Statement("SELECT value FROM cassieq_pointers WHERE queue = ? AND kind = ?")
FIRST_POINTER = Statement(
    "UPDATE cassieq_pointers SET value = ? WHERE queue = ? AND kind = ? IF value = null", idempotent=False
)
NEXT_POINTER = Statement(
    "UPDATE cassieq_pointers SET value = ? WHERE queue = ? AND kind = ? IF value = ?", idempotent=False
)
REMOVE_POINTER = Statement("DELETE FROM cassieq_pointers WHERE queue = ? AND kind = ? IF EXISTS", idempotent=False)

TAKE_REPAIR = Statement(
    f"UPDATE cassieq_repairers USING TTL {REPAIRER_S} SET node = ? WHERE queue = ? IF node = null", idempotent=False
)
KEEP_REPAIR = Statement(
    f"UPDATE cassieq_repairers USING TTL {REPAIRER_S} SET node = ? WHERE queue = ? IF node = ?", idempotent=False
)
LEAVE_REPAIR = Statement("DELETE node FROM cassieq_repairers WHERE queue = ? IF node = ?", idempotent=False)

# -- buckets ---------------------------------------------------------------------------------------------------------

SEAL = Statement(
    f"UPDATE cassieq_messages USING TTL {SEAL_S} SET sealed_at = ? WHERE queue = ? AND bucket = ? IF sealed_at = null",
    idempotent=False,
)
READ_SEAL = Statement("SELECT DISTINCT queue, bucket, sealed_at FROM cassieq_messages WHERE queue = ? AND bucket = ?")
REMOVE_ROWS = Statement(
    "DELETE FROM cassieq_messages USING TIMESTAMP ? WHERE queue = ? AND bucket = ? AND monoton >= 0"
)
"""The seal stays."""
REMOVE_BUCKET = Statement("DELETE FROM cassieq_messages USING TIMESTAMP ? WHERE queue = ? AND bucket = ?")

# -- messages --------------------------------------------------------------------------------------------------------

INSERT = Statement(
    "INSERT INTO cassieq_messages (queue, bucket, monoton, id, body, born_at, tenant, tag, visible_at, version,"
    " deliveries, first_at, acked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, false)"
    f" USING TIMESTAMP {INSERTED_US}"
)
READ_BUCKET = Statement(
    "SELECT monoton, id, born_at, tenant, tag, visible_at, version, deliveries, first_at, acked, lease, moved_to,"
    " sealed_at FROM cassieq_messages WHERE queue = ? AND bucket = ?"
)
"""Without bodies. A bucket without rows has one row of nulls if it is sealed."""
READ_BODIES = Statement("SELECT monoton, body FROM cassieq_messages WHERE queue = ? AND bucket = ? AND monoton IN ?")

_WHERE = " WHERE queue = ? AND bucket = ? AND monoton = ?"
_NEWEST = "IF version = ? AND tag = ? AND acked = false"
_ANY = "IF version >= ? AND tag = ? AND acked = false"
"""The condition for calls that may use the handle of any delivery."""
CONSUME = Statement(
    "UPDATE cassieq_messages SET visible_at = ?, version = ?, deliveries = ?, first_at = ?, lease = ?"
    f"{_WHERE} IF version = ? AND visible_at = ? AND acked = false",
    idempotent=False,
)
ACK = Statement(f"UPDATE cassieq_messages SET acked = true, lease = ?{_WHERE} {_NEWEST}", idempotent=False)
ACK_ANY = Statement(f"UPDATE cassieq_messages SET acked = true, lease = ?{_WHERE} {_ANY}", idempotent=False)
HIDE = Statement(f"UPDATE cassieq_messages SET visible_at = ?{_WHERE} {_NEWEST}", idempotent=False)
HIDE_ANY = Statement(f"UPDATE cassieq_messages SET visible_at = ?{_WHERE} {_ANY}", idempotent=False)
UPDATE_BODY = Statement(f"UPDATE cassieq_messages SET body = ?{_WHERE} {_NEWEST}", idempotent=False)
UPDATE_BODY_AND_HIDE = Statement(
    f"UPDATE cassieq_messages SET body = ?, visible_at = ?{_WHERE} {_NEWEST}", idempotent=False
)
MOVE = Statement(
    f"UPDATE cassieq_messages SET version = {MOVED}, moved_to = ?{_WHERE} IF version = 0 AND acked = false",
    idempotent=False,
)

# -- hidden messages -------------------------------------------------------------------------------------------------

ADD_HIDDEN = Statement("INSERT INTO cassieq_hidden (queue, due_at, monoton, nonce) VALUES (?, ?, ?, ?)")
"""The nonce is never used again, so that a removal cannot cover a later entry."""
LIST_HIDDEN = Statement(
    "SELECT due_at, monoton, nonce FROM cassieq_hidden WHERE queue = ? AND (due_at, monoton, nonce) > (?, ?, ?) LIMIT ?"
)
REMOVE_HIDDEN = Statement("DELETE FROM cassieq_hidden WHERE queue = ? AND due_at = ? AND monoton = ? AND nonce = ?")
FORGET_REMOVED_HIDDEN = Statement("DELETE FROM cassieq_hidden USING TIMESTAMP ? WHERE queue = ? AND due_at < ?")
"""Replaces the tombstones of removed entries by one range tombstone: Cassandra refuses reads that pass over 100,000."""
CLEAR_HIDDEN = Statement("DELETE FROM cassieq_hidden WHERE queue = ?")
