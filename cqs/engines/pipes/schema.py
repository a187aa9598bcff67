"""The engine's tables, statements and limits in Cassandra.

A *pipe* takes the messages of one pusher, at most `PipeSize`. It is one partition key over four tables: payloads
(`pipes_messages`), the row of messages that wait (`pipes_waiting`), the row of messages that were delivered or delayed
(`pipes_pending`), and how many were pushed. A batch over one pipe is therefore one write. A message is identified by
its pipe and its place in it, which are never used again.

The order of writes to a message depends on no clock. The write timestamp of a push is 1, that of a pop follows from the
fence of the popper's lease, both below any clock's; a delivery after the first and a new visibility are conditional,
with Cassandra's timestamps; that of a delete is a day ahead and supersedes all of them.

The state of a pipe is PA (push active), PF (push finished), E (finished and empty). It goes forward only, by
conditional writes to `pipes_descriptors`; `pipes_directory` repeats it as a hint, whose write timestamp is the number
of the state. `pusher` and `owner` are leases: columns that expire by Cassandra's clock.

A removed pipe may return to the directory on a node that missed its removal for longer than the grace: it is empty, and
is removed again.
"""

from __future__ import annotations

from cns_common.cassandra.session import Statement
from cns_common.durations import HOUR_MS

ACTIVE, FINISHED, EMPTY = "PA", "PF", "E"
WHOLE = "whole"
"""Stands for a pipe in the descriptor whose lease covers all pipes of the queue."""

PIPE_BYTES_MAX = 32 * 1024 * 1024
PIPE_PUSH_MS_MAX = 600_000
"""The pusher finishes a pipe at the first of these limits and `PipeSize`."""
PUSHER_LEASE_S = 600
PUSHER_LEASE_CERTAIN_MS = 300_000
"""The pusher acknowledges no send under an older lease. The rest allows for different clocks of Cassandra's nodes."""
PUSHER_LEASE_RENEW_MS = 150_000
OWNER_LEASE_S = 12
OWNER_LEASE_CERTAIN_MS = 6_000
OWNER_LEASE_RENEW_MS = 3_000
UNDONE_MS = 2 * OWNER_LEASE_S * 1_000
"""The delay of a message whose first pop was undone. An owner that read it as waiting before may still pop it, at the
latest when the lease ends that it had when it read."""
TTL_S = 31 * 86_400
"""Longer than any retention (30 days for internal queues): reads decide what has expired."""
PAGE_ROWS = 1_000
HOURS_TTL_S = 14 * 86_400
HOURS_MAX = HOURS_TTL_S * 1_000 // HOUR_MS + 2
"""The most rows of one queue: those that live, that of the current hour, and the one before the first."""
SETTLED = -1
"""The lease of a message whose delete has begun."""
PUSH_US = 1
DELETE_AHEAD_US = 86_400_000_000
STATE_US = {ACTIVE: 1, FINISHED: 2, EMPTY: 3}
REMOVE_US = 4

