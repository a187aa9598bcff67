"""The engine's tables, statements and limits in Cassandra.

A *bucket* is a partition that one process writes and all read. Its name has the queue's generation, its start time and
its writer, so names sort by time within a generation; nothing is decided by that time alone. A purge raises the
generation.

The state of a bucket is `open`, then `sealed` for good. `writer` is the writer's lease, which expires by Cassandra's
clock; then others may seal the bucket. Only sealed buckets are removed, with the write timestamp of the seal. An
opening has the lowest write timestamp, so that a late one changes nothing; all other writes of the row are conditional.

Each write of a message carries its own timestamp; that of a delete is `DELETE_AHEAD_US` ahead, so that it supersedes
concurrent writes although clocks differ. A deleted row is never written again, because locations are not reused.
"""

from __future__ import annotations

from cns_common.cassandra.session import Statement
from cqs.engines.cluster.ownership import schema as ownership

BUCKET_SPAN_MS = 3_600_000
BUCKET_ROWS_MAX = 50_000
BUCKET_BYTES_MAX = 32 * 1024 * 1024
"""The writer closes a bucket at the first of these limits."""
BUCKET_LEASE_S = 600
BUCKET_LEASE_CERTAIN_MS = 300_000
"""The writer acknowledges no send under an older lease. The rest allows for different clocks of Cassandra's nodes."""
BUCKET_LEASE_RENEW_MS = 150_000
TTL_S = 31 * 86_400
"""Longer than any retention (30 days for internal queues): reads decide what has expired."""
SEALED = "sealed"
DELETE_AHEAD_US = 60_000_000
PAGE_ROWS = 1_000

TABLES = (
    "CREATE TABLE IF NOT EXISTS cqs_buckets (queue text, bucket text, state text, writer text,"
    " PRIMARY KEY (queue, bucket))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cqs_messages (queue text, bucket text, seq bigint, id text, body blob, born_at bigint,"
    " visible_at bigint, tenant text, deliveries int, first_at bigint, taken text, PRIMARY KEY ((queue, bucket), seq))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400"
    " AND compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS',"
    " 'compaction_window_size': 6}",
    "CREATE TABLE IF NOT EXISTS cqs_living (one int, node text, PRIMARY KEY (one, node)) WITH gc_grace_seconds = 3600",
    # of each `View` its epoch and decision; of each process the epoch by which it acts, and what it says
    "CREATE TABLE IF NOT EXISTS cqs_cache (cache text, node text, epoch bigint static, server text static, seen bigint,"
    " reached text, PRIMARY KEY (cache, node)) WITH gc_grace_seconds = 3600",
    "CREATE TABLE IF NOT EXISTS cqs_claims (queue text, bucket text, node text, PRIMARY KEY (queue, bucket))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cqs_garbage (one int, queue text, below text, PRIMARY KEY (one, queue))"
    " WITH gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cqs_expired (one int, at_ms bigint, audit text, id text, tenant text,"
    f" PRIMARY KEY (one, at_ms, audit, id)) WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 0",
    *ownership.TABLES,
)

OPEN_BUCKET = Statement("INSERT INTO cqs_buckets (queue, bucket, state) VALUES (?, ?, 'open') USING TIMESTAMP 1")
LEASE_NEW_BUCKET = Statement(
    f"UPDATE cqs_buckets USING TIMESTAMP 1 AND TTL {BUCKET_LEASE_S} SET writer = ? WHERE queue = ? AND bucket = ?"
)
LEASE_BUCKET = Statement(
    f"UPDATE cqs_buckets USING TTL {BUCKET_LEASE_S} SET writer = ? WHERE queue = ? AND bucket = ? IF state = 'open'"
)
"""Conditional, and idempotent all the same: a repeated one finds the same state, or the seal."""
SEAL_OWN_BUCKET = Statement("UPDATE cqs_buckets SET state = 'sealed' WHERE queue = ? AND bucket = ? IF state = 'open'")
SEAL_BUCKET = Statement(
    "UPDATE cqs_buckets SET state = 'sealed' WHERE queue = ? AND bucket = ? IF state != 'sealed' AND writer = null",
    idempotent=False,
)
LIST_BUCKETS = Statement(f"SELECT bucket FROM cqs_buckets WHERE queue = ? AND bucket > ? LIMIT {PAGE_ROWS}")
LIST_BUCKET_STATES = Statement(
    f"SELECT bucket, state, writer, WRITETIME(state) FROM cqs_buckets WHERE queue = ? AND bucket > ? LIMIT {PAGE_ROWS}"
)
REMOVE_BUCKET = Statement("DELETE FROM cqs_buckets WHERE queue = ? AND bucket = ? IF EXISTS")
EMPTY_BUCKET = Statement("DELETE FROM cqs_messages USING TIMESTAMP ? WHERE queue = ? AND bucket = ?")

