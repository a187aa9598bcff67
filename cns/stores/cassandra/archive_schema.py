"""Tables and statements of archives and replays in Cassandra."""

from __future__ import annotations

from cns_common.cassandra.session import Statement

TABLES = (
    "CREATE TABLE IF NOT EXISTS archived(archive text, bucket bigint, part int, key text, at_ms bigint,"
    " expires_ms bigint, record blob, PRIMARY KEY((archive, bucket, part), key))",
    "CREATE TABLE IF NOT EXISTS archive_days(archive text, day int, PRIMARY KEY(archive, day))",
    "CREATE TABLE IF NOT EXISTS archive_buckets(archive text, day int, bucket bigint, part int,"
    " PRIMARY KEY((archive, day), bucket, part))",
    "CREATE TABLE IF NOT EXISTS dropped_archives(shard int, archive text, PRIMARY KEY(shard, archive))",
    "CREATE TABLE IF NOT EXISTS replays(topic text, subscription text, id text, version int, record blob,"
    " PRIMARY KEY(topic, subscription))",
    "CREATE TABLE IF NOT EXISTS active_replays(shard int, topic text, subscription text, id text,"
    " PRIMARY KEY(shard, topic, subscription, id))",
)

# -- archives ---------------------------------------------------------------------------------------------------------

ENTER_DAY = Statement("INSERT INTO archive_days(archive, day) VALUES (?, ?) USING TTL ?")
DAYS = Statement("SELECT day FROM archive_days WHERE archive = ? AND day >= ? AND day <= ? LIMIT ?")
LEAVE_DAYS = Statement("DELETE FROM archive_days WHERE archive = ?")
ENTER_BUCKET = Statement("INSERT INTO archive_buckets(archive, day, bucket, part) VALUES (?, ?, ?, ?) USING TTL ?")
BUCKETS = Statement(
    "SELECT bucket, part FROM archive_buckets WHERE archive = ? AND day = ? AND bucket >= ? AND bucket <= ? LIMIT ?"
)
MORE_BUCKETS = Statement(
    "SELECT bucket, part FROM archive_buckets WHERE archive = ? AND day = ? AND (bucket, part) > (?, ?)"
    " AND (bucket) <= (?) LIMIT ?"
)
LEAVE_BUCKET = Statement("DELETE FROM archive_buckets WHERE archive = ? AND day = ? AND bucket = ? AND part = ?")
APPEND = Statement(
    "INSERT INTO archived(archive, bucket, part, key, at_ms, expires_ms, record) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " USING TTL ?"
)
MESSAGES = Statement(
    "SELECT key, at_ms, expires_ms, record FROM archived WHERE archive = ? AND bucket = ? AND part = ? AND key > ?"
    " LIMIT ?"
)
REMOVE_PART = Statement("DELETE FROM archived WHERE archive = ? AND bucket = ? AND part = ?")

MARK_DROPPED = Statement("INSERT INTO dropped_archives(shard, archive) VALUES (0, ?)")
DROPPED = Statement("SELECT archive FROM dropped_archives WHERE shard = 0 LIMIT ?")
FORGET_DROPPED = Statement("DELETE FROM dropped_archives WHERE shard = 0 AND archive = ?")

# -- replays ----------------------------------------------------------------------------------------------------------

GET_REPLAY = Statement("SELECT record FROM replays WHERE topic = ? AND subscription = ?")
OF_TOPIC = Statement("SELECT record FROM replays WHERE topic = ? LIMIT 1000")
FIRST_REPLAY = Statement(
    "INSERT INTO replays(topic, subscription, id, version, record) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS",
    idempotent=False,
)
NEXT_REPLAY = Statement(
    "UPDATE replays SET id = ?, version = ?, record = ? WHERE topic = ? AND subscription = ? IF id = ? AND version = ?",
    idempotent=False,
)
REMOVE_REPLAY = Statement("DELETE FROM replays WHERE topic = ? AND subscription = ? IF EXISTS", idempotent=False)

ENTER_ACTIVE = Statement("INSERT INTO active_replays(shard, topic, subscription, id) VALUES (0, ?, ?, ?)")
LEAVE_ACTIVE = Statement("DELETE FROM active_replays WHERE shard = 0 AND topic = ? AND subscription = ? AND id = ?")
ACTIVE = Statement("SELECT topic, subscription, id FROM active_replays WHERE shard = 0 LIMIT 1000")