_KEY = "queue text, pipe text"
_OPTIONS = f"default_time_to_live = {TTL_S} AND gc_grace_seconds = 14400"
TABLES = (
    f"CREATE TABLE IF NOT EXISTS pipes_directory ({_KEY}, state text, PRIMARY KEY (queue, pipe))"
    f" WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 600",
    f"CREATE TABLE IF NOT EXISTS pipes_descriptors ({_KEY}, state text, pusher text, owner text, fence bigint,"
    f" PRIMARY KEY ((queue, pipe))) WITH {_OPTIONS}",
    f"CREATE TABLE IF NOT EXISTS pipes_messages ({_KEY}, place int, id text, body blob, tenant text, sequence bigint,"
    " born_at bigint,"
    f" PRIMARY KEY ((queue, pipe), place)) WITH {_OPTIONS}",
    f"CREATE TABLE IF NOT EXISTS pipes_waiting ({_KEY}, place int, due bigint, born_at bigint, deliveries int,"
    f" first_at bigint, PRIMARY KEY ((queue, pipe), place)) WITH {_OPTIONS}",
    f"CREATE TABLE IF NOT EXISTS pipes_pending ({_KEY}, place int, lease bigint, due bigint, born_at bigint,"
    f" deliveries int, first_at bigint, body blob, PRIMARY KEY ((queue, pipe), place)) WITH {_OPTIONS}",
    f"CREATE TABLE IF NOT EXISTS pipes_pushed ({_KEY}, pushed int, PRIMARY KEY ((queue, pipe))) WITH {_OPTIONS}",
    "CREATE TABLE IF NOT EXISTS pipes_totals (queue text, generation int, pushed bigint, last text, version int,"
    " PRIMARY KEY ((queue, generation)))"
    f" WITH {_OPTIONS}",
    "CREATE TABLE IF NOT EXISTS pipes_statistics (queue text, generation int, at_ms bigint, pushed bigint,"
    " popped bigint, pushed_per_s double, popped_per_s double, PRIMARY KEY ((queue, generation)))"
    f" WITH {_OPTIONS}",
    "CREATE TABLE IF NOT EXISTS pipes_hours (queue text, generation int, hour bigint, pushed bigint, popped bigint,"
    " PRIMARY KEY ((queue, generation), hour)) WITH CLUSTERING ORDER BY (hour DESC)"
    f" AND default_time_to_live = {HOURS_TTL_S} AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS pipes_expired (one int, at_ms bigint, audit text, id text, tenant text,"
    f" PRIMARY KEY (one, at_ms, audit, id)) WITH default_time_to_live = {TTL_S} AND gc_grace_seconds = 0",
)

# -- pipes ------------------------------------------------------------------------------------------------------------

LIST = Statement("SELECT pipe, state FROM pipes_directory WHERE queue = ? AND pipe > ? LIMIT ?")
OPEN = Statement(f"INSERT INTO pipes_directory (queue, pipe, state) VALUES (?, ?, '{ACTIVE}') USING TIMESTAMP 1")
DESCRIBE_NEW = Statement(
    f"INSERT INTO pipes_descriptors (queue, pipe, state, fence) VALUES (?, ?, '{ACTIVE}', 0) USING TIMESTAMP 1"
)
LEASE_NEW = Statement(
    f"UPDATE pipes_descriptors USING TIMESTAMP 1 AND TTL {PUSHER_LEASE_S} SET pusher = ? WHERE queue = ? AND pipe = ?"
)
LEASE_PUSH = Statement(
    f"UPDATE pipes_descriptors USING TTL {PUSHER_LEASE_S} SET pusher = ? WHERE queue = ? AND pipe = ?"
    f" IF state = '{ACTIVE}'"
)
"""Conditional, and idempotent all the same: a repeated one finds the same state, or the end."""
FINISH_OWN = Statement(
    f"UPDATE pipes_descriptors SET state = '{FINISHED}' WHERE queue = ? AND pipe = ? IF state = '{ACTIVE}'"
)
FINISH_LEFT = Statement(
    f"UPDATE pipes_descriptors SET state = '{FINISHED}' WHERE queue = ? AND pipe = ?"
    f" IF state = '{ACTIVE}' AND pusher = null",
    idempotent=False,
)
FINISH_UNKNOWN = Statement(
    f"UPDATE pipes_descriptors SET state = '{FINISHED}' WHERE queue = ? AND pipe = ? IF state = null AND pusher = null",
    idempotent=False,
)
"""For a pipe that only the directory has: its process died while it opened the pipe."""
MARK_EMPTY = Statement(
    f"UPDATE pipes_descriptors SET state = '{EMPTY}' WHERE queue = ? AND pipe = ? IF state = '{FINISHED}'"
)
HINT = Statement("UPDATE pipes_directory USING TIMESTAMP ? SET state = ? WHERE queue = ? AND pipe = ?")
DESCRIBE = Statement("SELECT state, pusher, owner, fence FROM pipes_descriptors WHERE queue = ? AND pipe = ?")
ADD_WHOLE = Statement(
    f"INSERT INTO pipes_descriptors (queue, pipe, fence) VALUES (?, '{WHOLE}', 0) IF NOT EXISTS", idempotent=False
)
OWN = Statement(
    f"UPDATE pipes_descriptors USING TTL {OWNER_LEASE_S} SET owner = ? WHERE queue = ? AND pipe = ?"
    " IF owner = null AND fence = ?",
    idempotent=False,
)
FENCE = Statement("UPDATE pipes_descriptors SET fence = ? WHERE queue = ? AND pipe = ? IF fence = ?", idempotent=False)
"""Runs beside `OWN`: unlike the owner, the fence has no time to live."""
RENEW_OWN = Statement(
    f"UPDATE pipes_descriptors USING TTL {OWNER_LEASE_S} SET owner = ? WHERE queue = ? AND pipe = ?"
    " IF owner = ? AND fence = ?"
)
RELEASE = Statement("UPDATE pipes_descriptors SET owner = null WHERE queue = ? AND pipe = ? IF owner = ? AND fence = ?")
REMOVE = Statement(f"DELETE FROM pipes_directory USING TIMESTAMP {REMOVE_US} WHERE queue = ? AND pipe = ?")
REMOVE_DESCRIPTOR = Statement("DELETE FROM pipes_descriptors WHERE queue = ? AND pipe = ? IF EXISTS")
CLEAR = tuple(
    Statement(f"DELETE FROM {table} USING TIMESTAMP ? WHERE queue = ? AND pipe = ?")
    for table in ("pipes_messages", "pipes_waiting", "pipes_pending", "pipes_pushed")
)

