"""Tables, indices and statements of the embedded stores.

A topic has an integer key, used once, that the many subscription rows and index entries hold instead of its ARN: one
created anew has none of the old one's. No statement here reads more rows than it returns or was told to.
"""

from __future__ import annotations

from cns.subscription import State

TABLES = (
    "CREATE TABLE IF NOT EXISTS topics(key INTEGER PRIMARY KEY AUTOINCREMENT, arn TEXT NOT NULL UNIQUE,"
    " id TEXT NOT NULL, version INTEGER NOT NULL, record BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS dropped_topics(key INTEGER PRIMARY KEY)",
    # one row a topic: how many subscriptions it has in each state
    "CREATE TABLE IF NOT EXISTS topic_counts(key INTEGER PRIMARY KEY, pending INTEGER NOT NULL DEFAULT 0,"
    " confirmed INTEGER NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0)",
    # one row an account: what its quotas count
    "CREATE TABLE IF NOT EXISTS sns_accounts(account TEXT PRIMARY KEY, topics INTEGER NOT NULL DEFAULT 0,"
    " pending INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS subscriptions(key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " topic INTEGER NOT NULL, state INTEGER NOT NULL, owner TEXT NOT NULL, region TEXT NOT NULL,"
    " endpoint BLOB NOT NULL, expires_ms INTEGER, version INTEGER NOT NULL, record BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS subscriptions_of_topic ON subscriptions(topic, id)",
    f"CREATE INDEX IF NOT EXISTS subscriptions_confirmed ON subscriptions(topic, id) WHERE state = {State.CONFIRMED:d}",
    "CREATE INDEX IF NOT EXISTS subscriptions_of_owner ON subscriptions(owner, region, id)",
    "CREATE UNIQUE INDEX IF NOT EXISTS subscriptions_by_endpoint ON subscriptions(topic, endpoint)",
    "CREATE INDEX IF NOT EXISTS subscriptions_expiring ON subscriptions(expires_ms) WHERE expires_ms IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS subscription_tokens(token TEXT PRIMARY KEY, subscription TEXT NOT NULL,"
    " expires_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS subscription_tokens_expiring ON subscription_tokens(expires_ms)",
    "CREATE TABLE IF NOT EXISTS notifications(id TEXT PRIMARY KEY, record BLOB NOT NULL)",
    # apart from the records, because changing any column of a row writes all of it anew
    "CREATE TABLE IF NOT EXISTS notification_refs(id TEXT PRIMARY KEY, refs INTEGER NOT NULL,"
    " expires_ms INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS notification_refs_expiring ON notification_refs(expires_ms)",
)

AFTER_ALL = "\x7f"
"""Sorts behind every character of an ARN."""

# -- topics -----------------------------------------------------------------------------------------------------------

GET_TOPIC = "SELECT record FROM topics WHERE arn = ?"
INSERT_TOPIC = "INSERT INTO topics(arn, id, version, record) VALUES (?, ?, ?, ?)"
REPLACE_TOPIC = "UPDATE topics SET version = ?, record = ? WHERE arn = ? AND id = ? AND version = ?"
DELETE_TOPIC = "DELETE FROM topics WHERE arn = ? RETURNING key, record"
LIST_TOPICS = "SELECT arn FROM topics WHERE arn > ? AND arn < ? ORDER BY arn LIMIT ?"
KEY_OF_TOPIC = "SELECT key FROM topics WHERE arn = ? AND id = ?"

START_COUNTS = "INSERT INTO topic_counts(key) VALUES (?)"
END_COUNTS = "DELETE FROM topic_counts WHERE key = ?"
COUNTS = "SELECT pending, confirmed, removed FROM topic_counts WHERE key = (SELECT key FROM topics WHERE arn = ?)"
COUNT = "UPDATE topic_counts SET pending = pending + ?, confirmed = confirmed + ?, removed = removed + ? WHERE key = ?"
COUNT_TOPICS = (
    "INSERT INTO sns_accounts(account, topics) VALUES (?, ?)"
    " ON CONFLICT(account) DO UPDATE SET topics = topics + excluded.topics"
)
COUNT_PENDING = (
    "INSERT INTO sns_accounts(account, pending) VALUES (?, ?)"
    " ON CONFLICT(account) DO UPDATE SET pending = pending + excluded.pending"
)
TOPICS_OF_ACCOUNT = "SELECT topics FROM sns_accounts WHERE account = ?"
PENDING_OF_ACCOUNT = "SELECT pending FROM sns_accounts WHERE account = ?"

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
STATE_OF = "SELECT state, topic FROM subscriptions WHERE id = ? AND version = ?"
REPLACE_SUBSCRIPTION = "UPDATE subscriptions SET state = ?, expires_ms = ?, version = ?, record = ? WHERE id = ?"
REMOVE_SUBSCRIPTION = "DELETE FROM subscriptions WHERE id = ? RETURNING topic, owner, state, record"
_REMOVE_SOME = "DELETE FROM subscriptions WHERE key IN ({}) RETURNING topic, owner, state, record"
REMOVE_EXPIRED = _REMOVE_SOME.format("SELECT key FROM subscriptions WHERE expires_ms <= ? LIMIT ?")
# in the order of most indices: random ones would touch six pages a row
REMOVE_OF_TOPIC = _REMOVE_SOME.format("SELECT key FROM subscriptions WHERE topic = ? ORDER BY id LIMIT ?")

_THIS_TOPIC = "topic = (SELECT key FROM topics WHERE arn = ?)"
CONFIRMED_IDS = (
    f"SELECT id FROM subscriptions WHERE {_THIS_TOPIC} AND state = {State.CONFIRMED:d} AND id > ? ORDER BY id LIMIT ?"
)
PAGE_OF_TOPIC = f"SELECT record FROM subscriptions WHERE {_THIS_TOPIC} AND id > ? ORDER BY id LIMIT ?"
PAGE_OF_OWNER = "SELECT record FROM subscriptions WHERE owner = ? AND region = ? AND id > ? ORDER BY id LIMIT ?"

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
