"""Tables and statements of the queue store in Cassandra.

`queues` has the records, changed by conditional writes only. The other tables are indices: an entry is written before
its record and removed after it, and readers verify it against the record. The keys contain the queue's id (and
version), so that a late removal cannot hit another queue's entry.
"""

from __future__ import annotations

from cns_common.cassandra.region_scan import RegionScan
from cns_common.cassandra.session import Statement

DELETED_LIFE_S = 2 * 86_400
"""The time for which a deletion is remembered: far longer than `recreate_wait_s`."""
AFTER_ALL = "\x7f"
"""Sorts after every character of names and ids."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS queues(account text, region text, name text, id text, version int, target_arn text,"
    " record blob, PRIMARY KEY((account, region, name)))",
    "CREATE TABLE IF NOT EXISTS queues_of_account(account text, region text, name text, id text,"
    " PRIMARY KEY((account, region), name, id)) WITH gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS dead_letter_sources(target_arn text, name text, id text, version int,"
    " PRIMARY KEY(target_arn, name, id, version))",
    "CREATE TABLE IF NOT EXISTS queue_deletions(account text, region text, name text, id text, deleted_ms bigint,"
    f" PRIMARY KEY((account, region, name), id)) WITH default_time_to_live = {DELETED_LIFE_S}",
    "CREATE TABLE IF NOT EXISTS undropped_queues(shard int, id text, record blob, PRIMARY KEY(shard, id))"
    " WITH gc_grace_seconds = 14400",
)
"""Cassandra refuses a read that passes over 100,000 deleted rows: in a list that loses a row with each deleted queue
they are forgotten soon. A row that returns is checked against the record, or its queue is dropped once more."""


_THIS = "account = ? AND region = ? AND name = ?"

GET = Statement(f"SELECT record FROM queues WHERE {_THIS}")
INSERT = Statement(
    "INSERT INTO queues(account, region, name, id, version, target_arn, record) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " IF NOT EXISTS",
    idempotent=False,
)
REPLACE = Statement(
    f"UPDATE queues SET version = ?, target_arn = ?, record = ? WHERE {_THIS} IF id = ? AND version = ?",
    idempotent=False,
)
DELETE = Statement(f"DELETE FROM queues WHERE {_THIS} IF id = ?", idempotent=False)

LIST = Statement(
    "SELECT name, id FROM queues_of_account WHERE account = ? AND region = ? AND (name, id) > (?, ?) AND (name) < (?)"
    " LIMIT ?"
)
REGIONS = RegionScan("queues_of_account", "account", "region")
SOURCES = Statement("SELECT name, id, version FROM dead_letter_sources WHERE target_arn = ? AND name > ? LIMIT ?")
LIVE = Statement("SELECT name, id, target_arn FROM queues WHERE account = ? AND region = ? AND name IN ?")

ENTER_NAME = Statement("INSERT INTO queues_of_account(account, region, name, id) VALUES (?, ?, ?, ?)")
LEAVE_NAME = Statement(f"DELETE FROM queues_of_account WHERE {_THIS} AND id = ?")
ENTER_SOURCE = Statement("INSERT INTO dead_letter_sources(target_arn, name, id, version) VALUES (?, ?, ?, ?)")
LEAVE_SOURCE = Statement("DELETE FROM dead_letter_sources WHERE target_arn = ? AND name = ? AND id = ? AND version = ?")

MARK_DELETED = Statement("INSERT INTO queue_deletions(account, region, name, id, deleted_ms) VALUES (?, ?, ?, ?, ?)")
DELETED_AT = Statement(f"SELECT max(deleted_ms) FROM queue_deletions WHERE {_THIS}")
MARK_UNDROPPED = Statement("INSERT INTO undropped_queues(shard, id, record) VALUES (0, ?, ?)")
UNDROPPED = Statement("SELECT record FROM undropped_queues WHERE shard = 0 AND id > ? LIMIT ?")
FORGET_DROPPED = Statement("DELETE FROM undropped_queues WHERE shard = 0 AND id = ?")
