"""The engine's tables, statements and limits in Cassandra.

A *bucket* is a partition that one process writes and all read. Its name has the queue's generation, its start time and
its writer, so names sort by time within a generation. A purge raises the generation. Each write carries its own
timestamp; that of a delete is `DELETE_AHEAD_US` ahead, so that it wins over concurrent writes of nodes with slow
clocks. A deleted row is never written again, because locations are not reused.
"""

from __future__ import annotations

from cns_common.cassandra.session import Statement

BUCKET_SPAN_MS = 3_600_000
BUCKET_ROWS_MAX = 50_000
BUCKET_BYTES_MAX = 32 * 1024 * 1024
"""A bucket is closed at the first of these limits."""
TTL_S = 31 * 86_400
"""Longer than any retention (30 days for internal queues): reads decide what has expired."""
REMEMBER_DROPPED_S = 2 * 86_400
"""How long a dropped queue is remembered, so that a late request for it cannot make it again."""
DELETE_AHEAD_US = 60_000_000
PAGE_ROWS = 1_000

TABLES = (
    "CREATE TABLE IF NOT EXISTS cqs_queues (queue text PRIMARY KEY, generation int, dropped boolean)",
    "CREATE TABLE IF NOT EXISTS cqs_buckets (queue text, bucket text, PRIMARY KEY (queue, bucket))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cqs_messages (queue text, bucket text, seq bigint, id text, body blob, born_at bigint,"
    " visible_at bigint, tenant text, deliveries int, first_at bigint, PRIMARY KEY ((queue, bucket), seq))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400"
    " AND compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS',"
    " 'compaction_window_size': 6}",
    "CREATE TABLE IF NOT EXISTS cqs_living (one int, node text, PRIMARY KEY (one, node)) WITH gc_grace_seconds = 3600",
    "CREATE TABLE IF NOT EXISTS cqs_claims (queue text, bucket text, node text, PRIMARY KEY (queue, bucket))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cqs_garbage (one int, queue text, below text, PRIMARY KEY (one, queue))",
)

FIND_QUEUE = Statement("SELECT generation, dropped FROM cqs_queues WHERE queue = ?")
FIRST_GENERATION = Statement(
    "UPDATE cqs_queues SET generation = ? WHERE queue = ? IF generation = null", idempotent=False
)
"""No INSERT: its row would outlive the columns, and so their time to live."""
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

ADD_BUCKET = Statement("INSERT INTO cqs_buckets (queue, bucket) VALUES (?, ?)")
LIST_BUCKETS = Statement(f"SELECT bucket FROM cqs_buckets WHERE queue = ? AND bucket > ? LIMIT {PAGE_ROWS}")
REMOVE_BUCKET = Statement("DELETE FROM cqs_buckets WHERE queue = ? AND bucket = ?")
EMPTY_BUCKET = Statement("DELETE FROM cqs_messages WHERE queue = ? AND bucket = ?")

INSERT = Statement(
    "INSERT INTO cqs_messages (queue, bucket, seq, id, body, born_at, visible_at, tenant, deliveries, first_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_COLUMNS = "seq, id, body, born_at, visible_at, tenant, deliveries, first_at"
READ = Statement(f"SELECT {_COLUMNS} FROM cqs_messages WHERE queue = ? AND bucket = ? AND seq IN ?")
PAGE = Statement(f"SELECT {_COLUMNS} FROM cqs_messages WHERE queue = ? AND bucket = ? AND seq > ? LIMIT ?")
HEADERS = Statement(
    "SELECT seq, id, born_at, visible_at, deliveries, first_at FROM cqs_messages"
    f" WHERE queue = ? AND bucket = ? AND seq > ? LIMIT {PAGE_ROWS}"
)
"""A page of rows without their bodies, to fill a cache with."""
COUNT_DELIVERY = Statement(
    "UPDATE cqs_messages USING TIMESTAMP ? SET deliveries = ?, first_at = ? WHERE queue = ? AND bucket = ? AND seq = ?"
)
SET_VISIBLE_AT = Statement(
    "UPDATE cqs_messages USING TIMESTAMP ? SET visible_at = ? WHERE queue = ? AND bucket = ? AND seq = ?"
)
REPLACE_BODY = Statement(
    "UPDATE cqs_messages USING TIMESTAMP ? SET body = ? WHERE queue = ? AND bucket = ? AND seq = ?"
)
DELETE = Statement("DELETE FROM cqs_messages USING TIMESTAMP ? WHERE queue = ? AND bucket = ? AND seq = ?")

ADD_GARBAGE = Statement("INSERT INTO cqs_garbage (one, queue, below) VALUES (1, ?, ?)")
LIST_GARBAGE = Statement("SELECT queue, below FROM cqs_garbage WHERE one = 1 LIMIT ?")
REMOVE_GARBAGE = Statement("DELETE FROM cqs_garbage WHERE one = 1 AND queue = ?")

HEARTBEAT = Statement("INSERT INTO cqs_living (one, node) VALUES (1, ?) USING TTL ?")
END_HEARTBEAT = Statement("DELETE FROM cqs_living WHERE one = 1 AND node = ?")
LIST_ALIVE = Statement("SELECT node FROM cqs_living WHERE one = 1")
LIST_CLAIMS = Statement(f"SELECT bucket, node FROM cqs_claims WHERE queue = ? AND bucket > ? LIMIT {PAGE_ROWS}")
"""If a generation has more claims than a page, some buckets look unclaimed: claiming these fails."""
CLAIM = Statement("INSERT INTO cqs_claims (queue, bucket, node) VALUES (?, ?, ?) IF NOT EXISTS", idempotent=False)
CLAIM_FROM = Statement("UPDATE cqs_claims SET node = ? WHERE queue = ? AND bucket = ? IF node = ?", idempotent=False)
UNCLAIM = Statement("DELETE FROM cqs_claims WHERE queue = ? AND bucket = ? IF node = ?", idempotent=False)