# -- messages ---------------------------------------------------------------------------------------------------------

PUSH_MESSAGE = Statement(
    "INSERT INTO pipes_messages (queue, pipe, place, id, body, tenant, sequence, born_at)"
    f" VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP {PUSH_US}"
)
PUSH_WAITING = Statement(
    "INSERT INTO pipes_waiting (queue, pipe, place, due, born_at, deliveries, first_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
    f" USING TIMESTAMP {PUSH_US}"
)
PUSH_DELAYED = Statement(
    "INSERT INTO pipes_pending (queue, pipe, place, lease, due, born_at, deliveries, first_at)"
    f" VALUES (?, ?, ?, 0, ?, ?, ?, ?) USING TIMESTAMP {PUSH_US}"
)
PUSHED = Statement("UPDATE pipes_pushed USING TIMESTAMP ? SET pushed = ? WHERE queue = ? AND pipe = ?")

LIST_WAITING = Statement(
    "SELECT place, due, born_at, deliveries, first_at FROM pipes_waiting"
    f" WHERE queue = ? AND pipe = ? AND place >= ? LIMIT {PAGE_ROWS}"
)
COUNT_WAITING = Statement("SELECT COUNT(*), MIN(born_at) FROM pipes_waiting WHERE queue = ? AND pipe = ?")
FIND_WAITING = Statement("SELECT place FROM pipes_waiting WHERE queue = ? AND pipe = ? LIMIT 1")
_PENDING = "place, lease, due, born_at, deliveries, first_at"
LIST_PENDING = Statement(
    f"SELECT {_PENDING} FROM pipes_pending WHERE queue = ? AND pipe = ? AND place >= ? LIMIT {PAGE_ROWS}"
)
READ_PENDING = Statement(f"SELECT {_PENDING} FROM pipes_pending WHERE queue = ? AND pipe = ? AND place IN ?")
READ_NEW_BODIES = Statement("SELECT place, body FROM pipes_pending WHERE queue = ? AND pipe = ? AND place IN ?")
READ_MESSAGES = Statement(
    "SELECT place, id, body, tenant, sequence FROM pipes_messages WHERE queue = ? AND pipe = ? AND place IN ?"
)
LIST_MESSAGES = Statement(
    f"SELECT place, born_at FROM pipes_messages WHERE queue = ? AND pipe = ? AND place >= ? LIMIT {PAGE_ROWS}"
)
FIND_PIPE = Statement("SELECT pipe FROM pipes_directory WHERE queue = ? AND pipe = ?")
READ_PUSHED = Statement("SELECT pushed FROM pipes_pushed WHERE queue = ? AND pipe = ?")

