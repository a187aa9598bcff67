"""Tables, indices and statements of the embedded stores of mobile push and SMS."""

from __future__ import annotations

from cns.stores.embedded.arn_regions import ArnRegions

TABLES = (
    "CREATE TABLE IF NOT EXISTS platform_applications(arn TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " version INTEGER NOT NULL, sealed BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS dropped_applications(id TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS mobile_endpoints(key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " application TEXT NOT NULL, token BLOB NOT NULL, version INTEGER NOT NULL, record BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS mobile_endpoints_of_application ON mobile_endpoints(application, id)",
    "CREATE UNIQUE INDEX IF NOT EXISTS mobile_endpoints_by_token ON mobile_endpoints(application, token)",
    "CREATE TABLE IF NOT EXISTS sms_attributes(account TEXT, region TEXT, name TEXT, value TEXT NOT NULL,"
    " PRIMARY KEY(account, region, name)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS opted_out_numbers(account TEXT, number TEXT, PRIMARY KEY(account, number))"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS sandbox_numbers(account TEXT, region TEXT, number TEXT, version INTEGER NOT NULL,"
    " record BLOB NOT NULL, PRIMARY KEY(account, region, number)) WITHOUT ROWID",
)

AFTER_ALL = "\x7f"
"""Sorts after every character of an ARN."""

# -- applications -----------------------------------------------------------------------------------------------------

GET_APPLICATION = "SELECT sealed FROM platform_applications WHERE arn = ?"
INSERT_APPLICATION = "INSERT INTO platform_applications VALUES (?, ?, ?, ?) ON CONFLICT(arn) DO NOTHING"
REPLACE_APPLICATION = (
    "UPDATE platform_applications SET version = ?, sealed = ? WHERE arn = ? AND id = ? AND version = ?"
)
DELETE_APPLICATION = "DELETE FROM platform_applications WHERE arn = ? RETURNING id"
APPLICATION_REGIONS = ArnRegions("platform_applications")
PAGE_OF_APPLICATIONS = "SELECT arn, sealed FROM platform_applications WHERE arn > ? AND arn < ? ORDER BY arn LIMIT ?"
DROP_APPLICATION = "INSERT INTO dropped_applications VALUES (?)"
DROPPED = "SELECT id FROM dropped_applications LIMIT 1"
FORGET_DROPPED = "DELETE FROM dropped_applications WHERE id = ?"

# -- endpoints --------------------------------------------------------------------------------------------------------

IS_THERE = "SELECT 1 FROM platform_applications WHERE id = ?"
GET_ENDPOINT = "SELECT record FROM mobile_endpoints WHERE id = ?"
BY_TOKEN = "SELECT record FROM mobile_endpoints WHERE application = ? AND token = ?"  # noqa: S105  # a statement
INSERT_ENDPOINT = "INSERT INTO mobile_endpoints(id, application, token, version, record) VALUES (?, ?, ?, ?, ?)"
REPLACE_ENDPOINT = "UPDATE mobile_endpoints SET token = ?, version = ?, record = ? WHERE id = ? AND version = ?"
DELETE_ENDPOINT = "DELETE FROM mobile_endpoints WHERE id = ?"
PAGE_OF_ENDPOINTS = "SELECT record FROM mobile_endpoints WHERE application = ? AND id > ? ORDER BY id LIMIT ?"
# in the order of most indices: other rows would touch many pages each
DELETE_SOME = (
    "DELETE FROM mobile_endpoints WHERE key IN"
    " (SELECT key FROM mobile_endpoints WHERE application = ? ORDER BY id LIMIT ?)"
)

# -- SMS --------------------------------------------------------------------------------------------------------------

SMS_ATTRIBUTES = "SELECT name, value FROM sms_attributes WHERE account = ? AND region = ?"
SET_SMS_ATTRIBUTE = "INSERT OR REPLACE INTO sms_attributes VALUES (?, ?, ?, ?)"
UNSET_SMS_ATTRIBUTE = "DELETE FROM sms_attributes WHERE account = ? AND region = ? AND name = ?"
IS_OPTED_OUT = "SELECT 1 FROM opted_out_numbers WHERE account = ? AND number = ?"
OPT_OUT = "INSERT OR IGNORE INTO opted_out_numbers VALUES (?, ?)"
OPT_IN = "DELETE FROM opted_out_numbers WHERE account = ? AND number = ?"
PAGE_OF_OPTED_OUT = "SELECT number FROM opted_out_numbers WHERE account = ? AND number > ? ORDER BY number LIMIT ?"
GET_NUMBER = "SELECT record FROM sandbox_numbers WHERE account = ? AND region = ? AND number = ?"
INSERT_NUMBER = "INSERT INTO sandbox_numbers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
REPLACE_NUMBER = (
    "UPDATE sandbox_numbers SET version = ?, record = ? WHERE account = ? AND region = ? AND number = ? AND version = ?"
)
REMOVE_NUMBER = "DELETE FROM sandbox_numbers WHERE account = ? AND region = ? AND number = ?"
PAGE_OF_NUMBERS = (
    "SELECT record FROM sandbox_numbers WHERE account = ? AND region = ? AND number > ? ORDER BY number LIMIT ?"
)
