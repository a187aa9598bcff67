"""Tables, indices and statements of the embedded stores.

A topic has an integer key, used once, which subscription rows and index entries contain in place of its ARN. A topic
that is created again has another key, and none of its earlier subscriptions. No statement reads more rows than it
returns or than its LIMIT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cns.stores.embedded.arn_regions import ArnRegions
from cns.subscriptions.subscription import IndexState

ADDED_COLUMNS: Mapping[str, Sequence[str]] = {
    "topic_counts": (
        "filter_policies INTEGER NOT NULL DEFAULT 0",
        "filter_changes INTEGER NOT NULL DEFAULT 0",
    ),
    "sns_accounts": (
        "fifo_topics INTEGER NOT NULL DEFAULT 0",
        "filter_policies INTEGER NOT NULL DEFAULT 0",
    ),
}
"""Added with filters and FIFO topics: an older database gets these columns when it is opened."""
FILTER_CHANGES_KEPT = 1_000
"""Entries kept in a topic's log. A reader that missed more reads all filters again."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS topics(key INTEGER PRIMARY KEY AUTOINCREMENT, arn TEXT NOT NULL UNIQUE,"
    " id TEXT NOT NULL, version INTEGER NOT NULL, record BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS dropped_topics(key INTEGER PRIMARY KEY)",
    # one row per topic: its subscriptions by state, its filter policies, and the number of its last filter change
    "CREATE TABLE IF NOT EXISTS topic_counts(key INTEGER PRIMARY KEY, pending INTEGER NOT NULL DEFAULT 0,"
    " confirmed INTEGER NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0,"
    f" {', '.join(ADDED_COLUMNS['topic_counts'])})",
    "CREATE TABLE IF NOT EXISTS filter_changes(topic INTEGER NOT NULL, number INTEGER NOT NULL, id TEXT NOT NULL,"
    " PRIMARY KEY(topic, number)) WITHOUT ROWID",
    # one row per account: counts for its quotas
    "CREATE TABLE IF NOT EXISTS sns_accounts(account TEXT PRIMARY KEY, topics INTEGER NOT NULL DEFAULT 0,"
    f" pending INTEGER NOT NULL DEFAULT 0, {', '.join(ADDED_COLUMNS['sns_accounts'])}) WITHOUT ROWID",
    # `state` is an IndexState
    "CREATE TABLE IF NOT EXISTS subscriptions(key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " topic INTEGER NOT NULL, state INTEGER NOT NULL, owner TEXT NOT NULL, region TEXT NOT NULL,"
    " endpoint BLOB NOT NULL, expires_ms INTEGER, version INTEGER NOT NULL, record BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS subscriptions_of_topic ON subscriptions(topic, id)",
    "CREATE INDEX IF NOT EXISTS subscriptions_confirmed ON subscriptions(topic, id)"
    f" WHERE state = {IndexState.CONFIRMED:d}",
    "CREATE INDEX IF NOT EXISTS subscriptions_filtered ON subscriptions(topic, id)"
    f" WHERE state = {IndexState.FILTERED:d}",
    "CREATE INDEX IF NOT EXISTS subscriptions_of_owner ON subscriptions(owner, region, id)",
    "CREATE UNIQUE INDEX IF NOT EXISTS subscriptions_by_endpoint ON subscriptions(topic, endpoint)",
    "CREATE INDEX IF NOT EXISTS subscriptions_expiring ON subscriptions(expires_ms) WHERE expires_ms IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS subscription_tokens(token TEXT PRIMARY KEY, subscription TEXT NOT NULL,"
    " expires_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS subscription_tokens_expiring ON subscription_tokens(expires_ms)",
    "CREATE TABLE IF NOT EXISTS notifications(id TEXT PRIMARY KEY, record BLOB NOT NULL)",
    # apart from the records, because a change of one column rewrites the whole row
    "CREATE TABLE IF NOT EXISTS notification_refs(id TEXT PRIMARY KEY, refs INTEGER NOT NULL,"
    " expires_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS notification_refs_expiring ON notification_refs(expires_ms)",
)