POP_PENDING = Statement(
    f"INSERT INTO pipes_pending (queue, pipe, {_PENDING}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
POP_WAITING = Statement("DELETE FROM pipes_waiting USING TIMESTAMP ? WHERE queue = ? AND pipe = ? AND place = ?")
POP_AGAIN = Statement(
    "UPDATE pipes_pending SET lease = ?, due = ?, deliveries = ?, first_at = ?"
    " WHERE queue = ? AND pipe = ? AND place = ? IF lease = ? AND due = ?",
    idempotent=False,
)
_SETTLE = "WHERE queue = ? AND pipe = ? AND place = ?"
HIDE = Statement(f"UPDATE pipes_pending SET due = ? {_SETTLE} IF lease = ?")
HIDE_ANY = Statement(f"UPDATE pipes_pending SET due = ? {_SETTLE} IF lease > 0")
REPLACE_BODY = Statement(f"UPDATE pipes_pending SET body = ? {_SETTLE} IF lease = ?")
HIDE_AND_REPLACE_BODY = Statement(f"UPDATE pipes_pending SET due = ?, body = ? {_SETTLE} IF lease = ?")
UNDO_POP_AGAIN = Statement(
    f"UPDATE pipes_pending SET lease = ?, due = ?, deliveries = ?, first_at = ? {_SETTLE} IF lease = ? AND due = ?"
)
"""These five are idempotent: a repeated one finds the same lease, or another one."""
SETTLE = Statement(f"UPDATE pipes_pending SET lease = {SETTLED} {_SETTLE} IF lease = ?", idempotent=False)
"""Ends the message; `DELETE` of its rows follows. No second delete is DONE."""
INDEX_AGAIN = Statement(
    "INSERT INTO pipes_pending (queue, pipe, place, lease, due, born_at, deliveries, first_at)"
    " VALUES (?, ?, ?, 0, ?, ?, 0, 0) IF NOT EXISTS",
    idempotent=False,
)
DELETE = tuple(
    Statement(f"DELETE FROM {table} USING TIMESTAMP ? {_SETTLE}")
    for table in ("pipes_messages", "pipes_waiting", "pipes_pending")
)

# -- statistics -------------------------------------------------------------------------------------------------------

READ_TOTALS = Statement("SELECT pushed, last, version FROM pipes_totals WHERE queue = ? AND generation = ?")
FIRST_TOTALS = Statement(
    "INSERT INTO pipes_totals (queue, generation, pushed, last, version) VALUES (?, ?, ?, ?, 1) IF NOT EXISTS",
    idempotent=False,
)
ADD_TO_TOTALS = Statement(
    "UPDATE pipes_totals SET pushed = ?, last = ?, version = ? WHERE queue = ? AND generation = ? IF version = ?",
    idempotent=False,
)
READ_STATISTICS = Statement(
    "SELECT at_ms, pushed, popped, pushed_per_s, popped_per_s FROM pipes_statistics WHERE queue = ? AND generation = ?"
)
WRITE_STATISTICS = Statement(
    "INSERT INTO pipes_statistics (queue, generation, at_ms, pushed, popped, pushed_per_s, popped_per_s)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
WRITE_HOUR = Statement("INSERT INTO pipes_hours (queue, generation, hour, pushed, popped) VALUES (?, ?, ?, ?, ?)")
"""The sums at the end of an hour, or as far as they are known in it. They are replaced and never added to."""
READ_HOURS = Statement(
    f"SELECT hour, pushed, popped FROM pipes_hours WHERE queue = ? AND generation = ? LIMIT {HOURS_MAX}"
)
