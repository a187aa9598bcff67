"""The tables and statements that engines on Cassandra share.

`cqs_queues` has the generation of each queue of any of these engines: a purge raises it, and only messages of the
current generation exist. `cqs_engine_garbage` names the generations whose rows an engine has still to remove.
`cqs_retentions` has the retention period of each queue for which SetQueueAttributes set one: its write timestamp is the
version of the attributes, so that the newest wins.
"""

from __future__ import annotations

from cns_common.cassandra.session import Consistency, Statement

REMEMBER_DROPPED_S = 2 * 86_400
"""How long a dropped queue is remembered, so that a late request for it cannot create it again."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS cqs_queues (queue text PRIMARY KEY, generation int, dropped boolean)",
    "CREATE TABLE IF NOT EXISTS cqs_engine_garbage (engine text, queue text, below int,"
    " PRIMARY KEY (engine, queue, below)) WITH gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cqs_retentions (queue text PRIMARY KEY, retention_ms bigint, version int)",
)

FIND_QUEUE = Statement("SELECT generation, dropped FROM cqs_queues WHERE queue = ?")
FIND_QUEUE_AT_ONE = Statement(FIND_QUEUE.cql, consistency=Consistency.ONE)
FIRST_GENERATION = Statement(
    "UPDATE cqs_queues SET generation = ? WHERE queue = ? IF generation = null", idempotent=False
)
"""UPDATE, since the row marker of an INSERT would outlive the columns, which have a time to live."""
NEXT_GENERATION = Statement("UPDATE cqs_queues SET generation = ? WHERE queue = ? IF generation = ?", idempotent=False)
DROP_UNKNOWN = Statement(
    "INSERT INTO cqs_queues (queue, generation, dropped) VALUES (?, 0, true) IF NOT EXISTS"
    f" USING TTL {REMEMBER_DROPPED_S}",
    idempotent=False,
)
DROP_KNOWN = Statement(
    f"UPDATE cqs_queues USING TTL {REMEMBER_DROPPED_S} SET generation = 0, dropped = true WHERE queue = ? IF EXISTS",
    idempotent=False,
)

ADD_GARBAGE = Statement("INSERT INTO cqs_engine_garbage (engine, queue, below) VALUES (?, ?, ?)")
LIST_GARBAGE = Statement("SELECT queue, below FROM cqs_engine_garbage WHERE engine = ? LIMIT ?")
REMOVE_GARBAGE = Statement("DELETE FROM cqs_engine_garbage WHERE engine = ? AND queue = ? AND below = ?")

FIND_RETENTION = Statement("SELECT retention_ms, version FROM cqs_retentions WHERE queue = ?")
FIND_RETENTION_AT_ONE = Statement(FIND_RETENTION.cql, consistency=Consistency.ONE)
SET_RETENTION = Statement(
    "INSERT INTO cqs_retentions (queue, retention_ms, version) VALUES (?, ?, ?) USING TIMESTAMP ?"
)
FORGET_RETENTION = Statement("DELETE FROM cqs_retentions WHERE queue = ?")