AFTER_ALL = "\x7f"
"""Sorts after every character of an ARN."""

# -- topics -----------------------------------------------------------------------------------------------------------

GET_TOPIC = "SELECT record FROM topics WHERE arn = ?"
INSERT_TOPIC = "INSERT INTO topics(arn, id, version, record) VALUES (?, ?, ?, ?)"
REPLACE_TOPIC = "UPDATE topics SET version = ?, record = ? WHERE arn = ? AND id = ? AND version = ?"
DELETE_TOPIC = "DELETE FROM topics WHERE arn = ? RETURNING key, record"
TOPIC_REGIONS = ArnRegions("topics")
LIST_TOPICS = "SELECT arn FROM topics WHERE arn > ? AND arn < ? ORDER BY arn LIMIT ?"
ALL_TOPICS = "SELECT arn, record FROM topics WHERE arn > ? ORDER BY arn LIMIT ?"
KEY_OF_TOPIC = "SELECT key FROM topics WHERE arn = ? AND id = ?"

START_COUNTS = "INSERT INTO topic_counts(key) VALUES (?)"
END_COUNTS = "DELETE FROM topic_counts WHERE key = ?"
COUNTS = (
    "SELECT pending, confirmed, removed, filter_policies FROM topic_counts"
    " WHERE key = (SELECT key FROM topics WHERE arn = ?)"
)
COUNT = (
    "UPDATE topic_counts SET pending = pending + ?, confirmed = confirmed + ?, removed = removed + ?,"
    " filter_policies = filter_policies + ? WHERE key = ?"
)
COUNT_TOPICS = (
    "INSERT INTO sns_accounts(account, topics, fifo_topics) VALUES (?, ?, ?) ON CONFLICT(account)"
    " DO UPDATE SET topics = topics + excluded.topics, fifo_topics = fifo_topics + excluded.fifo_topics"
)
COUNT_OF_ACCOUNT = (
    "INSERT INTO sns_accounts(account, pending, filter_policies) VALUES (?, ?, ?) ON CONFLICT(account)"
    " DO UPDATE SET pending = pending + excluded.pending, filter_policies = filter_policies + excluded.filter_policies"
)
TOPICS_OF_ACCOUNT = "SELECT topics - fifo_topics, fifo_topics FROM sns_accounts WHERE account = ?"
PENDING_OF_ACCOUNT = "SELECT pending FROM sns_accounts WHERE account = ?"
POLICIES_OF_ACCOUNT = "SELECT filter_policies FROM sns_accounts WHERE account = ?"

DROP_TOPIC = "INSERT INTO dropped_topics VALUES (?)"
FIND_DROPPED = "SELECT key FROM dropped_topics LIMIT 1"
SWEEPABLE = (
    "SELECT 1 FROM subscription_tokens WHERE expires_ms <= ?1 UNION ALL"
    " SELECT 1 FROM subscriptions WHERE expires_ms <= ?1 UNION ALL"
    " SELECT 1 FROM dropped_topics LIMIT 1"
)
FORGET_DROPPED = "DELETE FROM dropped_topics WHERE key = ?"

# -- subscriptions ----------------------------------------------------------------------------------------------------