INSERT = Statement(
    "INSERT INTO cqs_messages (queue, bucket, seq, id, body, born_at, visible_at, tenant, deliveries, first_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_COLUMNS = "seq, id, body, born_at, visible_at, tenant, deliveries, first_at, taken"
READ = Statement(f"SELECT {_COLUMNS} FROM cqs_messages WHERE queue = ? AND bucket = ? AND seq IN ?")
PAGE = Statement(f"SELECT {_COLUMNS} FROM cqs_messages WHERE queue = ? AND bucket = ? AND seq > ? LIMIT ?")
HEADERS = Statement(
    "SELECT seq, id, born_at, visible_at, deliveries, first_at, tenant FROM cqs_messages"
    f" WHERE queue = ? AND bucket = ? AND seq > ? LIMIT {PAGE_ROWS}"
)
"""A page of rows without their bodies, to fill a cache with."""
FIRST = Statement(
    "SELECT seq, id, born_at, visible_at, deliveries, first_at, tenant FROM cqs_messages"
    " WHERE queue = ? AND bucket = ? AND seq > ? LIMIT ?"
)
LAST_SEQ = Statement("SELECT seq FROM cqs_messages WHERE queue = ? AND bucket = ? ORDER BY seq DESC LIMIT 1")
COUNT_DELIVERY = Statement(
    "UPDATE cqs_messages USING TIMESTAMP ? SET deliveries = ?, first_at = ? WHERE queue = ? AND bucket = ? AND seq = ?"
)
SET_VISIBLE_AT = Statement(
    "UPDATE cqs_messages USING TIMESTAMP ? SET visible_at = ? WHERE queue = ? AND bucket = ? AND seq = ?"
)
SET_TAKEN = Statement("UPDATE cqs_messages USING TIMESTAMP ? SET taken = ? WHERE queue = ? AND bucket = ? AND seq = ?")
REPLACE_BODY = Statement(
    "UPDATE cqs_messages USING TIMESTAMP ? SET body = ? WHERE queue = ? AND bucket = ? AND seq = ?"
)
BODY_DATE = Statement("SELECT WRITETIME(body) FROM cqs_messages WHERE queue = ? AND bucket = ? AND seq = ?")
DELETE = Statement("DELETE FROM cqs_messages USING TIMESTAMP ? WHERE queue = ? AND bucket = ? AND seq = ?")

ADD_GARBAGE = Statement("INSERT INTO cqs_garbage (one, queue, below) VALUES (1, ?, ?)")
LIST_GARBAGE = Statement("SELECT queue, below, WRITETIME(below) FROM cqs_garbage WHERE one = 1 LIMIT ?")
REMOVE_GARBAGE = Statement("DELETE FROM cqs_garbage USING TIMESTAMP ? WHERE one = 1 AND queue = ?")
"""With the write timestamp of the entry that was read: an entry of a purge or drop since then is kept."""

READ_VIEW = Statement(f"SELECT epoch, server, node, seen, reached FROM cqs_cache WHERE cache = ? LIMIT {PAGE_ROWS}")
RENEW_VIEW = Statement("INSERT INTO cqs_cache (cache, node, seen, reached) VALUES (?, ?, ?, ?) USING TTL ?")
LEAVE_VIEW = Statement("DELETE FROM cqs_cache WHERE cache = ? AND node = ?")
CONFIRM_VIEW = Statement("UPDATE cqs_cache SET epoch = ? WHERE cache = ? IF epoch = ?", idempotent=False)
BEGIN_FIRST_EPOCH = Statement(
    "UPDATE cqs_cache SET epoch = ?, server = ? WHERE cache = ? IF epoch = null", idempotent=False
)
BEGIN_NEXT_EPOCH = Statement(
    "UPDATE cqs_cache SET epoch = ?, server = ? WHERE cache = ? IF epoch = ?", idempotent=False
)

HEARTBEAT = Statement("INSERT INTO cqs_living (one, node) VALUES (1, ?) USING TTL ?")
END_HEARTBEAT = Statement("DELETE FROM cqs_living WHERE one = 1 AND node = ?")
LIST_ALIVE = Statement("SELECT node FROM cqs_living WHERE one = 1")
LIST_CLAIMS = Statement(f"SELECT bucket, node FROM cqs_claims WHERE queue = ? AND bucket > ? LIMIT {PAGE_ROWS}")
"""If a generation has more claims than a page, some buckets look unclaimed: claiming these fails."""
CLAIM = Statement("INSERT INTO cqs_claims (queue, bucket, node) VALUES (?, ?, ?) IF NOT EXISTS", idempotent=False)
CLAIM_FROM = Statement("UPDATE cqs_claims SET node = ? WHERE queue = ? AND bucket = ? IF node = ?", idempotent=False)
UNCLAIM = Statement("DELETE FROM cqs_claims WHERE queue = ? AND bucket = ? IF node = ?", idempotent=False)
