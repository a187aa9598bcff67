"""Tables and statements of CNS's stores in Cassandra.

`topics` and `subscriptions` are the truth, changed by conditional writes; `subscription_endpoints` assigns endpoints to
subscriptions. The other tables are indices. Their writes have the version of their record as timestamp: the entry of
the newest version stays, in whatever order writes arrive and whichever machine's clock is ahead.
"""

from __future__ import annotations

from cns.limits import PENDING_MS
from cns_common.cassandra.region_scan import RegionScan
from cns_common.cassandra.session import Statement

GONE = 2**40
"""A timestamp above every version: ids are used once, so a row that is deleted with it stays deleted."""
LINGER_S = 300
"""The time for which a subscription that gets a filter stays among those without: longer than a publish takes from the
read of the topic to the read of its subscriptions."""
TOKEN_LIFE_S = PENDING_MS // 1000 + 86_400
"""Tokens expire by the time in their record; a day later they are deleted."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS topics(arn text PRIMARY KEY, id text, version int, level int, record blob,"
    " filter_log int, filter_changes map<int, blob>)",
    "CREATE TABLE IF NOT EXISTS topics_of_account(account text, region text, arn text, id text,"
    " PRIMARY KEY((account, region), arn, id))",
    "CREATE TABLE IF NOT EXISTS dropped_topics(shard int, id text, arn text, level int, PRIMARY KEY(shard, id))",
    # for quotas and GetTopicAttributes: delivery does not depend on counts
    "CREATE TABLE IF NOT EXISTS topic_counts(topic text PRIMARY KEY, pending counter, confirmed counter,"
    " removed counter, filter_policies counter)",
    "CREATE TABLE IF NOT EXISTS sns_accounts(account text PRIMARY KEY, topics counter, pending counter,"
    " fifo_topics counter, filter_policies counter)",
    "CREATE TABLE IF NOT EXISTS subscriptions(id text PRIMARY KEY, version int, level int, record blob)",
    "CREATE TABLE IF NOT EXISTS subscription_endpoints(topic text, endpoint blob, id text,"
    " PRIMARY KEY((topic, endpoint)))",
    # `state` is an IndexState
    "CREATE TABLE IF NOT EXISTS topic_subscriptions(topic text, bucket text, state int, id text,"
    " PRIMARY KEY((topic, bucket), state, id))",
    "CREATE TABLE IF NOT EXISTS owner_subscriptions(owner text, region text, bucket text, id text,"
    " PRIMARY KEY((owner, region, bucket), id))",
    "CREATE TABLE IF NOT EXISTS expiry_days(shard int, day int, PRIMARY KEY(shard, day))",
    "CREATE TABLE IF NOT EXISTS expiring_subscriptions(day int, expires_ms bigint, id text,"
    " PRIMARY KEY(day, expires_ms, id))",
    "CREATE TABLE IF NOT EXISTS subscription_tokens(secret text PRIMARY KEY, subscription text, expires_ms bigint)"
    f" WITH default_time_to_live = {TOKEN_LIFE_S}",
    "CREATE TABLE IF NOT EXISTS notifications(id text PRIMARY KEY, record blob)",
    "CREATE TABLE IF NOT EXISTS notification_references(notification text, writer text, change int,"
    " PRIMARY KEY(notification, writer))",
    "CREATE TABLE IF NOT EXISTS signing_keys(shard int, number int, sealed blob, certificate blob, created_ms bigint,"
    " PRIMARY KEY(shard, number)) WITH CLUSTERING ORDER BY (number DESC)",
)

# -- topics -----------------------------------------------------------------------------------------------------------

GET_TOPIC = Statement("SELECT record FROM topics WHERE arn = ?")
ALL_TOPICS = Statement("SELECT token(arn), record FROM topics WHERE token(arn) > ? LIMIT ?")
LEVEL_OF_TOPIC = Statement("SELECT id, level FROM topics WHERE arn = ?")
INSERT_TOPIC = Statement(
    "INSERT INTO topics(arn, id, version, level, record) VALUES (?, ?, ?, 0, ?) IF NOT EXISTS", idempotent=False
)
REPLACE_TOPIC = Statement(
    "UPDATE topics SET version = ?, record = ? WHERE arn = ? IF id = ? AND version = ?", idempotent=False
)
RAISE_LEVEL = Statement("UPDATE topics SET level = ? WHERE arn = ? IF id = ? AND level = ?", idempotent=False)
DELETE_TOPIC = Statement("DELETE FROM topics WHERE arn = ? IF id = ? AND level = ?", idempotent=False)
AUDIENCE_OF_TOPIC = Statement("SELECT id, level, filter_log FROM topics WHERE arn = ?")
FILTER_LOG = Statement("SELECT id, filter_log, filter_changes FROM topics WHERE arn = ?")
LOG_FILTER_CHANGES = Statement(
    "UPDATE topics SET filter_log = ?, filter_changes[?] = ? WHERE arn = ? IF id = ? AND filter_log = ?",
    idempotent=False,
)
LIVE_TOPICS = Statement("SELECT arn, id FROM topics WHERE arn IN ?")

ENTER_TOPIC = Statement("INSERT INTO topics_of_account(account, region, arn, id) VALUES (?, ?, ?, ?)")
LEAVE_TOPIC = Statement("DELETE FROM topics_of_account WHERE account = ? AND region = ? AND arn = ? AND id = ?")
TOPIC_REGIONS = RegionScan("topics_of_account", "account", "region")
LIST_TOPICS = Statement("SELECT arn, id FROM topics_of_account WHERE account = ? AND region = ? AND arn > ? LIMIT ?")

MARK_DROPPED = Statement("INSERT INTO dropped_topics(shard, id, arn, level) VALUES (0, ?, ?, ?)")
DROPPED = Statement("SELECT id, arn, level FROM dropped_topics WHERE shard = 0 LIMIT ?")
FORGET_DROPPED = Statement("DELETE FROM dropped_topics WHERE shard = 0 AND id = ?")

COUNT = Statement(
    "UPDATE topic_counts SET pending = pending + ?, confirmed = confirmed + ?, removed = removed + ?,"
    " filter_policies = filter_policies + ? WHERE topic = ?",
    idempotent=False,
)
COUNTS = Statement("SELECT pending, confirmed, removed, filter_policies FROM topic_counts WHERE topic = ?")
END_COUNTS = Statement("DELETE FROM topic_counts WHERE topic = ?")
COUNT_ACCOUNT = Statement(
    "UPDATE sns_accounts SET topics = topics + ?, fifo_topics = fifo_topics + ?, pending = pending + ?,"
    " filter_policies = filter_policies + ? WHERE account = ?",
    idempotent=False,
)
COUNTS_OF_ACCOUNT = Statement(
    "SELECT topics, fifo_topics, pending, filter_policies FROM sns_accounts WHERE account = ?"
)

# -- subscriptions ----------------------------------------------------------------------------------------------------

GET_SUBSCRIPTION = Statement("SELECT level, record FROM subscriptions WHERE id = ?")
GET_SUBSCRIPTIONS = Statement("SELECT id, record FROM subscriptions WHERE id IN ?")
# an id is used once; its timestamp is below that of every conditional write, whatever the writer's clock
INSERT_SUBSCRIPTION = Statement(
    "INSERT INTO subscriptions(id, version, level, record) VALUES (?, ?, ?, ?) USING TIMESTAMP 1"
)
UNDO_INSERT_SUBSCRIPTION = Statement("DELETE FROM subscriptions USING TIMESTAMP 1 WHERE id = ?")
REPLACE_SUBSCRIPTION = Statement(
    "UPDATE subscriptions SET version = ?, record = ? WHERE id = ? IF version = ?", idempotent=False
)
REMOVE_SUBSCRIPTION = Statement("DELETE FROM subscriptions WHERE id = ? IF version = ?", idempotent=False)

CLAIM = Statement(
    "INSERT INTO subscription_endpoints(topic, endpoint, id) VALUES (?, ?, ?) IF NOT EXISTS", idempotent=False
)
HOLDER = Statement("SELECT id FROM subscription_endpoints WHERE topic = ? AND endpoint = ?")
TAKE_OVER = Statement(
    "UPDATE subscription_endpoints SET id = ? WHERE topic = ? AND endpoint = ? IF id = ?", idempotent=False
)
RELEASE = Statement("DELETE FROM subscription_endpoints WHERE topic = ? AND endpoint = ? IF id = ?", idempotent=False)

ENTER_STATE = Statement(
    "INSERT INTO topic_subscriptions(topic, bucket, state, id) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
)
LINGER_IN_STATE = Statement(
    "INSERT INTO topic_subscriptions(topic, bucket, state, id) VALUES (?, ?, ?, ?)"
    f" USING TIMESTAMP ? AND TTL {LINGER_S}"
)
LEAVE_STATE = Statement(
    "DELETE FROM topic_subscriptions USING TIMESTAMP ? WHERE topic = ? AND bucket = ? AND state = ? AND id = ?"
)
IDS_OF_TOPIC = Statement(
    "SELECT id FROM topic_subscriptions WHERE topic = ? AND bucket = ? AND state = ? AND id > ? LIMIT ?"
)
ENTER_OWNER = Statement(
    "INSERT INTO owner_subscriptions(owner, region, bucket, id) VALUES (?, ?, ?, ?) USING TIMESTAMP 1"
)
LEAVE_OWNER = Statement(
    f"DELETE FROM owner_subscriptions USING TIMESTAMP {GONE} WHERE owner = ? AND region = ? AND bucket = ? AND id = ?"
)
OWNER_REGIONS = RegionScan("owner_subscriptions", "owner", "region", "bucket")
IDS_OF_OWNER = Statement(
    "SELECT id FROM owner_subscriptions WHERE owner = ? AND region = ? AND bucket = ? AND id > ? LIMIT ?"
)

ENTER_DAY = Statement("INSERT INTO expiry_days(shard, day) VALUES (0, ?)")
LEAVE_DAY = Statement("DELETE FROM expiry_days WHERE shard = 0 AND day = ?")
DAYS = Statement("SELECT day FROM expiry_days WHERE shard = 0 AND day <= ? LIMIT ?")
ENTER_EXPIRY = Statement("INSERT INTO expiring_subscriptions(day, expires_ms, id) VALUES (?, ?, ?)")
LEAVE_EXPIRY = Statement("DELETE FROM expiring_subscriptions WHERE day = ? AND expires_ms = ? AND id = ?")
EXPIRED = Statement("SELECT expires_ms, id FROM expiring_subscriptions WHERE day = ? AND expires_ms <= ? LIMIT ?")

INSERT_TOKEN = Statement("INSERT INTO subscription_tokens(secret, subscription, expires_ms) VALUES (?, ?, ?)")
FIND_TOKEN = Statement("SELECT secret, subscription, expires_ms FROM subscription_tokens WHERE secret = ?")

# -- notifications ----------------------------------------------------------------------------------------------------

PUT_NOTIFICATION = Statement("INSERT INTO notifications(id, record) VALUES (?, ?) USING TTL ?")
GET_NOTIFICATION = Statement("SELECT record FROM notifications WHERE id = ?")
REMOVE_NOTIFICATION = Statement("DELETE FROM notifications WHERE id = ?")
REFER = Statement("INSERT INTO notification_references(notification, writer, change) VALUES (?, ?, ?) USING TTL ?")
REFERENCES = Statement("SELECT sum(change) FROM notification_references WHERE notification = ?")
REMOVE_REFERENCES = Statement("DELETE FROM notification_references WHERE notification = ?")

# -- the signing key --------------------------------------------------------------------------------------------------

NEWEST_KEY = Statement("SELECT sealed, certificate FROM signing_keys WHERE shard = 0 LIMIT 1")
CERTIFICATES = Statement("SELECT certificate FROM signing_keys WHERE shard = 0 LIMIT 1000")
FIRST_KEY = Statement(
    "INSERT INTO signing_keys(shard, number, sealed, certificate, created_ms) VALUES (0, 1, ?, ?, ?) IF NOT EXISTS",
    idempotent=False,
)