GET_SUBSCRIPTION = "SELECT record FROM subscriptions WHERE id = ?"
FIND_BY_ENDPOINT = "SELECT record FROM subscriptions WHERE topic = ? AND endpoint = ?"
INSERT_SUBSCRIPTION = (
    "INSERT INTO subscriptions(id, topic, state, owner, region, endpoint, expires_ms, version, record)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
RECORD_OF = "SELECT topic, record FROM subscriptions WHERE id = ? AND version = ?"
REPLACE_SUBSCRIPTION = "UPDATE subscriptions SET state = ?, expires_ms = ?, version = ?, record = ? WHERE id = ?"
REMOVE_SUBSCRIPTION = "DELETE FROM subscriptions WHERE id = ? RETURNING topic, record"
_REMOVE_SOME = "DELETE FROM subscriptions WHERE key IN ({}) RETURNING topic, record"
REMOVE_EXPIRED = _REMOVE_SOME.format("SELECT key FROM subscriptions WHERE expires_ms <= ? LIMIT ?")
# in the order of most indices: other rows would touch six pages each
REMOVE_OF_TOPIC = _REMOVE_SOME.format("SELECT key FROM subscriptions WHERE topic = ? ORDER BY id LIMIT ?")

_THIS_TOPIC = "topic = (SELECT key FROM topics WHERE arn = ?)"
CONFIRMED_IDS = (
    f"SELECT id FROM subscriptions WHERE {_THIS_TOPIC} AND state = {IndexState.CONFIRMED:d} AND id > ?"
    " ORDER BY id LIMIT ?"
)
FILTER_LOG = (
    "SELECT key, filter_changes FROM topic_counts"
    " WHERE key = (SELECT key FROM topics WHERE arn = ?) AND filter_changes > 0"
)
PAGE_OF_FILTERED = (
    f"SELECT record FROM subscriptions WHERE {_THIS_TOPIC} AND state = {IndexState.FILTERED:d} AND id > ?"
    " ORDER BY id LIMIT ?"
)
PAGE_OF_TOPIC = f"SELECT record FROM subscriptions WHERE {_THIS_TOPIC} AND id > ? ORDER BY id LIMIT ?"
REGIONS_OF_OWNER = "SELECT DISTINCT region FROM subscriptions WHERE owner = ? ORDER BY region"
PAGE_OF_OWNER = "SELECT record FROM subscriptions WHERE owner = ? AND region = ? AND id > ? ORDER BY id LIMIT ?"

LOG_FILTER_CHANGE = "UPDATE topic_counts SET filter_changes = filter_changes + 1 WHERE key = ? RETURNING filter_changes"
PUT_FILTER_CHANGE = "INSERT INTO filter_changes(topic, number, id) VALUES (?, ?, ?)"
TRIM_FILTER_LOG = "DELETE FROM filter_changes WHERE topic = ? AND number <= ?"
END_FILTER_LOG = "DELETE FROM filter_changes WHERE topic = ?"
FILTER_CHANGES = "SELECT id FROM filter_changes WHERE topic = ? AND number > ? ORDER BY number"

INSERT_TOKEN = "INSERT INTO subscription_tokens VALUES (?, ?, ?)"  # noqa: S105  # a statement
FIND_TOKEN = "SELECT token, subscription, expires_ms FROM subscription_tokens WHERE token = ?"  # noqa: S105  # as above
REMOVE_TOKENS = (
    "DELETE FROM subscription_tokens WHERE token IN"
    " (SELECT token FROM subscription_tokens WHERE expires_ms <= ? LIMIT ?)"
)

# -- notifications ----------------------------------------------------------------------------------------------------

PUT_NOTIFICATION = "INSERT INTO notifications VALUES (?, ?) ON CONFLICT(id) DO NOTHING"
PUT_REFS = "INSERT INTO notification_refs VALUES (?, ?, ?) ON CONFLICT(id) DO UPDATE SET refs = refs + excluded.refs"
GET_NOTIFICATION = "SELECT record FROM notifications WHERE id = ?"
REFER = "UPDATE notification_refs SET refs = refs + ? WHERE id = ? RETURNING refs"
REMOVE_NOTIFICATION = "DELETE FROM notifications WHERE id = ?"
REMOVE_REFS = "DELETE FROM notification_refs WHERE id = ?"
EXPIRED_NOTIFICATIONS = "SELECT id FROM notification_refs WHERE expires_ms <= ? LIMIT ?"
