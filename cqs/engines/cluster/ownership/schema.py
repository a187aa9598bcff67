"""The tables of live processes and of the queues that they use. Leases are times to live: Cassandra's clock ends
them."""

from __future__ import annotations

from cns_common.cassandra.session import Statement

LEFT_TTL_S = 86_400
"""How long it is remembered that a process left nothing undone."""
USE_TTL_S = 31 * 86_400
"""How long it is remembered that a process used a queue: longer than messages live, so that after a shutdown of all
processes the next ones find these queues."""
NAME_TTL_S = USE_TTL_S + 2 * 86_400
"""A name is renewed once a day, so it is not given again for as long as messages of its last process live."""
PAGE_ROWS = 2_000

TABLES = (
    "CREATE TABLE IF NOT EXISTS cqs_processes (one int, node text, departed boolean, PRIMARY KEY (one, node))"
    " WITH gc_grace_seconds = 3600",
    "CREATE TABLE IF NOT EXISTS cqs_queue_users (slice int, queue text, node text, fifo boolean, retention_ms bigint,"
    " audit text, version int, PRIMARY KEY (slice, queue, node)) WITH gc_grace_seconds = 3600",
)

NAME = Statement(
    f"INSERT INTO cqs_processes (one, node, departed) VALUES (2, ?, false) IF NOT EXISTS USING TTL {NAME_TTL_S}",
    idempotent=False,
)
"""In a partition of its own: names that were given to processes."""
RENEW_NAME = Statement(f"INSERT INTO cqs_processes (one, node, departed) VALUES (2, ?, false) USING TTL {NAME_TTL_S}")
RENEW = Statement("INSERT INTO cqs_processes (one, node, departed) VALUES (1, ?, false) USING TTL ?")
LIST_PROCESSES = Statement("SELECT node, departed FROM cqs_processes WHERE one = 1 LIMIT 4000")
LEAVE = Statement(f"INSERT INTO cqs_processes (one, node, departed) VALUES (1, ?, true) USING TTL {LEFT_TTL_S}")
FORGET = Statement("DELETE FROM cqs_processes WHERE one = 1 AND node = ?")

USE = Statement(
    "INSERT INTO cqs_queue_users (slice, queue, node, fifo, retention_ms, audit, version)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?"
)
LIST_USERS = Statement(
    "SELECT queue, node, fifo, retention_ms, audit, version FROM cqs_queue_users"
    f" WHERE slice = ? AND (queue, node) > (?, ?) LIMIT {PAGE_ROWS}"
)
REMOVE_USER = Statement("DELETE FROM cqs_queue_users WHERE slice = ? AND queue = ? AND node = ?")
