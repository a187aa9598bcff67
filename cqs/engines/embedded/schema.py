"""The tables of the embedded engine, and every statement that reads or writes them.

A row of `lines` is one generation of a queue. A purge starts a new generation and marks the old one as doomed;
maintenance removes its messages, a few rows per commit. A drop does the same without a new generation. So both take
constant time at any depth.

`slots` has the columns that change (small rows, sixty to a page), `bodies` the others. `due` is when a message may be
received. It equals `visible_at`, except in a FIFO group: only the first message has it, and it is NULL for the others.
So one index finds the next messages of standard and FIFO queues, at any depth and with any number of blocked groups.
"""

from __future__ import annotations

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS lines(line INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL,"
    " total INTEGER NOT NULL, fair INTEGER NOT NULL, retention_ms INTEGER NOT NULL, doomed INTEGER NOT NULL,"
    " audit TEXT NOT NULL DEFAULT '')",
    "CREATE UNIQUE INDEX IF NOT EXISTS lines_by_queue ON lines(queue) WHERE doomed = 0",
    "CREATE INDEX IF NOT EXISTS lines_doomed ON lines(line) WHERE doomed = 1",
    "CREATE TABLE IF NOT EXISTS dead_queues(queue TEXT PRIMARY KEY, dropped_ms INTEGER NOT NULL DEFAULT 0)"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS slots(seq INTEGER PRIMARY KEY, line INTEGER NOT NULL, due INTEGER,"
    " visible_at INTEGER NOT NULL, born_at INTEGER NOT NULL, deliveries INTEGER NOT NULL, lease INTEGER NOT NULL,"
    " first_at INTEGER NOT NULL, grp TEXT)",
    "CREATE INDEX IF NOT EXISTS slots_by_due ON slots(line, due)",
    "CREATE INDEX IF NOT EXISTS slots_by_group ON slots(line, grp, due) WHERE grp IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS slots_behind ON slots(line, visible_at) WHERE due IS NULL",
    "CREATE TABLE IF NOT EXISTS bodies(seq INTEGER PRIMARY KEY, id TEXT NOT NULL, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS dedup(line INTEGER NOT NULL, key TEXT NOT NULL, until INTEGER NOT NULL,"
    " id TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(line, key)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS dedup_until ON dedup(until)",
    "CREATE TABLE IF NOT EXISTS attempts(line INTEGER NOT NULL, attempt TEXT NOT NULL, until INTEGER NOT NULL,"
    " lease INTEGER NOT NULL, seqs TEXT NOT NULL, PRIMARY KEY(line, attempt)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS attempts_until ON attempts(until)",
    "CREATE INDEX IF NOT EXISTS attempts_by_lease ON attempts(lease)",
    "CREATE TABLE IF NOT EXISTS expired(at_ms INTEGER NOT NULL, audit TEXT NOT NULL, id TEXT NOT NULL,"
    " grp TEXT NOT NULL, PRIMARY KEY(at_ms, audit, id)) WITHOUT ROWID",
)
ADDED_COLUMNS = {
    "dead_queues": ("dropped_ms INTEGER NOT NULL DEFAULT 0",),
    "lines": ("audit TEXT NOT NULL DEFAULT ''",),
}
ADDED_INDICES = ("CREATE INDEX IF NOT EXISTS dead_queues_by_time ON dead_queues(dropped_ms)",)

# -- generations ------------------------------------------------------------------------------------------------------
FIND_GENERATION = "SELECT line, total, fair, retention_ms, audit FROM lines WHERE queue = ? AND doomed = 0"
IS_DROPPED = "SELECT 1 FROM dead_queues WHERE queue = ?"
NEW_GENERATION = "INSERT INTO lines(queue, total, fair, retention_ms, doomed) VALUES (?, 0, 0, ?, 0) RETURNING line"
STORE_COUNTERS = "UPDATE lines SET total = ?, fair = ?, retention_ms = ?, audit = ? WHERE line = ?"
RETIRE_GENERATION = "UPDATE lines SET doomed = 1 WHERE line = ?"
MARK_DROPPED = "INSERT OR IGNORE INTO dead_queues(queue, dropped_ms) VALUES (?, ?)"
_COUNT_HIDDEN = "SELECT visible_at, deliveries > 0, iif(:fair AND grp IS NOT NULL, grp, ''), count(*) FROM slots"
COUNT_HIDDEN = (
    f"{_COUNT_HIDDEN} WHERE line = :line AND due > :now GROUP BY 1, 2, 3"
    f" UNION ALL {_COUNT_HIDDEN} WHERE line = :line AND due IS NULL AND visible_at > :now GROUP BY 1, 2, 3"
)
COUNT_HIDDEN_UNTIL = (
    "SELECT deliveries > 0, count(*) FROM slots WHERE line = :line AND due > :now AND due < :end GROUP BY 1"
    " UNION ALL SELECT deliveries > 0, count(*) FROM slots"
    " WHERE line = :line AND due IS NULL AND visible_at > :now AND visible_at < :end GROUP BY 1"
)
NEXT_DUE = "SELECT due FROM slots WHERE line = ? AND due IS NOT NULL ORDER BY due LIMIT 1"
OLDEST = "SELECT born_at FROM slots WHERE line = ? AND due IS NOT NULL ORDER BY due, seq LIMIT 1"

# -- sending ----------------------------------------------------------------------------------------------------------
INSERT_SLOT = "INSERT INTO slots VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)"
INSERT_BODY = "INSERT INTO bodies VALUES (?, ?, ?)"
FIND_DUPLICATE = "SELECT id, seq FROM dedup WHERE line = ? AND key = ? AND until > ?"
REMEMBER_DEDUP = "INSERT OR REPLACE INTO dedup VALUES (?, ?, ?, ?, ?)"
GROUP_HAS_MESSAGES = "SELECT 1 FROM slots WHERE line = ? AND grp = ? LIMIT 1"

# -- receiving --------------------------------------------------------------------------------------------------------
_DELIVERY = "s.seq, s.visible_at, s.born_at, s.deliveries, s.first_at, coalesce(s.grp, ''), b.id, b.body"
DUE = (
    f"SELECT {_DELIVERY} FROM slots s JOIN bodies b USING (seq)"
    " WHERE s.line = ? AND s.due <= ? ORDER BY s.due, s.seq LIMIT ?"
)
DUE_OF_TENANT = (
    f"SELECT {_DELIVERY} FROM slots s JOIN bodies b USING (seq)"
    " WHERE s.line = ? AND s.grp = ? AND s.due <= ? ORDER BY s.due, s.seq LIMIT ?"
)
TENANTS_DUE = "SELECT seq, coalesce(grp, '') FROM slots WHERE line = ? AND due <= ? ORDER BY due, seq LIMIT ?"
NEXT_TENANT = "SELECT grp FROM slots WHERE line = ? AND grp > ? LIMIT 1"
HEADS_DUE = "SELECT seq FROM slots WHERE line = ? AND due <= ? ORDER BY due, seq LIMIT ?"
BEHIND_HEAD = (
    f"SELECT {_DELIVERY} FROM slots s JOIN bodies b USING (seq)"
    " WHERE s.line = ? AND s.grp = ? AND s.due IS NULL ORDER BY s.seq LIMIT ?"
)
DELIVERY = f"SELECT {_DELIVERY} FROM slots s JOIN bodies b USING (seq) WHERE s.seq = ?"
LEASED = f"SELECT {_DELIVERY} FROM slots s JOIN bodies b USING (seq) WHERE s.seq = ? AND s.lease = ?"
LEASE = "UPDATE slots SET due = ?, visible_at = ?, deliveries = ?, lease = ?, first_at = ? WHERE seq = ?"
LEASE_FIFO = (
    "UPDATE slots SET due = iif(due IS NULL, NULL, ?1), visible_at = ?1, deliveries = ?2, lease = ?3, first_at = ?4"
    " WHERE seq = ?5"
)
FIND_ATTEMPT = "SELECT lease, seqs, until FROM attempts WHERE line = ? AND attempt = ? AND until > ?"
KEEP_ATTEMPT = "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?)"

# -- settlements ------------------------------------------------------------------------------------------------------
DELETE_LEASED = (
    "DELETE FROM slots WHERE seq = ?1 AND line = ?2 AND lease <= ?3"
    " RETURNING seq, line, ?3, visible_at, deliveries, coalesce(grp, '')"
)
DELETE_SLOT = "DELETE FROM slots WHERE seq = ?"
DELETE_BODY = "DELETE FROM bodies WHERE seq = ?"
LEASE_STATE = "SELECT line, due, visible_at, deliveries, lease, coalesce(grp, '') FROM slots WHERE seq = ?"
PROMOTE = (
    "UPDATE slots SET due = visible_at WHERE seq ="
    " (SELECT seq FROM slots WHERE line = ? AND grp = ? AND due IS NULL ORDER BY seq LIMIT 1)"
)
SET_VISIBLE_AT = "UPDATE slots SET due = iif(due IS NULL, NULL, ?1), visible_at = ?1 WHERE seq = ?2"
REMOVE_ATTEMPT = "DELETE FROM attempts WHERE lease = ?"
RECENTLY_SENT = (
    "SELECT seq FROM slots WHERE line = :line AND due > :after AND deliveries = 0"
    " UNION ALL SELECT seq FROM slots WHERE line = :line AND due IS NULL AND visible_at > :after AND deliveries = 0"
)
REDELAY = (
    "UPDATE slots SET due = iif(due IS NULL, NULL, born_at + ?1), visible_at = born_at + ?1"
    " WHERE seq = ?2 AND line = ?3 AND deliveries = 0 AND visible_at != born_at + ?1 RETURNING visible_at"
)
REPLACE_BODY = "UPDATE bodies SET body = ? WHERE seq = ?"

# -- a move to another engine ------------------------------------------------------------------------------------------
ALL_SEQS = "SELECT seq FROM slots WHERE line = ?"
ORIGINALS = "SELECT until, key, id, seq FROM dedup WHERE line = ? AND until > ? ORDER BY until, seq"
RAISE_BOOT = "UPDATE meta SET boot = max(boot, ?)"

# -- peek and maintenance ---------------------------------------------------------------------------------------------
PEEK_DUE = (
    f"SELECT s.due, {_DELIVERY} FROM slots s JOIN bodies b USING (seq)"
    " WHERE s.line = ? AND (s.due, s.seq) > (?, ?) ORDER BY s.due, s.seq LIMIT ?"
)
PEEK_BEHIND = (
    f"SELECT s.due, {_DELIVERY} FROM slots s JOIN bodies b USING (seq)"
    " WHERE s.line = ? AND s.due IS NULL AND s.seq > ? ORDER BY s.seq LIMIT ?"
)
MESSAGE_ID = "SELECT id FROM bodies WHERE seq = ?"
ADD_EXPIRED = "INSERT OR IGNORE INTO expired VALUES (?, ?, ?, ?)"
LIST_EXPIRED = "SELECT at_ms, audit, id, grp FROM expired ORDER BY at_ms LIMIT ?"
FORGET_EXPIRED = "DELETE FROM expired WHERE at_ms = ? AND audit = ? AND id = ?"
RETIRED_GENERATION = "SELECT line FROM lines WHERE doomed = 1 LIMIT 1"
SOME_MESSAGES = "SELECT seq FROM slots WHERE line = ? LIMIT ?"
REMOVE_GENERATION = "DELETE FROM lines WHERE line = ?"
NEXT_GENERATION = (
    "SELECT line, queue, retention_ms, audit FROM lines WHERE line > ? AND doomed = 0 ORDER BY line LIMIT 1"
)
FIRST_DUE = "SELECT seq, coalesce(grp, ''), born_at FROM slots WHERE line = ? AND due <= ? ORDER BY due, seq LIMIT ?"
FORGET_DROPPED = (
    "DELETE FROM dead_queues WHERE queue IN"
    " (SELECT queue FROM dead_queues WHERE dropped_ms <= ? ORDER BY dropped_ms LIMIT ?) RETURNING queue"
)
REMOVE_OLD_DEDUP = "DELETE FROM dedup WHERE (line, key) IN (SELECT line, key FROM dedup WHERE until <= ? LIMIT ?)"
REMOVE_OLD_ATTEMPTS = (
    "DELETE FROM attempts WHERE (line, attempt) IN (SELECT line, attempt FROM attempts WHERE until <= ? LIMIT ?)"
)
