"""Tables, indices and statements of the embedded archives and replays."""

from __future__ import annotations

TABLES = (
    "CREATE TABLE IF NOT EXISTS archived(archive TEXT NOT NULL, key TEXT NOT NULL, at_ms INTEGER NOT NULL,"
    " expires_ms INTEGER NOT NULL, record BLOB NOT NULL)",
    "CREATE UNIQUE INDEX IF NOT EXISTS archived_in_order ON archived(archive, key)",
    "CREATE INDEX IF NOT EXISTS archived_by_time ON archived(archive, at_ms, key)",
    "CREATE INDEX IF NOT EXISTS archived_expiring ON archived(expires_ms)",
    "CREATE TABLE IF NOT EXISTS dropped_archives(archive TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS replays(subscription TEXT PRIMARY KEY, topic TEXT NOT NULL, active INTEGER NOT NULL,"
    " id TEXT NOT NULL, version INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS replays_of_topic ON replays(topic)",
    "CREATE INDEX IF NOT EXISTS replays_active ON replays(active) WHERE active = 1",
)

AFTER_ALL = "\x7f"
"""Sorts after every key."""

# -- archives ---------------------------------------------------------------------------------------------------------

APPEND = "INSERT INTO archived VALUES (?, ?, ?, ?, ?) ON CONFLICT(archive, key) DO NOTHING"
LAST_BEFORE = "SELECT key FROM archived WHERE archive = ? AND at_ms < ? ORDER BY at_ms DESC, key DESC LIMIT 1"
FIRST_FROM = "SELECT key FROM archived WHERE archive = ? AND at_ms >= ? ORDER BY at_ms, key LIMIT 1"
PAGE = (
    "SELECT key, at_ms, expires_ms, record FROM archived INDEXED BY archived_in_order"
    " WHERE archive = ? AND key > ? AND key < ? AND at_ms >= ? AND at_ms < ? ORDER BY key LIMIT ?"
)
# for jobs that read a whole archive in the order of time, page by page
FIRST_TIME_FROM = "SELECT at_ms FROM archived WHERE archive = ? AND at_ms >= ? AND at_ms < ? ORDER BY at_ms LIMIT 1"
TIME_PAGE = (
    "SELECT key, at_ms, expires_ms, record FROM archived INDEXED BY archived_by_time"
    " WHERE archive = ? AND (at_ms, key) > (?, ?) AND at_ms < ? ORDER BY at_ms, key LIMIT ?"
)

DROP = "INSERT OR IGNORE INTO dropped_archives VALUES (?)"
FIND_DROPPED = "SELECT archive FROM dropped_archives LIMIT 1"
FORGET_DROPPED = "DELETE FROM dropped_archives WHERE archive = ?"
SWEEPABLE = "SELECT 1 FROM archived WHERE expires_ms <= ? UNION ALL SELECT 1 FROM dropped_archives LIMIT 1"
REMOVE_EXPIRED = "DELETE FROM archived WHERE rowid IN (SELECT rowid FROM archived WHERE expires_ms <= ? LIMIT ?)"
REMOVE_OF_DROPPED = (
    "DELETE FROM archived WHERE rowid IN (SELECT rowid FROM archived WHERE archive = ? ORDER BY key LIMIT ?)"
)

# -- replays ----------------------------------------------------------------------------------------------------------

PUT_REPLAY = "INSERT OR REPLACE INTO replays VALUES (?, ?, ?, ?, ?, ?)"
GET_REPLAY = "SELECT record FROM replays WHERE subscription = ?"
REPLACE_REPLAY = (
    "UPDATE replays SET active = ?, version = ?, record = ? WHERE subscription = ? AND id = ? AND version = ?"
)
REMOVE_REPLAY = "DELETE FROM replays WHERE subscription = ?"
REPLAYS_OF_TOPIC = "SELECT record FROM replays WHERE topic = ?"
ACTIVE_REPLAYS = "SELECT record FROM replays WHERE active = 1"
